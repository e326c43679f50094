# SPDX-License-Identifier: Apache-2.0
file(GLOB check_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/check_*.cpp)
kdagen_leave_out_tests_of_absent_specs(check_tests)
add_executable(test_check ${check_tests} ${CMAKE_SOURCE_DIR}/tests/common/emulated_program.cpp)
kdagen_define_shipped_specs(test_check)
target_include_directories(test_check SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(test_check PRIVATE kdagen_check kdagen_spec_source GTest::gmock GTest::gtest_main)
gtest_discover_tests(test_check
  PROPERTIES LABELS correctness TIMEOUT 120 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
