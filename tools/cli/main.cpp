// SPDX-License-Identifier: Apache-2.0
// kdagen: emits, checks and runs kernels derived from forward specs. Data goes to stdout, talk to stderr.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "tools/cli/command.h"

#ifndef KDAGEN_VERSION
#define KDAGEN_VERSION "0.1.0"
#endif

int main(int argc, char** argv) {
  using namespace kdagen::cli;
  CLI::App app{"A compiler for linear-attention kernels: forward specs in, verified CUDA forward and backward out."};
  app.set_version_flag("--version", std::string("kdagen ") + KDAGEN_VERSION);
  app.require_subcommand(1);
  Action chosen;
  for (auto add : {add_list, add_show, add_explain, add_emit, add_run, add_check, add_ranges, add_bench, add_tune, add_fuzz, add_cache, add_doctor}) add(app, chosen);
  try {
    app.parse(argc, argv);
    return chosen ? chosen() : 2;
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const kdagen::Error& error) {
    fmt::print(stderr, "kdagen: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "kdagen: internal error: {}\n", error.what());
    return 70;
  }
}
