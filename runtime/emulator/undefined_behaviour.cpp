// SPDX-License-Identifier: Apache-2.0
// The functions that -fsanitize=alignment,bounds,shift,signed-integer-overflow calls when an operation is undefined.
// The layouts of their first argument are fixed by the compilers (libubsan's interface).
#include <fmt/format.h>

#include "runtime/emulator/machine.h"

namespace kdagen::emulator {
namespace {

struct SourceLocation {
  const char* file;
  std::uint32_t line, column;
};

struct TypeDescriptor {
  std::uint16_t kind, info;  // kind 0: an integer; info: bit 0 signed, the rest log2 of the bits
  char name[1];
};

struct OutOfBoundsData {
  SourceLocation location;
  const TypeDescriptor *array, *index;
};

struct TypeMismatchData {
  SourceLocation location;
  const TypeDescriptor* type;
  unsigned char log_alignment, check_kind;
};

/// An operand that fits a word comes as that word; signed ones need their sign spread.
std::int64_t operand(std::uintptr_t word, const TypeDescriptor& type) {
  const unsigned bits = 1u << (type.info >> 1);
  if (!(type.info & 1) || bits >= 64) return static_cast<std::int64_t>(word);
  return static_cast<std::int64_t>(word << (64 - bits)) >> (64 - bits);
}

enum class After { go_on, stop };

void report(const SourceLocation& location, const std::string& what, After after) {
  Machine* const machine = current_machine();
  if (!machine || !machine->check) return;
  machine->faults.add(
      {FaultKind::undefined_behaviour,
       fmt::format("{}: {} at line {}:{}", what, machine->block.running_thread(), location.line, location.column)},
      static_cast<int>(location.line * 1000 + location.column));
  if (after == After::stop || machine->faults.full()) machine->block.stop();
}

}  // namespace
}  // namespace kdagen::emulator

using namespace kdagen::emulator;

extern "C" {

void __wrap___ubsan_handle_out_of_bounds(OutOfBoundsData* data, std::uintptr_t index) {
  report(data->location, fmt::format("index {} is outside {}", operand(index, *data->index), data->array->name),
         After::stop);
}

void __wrap___ubsan_handle_type_mismatch_v1(TypeMismatchData* data, std::uintptr_t address) {
  const unsigned alignment = 1u << data->log_alignment;
  const std::string what =
      address % alignment ? fmt::format("the address is {} bytes past a multiple of {}", address % alignment, alignment)
                          : fmt::format("{:#x} is a null pointer or too small", address);
  report(data->location, fmt::format("misaligned access to {}: {}", data->type->name, what), After::stop);
}

// The first member of all of these is the location, which is all that is used.
void __wrap___ubsan_handle_add_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, "signed addition overflows", After::go_on);
}
void __wrap___ubsan_handle_sub_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, "signed subtraction overflows", After::go_on);
}
void __wrap___ubsan_handle_mul_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, "signed multiplication overflows", After::go_on);
}
void __wrap___ubsan_handle_negate_overflow(SourceLocation* at, std::uintptr_t) {
  report(*at, "negation overflows", After::go_on);
}
void __wrap___ubsan_handle_divrem_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, "division by zero or overflow", After::stop);
}
void __wrap___ubsan_handle_shift_out_of_bounds(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, "shift by a negative number or by too many bits", After::go_on);
}
}
