# SPDX-License-Identifier: Apache-2.0
file(GLOB evaluator_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/evaluator_*.cpp)
kdagen_leave_out_tests_of_absent_specs(evaluator_tests)
add_executable(test_evaluator ${evaluator_tests})
target_link_libraries(test_evaluator PRIVATE kdagen_codegen kdagen_specs kdagen_workloads GTest::gtest_main)
gtest_discover_tests(test_evaluator PROPERTIES LABELS correctness)
