// SPDX-License-Identifier: Apache-2.0
// The manifest: all that the runtime knows of an emitted text. docs/architecture.md, section 4, is its specification.
// Written by codegen, read here; both sides use these structs, so the JSON has one reader and one writer.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/dtype.h"

namespace kdagen::runtime {

inline constexpr int manifest_schema = 1;

enum class AxisRole { batch, chunk, head, rows, feature };
enum class Direction { in, out };
enum class TensorRole { input, param, cotangent, output, gradient, param_gradient, residual, tap };
enum class Layout { bthd, htd, tile, param };
enum class ArgumentKind { rows, tile, pointer, workspace, cu_seqlens, size, tensor_map };
enum class When { always, packed, packed_i32, packed_i64, fixed };

struct AxisInfo {
  std::string name;
  AxisRole role = AxisRole::rows;
};

/// `axes` are names of Manifest::axes. The batch and chunk axes are implied ("b" and "n" may be listed too):
/// a tensor with the rows axis is a row tensor; one without it is a parameter (layout param) or per chunk (any other).
struct TensorInfo {
  std::string name;
  Direction direction = Direction::in;
  TensorRole role = TensorRole::input;
  DType dtype = DType::f32;
  std::vector<std::string> axes;
  Layout layout = Layout::bthd;
  bool optional = false;
  int vector_bytes =
      1;             ///< `entry` needs pointer and strides to be multiples of it, and rows less than 2^32 bytes apart
  std::string unit;  ///< the caller hands over cotangent / unit; empty for 1
  int anchor_exponent = 0;  ///< the tensor stores value * 2^anchor_exponent
  std::string
      anchor_tensor;  ///< not empty: it stores value * 2^(anchor_sign * n), n by sub-chunk in the tensor of this name
  int anchor_sign = 1;
  int subchunk_rows = 0;  ///< not 0: the tensor has a row of each sub-chunk of so many rows, tile by tile
  std::string may_alias;  ///< an output that is this input unchanged; the caller may pass the same memory for both
};

/// Factors multiplied out: size symbols (see problem.h) or decimal numbers.
using Product = std::vector<std::string>;

struct WorkspaceInfo {
  std::string name;
  DType dtype = DType::f32;
  Product elements;  ///< in the JSON a list with this one entry
};

struct ArgumentInfo {
  std::string name;
  ArgumentKind kind = ArgumentKind::pointer;
  std::string tensor;  ///< kinds rows, tile, pointer, tensor_map
  std::string size;    ///< kind size
  int rows = 0;        ///< kind tensor_map: rows of a box
};

struct LaunchInfo {
  std::string entry;
  std::string entry_any;  ///< for any alignment; empty if `entry` takes any
  When when = When::always;
  std::vector<Product> grid;  ///< gridDim.x[, y[, z]]
  int block = 1;
  int shared_bytes = 0;  ///< dynamic shared memory
  int tiles_per_block = 1;
};

struct Manifest {
  int schema = manifest_schema;
  std::string kernel, spec, pass;
  std::string spec_hash, text_hash;
  nlohmann::json options = nlohmann::json::object();
  int chunk = 16, dim = 128, tiles_per_segment = 8;
  std::string arch;
  std::vector<AxisInfo> axes;
  std::vector<TensorInfo> tensors;
  std::vector<WorkspaceInfo> workspace;
  std::vector<ArgumentInfo> arguments;
  std::vector<LaunchInfo> launches;

  const TensorInfo* find_tensor(std::string_view name) const;
  const WorkspaceInfo* find_workspace(std::string_view name) const;
};

/// Reads and validates; UsageError naming the field on an unknown schema or field, a missing field, a wrong type or
/// range, a name that refers to nothing, or a combination that cannot be launched. `source` starts the message.
Manifest load_manifest(std::string_view json_text, std::string_view source = "manifest");

/// JSON text with a fixed field order, two spaces of indentation and a final newline; the same manifest gives the same
/// bytes. The manifest is validated first.
std::string dump_manifest(const Manifest& manifest);

/// The rules beyond types that load_manifest enforces; UsageError naming the field.
void validate(const Manifest& manifest, std::string_view source = "manifest");

/// Words (8 bytes each) of the argument struct that every entry takes; a struct with tensor maps is a multiple of 64
/// bytes.
int argument_words(const Manifest& manifest);

/// Words of one argument.
int argument_words(ArgumentKind kind);

/// Role of the axis called `name`; "b" and "n" are batch and chunk unless the manifest says otherwise. UsageError.
AxisRole axis_role(const Manifest& manifest, std::string_view name);

std::string_view name_of(AxisRole role);
std::string_view name_of(Direction direction);
std::string_view name_of(TensorRole role);
std::string_view name_of(Layout layout);
std::string_view name_of(ArgumentKind kind);
std::string_view name_of(When when);

}  // namespace kdagen::runtime
