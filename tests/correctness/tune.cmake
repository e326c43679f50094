# SPDX-License-Identifier: Apache-2.0
# The tuner: its space, its search by injected timings, and all of it on a stand-in driver.
file(GLOB tune_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tune_*.cpp)
kdagen_leave_out_tests_of_absent_specs(tune_tests)
add_executable(test_tune ${tune_tests})
target_link_libraries(test_tune PRIVATE kdagen_tune kdagen_workloads kdagen_specs GTest::gmock GTest::gtest_main ${CMAKE_DL_LIBS})
target_compile_definitions(test_tune PRIVATE KDAGEN_BINARY="$<TARGET_FILE:kdagen>" KDAGEN_FAKE_CUDA="$<TARGET_FILE:fake_cuda>")
add_dependencies(test_tune kdagen fake_cuda)  # fake_cuda: runtime.cmake
gtest_discover_tests(test_tune
  PROPERTIES LABELS correctness TIMEOUT 300 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
