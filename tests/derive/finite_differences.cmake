# SPDX-License-Identifier: Apache-2.0
file(GLOB finite_difference_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/finite_differences_*.cpp)
add_executable(test_finite_differences ${finite_difference_tests} ${CMAKE_SOURCE_DIR}/tests/specs/zigzag.cpp)
kdagen_define_shipped_specs(test_finite_differences)
target_compile_definitions(test_finite_differences PRIVATE KDAGEN_LINKED_SPEC)
target_link_libraries(test_finite_differences PRIVATE kdagen_codegen kdagen_specs GTest::gtest_main)
gtest_discover_tests(test_finite_differences PROPERTIES LABELS derive)
