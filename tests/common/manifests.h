// SPDX-License-Identifier: Apache-2.0
// A small manifest that has every kind of tensor, argument and launch.
#pragma once
#include <string>

#include "runtime/manifest.h"

namespace kdagen::testing {

inline const std::string sample_manifest_text = R"({"schema":1, "kernel":"norm_bwd", "spec":"norm", "pass":"bwd",
 "spec_hash":"0123456789abcdef", "text_hash":"fedcba9876543210", "options":{"eps":1e-6},
 "chunk":16, "dim":128, "tiles_per_segment":8, "arch":"sm_90",
 "axes":[{"name":"t","role":"rows"},{"name":"h","role":"head"},{"name":"d","role":"feature"}],
 "tensors":[
  {"name":"x","direction":"in","role":"input","dtype":"bf16","axes":["t","h","d"],"layout":"bthd","optional":false,"vector_bytes":8,"unit":"","anchor_exponent":0},
  {"name":"beta","direction":"in","role":"input","dtype":"f32","axes":["t","h"],"layout":"bthd","optional":true,"vector_bytes":4,"unit":"","anchor_exponent":0},
  {"name":"weight","direction":"in","role":"param","dtype":"f32","axes":["h","d"],"layout":"param","optional":false,"vector_bytes":16,"unit":"","anchor_exponent":0},
  {"name":"dy","direction":"in","role":"cotangent","dtype":"f32","axes":["t","h","d"],"layout":"tile","optional":false,"vector_bytes":16,"unit":"","anchor_exponent":0},
  {"name":"dtotal","direction":"in","role":"cotangent","dtype":"f32","axes":["n","h","d"],"layout":"bthd","optional":false,"vector_bytes":16,"unit":"ln2","anchor_exponent":0},
  {"name":"dx","direction":"out","role":"gradient","dtype":"bf16","axes":["t","h","d"],"layout":"htd","optional":false,"vector_bytes":8,"unit":"","anchor_exponent":0},
  {"name":"dweight","direction":"out","role":"param_gradient","dtype":"f32","axes":["h","d"],"layout":"param","optional":false,"vector_bytes":4,"unit":"","anchor_exponent":0}],
 "workspace":[{"name":"first_tile","dtype":"i64","elements":[["sequences_plus_1"]]},
              {"name":"dweight_partial","dtype":"f32","elements":[["heads","segments","dim"]]}],
 "arguments":[{"name":"x","kind":"rows","tensor":"x"},{"name":"beta","kind":"rows","tensor":"beta"},
  {"name":"weight","kind":"pointer","tensor":"weight"},{"name":"dy","kind":"tile","tensor":"dy"},
  {"name":"dtotal","kind":"tile","tensor":"dtotal"},{"name":"dx","kind":"rows","tensor":"dx"},
  {"name":"dweight","kind":"pointer","tensor":"dweight"},{"name":"first_tile","kind":"workspace"},
  {"name":"dweight_partial","kind":"workspace"},{"name":"cu_seqlens","kind":"cu_seqlens"},
  {"name":"T","kind":"size","size":"tokens"}],
 "launches":[{"entry":"first_tile_i32","when":"packed_i32","grid":[["1"]],"block":32,"shared_bytes":0},
  {"entry":"first_tile_i64","when":"packed_i64","grid":[["1"]],"block":32,"shared_bytes":0},
  {"entry":"norm_bwd","entry_any":"norm_bwd_any","when":"always","grid":[["tile_blocks","heads"]],"block":256,"shared_bytes":0,"tiles_per_block":4},
  {"entry":"norm_bwd_finish","when":"always","grid":[["heads"]],"block":128,"shared_bytes":0}]})";

inline runtime::Manifest sample_manifest() { return runtime::load_manifest(sample_manifest_text); }

}  // namespace kdagen::testing
