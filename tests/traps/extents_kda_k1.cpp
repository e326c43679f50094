// SPDX-License-Identifier: Apache-2.0
// More elements, blocks and bytes than 31 or 32 bits count: T038-T042 of docs/traps.md.
#include <gtest/gtest.h>

#include "runtime/binding.h"
#include "runtime/compile.h"
#include "runtime/emulator/emulator.h"
#include "runtime/tensor_map.h"
#include "tests/common/emulated_program.h"
#include "tests/common/far_tensor.h"

using namespace kdagen;
using namespace kdagen::testing;
using runtime::DimRole;

namespace {

/// A far tensor in memory that is there where it is touched.
struct Sparse {
  Sparse(const std::string& name, FarTensor tensor)
      : name(name),
        tensor(std::move(tensor)),
        memory(emulator::allocate_guarded(this->tensor.place(this->tensor.blocks() - 1) + this->tensor.block_bytes() +
                                          1)) {
    for (int64_t i = 0; i < this->tensor.blocks(); ++i) {
      const std::vector<std::byte> bytes = this->tensor.block(i);
      std::memcpy(block(i), bytes.data(), bytes.size());
    }
  }
  char* block(int64_t i) const { return static_cast<char*>(memory.get()) + tensor.place(i); }
  runtime::TensorRef ref() const {
    return {name, memory.get(), tensor.dense().dtype, tensor.dense().shape, tensor.strides(), -1};
  }
  const std::vector<std::byte>& gathered() {
    for (int64_t i = 0; i < tensor.blocks(); ++i) tensor.set_block(i, reinterpret_cast<std::byte*>(block(i)));
    return tensor.dense().data;
  }

  std::string name;
  FarTensor tensor;
  std::shared_ptr<void> memory;
};

runtime::TensorMapWords emulated_map(const runtime::TensorBox& box) {
  emulator::TensorMap map{
      box.base, static_cast<uint64_t>(runtime::size_of(box.dtype)), {}, {}, {box.extents[0], box.box_rows}};
  std::copy(box.extents.begin(), box.extents.end(), map.extents);
  std::copy(box.strides.begin(), box.strides.end(), map.strides);
  runtime::TensorMapWords words{};
  std::memcpy(words.data(), &map, sizeof map);
  return words;
}

/// Runs the pass as the emulated kernel does, but in the given memory. Reports of the emulator.
std::vector<std::string> run_in_place(const runtime::Kernel& kernel, const runtime::Problem& problem,
                                      const std::vector<Sparse>& tensors, bool aligned) {
  const runtime::Manifest& manifest = kernel.manifest();
  std::vector<runtime::TensorRef> refs;
  std::vector<emulator::Buffer> buffers;
  for (const Sparse& sparse : tensors) {
    refs.push_back(sparse.ref());
    const bool output = manifest.find_tensor(sparse.name)->direction == runtime::Direction::out;
    for (int64_t i = 0; i < sparse.tensor.blocks(); ++i)  // each a buffer: what lies between them may not be touched
      buffers.push_back({sparse.block(i), static_cast<size_t>(sparse.tensor.block_bytes()),
                         fmt::format("{} block {}", sparse.name, i), !output, output});
  }
  const runtime::Binding binding = runtime::bind_tensors(manifest, problem, refs);
  EXPECT_EQ(binding.aligned, aligned);
  const auto slots = runtime::workspace_layout(manifest, problem);
  const std::shared_ptr<void> workspace = emulator::allocate_guarded(slots.bytes + 1);
  if (slots.bytes) buffers.push_back({workspace.get(), static_cast<size_t>(slots.bytes), "workspace", false, true});
  if (problem.packed())
    buffers.push_back(
        {const_cast<void*>(problem.cu_seqlens),
         static_cast<size_t>(problem.sequences + 1) * (problem.offsets == runtime::OffsetType::i64 ? 8 : 4),
         "cu_seqlens", true, false});
  const auto words = runtime::build_words(manifest, problem, binding, slots, workspace.get(),
                                          [&](const runtime::BoundTensor& tensor, int rows) {
                                            return emulated_map(runtime::tensor_box(manifest, problem, tensor, rows));
                                          });
  runtime::CompileOptions options;
  options.kernel = manifest.kernel;
  options.extra = {aligned ? "-DKDAGEN_VARIANTS=1" : "-DKDAGEN_VARIANTS=2"};
  const runtime::CompiledText compiled = runtime::compile_host(kernel.text(), options);
  const emulator::Module module(compiled.file.string());
  for (const runtime::LaunchStep& step : runtime::launch_steps(manifest, problem, binding)) {
    const auto reports =
        emulator::run(module, step.entry, {step.grid[0], step.grid[1], step.grid[2]},
                      {static_cast<unsigned>(step.info->block), 1, 1}, static_cast<size_t>(step.info->shared_bytes),
                      words.data(), words.size(), buffers, {.check = true, .order_seed = 1});
    if (!reports.empty()) return reports;
    for (emulator::Buffer& buffer : buffers) buffer.initialised = true;  // by the launch before
  }
  return {};
}

const test::Body weighted = [](Spec& s, const Options&, Axis t, Axis h, Axis d) {
  Value x = s.input("x", {t, h, d});
  s.output("y", s.param("w", {h, d}) * rmsnorm(x, d) * exp2(cumsum(-sigmoid(x), t)));
};

}  // namespace

// Tokens, heads or batch rows so far apart that the last one lies past 2^32 elements, at distances that fit vectors and
// tensor maps and at an odd one. No byte but the tensors' own may be touched.
TEST(Layouts, T038T039T040T041PlacesBeyond32Bits) {
  EmulatedProgram program("kda_k1", {{"dim", "64"}, {"schedule", "threads=128,stages=2"}});
  struct Case {
    const char* what;
    std::vector<DimRole> far;
    int64_t distance;
    CallSizes sizes;
  };
  constexpr int64_t far = int64_t{1} << 32;
  std::vector<Case> cases{{"tokens", {DimRole::tokens, DimRole::tile}, far / 16 + 128, {1, 17, 2}},
                          {"heads", {DimRole::head}, far + 64, {1, 21, 3}},
                          {"batch rows", {DimRole::batch}, far + 64, {3, 18, 2}}};
  for (const auto type : {runtime::OffsetType::i32, runtime::OffsetType::i64}) {
    cases.push_back({"tokens, packed", {DimRole::tokens}, far / 16 + 128, {1, 0, 2, {3, 0, 14}, 1, type}});
    cases.push_back({"heads, packed", {DimRole::head}, far / 2 + 64, {1, 0, 4, {3, 0, 18}, 0, type}});
  }
  for (const Pass pass : {Pass::fwd, Pass::bwd})
    for (const Case& given : cases)
      for (const int64_t odd : {0, 3}) {
        SCOPED_TRACE(
            fmt::format("{} {} apart by {}", pass == Pass::fwd ? "fwd" : "bwd", given.what, given.distance + odd));
        Call call(program, given.sizes);
        call.run(pass);
        const runtime::Kernel& kernel = call.kernel(pass);
        std::vector<Sparse> tensors;
        int far_tensors = 0;
        for (const runtime::TensorInfo& info : kernel.manifest().tensors) {
          if (!call.has(info.name)) continue;
          runtime::HostTensor tensor = call.tensor(info.name);
          if (info.direction == runtime::Direction::out)
            std::fill(tensor.data.begin(), tensor.data.end(), std::byte{0xff});
          const bool param =
              info.role == runtime::TensorRole::param || info.role == runtime::TensorRole::param_gradient;
          tensors.emplace_back(info.name, FarTensor(tensor, runtime::dimensions(kernel.manifest(), info),
                                                    param ? std::vector<DimRole>{} : given.far, given.distance + odd));
          far_tensors += tensors.back().tensor.is_far();
        }
        EXPECT_GE(far_tensors, 8);
        for (const std::string& report : run_in_place(kernel, call.problem(), tensors, odd == 0))
          ADD_FAILURE() << report;
        for (Sparse& sparse : tensors) EXPECT_EQ(sparse.gathered(), call.tensor(sparse.name).data) << sparse.name;
      }
  int maps = 0;
  for (const auto& argument : program.kernel(Pass::bwd).manifest().arguments)
    maps += argument.kind == runtime::ArgumentKind::tensor_map;
  EXPECT_GT(maps, 0) << "no operand is staged";
}

// The first and the last sequences of one launch against launches of those alone, bit for bit; the sum over all rows
// against the formula.
TEST(Layouts, T042MoreInstancesThanAGridDimension) {
  EmulatedProgram program(weighted, {{"dim", "16"}, {"grads", "f32"}, {"schedule", "tiles_per_block=1"}});
  program.without_checks();
  const auto noise = [](int64_t row, int64_t h, int64_t d, uint64_t salt) {
    const uint64_t z = (static_cast<uint64_t>((row * 64 + h) * 16 + d) + salt) * 0x9e3779b97f4a7c15u;
    return static_cast<double>(static_cast<int64_t>(z >> 40)) * 0x1p-23 - 1;
  };
  const auto run = [&](const CallSizes& sizes, int64_t first_row) {
    auto call = std::make_unique<Call>(program, sizes);
    call->set("x", [=](const At& at) { return noise(first_row + at.row, at.h, at.d, 1); });
    call->set("dy", [=](const At& at) { return noise(first_row + at.row, at.h, at.d, 77777777); });
    call->forward().backward();
    return call;
  };
  for (const bool packed : {false, true}) {
    const int64_t sequences = packed ? 2050 : 10923, few = packed ? 60 : 300, heads = packed ? 32 : 6;
    const int64_t length = packed ? 2 : 5;
    const auto sizes = [&](int64_t count) {
      return packed ? CallSizes{1, 0, heads, std::vector<int64_t>(count, length)} : CallSizes{count, length, heads};
    };
    ASSERT_GT(sequences * heads, 65535);
    const auto all = run(sizes(sequences), 0), first = run(sizes(few), 0),
               last = run(sizes(few), (sequences - few) * length);
    for (const char* name : {"y", "dx"}) {
      const std::vector<std::byte>&data = all->tensor(name).data, &start = first->tensor(name).data,
            &end = last->tensor(name).data;
      EXPECT_TRUE(std::equal(start.begin(), start.end(), data.begin())) << name;
      EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), data.rbegin())) << name;
    }
    const std::vector<double> xs = values_of(all->tensor("x")), dys = values_of(all->tensor("dy"));
    std::vector<double> dw(heads * 16);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t sequence = 0; sequence < sequences; ++sequence) {
        double gates[16] = {};
        for (int64_t row = sequence * length; row < (sequence + 1) * length; ++row) {
          const double *x = &xs[(row * heads + h) * 16], *dy = &dys[(row * heads + h) * 16];
          double squares = 0;
          for (int64_t d = 0; d < 16; ++d) squares += x[d] * x[d] / 16;
          for (int64_t d = 0; d < 16; ++d) {
            gates[d] -= 1 / (1 + std::exp(-x[d]));
            dw[h * 16 + d] += dy[d] * x[d] / std::sqrt(squares + 1e-6) * std::exp2(gates[d]);
          }
        }
      }
    EXPECT_LE(relative_rms(values_of(all->tensor("dw")), dw), 2e-5) << (packed ? "packed" : "fixed length");
  }
}
