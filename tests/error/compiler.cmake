# SPDX-License-Identifier: Apache-2.0
file(GLOB compiler_error_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/compiler_*.cpp)
add_executable(test_compiler_errors ${compiler_error_tests})
target_link_libraries(test_compiler_errors PRIVATE kdagen_codegen kdagen_dsl GTest::gtest_main)
gtest_discover_tests(test_compiler_errors PROPERTIES LABELS error)
