// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/files.h"
#include "runtime/strict_json.h"

namespace kdagen::runtime {
namespace {

constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";
static_assert(std::endian::native == std::endian::little, "the format's data is little-endian");

struct FormatName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<FormatName, 7> format_names{{{DType::f64, "F64"},
                                                  {DType::f32, "F32"},
                                                  {DType::bf16, "BF16"},
                                                  {DType::fp16, "F16"},
                                                  {DType::i64, "I64"},
                                                  {DType::i32, "I32"},
                                                  {DType::i8, "I8"}}};

std::string_view format_name(DType dtype) {
  return std::find_if(format_names.begin(), format_names.end(), [&](const auto& row) { return row.dtype == dtype; })
      ->name;
}

DType read_dtype(const JsonField& field) {
  for (const FormatName& row : format_names)
    if (row.name == field.string()) return row.dtype;
  field.fail(fmt::format("the dtype \"{}\" is not read; F64, F32, BF16, F16, I64, I32 and I8 are", field.string()));
}

struct Entry {
  std::string name;
  DType dtype;
  Dims shape;
  std::int64_t begin, end;
};

Entry read_entry(const std::string& name, const JsonField& field, std::int64_t data_bytes) {
  field.only({"dtype", "shape", "data_offsets"});
  Entry entry{name, read_dtype(field.at("dtype")), {}, 0, 0};
  const std::vector<JsonField> extents = field.at("shape").items();
  if (extents.size() > Dims::max_rank)
    field.at("shape").fail(fmt::format("{} dimensions; at most {} are read", extents.size(), Dims::max_rank));
  for (const JsonField& extent : extents) entry.shape.push_back(extent.integer(0));
  const std::vector<JsonField> offsets = field.at("data_offsets").items();
  if (offsets.size() != 2) field.at("data_offsets").fail("expected [begin, end]");
  entry.begin = offsets[0].integer(0, data_bytes);
  entry.end = offsets[1].integer(entry.begin, data_bytes);
  std::int64_t bytes;
  try {
    bytes = checked_multiply(element_count(entry.shape), size_of(entry.dtype));
  } catch (const UsageError& error) {
    field.at("shape").fail(error.what());
  }
  if (entry.end - entry.begin != bytes)
    field.at("data_offsets")
        .fail(fmt::format("{} bytes, but shape {} of {} takes {}", entry.end - entry.begin, to_string(entry.shape),
                          name_of(entry.dtype), bytes));
  return entry;
}

void read_metadata(const JsonField& field, TensorFile& file) {
  if (!field.value().is_object()) field.fail("expected an object");
  for (const auto& member : field.value().items()) file.metadata[member.key()] = field.at(member.key()).string();
}

TensorFile parse(const std::string& bytes, const std::string& source) {
  if (bytes.size() < 8) throw UsageError(fmt::format("{}: {} bytes are no safetensors file", source, bytes.size()));
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > max_header_bytes || header_bytes > bytes.size() - 8)
    throw UsageError(
        fmt::format("{}: the header claims {} bytes; the file has {} after its length field: truncated, or "
                    "no safetensors file",
                    source, header_bytes, bytes.size() - 8));
  const std::string_view header(bytes.data() + 8, header_bytes);
  const auto data_bytes = static_cast<std::int64_t>(bytes.size() - 8 - header_bytes);
  const nlohmann::json parsed = parse_strict_json(header, source);
  if (!parsed.is_object()) throw UsageError(source + ": the header is no JSON object");

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& member : parsed.items()) {
    const JsonField field(member.value(), fmt::format("{}: tensor \"{}\"", source, member.key()));
    if (member.key() == metadata_key)
      read_metadata(JsonField(member.value(), source + ": __metadata__"), file);
    else
      entries.push_back(read_entry(member.key(), field, data_bytes));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected)
      throw UsageError(fmt::format(
          "{}: tensor \"{}\" begins at byte {} of the data; {} at byte {}", source, entry.name, entry.begin,
          entry.begin < expected ? "it overlaps the one that ends" : "a gap follows the one that ends", expected));
    expected = entry.end;
  }
  if (expected != data_bytes)
    throw UsageError(fmt::format("{}: {} bytes of data belong to no tensor", source, data_bytes - expected));
  for (const Entry& entry : entries) {
    HostTensor tensor(entry.dtype, entry.shape);
    if (!tensor.data.empty())
      std::memcpy(tensor.data.data(), bytes.data() + 8 + header_bytes + entry.begin, tensor.data.size());
    file.tensors.emplace(entry.name, std::move(tensor));
  }
  return file;
}

}  // namespace

HostTensor::HostTensor(DType dtype, const Dims& shape)
    : dtype(dtype),
      shape(shape),
      data(static_cast<std::size_t>(checked_multiply(element_count(shape), size_of(dtype)))) {}

TensorRef ref(const std::string& name, HostTensor& tensor) {
  return {name, tensor.data.data(), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape), -1};
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  std::string error;
  const std::optional<std::string> bytes = read_file(path, error);
  if (!bytes) throw UsageError(fmt::format("{}: cannot be read: {}", path.string(), error));
  return parse(*bytes, path.string());
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  // Wider elements first keeps every tensor aligned to its element size.
  std::vector<std::pair<const std::string*, const HostTensor*>> order;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == metadata_key) throw UsageError(fmt::format("{}: no tensor can be named {}", path.string(), name));
    if (static_cast<std::int64_t>(tensor.data.size()) != tensor.elements() * size_of(tensor.dtype))
      throw UsageError(fmt::format("{}: tensor \"{}\" holds {} bytes, its shape {} of {} takes {}", path.string(), name,
                                   tensor.data.size(), to_string(tensor.shape), name_of(tensor.dtype),
                                   tensor.elements() * size_of(tensor.dtype)));
    order.emplace_back(&name, &tensor);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second->dtype) > size_of(b.second->dtype); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header[std::string(metadata_key)] = file.metadata;
  std::vector<std::string_view> pieces(2);
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const std::int64_t end = offset + static_cast<std::int64_t>(tensor->data.size());
    header[*name] = {{"dtype", format_name(tensor->dtype)},
                     {"shape", std::vector<std::int64_t>(tensor->shape.begin(), tensor->shape.end())},
                     {"data_offsets", {offset, end}}};
    pieces.emplace_back(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: a tensor's name cannot be written: {}", path.string(), error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t header_bytes = text.size();
  pieces[0] = {reinterpret_cast<const char*>(&header_bytes), 8};
  pieces[1] = text;
  const std::string error = write_file_atomically(path, pieces, true);
  if (!error.empty()) throw UsageError(error);
}

}  // namespace kdagen::runtime
