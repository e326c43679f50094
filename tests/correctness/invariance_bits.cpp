// SPDX-License-Identifier: Apache-2.0
// What may not change a bit: other heads, later rows, the order and the packing of sequences, schedules, a second run,
// and a power of two on all cotangents. Texts of every shipped spec on the emulator.
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/correctness/invariance_bench.h"
#include "tools/tune/space.h"

namespace kdagen {
namespace {

using testing::InvarianceBench;
using testing::Places;

Shape packed(std::vector<int64_t> lengths, int64_t heads = 2) {
  Shape shape;
  shape.packed = true;
  shape.seqlens = std::move(lengths);
  shape.heads = heads;
  shape.chunk = 16;
  return shape;
}

Shape fixed(int64_t batch, int64_t tokens, int64_t heads = 2) {
  Shape shape = packed({tokens}, heads);
  shape.packed = false;
  shape.batch = batch;
  return shape;
}

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

using Part = std::pair<std::string, Direction>;

class Invariance : public ::testing::TestWithParam<Part> {
 protected:
  InvarianceBench bench(const std::string& schedule = "default",
                        std::map<std::string, std::string> settings = {}) const {
    return InvarianceBench(GetParam().first, GetParam().second, schedule, std::move(settings));
  }

  /// Of the tensors for which `counts` says so; at least one does.
  template <class Counts>
  static void expect_same(const Tensors& expected, const Tensors& actual, Counts counts) {
    int compared = 0;
    for (const Verdict& verdict : compare_bits(expected, actual)) {
      if (!counts(verdict.name)) continue;
      EXPECT_TRUE(verdict.ok) << verdict.name << ": " << verdict.note;
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
  static bool all(const std::string&) { return true; }
};

TEST_P(Invariance, HeadsAreComputedAlone) {
  InvarianceBench text = bench();
  const Shape three = packed({21, 16, 0, 5}, 3), two = packed({21, 16, 0, 5}, 2);
  const Places places{{}, {}, {2, 0}, {}};
  for (const std::string& regime : text.regimes()) {
    SCOPED_TRACE(regime);
    const Tensors inputs = text.draw(three, regime);
    expect_same(text.taken(text.run(inputs, three), three, two, places),
                text.run(text.taken(inputs, three, two, places), two),
                [&](const std::string& name) { return text.declaration(name, two).has(AxisRole::head); });
  }
}

TEST_P(Invariance, LaterChunksDoNotReachBack) {
  InvarianceBench text = bench();
  const Shape longer = packed({5, 40}), shorter = packed({5, 32});
  const Places places{counted(0, 37), counted(0, 3), {}, {}};
  for (const std::string& regime : text.regimes()) {
    SCOPED_TRACE(regime);
    const Tensors inputs = text.draw(longer, regime);
    expect_same(text.taken(text.run(inputs, longer), longer, shorter, places),
                text.run(text.taken(inputs, longer, shorter, places), shorter), [&](const std::string& name) {
                  const Declaration axes = text.declaration(name, shorter);
                  return axes.has(AxisRole::rows) || axes.has(AxisRole::chunk);
                });
  }
}

/// Outputs whose row depends on no later row, by the spec's graph.
std::vector<std::string> causal_outputs(const std::string& graph_text) {
  const nlohmann::json graph = nlohmann::json::parse(graph_text);
  std::vector<bool> causal;
  for (const nlohmann::json& node : graph.at("nodes")) {
    const std::string op = node.at("op");
    const nlohmann::json over = node.value("over", nlohmann::json());
    const bool along_rows = over == "t" || (over.is_array() && std::find(over.begin(), over.end(), "t") != over.end());
    bool ok = !along_rows || op == "index" || (op == "cumsum" && !node.value("reverse", false)) ||
              (op == "shift" && node.at("amount") > 0);
    for (const nlohmann::json& operand : node.value("operands", nlohmann::json::array()))
      ok = ok && causal[operand.get<size_t>()];
    causal.push_back(ok);
  }
  std::vector<std::string> names;
  for (const nlohmann::json& output : graph.at("outputs"))
    if (causal[output.at("node").get<size_t>()]) names.push_back(output.at("name"));
  return names;
}

class InvarianceOfForwards : public Invariance {};  // a backward is anticausal
class InvarianceOfBackwards : public Invariance {};

TEST_P(InvarianceOfForwards, LaterRowsDoNotReachBackWhereTheSpecIsCausal) {
  InvarianceBench text = bench();
  const std::vector<std::string> causal = causal_outputs(text.pass().graph());
  const Shape longer = packed({5, 45}), shorter = packed({5, 39});
  const Tensors inputs = text.draw(longer);
  const Places places{counted(0, 44), counted(0, 4), {}, {}};
  expect_same(text.taken(text.run(inputs, longer), longer, shorter, places),
              text.run(text.taken(inputs, longer, shorter, places), shorter),
              [&](const std::string& name) { return std::find(causal.begin(), causal.end(), name) != causal.end(); });
}

TEST_P(Invariance, SequencesInAnotherOrder) {
  InvarianceBench text = bench();
  const Shape shape = packed({5, 0, 40, 17}), other = packed({17, 5, 40, 0});
  const Tensors inputs = text.draw(shape);
  Places places;
  for (auto [first, count] : {std::pair{45, 17}, {0, 5}, {5, 40}})
    for (int64_t row : counted(first, count)) places.rows.push_back(row);
  places.tiles = {4, 5, 0, 1, 2, 3};
  expect_same(text.taken(text.run(inputs, shape), shape, other, places),
              text.run(text.taken(inputs, shape, other, places), other),
              [&](const std::string& name) { return !text.declaration(name, shape).is_param; });
}

TEST_P(Invariance, RowsOfABatchAloneOrPacked) {
  InvarianceBench text = bench();
  const Shape both = fixed(2, 37), second = fixed(1, 37), as_packed = packed({37, 37});
  const Tensors inputs = text.draw(both);
  const Tensors outputs = text.run(inputs, both);
  const Places places{counted(37, 37), counted(3, 3), {}, {}};
  expect_same(text.taken(outputs, both, second, places), text.run(text.taken(inputs, both, second, places), second),
              [&](const std::string& name) { return !text.declaration(name, both).is_param; });
  const Places same{counted(0, 74), counted(0, 6), {}, {}};
  expect_same(text.taken(outputs, both, as_packed, same),
              text.run(text.taken(inputs, both, as_packed, same), as_packed), all);
}

/// Of the tuner's space: the first of each number of stages behind the default, and some from all over it.
std::vector<std::string> some_schedules(Compilation& compilation, size_t count) {
  const auto all = tune::candidates(compilation, "sm_90", {232448, 2048});
  std::vector<std::string> chosen;
  std::set<int> stages;
  for (const tune::Candidate& candidate : all)
    if (stages.insert(candidate.at[4]).second && stages.size() > 1 && chosen.size() < count / 2)
      chosen.push_back(candidate.schedule);
  for (size_t place = all.size() - 1; chosen.size() < count; place = (place + all.size() * 382 / 1000 + 1) % all.size())
    chosen.push_back(all[place].schedule);
  return chosen;
}

TEST_P(Invariance, SchedulesAndRepeatedRuns) {
  const std::string given = "threads=64,tiles_per_block=4,min_blocks=1,heads_fastest=0,stages=0";
  for (const auto& [dim, chunk, more] : {std::tuple("32", 16, 3), {"128", 8, 2}}) {
    const std::map<std::string, std::string> settings{{"dim", dim}, {"chunk", std::to_string(chunk)}};
    InvarianceBench text = bench("default", settings);
    Shape shape = packed({21, 150, 0, 5});
    shape.chunk = chunk;
    std::map<std::string, Tensors> inputs, first;
    for (const std::string& regime : text.regimes()) {
      inputs[regime] = text.draw(shape, regime), first[regime] = text.run(inputs[regime], shape);
      expect_same(first[regime], text.run(inputs[regime], shape), all);
    }
    std::vector<std::string> schedules = some_schedules(text.pass(), more);
    if (chunk == 16) schedules.push_back(given);
    for (const std::string& schedule : schedules) {
      InvarianceBench other = bench(schedule, settings);
      for (const auto& [regime, tensors] : inputs) {
        SCOPED_TRACE("dim " + std::string(dim) + " " + schedule + " " + regime);
        expect_same(first[regime], other.run(tensors, shape), all);
      }
    }
  }
}

/// A gradient is linear in the cotangents, and a power of two rounds nothing while nothing becomes subnormal.
TEST_P(InvarianceOfBackwards, APowerOfTwoOnAllCotangents) {
  InvarianceBench text = bench();
  const Shape shape = packed({21, 16, 0, 5});
  const Tensors inputs = text.draw(shape);
  for (int exponent : {-9, 4}) {
    Tensors scaled_inputs = inputs, expected = text.run(inputs, shape);
    for (const Declaration& output : text.problem(shape).outputs)
      if (auto found = scaled_inputs.find("d" + output.name); found != scaled_inputs.end())
        for (double& value : found->second.values) value = std::ldexp(value, exponent);
    for (auto& [name, tensor] : expected)
      for (double& value : tensor.values) value = std::ldexp(value, exponent);
    expect_same(expected, text.run(scaled_inputs, shape), all);
  }
}

std::vector<Part> parts(std::initializer_list<Direction> directions) {
  std::vector<Part> result;
  for (const SpecInfo& spec : shipped_specs())
    for (Direction direction : directions) result.emplace_back(spec.name, direction);
  return result;
}
std::string name_of(const ::testing::TestParamInfo<Part>& test) {
  return test.param.first + "_" + std::string(direction_name(test.param.second));
}
INSTANTIATE_TEST_SUITE_P(Shipped, Invariance, ::testing::ValuesIn(parts({Direction::fwd, Direction::bwd})), name_of);
INSTANTIATE_TEST_SUITE_P(Shipped, InvarianceOfForwards, ::testing::ValuesIn(parts({Direction::fwd})), name_of);
INSTANTIATE_TEST_SUITE_P(Shipped, InvarianceOfBackwards, ::testing::ValuesIn(parts({Direction::bwd})), name_of);

}  // namespace
}  // namespace kdagen
