# SPDX-License-Identifier: Apache-2.0
file(GLOB runtime_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime_*.cpp)
add_executable(test_runtime ${runtime_tests})
target_link_libraries(test_runtime PRIVATE kdagen_emulated GTest::gmock GTest::gtest_main)
set_target_properties(test_runtime PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # MLIR's among them want MLIR linked
gtest_discover_tests(test_runtime
  PROPERTIES LABELS correctness TIMEOUT 60 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
