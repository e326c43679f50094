# SPDX-License-Identifier: Apache-2.0
# Run by kdagen_add_kernels at build time: writes FOLDER/NAME.h and FOLDER/NAME.cpp for ROWS (kernel@arch|kernel@arch|...).
function(bytes_of file variable)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(${variable} "${bytes}" PARENT_SCOPE)
endfunction()

string(REGEX REPLACE "\\|$" "" ROWS "${ROWS}")
string(REPLACE "|" ";" ROWS "${ROWS}")
set(arrays "")
set(table "")
set(number 0)
foreach(row ${ROWS})
  string(REPLACE "@" ";" row ${row})
  list(GET row 0 kernel)
  list(GET row 1 arch)
  foreach(part cu json cubin)
    bytes_of(${FOLDER}/${arch}/${kernel}.${part} bytes)
    string(APPEND arrays "const unsigned char ${part}_${number}[] = {${bytes}0};\n")
  endforeach()
  string(APPEND table "    {\"${kernel}\", \"${arch}\", reinterpret_cast<const char*>(cu_${number}), "
    "reinterpret_cast<const char*>(json_${number}), {cubin_${number}, sizeof(cubin_${number}) - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${FOLDER}/${NAME}.h "// Made by kdagen_add_kernels(${NAME} ...).
#pragma once
#include <span>

#include <kdagen/launcher.h>

#ifndef KDAGEN_COMPILED_KERNEL
#define KDAGEN_COMPILED_KERNEL
namespace kdagen {
/// An emitted kernel with its binary.
struct CompiledKernel {
  const char* name;                      ///< \"rmsnorm_bwd\"
  const char* arch;                      ///< \"sm_90\"
  const char* text;                      ///< CUDA C++
  const char* manifest;                  ///< JSON: launches, arguments, workspace
  std::span<const unsigned char> cubin;
};

/// For launching on devices of kernel.arch, without a compiler; on newer ones NVRTC or nvcc compiles the text.
inline launcher::Kernel load(const CompiledKernel& kernel) {
  launcher::Kernel loaded = launcher::Kernel::from_memory(kernel.text, kernel.manifest);
  loaded.add_binary(kernel.arch, kernel.cubin.data(), kernel.cubin.size());
  return loaded;
}
}  // namespace kdagen
#endif

std::span<const kdagen::CompiledKernel> ${NAME}();
")
file(WRITE ${FOLDER}/${NAME}.cpp "// Made by kdagen_add_kernels(${NAME} ...).
#include \"${NAME}.h\"

namespace {
${arrays}}  // namespace

std::span<const kdagen::CompiledKernel> ${NAME}() {
  static const kdagen::CompiledKernel kernels[] = {
${table}  };
  return kernels;
}
")
