// SPDX-License-Identifier: Apache-2.0
// Texts and what is kept of them: T072, T073, T076, T092-T094, T106, T110 of docs/traps.md.
#include <barrier>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/emulated_program.h"
#include "tests/common/kdagen_process.h"

using namespace kdagen;
using namespace kdagen::testing;
using ::testing::HasSubstr;

TEST(Compiling, T072TypesOneAfterAnother) {
  const auto run = [](const Settings& settings) {
    EmulatedProgram program("rmsnorm", with({{"dim", "32"}}, settings));
    Call call(program, {1, 5, 2});
    call.set("x", [](const At& at) { return 1 + static_cast<double>(at.row + at.d) / 1000; }).backward();
    return std::pair(call.tensor("dx").dtype, call.tensor("dx").data);
  };
  const auto narrow = run({}), wide = run({{"dtype", "f32"}, {"grads", "f32"}});
  EXPECT_EQ(narrow.first, runtime::DType::bf16);
  EXPECT_EQ(wide.first, runtime::DType::f32);
  EXPECT_EQ(run({}), narrow);
  EXPECT_EQ(run({{"dtype", "f32"}, {"grads", "f32"}}), wide);
}

#ifdef KDAGEN_HAS_KDA_K1
TEST(Compiling, T073OptionsGiveTextsOfTheirOwn) {
  const std::vector<Settings> all{{},
                                  {{"dtype", "fp16"}, {"out.k_i", "bf16"}},
                                  {{"out", "f32"}},
                                  {{"grads", "f32"}},
                                  {{"dtype.q", "f32"}},
                                  {{"dim", "64"}},
                                  {{"chunk", "8"}},
                                  {{"operands", "exact"}},
                                  {{"upstream", "bf16"}},
                                  {{"upstream.k_r", "bf16"}},
                                  {{"upstream_layout", "tile"}},
                                  {{"gt", "pure"}},
                                  {{"anchor", "static"}},
                                  {{"anchor", "static"}, {"scan", "float"}},
                                  {{"save", "g_c"}},
                                  {{"eps", "1e-5"}},
                                  {{"lower_bound", "-4"}},
                                  {{"scale", "1"}},
                                  {{"schedule", "baseline"}},
                                  {{"handover", "fused"}},
                                  {{"diag", "1"}}};
  std::set<std::string> texts;
  for (const Settings& settings : all) texts.insert(EmulatedProgram("kda_k1", settings).emit(Pass::bwd).first);
  EXPECT_EQ(texts.size(), all.size());
  const auto manifest = [](const Settings& settings) {
    return runtime::dump_manifest(EmulatedProgram("kda_k1", settings).emit(Pass::bwd).second);
  };
  EXPECT_NE(manifest({{"layout", "htd"}}), manifest({}));  // one text serves both, strides tell
}
#endif

TEST(Compiling, T076FreshProcessesAgree) {
  const Scratch folder = scratch();
  const std::filesystem::path cache = folder.path() / "cache";
  std::vector<std::string> texts, keys;
  for (const char* round : {"first", "second"}) {
    const std::string place = (folder.path() / round).string();
    // Another environment of another size moves every address.
    const Environment environment{{"KDAGEN_CACHE_DIR", cache.string()},
                                  {"PADDING", std::string(*round == 'f' ? 10 : 4000, 'x')}};
    ASSERT_EQ(kdagen::testing::kdagen({"emit", "gla", "-o", place}, environment).code, 0);
    for (const std::string& name : listing(place)) texts.push_back(name + slurp(std::filesystem::path(place) / name));
    ASSERT_EQ(
        kdagen::testing::kdagen({"check", "l2norm", "--pass", "fwd", "--on", "emulator", "--tokens", "5"}, environment)
            .code,
        0);
    std::string names;
    for (const std::string& name : listing(cache / "objects")) {
      const auto time = std::filesystem::last_write_time(cache / "objects" / name).time_since_epoch().count();
      names += name + " " + (std::filesystem::path(name).extension() == ".bin" ? std::to_string(time) : "") + "\n";
    }
    keys.push_back(names);
  }
  ASSERT_EQ(texts.size(), 8u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(texts[i], texts[i + 4]);
  EXPECT_EQ(keys[0], keys[1]) << "the second process compiled something";
  EXPECT_NE(keys[0], "");
}

namespace {
Value helper_gate(const Value& x, double slope) { return -slope * softplus(x); }
Value helper_norm(const Value& x, Axis d) { return x * rsqrt(sum(x * x, d) + 1e-6); }

test::Body numbered(int number) {
  return [number](Spec& s, const Options&, Axis t, Axis h, Axis d) {
    Value x = s.input("x", {t, h, d}), w = s.param("w", {d});
    Value g = s.let("g", cumsum(helper_gate(x + w, 0.5 + number), t));
    s.output("y", helper_norm(x, d) * exp2(g) + static_cast<double>(number));
    if (number % 2) s.output("z", helper_norm(x * w, d));
  };
}
}  // namespace

TEST(Compiling, T092SpecsSideBySide) {
  constexpr int count = 16;
  std::vector<std::string> serial, parallel(count);
  for (int i = 0; i < count; ++i) serial.push_back(EmulatedProgram(numbered(i)).emit(Pass::bwd).first);
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      parallel[i] = EmulatedProgram(numbered(i)).emit(Pass::bwd).first;
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) EXPECT_EQ(parallel[i], serial[i]) << i;
}

TEST(Compiling, T093LoadedByOneLaunchedByAnother) {
  EmulatedProgram rms("rmsnorm", {{"dim", "32"}}), l2("l2norm", {{"dim", "32"}});
  const auto results = [](EmulatedProgram& program, Pass pass) {
    Call call(program, {1, 9, 2});
    call.run(pass);
    std::vector<std::vector<std::byte>> bits;
    for (const std::string& name : call.outputs(pass)) bits.push_back(call.tensor(name).data);
    return bits;
  };
  const std::vector<std::pair<EmulatedProgram*, Pass>> all{
      {&rms, Pass::fwd}, {&rms, Pass::bwd}, {&l2, Pass::fwd}, {&l2, Pass::bwd}};
  std::vector<std::vector<std::vector<std::byte>>> expected;
  for (auto [program, pass] : all) expected.push_back(results(*program, pass));  // the disk cache is warm now
  EmulatedProgram fresh_rms("rmsnorm", {{"dim", "32"}}), fresh_l2("l2norm", {{"dim", "32"}});
  for (Pass pass : {Pass::fwd, Pass::bwd}) fresh_rms.kernel(pass), fresh_l2.kernel(pass);
  const std::vector<EmulatedProgram*> fresh{&fresh_rms, &fresh_rms, &fresh_l2, &fresh_l2};
  constexpr int count = 8;
  std::barrier loaded(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      fresh[i % 4]->kernel(all[i % 4].second).warm_up(on_emulator);
      loaded.arrive_and_wait();
      const int other = (i + 1) % 4;
      EXPECT_EQ(results(*fresh[other], all[other].second), expected[other]) << i;
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Compiling, T094SharedMemoryOfEveryArchitecture) {
  const std::map<std::string, int> limits{
      {"sm_80", 166912}, {"sm_86", 101376}, {"sm_89", 101376}, {"sm_90", 232448}, {"sm_120", 101376}};
  std::vector<const char*> specs{"gla", "rmsnorm"};
#ifdef KDAGEN_HAS_KDA_K1
  specs.push_back("kda_k1");
#endif
  int fit = 0, refused = 0;
  for (const auto& [arch, limit] : limits)
    for (const char* spec : specs)
      for (const char* dim : {"128", "192", "256"})
        for (const char* chunk : {"16", "64"})
          for (const Pass pass : {Pass::fwd, Pass::bwd}) try {
              Settings settings{{"dim", dim}, {"chunk", chunk}};
              if (std::string(spec) == "kda_k1" && *chunk == '6') settings["lower_bound"] = "-1";
              for (const runtime::LaunchInfo& launch : EmulatedProgram(spec, settings).emit(pass, arch).second.launches)
                EXPECT_LE(launch.shared_bytes, limit) << spec << " " << arch;
              ++fit;
            } catch (const UsageError& error) {
              EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr(arch), HasSubstr(std::to_string(limit)))) << spec;
              ++refused;
            }
  EXPECT_GE(fit, 80) << refused << " refused";
}

TEST(Compiling, T106ForkAfterCompiling) {
  EmulatedProgram program("rmsnorm", {{"dim", "32"}});
  Call call(program, {1, 5, 1});
  call.forward();
  EXPECT_EQ(in_child([&] {
              const auto before = call.tensor("y").data;
              return call.forward().tensor("y").data == before ? 0 : 1;
            }),
            0);
}

// Every op along every axis of every kind of value, alone and stored: a text, or a message with the line.
TEST(Compiling, T110OpsOverAllAxes) {
  const std::vector<std::string> axes{"thd", "th", "hd", "h", "d", "", "td", "t"};
  const std::vector<std::function<Value(Value, Axis, Axis, Axis)>> ops{
      [](Value x, Axis, Axis, Axis d) { return sum(x, d); },
      [](Value x, Axis t, Axis, Axis) { return sum(x, t); },
      [](Value x, Axis t, Axis, Axis d) { return sum(x, {t, d}); },
      [](Value x, Axis, Axis h, Axis) { return sum(x, h); },
      [](Value x, Axis, Axis, Axis) { return sum(x, Axes{}); },
      [](Value x, Axis, Axis, Axis d) { return max(x, d); },
      [](Value x, Axis t, Axis, Axis) { return max(x, t); },
      [](Value x, Axis t, Axis, Axis) { return cumsum(x, t); },
      [](Value x, Axis, Axis, Axis d) { return cumsum(x, d); },
      [](Value x, Axis t, Axis, Axis) { return cumsum(x, t, {.exclusive = true, .reverse = true}); },
      [](Value x, Axis t, Axis, Axis) { return total(x, t); },
      [](Value x, Axis t, Axis, Axis) { return last(x, t); },
      [](Value x, Axis t, Axis, Axis) { return shift(x, t, -1); },
      [](Value x, Axis, Axis, Axis d) { return mean(x, d); },
      [](Value x, Axis, Axis, Axis d) { return softmax(x, d); },
      [](Value x, Axis, Axis, Axis d) { return x * index(d); },
      [](Value x, Axis t, Axis, Axis) { return x + index(t); }};
  int texts = 0, messages = 0;
  for (const std::string& own : axes)
    for (size_t op = 0; op < ops.size(); ++op)
      for (const bool alone : {true, false}) {
        const test::Body body = [&](Spec& s, const Options&, Axis t, Axis h, Axis d) {
          const auto has = [&](char axis) { return own.find(axis) != std::string::npos; };
          Value x = s.input("x", {t, h, d}), value = x;
          if (!has('t') && has('h')) value = s.param("p", has('d') ? Axes{h, d} : Axes{h});
          if (!has('t') && !has('h')) value = s.param("p", has('d') ? Axes{d} : Axes{});
          if (has('t') && !has('d')) value = s.input("r", {t, h});
          if (has('t') && !has('h')) value = index(t) * (has('d') ? index(d) : Value(1.0));
          value = ops[op](value, t, h, d);
          s.output("y", alone ? value : value * x);
        };
        for (const Pass pass : {Pass::fwd, Pass::bwd}) try {
            EXPECT_NE(EmulatedProgram(body, {{"dim", "16"}}).emit(pass).first, "");
            ++texts;
          } catch (const SpecError& error) {
            EXPECT_THAT(error.what(), HasSubstr("compiling.cpp:")) << own << " op " << op;
            ++messages;
          }
      }
  EXPECT_GT(texts, 100);
  EXPECT_GT(messages, 100);
}
