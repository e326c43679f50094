# SPDX-License-Identifier: Apache-2.0
add_executable(test_runtime_gpu ${CMAKE_CURRENT_SOURCE_DIR}/runtime_kernel.cpp)
target_link_libraries(test_runtime_gpu PRIVATE kdagen_runtime GTest::gmock GTest::gtest_main)
set_target_properties(test_runtime_gpu PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
gtest_discover_tests(test_runtime_gpu
  PROPERTIES LABELS gpu TIMEOUT 120 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
