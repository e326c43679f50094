// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>

#include "codegen/explain/formulas.h"
#include "codegen/rewrite/fixed_point_scan.h"
#include "tools/cli/command.h"
#include "tools/cli/hand_over.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::string format = "text";
};

/// How the stored number differs from the value.
std::string note_of(kda::OutputOp output) {
  if (output.getAnchor() != 0) return fmt::format("  stored * 2^{}", int64_t(output.getAnchor()));
  if (auto anchor = output.getAnchorTensor())
    return fmt::format("  stored * 2^{}{}", int64_t(output.getAnchorSign()) < 0 ? "-" : "", anchor->str());
  return output.getEvery() > 0
             ? fmt::format("  one row of each {}: [tiles, sub-chunks, ...]", int64_t(output.getEvery()))
             : "";
}

void print_storage(kda::KernelOp kernel) {
  auto line = [](llvm::StringRef name, llvm::StringRef role, mlir::Type storage, const std::string& note) {
    std::string type;
    llvm::raw_string_ostream(type) << storage;
    fmt::print("  {:<14} {:<10} {}{}\n", name.str(), role.str(), type, note);
  };
  for (auto input : kernel.block().getOps<kda::InputOp>())
    line(input.getTensor(), input.getRole(), input.getStorage(), "");
  for (auto output : kernel.block().getOps<kda::OutputOp>())
    line(output.getTensor(), output.getRole(), output.getStorage(), note_of(output));
}

/// How each sum over rows is made: as integers, or as floats in blocks of 8 rows.
void print_row_sums(kda::KernelOp kernel) {
  for (const kda::RowSum& sum : kda::sums_over_rows(kernel))
    fmt::print("  {:<14} {}\n", formula(sum.value),
               sum.fraction_bits < 0 ? "float" : fmt::format("fixed point, {} fraction bits", sum.fraction_bits));
}

int run(const Arguments& arguments) {
  Notation notation = arguments.format == "latex" ? Notation::latex : Notation::text;
  bool text = notation == Notation::text;
  Compilation forward = arguments.spec.compile(Direction::fwd), backward = arguments.spec.compile(Direction::bwd);
  backward.kernel(Stage::rewritten);  // whatever is wrong shows before anything is printed
  if (text) fmt::print("forward\n\n");
  fmt::print("{}", formulas(forward.kernel(Stage::rewritten), notation));
  if (text) fmt::print("\nbackward, derived\n\n");
  fmt::print("{}", formulas(backward.kernel(Stage::rewritten), notation));
  if (!text) return 0;
  fmt::print("\noperands: {}\n", backward.rounded_operands()
                                     ? "rounded (gradients of exponents use the numbers that the forward stored)"
                                     : "exact");
  fmt::print("\nrewrites\n");
  for (const auto& entry : backward.rewrites().entries) {
    std::string lines;
    for (const std::string& line : entry.spec_lines) lines += " " + line;
    fmt::print("  {:<22} {:>2} times{}\n", entry.name, entry.firings, lines);
  }
  fmt::print("\nsums over rows\n");
  print_row_sums(forward.kernel(Stage::rewritten));
  print_row_sums(backward.kernel(Stage::rewritten));
  fmt::print("\nstorage\n");
  print_storage(forward.kernel(Stage::rewritten));
  print_storage(backward.kernel(Stage::rewritten));
  if (const std::string forms = hand_over_table(arguments.spec); !forms.empty())
    fmt::print(
        "\nhand-over forms (bytes in which they differ; relative 2-norm of errors against the whole pipeline's gradients)\n{}",
        forms);
  return 0;
}
}  // namespace

void add_explain(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(app, "explain", "forward and derived backward as formulas", chosen,
                                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, false, "both", true);
  command->add_option("--format", arguments->format, "text or latex")
      ->check(CLI::IsMember({"text", "latex"}))
      ->capture_default_str();
}

}  // namespace kdagen::cli
