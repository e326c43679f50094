// SPDX-License-Identifier: Apache-2.0
// A hand-written text with the whole argument convention: y = weight * x in another layout, total = sum of x over all
// rows (per tile, then tiles in order), fixed length and packed. Small enough that the right answer is a loop.
#pragma once
#include <string>

#include "runtime/manifest.h"

namespace kdagen::testing {

inline const std::string row_scale_text = R"(#include <kdagen/device.cuh>

struct Arguments {
  Rows<const bf16> x;
  const float* weight;
  Rows<float> y;
  float* total;
  long long* first_tile;
  float* partial;
  const void* cu_seqlens;
  long long tokens, sequences, tiles, heads;
};

constexpr int chunk = 4, dim = 8;

template <class Offset>
KD_FUNCTION void count_tiles(const Arguments& a) {
  if (threadIdx.x != 0) return;
  const Offset* cu = static_cast<const Offset*>(a.cu_seqlens);
  long long tiles = 0;
  for (long long n = 0; n < a.sequences; ++n) {
    a.first_tile[n] = tiles;
    tiles += (cu[n + 1] - cu[n] + chunk - 1) / chunk;
  }
  a.first_tile[a.sequences] = tiles;
}

KD_KERNEL(32, 1) void count_tiles_i32(Arguments a) { count_tiles<int>(a); }
KD_ENTRY(count_tiles_i32, Arguments);
KD_KERNEL(32, 1) void count_tiles_i64(Arguments a) { count_tiles<long long>(a); }
KD_ENTRY(count_tiles_i64, Arguments);

struct Place {
  long long batch, token;
  int rows, dead;  // valid rows; rows to zero
};

template <class Offset>
KD_FUNCTION Place packed_place(const Arguments& a, long long tile) {
  const Offset* cu = static_cast<const Offset*>(a.cu_seqlens);
  for (long long n = 0; n < a.sequences; ++n)
    if (tile < a.first_tile[n + 1]) {
      const long long token = cu[n] + (tile - a.first_tile[n]) * chunk, left = cu[n + 1] - token;
      return {0, token, static_cast<int>(left < chunk ? left : chunk), 0};
    }
  const long long token = cu[a.sequences] + (tile - a.first_tile[a.sequences]) * chunk, left = a.tokens - token;
  return {0, token, 0, static_cast<int>(left < 0 ? 0 : left < chunk ? left : chunk)};
}

template <bool aligned, int packed>
KD_FUNCTION void row_scale(const Arguments& a) {
  KD_SHARED(float, rows, chunk * dim);
  const long long tile = blockIdx.x / a.heads, h = blockIdx.x % a.heads;
  Place place;
  if (a.cu_seqlens == nullptr) {
    const long long per_row = (a.tokens + chunk - 1) / chunk, left = a.tokens - tile % per_row * chunk;
    place = {tile / per_row, tile % per_row * chunk, static_cast<int>(left < chunk ? left : chunk), 0};
  } else {
    place = packed == 64 ? packed_place<long long>(a, tile) : packed_place<int>(a, tile);
  }
  const int row = threadIdx.x / 2, column = threadIdx.x % 2 * 4;
  float x[4] = {};
  if (row < place.rows) {
    load4<aligned>(a.x.at(place.batch, place.token + row, h) + column, x);
    float y[4];
    for (int i = 0; i < 4; ++i) y[i] = a.weight[h * dim + column + i] * x[i];
    store4<aligned>(a.y.at(place.batch, place.token + row, h) + column, y);
  } else if (row < place.dead) {
    store4<aligned>(a.y.at(place.batch, place.token + row, h) + column, x);
  }
  for (int i = 0; i < 4; ++i) rows[row * dim + column + i] = x[i];
  block_barrier();  // rows: written above, read by other threads below
  float sum = 0.0f;
  for (int r = 0; r < chunk; ++r) sum += rows[r * dim + threadIdx.x];
  a.partial[(h * a.tiles + tile) * dim + threadIdx.x] = sum;
}

KD_KERNEL(8, 1) void row_scale_i32(Arguments a) { row_scale<true, 32>(a); }
KD_ENTRY(row_scale_i32, Arguments);
KD_KERNEL(8, 1) void row_scale_i32_any(Arguments a) { row_scale<false, 32>(a); }
KD_ENTRY(row_scale_i32_any, Arguments);
KD_KERNEL(8, 1) void row_scale_i64(Arguments a) { row_scale<true, 64>(a); }
KD_ENTRY(row_scale_i64, Arguments);
KD_KERNEL(8, 1) void row_scale_i64_any(Arguments a) { row_scale<false, 64>(a); }
KD_ENTRY(row_scale_i64_any, Arguments);
KD_KERNEL(8, 1) void row_scale_fixed(Arguments a) { row_scale<true, 0>(a); }
KD_ENTRY(row_scale_fixed, Arguments);
KD_KERNEL(8, 1) void row_scale_fixed_any(Arguments a) { row_scale<false, 0>(a); }
KD_ENTRY(row_scale_fixed_any, Arguments);

KD_KERNEL(8, 1) void finish(Arguments a) {
  const long long h = blockIdx.x;
  float sum = 0.0f;
  for (long long tile = 0; tile < a.tiles; ++tile) sum += a.partial[(h * a.tiles + tile) * dim + threadIdx.x];
  a.total[h * dim + threadIdx.x] = sum;
}
KD_ENTRY(finish, Arguments);
)";

inline const std::string row_scale_manifest_text =
    R"({"schema":1, "kernel":"row_scale", "spec":"row_scale", "pass":"bwd",
 "spec_hash":"", "text_hash":"", "options":{}, "chunk":4, "dim":8, "tiles_per_segment":1, "arch":"sm_80",
 "axes":[{"name":"t","role":"rows"},{"name":"h","role":"head"},{"name":"d","role":"feature"}],
 "tensors":[
  {"name":"x","direction":"in","role":"input","dtype":"bf16","axes":["t","h","d"],"layout":"bthd","optional":false,"vector_bytes":8},
  {"name":"weight","direction":"in","role":"param","dtype":"f32","axes":["h","d"],"layout":"param","optional":false,"vector_bytes":4},
  {"name":"y","direction":"out","role":"gradient","dtype":"f32","axes":["t","h","d"],"layout":"htd","optional":false,"vector_bytes":16},
  {"name":"total","direction":"out","role":"param_gradient","dtype":"f32","axes":["h","d"],"layout":"param","optional":false,"vector_bytes":4}],
 "workspace":[{"name":"first_tile","dtype":"i64","elements":[["sequences_plus_1"]]},
              {"name":"partial","dtype":"f32","elements":[["heads","tiles","dim"]]}],
 "arguments":[{"name":"x","kind":"rows","tensor":"x"},{"name":"weight","kind":"pointer","tensor":"weight"},
  {"name":"y","kind":"rows","tensor":"y"},{"name":"total","kind":"pointer","tensor":"total"},
  {"name":"first_tile","kind":"workspace"},{"name":"partial","kind":"workspace"},{"name":"cu_seqlens","kind":"cu_seqlens"},
  {"name":"T","kind":"size","size":"tokens"},{"name":"N","kind":"size","size":"sequences"},
  {"name":"tiles","kind":"size","size":"tiles"},{"name":"H","kind":"size","size":"heads"}],
 "launches":[
  {"entry":"count_tiles_i32","when":"packed_i32","grid":[["1"]],"block":32,"shared_bytes":0},
  {"entry":"count_tiles_i64","when":"packed_i64","grid":[["1"]],"block":32,"shared_bytes":0},
  {"entry":"row_scale_i32","entry_any":"row_scale_i32_any","when":"packed_i32","grid":[["tiles","heads"]],"block":8,"shared_bytes":0},
  {"entry":"row_scale_i64","entry_any":"row_scale_i64_any","when":"packed_i64","grid":[["tiles","heads"]],"block":8,"shared_bytes":0},
  {"entry":"row_scale_fixed","entry_any":"row_scale_fixed_any","when":"fixed","grid":[["tiles","heads"]],"block":8,"shared_bytes":0},
  {"entry":"finish","when":"always","grid":[["heads"]],"block":8,"shared_bytes":0}]})";

inline runtime::Manifest row_scale_manifest() { return runtime::load_manifest(row_scale_manifest_text); }

}  // namespace kdagen::testing
