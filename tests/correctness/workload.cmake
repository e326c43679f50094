# SPDX-License-Identifier: Apache-2.0
file(GLOB workload_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/workload_*.cpp)
kdagen_leave_out_tests_of_absent_specs(workload_tests)
add_executable(test_workload ${workload_tests})
kdagen_define_shipped_specs(test_workload)
target_link_libraries(test_workload PRIVATE kdagen_workloads GTest::gtest_main)
gtest_discover_tests(test_workload PROPERTIES LABELS correctness)
