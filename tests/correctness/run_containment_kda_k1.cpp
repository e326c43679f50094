// SPDX-License-Identifier: Apache-2.0
// How far one NaN or infinity of an input of kda_k1 reaches: `run` with and without it, bit for bit. The sets are
// written down here from the formulas; nothing of the compiler is asked.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "tests/common/run_case.h"

using namespace kdagen::testing;

namespace {

constexpr int64_t chunk = 16, dim = 32, tokens = 21, heads = 2;
constexpr int64_t batch = 2, tiles_a_row = 2;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

/// Where an element lies; -1 along an axis that its tensor lacks. `chunk` counts within the batch row.
struct Place {
  int64_t batch = -1, token = -1, chunk = -1, head = -1, column = -1;
};

/// Of element i of a tensor in the layout bthd.
Place place_of(const std::string& name, const HostTensor& tensor, int64_t i) {
  Place at;
  if (name == "dA_log") return {-1, -1, -1, i, -1};
  if (name == "ddt_bias") return {-1, -1, -1, i / dim, i % dim};
  if (tensor.shape.size() == 4) at.column = i % dim, i /= dim;
  if (name == "g_T") {
    at.column = i % dim, i /= dim;
    at.head = i % heads, at.batch = i / heads / tiles_a_row, at.chunk = i / heads % tiles_a_row;
    return at;
  }
  at.head = i % heads, at.token = i / heads % tokens, at.batch = i / heads / tokens, at.chunk = at.token / chunk;
  return at;
}

using Set = std::function<bool(const std::string& name, const Place& at)>;

constexpr Place bad{0, 5, 0, 1, 3};
constexpr int64_t bad_element = (bad.token * heads + bad.head) * dim + bad.column;

bool in_chunk(const Place& at) { return at.batch == bad.batch && at.chunk == bad.chunk && at.head == bad.head; }
bool in_row(const Place& at) { return in_chunk(at) && at.token == bad.token; }
bool is_parameter(const std::string& name) { return name == "dA_log" || name == "ddt_bias"; }

struct Case {
  std::string options;
  std::string on;
};

class ContainmentKdaK1 : public ::testing::TestWithParam<Case> {
 protected:
  /// Elements of `must` are NaN, those outside `may` have the bits of a run without the bad number.
  void expect(const std::string& pass, const std::string& input, double number, const Set& must, const Set& may) {
    SCOPED_TRACE(pass + " with a bad " + input);
    std::vector<std::string> options{"dim=32", "dtype=f32", "grads=f32"};
    std::istringstream more(GetParam().options);
    for (std::string option; more >> option;) options.push_back(option);
    const RunCase call("kda_k1", options, {batch, tokens, heads});
    TensorFile in = call.inputs(pass);
    const TensorFile clean = call.run(pass, GetParam().on, in, {"--set", "arithmetic=f32"});
    HostTensor& tensor = in.tensors.at(input);
    tensor.set(tensor.shape.size() == 4 ? bad_element : bad_element / dim, number);
    const TensorFile got = call.run(pass, GetParam().on, in, {"--set", "arithmetic=f32"});
    int64_t required = 0;
    for (const auto& [name, before] : clean.tensors)
      for (int64_t i = 0; i < before.elements(); ++i) {
        const Place at = place_of(name, before, i);
        const double value = got.tensors.at(name).get(i);
        ASSERT_FALSE(std::isnan(before.get(i))) << name << " " << i;
        required += must(name, at);
        if (must(name, at)) {
          ASSERT_TRUE(std::isnan(value)) << name << " " << i << " is " << value;
        } else if (!may(name, at)) {
          ASSERT_EQ(value, before.get(i)) << name << " " << i;
        }
      }
    EXPECT_GT(required, 0);
  }
};

}  // namespace

TEST_P(ContainmentKdaK1, GateForward) {
  const auto column = [](const std::string& name, const Place& at) {
    return name != "v_out" && name != "beta" && in_chunk(at) && at.column == bad.column;
  };
  expect(
      "fwd", "g_raw", not_a_number,
      [&](const std::string& name, const Place& at) {
        return column(name, at) && (name == "k_r" || name == "g_T" || at.token >= bad.token);
      },
      column);
}

TEST_P(ContainmentKdaK1, GateBackward) {
  expect(
      "bwd", "g_raw", not_a_number,
      [](const std::string& name, const Place& at) {
        if (is_parameter(name)) return at.head == bad.head && (name == "dA_log" || at.column == bad.column);
        if (name == "dq" || name == "dk") return in_chunk(at) && at.token >= bad.token;
        return name == "dg_raw" && in_row(at) && at.column == bad.column;
      },
      [](const std::string& name, const Place& at) {
        if (is_parameter(name)) return at.head == bad.head;
        return (name == "dq" || name == "dk" || name == "dg_raw") && in_chunk(at);
      });
}

TEST_P(ContainmentKdaK1, NormsForward) {
  for (const char* input : {"q", "k"}) {
    const auto row = [&](const std::string& name, const Place& at) { return name[0] == *input && in_row(at); };
    expect("fwd", input, not_a_number, row, row);
    expect(
        "fwd", input, infinity,
        [&](const std::string& name, const Place& at) { return row(name, at) && at.column == bad.column; }, row);
  }
}

TEST_P(ContainmentKdaK1, NormsBackward) {
  for (const char* input : {"q", "k"})
    for (const double number : {not_a_number, infinity})
      expect(
          "bwd", input, number,
          [&](const std::string& name, const Place& at) {
            if (name == "dA_log") return at.head == bad.head;
            return name == std::string("d") + input && in_row(at) && (std::isnan(number) || at.column == bad.column);
          },
          [](const std::string& name, const Place& at) {
            if (is_parameter(name)) return at.head == bad.head;
            return ((name == "dq" || name == "dk") && in_row(at)) || (name == "dg_raw" && in_chunk(at));
          });
}

TEST_P(ContainmentKdaK1, Cotangents) {
  for (const char* input : {"dq_d", "dk_d", "dk_i", "dk_r", "dv_out", "dbeta"}) {
    const std::string own = input == std::string("dbeta")    ? "dbeta_raw"
                            : input == std::string("dv_out") ? "dv"
                                                             : std::string("d") + input[1];
    const bool gated = own == "dq" || own == "dk";
    expect(
        "bwd", input, not_a_number,
        [&](const std::string& name, const Place& at) {
          if (gated && name == "dA_log") return at.head == bad.head;
          return name == own && in_row(at) && (name != "dv" || at.column == bad.column);
        },
        [&](const std::string& name, const Place& at) {
          if (is_parameter(name)) return gated && at.head == bad.head;
          return (name == own || (gated && name == "dg_raw")) && in_chunk(at);
        });
  }
}

INSTANTIATE_TEST_SUITE_P(, ContainmentKdaK1,
                         ::testing::Values(Case{"scan=float out=f32", "emulator"},
                                           Case{"scan=fixed out=f32", "emulator"},
                                           Case{"scan=fixed out=bf16", "emulator"},
                                           Case{"anchor=static gt=pure out=f32", "emulator"},
                                           Case{"anchor=static out=f32", "cpu"}, Case{"scan=float out=f32", "cpu"}),
                         [](const auto& test) {
                           std::string name = test.param.on + "_" + test.param.options;
                           for (char& letter : name)
                             letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
                           return name;
                         });
