# SPDX-License-Identifier: Apache-2.0
# `kdagen run`, as a process on files.
file(GLOB run_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/run_*.cpp)
kdagen_leave_out_tests_of_absent_specs(run_tests)
add_executable(test_run ${run_tests})
target_link_libraries(test_run PRIVATE kdagen_runtime GTest::gmock GTest::gtest_main)
target_compile_definitions(test_run PRIVATE KDAGEN_BINARY="$<TARGET_FILE:kdagen>" KDAGEN_FAKE_CUDA="$<TARGET_FILE:fake_cuda>")
set_target_properties(test_run PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # MLIR's among them want MLIR linked
add_dependencies(test_run kdagen fake_cuda)  # fake_cuda: runtime.cmake
gtest_discover_tests(test_run
  PROPERTIES LABELS correctness TIMEOUT 120 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
