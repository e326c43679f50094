// SPDX-License-Identifier: Apache-2.0
// Names that mean something to a compiler, and names that could be made into one: T069 and T071 of docs/traps.md.
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/compile.h"
#include "runtime/embedded.h"
#include "tests/common/emulated_program.h"

using namespace kdagen;
using namespace kdagen::testing;

namespace {

using Words = std::set<std::string>;

Words words_of(const std::string& text) {
  static const std::regex comment("//[^\n]*"), word("[A-Za-z]\\w*");
  const std::string code = std::regex_replace(text, comment, "");
  return {std::sregex_token_iterator(code.begin(), code.end(), word), std::sregex_token_iterator()};
}

/// Keywords, what headers define or declare, and pairs that differ in an underscore or a number only.
const Words& known_words() {
  static const Words words = words_of(R"(
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq final override import module
    NULL NAN INFINITY EOF BUFSIZ RAND_MAX CHAR_BIT INT_MAX UINT_MAX FLT_MAX FLT_EPSILON DBL_MAX M_PI HUGE_VALF errno
    assert stdin stdout stderr unix linux i386 INT64_MAX UINT32_MAX offsetof va_arg setjmp SIGINT
    size_t int32_t uint64_t uintptr_t ptrdiff_t uint ushort ulong std cuda main half bfloat16 dim3 float2 float4 int4
    uint4 double2 cudaStream_t threadIdx blockIdx blockDim gridDim warpSize abs exp exp2 exp10 log log2 log1p log10
    sqrt rsqrt rcbrt cbrt tanh pow min max fma fabs fmod floor ceil round rint erf j0 y0 yn gamma lgamma tgamma sin
    cos sincos ldexp frexp signbit isnan isinf isfinite copysign printf malloc free memcpy memset clock clock64 time
    trap assertion atomicAdd atomicMax time signal div rand read write select index exit abort signgam
    x x_ x_1 x_2 x_2_ xx a a_ a1 a_1 a_1_ a1_ a_11 if_ if_2 A aA Aa v1 v_1 x_map x_staged x_column x_T y_ahead)");
  return words;
}

/// What stands in emitted texts, and what the headers that they include declare or call.
Words words_of_texts() {
  Words words;
  std::vector<std::pair<const char*, Settings>> specs{{"gla", {}}, {"rmsnorm", {{"dim", "48"}}}};
#ifdef KDAGEN_HAS_KDA_K1
  specs.emplace_back("kda_k1", Settings{{"anchor", "subchunk"}, {"chunk", "32"}, {"save", "g_c"}});
#endif
  for (const auto& [name, settings] : specs)
    for (const Pass pass : {Pass::fwd, Pass::bwd})
      words.merge(words_of(EmulatedProgram(name, settings).emit(pass).first));
  static const std::regex declared(R"((?:namespace|struct|#define|using) (\w+)|\b([A-Za-z]\w*)\()");
  for (const runtime::EmbeddedFile& file : runtime::runtime_headers()) {
    if (!file.path.ends_with(".cuh")) continue;
    const std::string text(file.text);
    for (std::sregex_iterator match(text.begin(), text.end(), declared), end; match != end; ++match)
      words.insert((*match)[1].matched ? (*match)[1] : (*match)[2]);
  }
  return words;
}

/// Those that a spec may use: all but the offsets' and the constants' names, and gradients' names of others.
std::vector<std::string> usable(const Words& words, const Words& taken = {}) {
  std::vector<std::string> names;
  for (const std::string& word : words)
    if (word != "cu_seqlens" && word != "log2e" && word != "ln2" && !taken.count(word) &&
        !(word[0] == 'd' && words.count(word.substr(1))))
      names.push_back(word);
  return names;
}

/// Groups of four names; in turn they name an input, a parameter, a value and an output: value = input * param, output
/// = value * option + input. A fifth and a sixth name each group of `group` such quadruples' spec, axes and options.
class NamedSpec {
 public:
  NamedSpec(std::vector<std::string> names, size_t turn) : names_(std::move(names)), turn_(turn) {}

  size_t quadruples() const { return names_.size() / 4; }
  const std::string& input(size_t i) const { return name(i, 0); }
  const std::string& param(size_t i) const { return name(i, 1); }
  const std::string& value(size_t i) const { return name(i, 2); }
  const std::string& output(size_t i) const { return name(i, 3); }
  static double weight(size_t i) { return static_cast<double>(2 + i % 5); }

  /// Names of the spec, its axes and its options are their own kinds: they may be anything, those of tensors included.
  std::string graph(const std::vector<std::string>& outer) const {
    const Options o({{"dim", "16"}, {"dtype", "f32"}, {"out", "f32"}});
    Spec s(outer.at(0), "", o);
    Axis t = s.rows(outer.at(1)), h = s.heads(outer.at(2)), d = s.features(outer.at(3));
    for (size_t i = 0; i < quadruples(); ++i) {
      Value in = s.input(input(i), {t, h, d}), par = s.param(param(i), {h, d});
      Value product = s.let(value(i), in * par);
      const auto& common = common_options();
      const bool free = i + 4 < outer.size() && std::find(common.begin(), common.end(), outer[i + 4]) == common.end();
      Constant factor = free ? o.number(outer[i + 4], weight(i)) : Constant(weight(i));
      s.output(output(i), cumsum(product * factor, t) + in);
    }
    return s.graph();
  }

  /// Integers, so that all is exact.
  void expect_right(EmulatedProgram& program) const {
    Call call(program, {1, 3, 1});
    for (size_t i = 0; i < quadruples(); ++i) {
      call.set(input(i), [=](const At& at) { return double((at.row * 2 + at.d + int64_t(i)) % 7); });
      call.set(param(i), [=](const At& at) { return double((at.d + int64_t(i)) % 5); });
      call.set("d" + output(i), [=](const At& at) { return double((at.row + int64_t(i)) % 3 + 1); });
    }
    call.forward().backward();
    for (size_t i = 0; i < quadruples(); ++i) {
      const double w = weight(i);
      double sum = 0, suffix = 0, dparam = 0;
      for (int64_t row = 0; row < 3; ++row) {
        sum += call(input(i), row) * call(param(i)) * w;
        EXPECT_EQ(call(output(i), row), sum + call(input(i), row)) << output(i);
      }
      for (int64_t row = 2; row >= 0; --row) {
        const double dy = call("d" + output(i), row);
        suffix += dy * w;
        EXPECT_EQ(call("d" + input(i), row), suffix * call(param(i)) + dy) << input(i);
        dparam += suffix * call(input(i), row);
      }
      EXPECT_EQ(call("d" + param(i)), dparam) << param(i);
    }
  }

 private:
  const std::string& name(size_t i, size_t part) const { return names_[4 * i + (part + turn_) % 4]; }
  std::vector<std::string> names_;
  size_t turn_;
};

const Settings float_gradients{{"grads", "f32"}};

/// Every name as an input and a value or as a parameter and an output, and in turn as a spec's, an axis' or an
/// option's.
void expect_right_everywhere(std::vector<std::string> names) {
  constexpr size_t at_once = 64;
  while (names.size() % 4) names.push_back("filler" + std::to_string(names.size()));
  size_t outer_place = 0;
  for (size_t first = 0; first < names.size(); first += at_once)
    for (const size_t turn : {0, 2}) {
      const auto begin = names.begin() + static_cast<ptrdiff_t>(first);
      std::vector<std::string> outer,
          group(begin, begin + static_cast<ptrdiff_t>(std::min(at_once, names.size() - first)));
      for (size_t i = 0; i < 4 + group.size() / 4; ++i) outer.push_back(names[outer_place++ % names.size()]);
      for (const char* function : {"_fwd", "_bwd_tiles", "_fwd_stage", "_bwd_finish_body"})
        group.push_back(outer[0] + function);
      const NamedSpec spec(group, turn);
      EmulatedProgram program(GraphBytes{spec.graph(outer)}, float_gradients);
      program.without_checks();
      spec.expect_right(program);
    }
}

}  // namespace

TEST(Names, T069T071WordsOfTheLanguageAndItsLibraries) {
  const std::vector<std::string> names = usable(known_words());
  EXPECT_GE(names.size(), 200u);
  expect_right_everywhere(names);
}

TEST(Names, T069T071WordsOfTheTextItself) {
  const std::vector<std::string> names = usable(words_of_texts(), known_words());
  EXPECT_GE(names.size(), 200u);
  expect_right_everywhere(names);
}

// The compilers of the device have words of their own.
TEST(Names, T069TheDevicesCompilerTakesThem) {
  runtime::CompileOptions options;
  try {
    runtime::find_compiler(options.compiler);
  } catch (const ToolchainError& error) {
    GTEST_SKIP() << error.what();
  }
  const NamedSpec spec(usable(known_words()), 1);
  std::vector<std::string> outer{"double", "for", "int", "while"};
  for (const std::string& name : usable(known_words()))
    if (outer.size() < 4 + spec.quadruples()) outer.push_back(name);
  EmulatedProgram program(GraphBytes{spec.graph(outer)}, float_gradients);
  EXPECT_NE(runtime::compile(program.emit(Pass::fwd).first, "sm_90", options).image, "");
}

// What is no identifier is refused, with the line: look-alikes in other alphabets, and the compiler's own underscore.
TEST(Names, T069T071NoIdentifiers) {
  for (const std::string name : {"\xD1\x85", "x\xCC\x81", "_x", "__x", "x y", "1x", "x-y", "x\n", ""}) {
    const auto refusal = [&](const std::function<void(Spec&, Axis, Axis, Axis)>& use) -> std::string {
      try {
        test::graph_of([&](Spec& s, const Options&, Axis t, Axis h, Axis d) { use(s, t, h, d); });
        return "";
      } catch (const SpecError& error) {
        return error.what();
      }
    };
    for (const auto& use : {
             +[](Spec& s, const std::string& n, Axis t, Axis h, Axis d) { s.input(n, {t, h, d}); },
             +[](Spec& s, const std::string& n, Axis, Axis h, Axis) { s.param(n, {h}); },
             +[](Spec& s, const std::string& n, Axis t, Axis h, Axis d) { s.let(n, exp(s.input("a", {t, h, d}))); },
             +[](Spec& s, const std::string& n, Axis t, Axis h, Axis d) { s.output(n, s.input("a", {t, h, d})); },
         })
      EXPECT_THAT(refusal([&](Spec& s, Axis t, Axis h, Axis d) { use(s, name, t, h, d); }),
                  ::testing::AllOf(::testing::HasSubstr("names.cpp:"), ::testing::HasSubstr("identifier")))
          << name;
  }
}
