# SPDX-License-Identifier: Apache-2.0
# What the built program says, and leaves behind, when something is wrong.
file(GLOB cli_error_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cli_*.cpp)
kdagen_leave_out_tests_of_absent_specs(cli_error_tests)
add_executable(test_cli_errors ${cli_error_tests})
kdagen_define_shipped_specs(test_cli_errors)
target_link_libraries(test_cli_errors PRIVATE kdagen_runtime GTest::gmock GTest::gtest_main)
target_compile_definitions(test_cli_errors PRIVATE KDAGEN_BINARY="$<TARGET_FILE:kdagen>")
set_target_properties(test_cli_errors PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # MLIR's among them want MLIR linked
add_dependencies(test_cli_errors kdagen)
gtest_discover_tests(test_cli_errors
  PROPERTIES LABELS error TIMEOUT 240 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
