# SPDX-License-Identifier: Apache-2.0
# Precompiled headers of other projects, one set a folder: a file that uses MLIR then compiles in half the time. Own headers are
# never in them. -DKDAGEN_PRECOMPILE=OFF shows whether every file includes what it uses.
option(KDAGEN_PRECOMPILE "Precompile the headers of MLIR, JSON and the like" ON)

set(plain_headers <algorithm> <cmath> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <sstream>
  <stdexcept> <string> <utility> <vector> <nlohmann/json.hpp> <fmt/format.h>)
set(mlir_headers "\"mlir/IR/Builders.h\"" "\"mlir/IR/BuiltinAttributes.h\"" "\"mlir/IR/BuiltinOps.h\""
  "\"mlir/IR/OpImplementation.h\"" "\"mlir/IR/PatternMatch.h\"" "\"mlir/Interfaces/SideEffectInterfaces.h\""
  "\"mlir/Bytecode/BytecodeOpInterface.h\"")
# Otherwise every file that sees the headers refers to a symbol of LLVM, and tools and tests without MLIR do not link.
set(codegen_definitions "")
set(tools_definitions LLVM_DISABLE_ABI_BREAKING_CHECKS_ENFORCING=1)
set(tests_definitions LLVM_DISABLE_ABI_BREAKING_CHECKS_ENFORCING=1)

# Defines kdagen_precompiled_NAME, whose compiled headers other targets take over.
function(kdagen_precompile name)
  set(empty ${CMAKE_BINARY_DIR}/precompiled_${name}.cpp)
  file(CONFIGURE OUTPUT ${empty} CONTENT "")
  add_library(kdagen_precompiled_${name} OBJECT ${empty})
  target_link_libraries(kdagen_precompiled_${name} PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
  target_include_directories(kdagen_precompiled_${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(kdagen_precompiled_${name} PRIVATE ${${name}_definitions})
  target_precompile_headers(kdagen_precompiled_${name} PRIVATE ${ARGN})
endfunction()

# Lets every target of a folder and its subfolders take over the headers of set NAME, except those with a code generation
# option of their own: g++ 12 accepts headers compiled with another -O and then crashes. Single source files with such an option
# need SKIP_PRECOMPILE_HEADERS.
function(kdagen_use_precompiled folder name)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(options ${target} COMPILE_OPTIONS)
    if(KDAGEN_SANITIZE)
      list(REMOVE_ITEM options ${KDAGEN_SANITIZE_OPTIONS})  # the precompiled ones have these too
    endif()
    if(type MATCHES "^(STATIC|OBJECT|SHARED|MODULE)_LIBRARY$|^EXECUTABLE$" AND NOT options MATCHES "-O[0-9s]|-march|-fsanitize")
      target_precompile_headers(${target} REUSE_FROM kdagen_precompiled_${name})
      target_compile_definitions(${target} PRIVATE ${${name}_definitions})
      target_include_directories(${target} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    endif()
  endforeach()
  get_property(subfolders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${subfolders})
    kdagen_use_precompiled(${subfolder} ${name})
  endforeach()
endfunction()

# After all folders were added. (Folders without MLIR gain nothing: loading the set takes as long as <nlohmann/json.hpp>.)
function(kdagen_precompile_all)
  if(NOT KDAGEN_PRECOMPILE)
    return()
  endif()
  set(headers_codegen "")
  set(headers_tools <CLI/CLI.hpp>)
  set(headers_tests <gtest/gtest.h>)
  get_property(folders DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
  foreach(folder ${folders})
    get_filename_component(part ${folder} NAME)
    if(DEFINED headers_${part})
      kdagen_precompile(${part} ${plain_headers} ${mlir_headers} ${headers_${part}})
      kdagen_use_precompiled(${folder} ${part})
    endif()
  endforeach()
endfunction()
