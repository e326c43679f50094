// SPDX-License-Identifier: Apache-2.0
// kdagen: emits, checks and runs kernels derived from forward specs. Data goes to stdout, talk to stderr.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "tools/cli/command.h"

#ifndef KDAGEN_VERSION
#define KDAGEN_VERSION "0.1.0"
#endif

namespace {

int run(int argc, char** argv) {
  using namespace kdagen::cli;
  CLI::App app{"A compiler for linear-attention kernels: forward specs in, verified CUDA forward and backward out."};
  app.set_version_flag("--version", std::string("kdagen ") + KDAGEN_VERSION);
  app.require_subcommand(1);
  Action chosen;
  add_commands(app, chosen);
  try {
    app.parse(argc, argv);
    return chosen ? chosen() : 2;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const kdagen::Error& error) {
    fmt::print(stderr, "kdagen: {}\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kdagen: out of memory\n");
    return 3;
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return 0;  // a print that failed; main says so
    fmt::print(stderr, "kdagen: internal error: {}\n", error.what());
    return 70;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the limit is then a write that fails, and leaves nothing behind
  const int code = run(argc, argv);
  std::cout.flush();
  if (std::fflush(stdout) == 0 && !std::ferror(stdout) && std::cout) return code;
  fmt::print(stderr, "kdagen: cannot write to stdout: {}\n", std::strerror(errno));
  return code == 0 ? 2 : code;
}
