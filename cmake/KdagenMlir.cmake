# SPDX-License-Identifier: Apache-2.0
# Finds Debian's MLIR 19 and defines kdagen_mlir, the one target that codegen links: the two shared libraries, or, with
# KDAGEN_STATIC, the archives. The exported static MLIR targets all pull in libLLVM.so, and one program must not hold two
# copies of LLVM, so the archives are named here by hand; the linker takes from the group only what is referred to.
find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(kdagen_mlir INTERFACE)
target_include_directories(kdagen_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
if(KDAGEN_STATIC)
  file(GLOB mlir_archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
  if(NOT mlir_archives)
    message(FATAL_ERROR "KDAGEN_STATIC: no libMLIR*.a in ${LLVM_LIBRARY_DIR}; install libmlir-19-dev and llvm-19-dev")
  endif()
  target_link_libraries(kdagen_mlir INTERFACE
    -Wl,--start-group ${mlir_archives} -Wl,--end-group -l:libz.a -l:libzstd.a -l:libtinfo.a ${CMAKE_DL_LIBS} m)
else()
  target_link_libraries(kdagen_mlir INTERFACE MLIR LLVM)
endif()
