# SPDX-License-Identifier: Apache-2.0
file(GLOB dsl_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/dsl_*.cpp)
add_executable(test_dsl ${dsl_tests})
target_link_libraries(test_dsl PRIVATE kdagen_spec_source nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
target_compile_definitions(test_dsl PRIVATE KDAGEN_TEST_SPECS="${CMAKE_SOURCE_DIR}/tests/specs")
gtest_discover_tests(test_dsl PROPERTIES LABELS correctness)
