// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "kdagen/registry.h"
#include "tests/fuzz/inputs/readers.h"
#include "tools/cli/command.h"

namespace kdagen::testing {
namespace {

/// A line is a word; the first one the subcommand.
std::vector<std::string> words_of(const std::string& bytes) {
  std::vector<std::string> words;
  std::istringstream lines(bytes.substr(0, bytes.find('\0')));
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  return words;
}

/// Whether the command only computes and prints: no compiler, no device, no file.
bool is_harmless(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[1].find_first_of("./") != std::string::npos) return false;
  const bool prints =
      words[0] == "show" || words[0] == "explain" || words[0] == "ranges" || words[0] == "emit" || words[0] == "list";
  for (const std::string& word : words)
    if (word == "ptx" || word == "sass" || word.starts_with("-o") || word.starts_with("--u") ||
        word.starts_with("--check") || word.starts_with("--stage=") || word.find("tuned") != std::string::npos)
      return false;
  return prints;
}

bool accepts_command_line(const std::string& bytes) {
  std::vector<std::string> words = words_of(bytes);
  CLI::App app{"kdagen"};
  cli::Action chosen;
  cli::add_commands(app, chosen);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError&) {
    return false;
  }
  return chosen && is_harmless(words) && chosen() == 0;
}

std::vector<std::string> command_line_seeds() {
  std::vector<std::string> seeds{"list\n--json"};
  for (const RegisteredSpec& spec : registered_specs())
    for (const char* rest :
         {"show\n{}\n--stage\nrewritten", "show\n{}\n--pass\nfwd\n--stage\nscheduled\n--set\nlayout=htd",
          "explain\n{}\n--set\nupstream=fp16row\n--set\ndim=64", "ranges\n{}\n--json\n--set\nchunk=32",
          "emit\n{}\n--pass\nbwd\n--set\nschedule=threads=128,stages=2\n--set\nscan=fixed",
          "emit\n{}\n--arch\nsm_80\n--set\ngrads=f32\n--set\noperands=exact",
          "show\n{}\n--set\nsave=x\n--set\ndtype=f32\n--set\nout.y=fp16",
          "check\n{}\n--on\ncpu\n--tokens\n5\n--heads\n2",
          "run\n{}\n--pass\nfwd\n--on\ncpu\n--in\na\n--out\nb\n--tap\nx", "tune\n{}\n--on\ncuda\n--budget\n60s",
          "bench\n{}\n--on\ncuda\n--seqlens\n16,33,7"}) {
      std::string line = rest;
      seeds.push_back(line.replace(line.find("{}"), 2, spec.name));
    }
  return seeds;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{{"command_line", accepts_command_line, command_line_seeds, false}};
  return all;
}

}  // namespace kdagen::testing
