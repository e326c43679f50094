# SPDX-License-Identifier: Apache-2.0
file(GLOB judge_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/judge_*.cpp)
add_executable(test_judge ${judge_tests})
target_link_libraries(test_judge PRIVATE kdagen_judge GTest::gmock GTest::gtest_main)
gtest_discover_tests(test_judge PROPERTIES LABELS correctness)
