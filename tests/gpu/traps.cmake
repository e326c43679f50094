# SPDX-License-Identifier: Apache-2.0
# Traps of docs/traps.md that real memory and real concurrency decide.
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/specs/kda_k1.cpp)
  return()
endif()
add_executable(test_traps_gpu ${CMAKE_CURRENT_SOURCE_DIR}/traps_kda_k1.cpp ${CMAKE_CURRENT_SOURCE_DIR}/emitted_kda_k1.cpp
  ${CMAKE_SOURCE_DIR}/tests/common/emulated_program.cpp)
target_include_directories(test_traps_gpu SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(test_traps_gpu PRIVATE kdagen_check kdagen_spec_source GTest::gmock GTest::gtest_main)
gtest_discover_tests(test_traps_gpu TEST_PREFIX traps.
  PROPERTIES LABELS gpu TIMEOUT 300 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
