# SPDX-License-Identifier: Apache-2.0
file(GLOB dsl_error_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/dsl_*.cpp)
add_executable(test_dsl_errors ${dsl_error_tests})
target_link_libraries(test_dsl_errors PRIVATE kdagen_spec_source nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
gtest_discover_tests(test_dsl_errors PROPERTIES LABELS error)
