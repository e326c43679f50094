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

/// Adds the report `describe()`. A stop leaves this stack for good, with nobody to unwind it: by then no string may
/// live on it.
template <class Describe>
void report(const SourceLocation& location, After after, const Describe& describe) {
  Machine* const machine = current_machine();
  if (!machine || !machine->check) return;
  machine->faults.add(
      {FaultKind::undefined_behaviour, fmt::format("{}: {} at line {}:{}", describe(), machine->block.running_thread(),
                                                   location.line, location.column)},
      static_cast<int>(location.line * 1000 + location.column));
  if (after == After::stop || machine->faults.full()) machine->block.stop();
}

void report(const SourceLocation& location, After after, const char* what) {
  report(location, after, [what] { return what; });
}

}  // namespace
}  // namespace kdagen::emulator

using namespace kdagen::emulator;

extern "C" {

void __wrap___ubsan_handle_out_of_bounds(OutOfBoundsData* data, std::uintptr_t index) {
  report(data->location, After::stop,
         [&] { return fmt::format("index {} is outside {}", operand(index, *data->index), data->array->name); });
}

void __wrap___ubsan_handle_type_mismatch_v1(TypeMismatchData* data, std::uintptr_t address) {
  report(data->location, After::stop, [&] {
    const unsigned alignment = 1u << data->log_alignment;
    return fmt::format("misaligned access to {}: {}", data->type->name,
                       address % alignment ? fmt::format("the address is {} bytes past a multiple of {}",
                                                         address % alignment, alignment)
                                           : fmt::format("{:#x} is a null pointer or too small", address));
  });
}

// The first member of all of these is the location, which is all that is used.
void __wrap___ubsan_handle_add_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, After::go_on, "signed addition overflows");
}
void __wrap___ubsan_handle_sub_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, After::go_on, "signed subtraction overflows");
}
void __wrap___ubsan_handle_mul_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, After::go_on, "signed multiplication overflows");
}
void __wrap___ubsan_handle_negate_overflow(SourceLocation* at, std::uintptr_t) {
  report(*at, After::go_on, "negation overflows");
}
void __wrap___ubsan_handle_divrem_overflow(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, After::stop, "division by zero or overflow");
}
void __wrap___ubsan_handle_shift_out_of_bounds(SourceLocation* at, std::uintptr_t, std::uintptr_t) {
  report(*at, After::go_on, "shift by a negative number or by too many bits");
}
}
