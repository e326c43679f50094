# SPDX-License-Identifier: Apache-2.0
file(GLOB invariance_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/invariance_*.cpp)
add_executable(test_invariance ${invariance_tests})
target_include_directories(test_invariance SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(test_invariance PRIVATE kdagen_check kdagen_spec_source GTest::gtest_main)
gtest_discover_tests(test_invariance
  PROPERTIES LABELS correctness TIMEOUT 120 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
