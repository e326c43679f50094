# SPDX-License-Identifier: Apache-2.0
file(GLOB runtime_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/runtime_*.cpp)
add_executable(test_runtime ${runtime_tests})
target_link_libraries(test_runtime PRIVATE kdagen_emulated GTest::gmock GTest::gtest_main)
add_library(fake_cuda MODULE ${CMAKE_SOURCE_DIR}/tests/common/fake_cuda.cpp)
add_dependencies(test_runtime fake_cuda)
target_compile_definitions(test_runtime PRIVATE KDAGEN_FAKE_CUDA="$<TARGET_FILE:fake_cuda>"
  KDAGEN_GENERATED="${CMAKE_SOURCE_DIR}/generated")
find_path(CUDA_H_FOLDER cuda.h HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
if(CUDA_H_FOLDER)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/runtime_driver_signatures.cpp PROPERTIES
    COMPILE_DEFINITIONS KDAGEN_HAS_CUDA_H INCLUDE_DIRECTORIES ${CUDA_H_FOLDER})
endif()
# MLIR's headers among the precompiled ones want MLIR linked.
set_target_properties(test_runtime fake_cuda PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
gtest_discover_tests(test_runtime
  PROPERTIES LABELS correctness TIMEOUT 180 ENVIRONMENT "KDAGEN_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
if(NOT KDAGEN_SANITIZE)  # Python brings no sanitizer's runtime
  add_test(NAME runtime.shared_library COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/runtime_shared_library.py
    $<TARGET_FILE:kdagen_runtime_shared>)
  set_tests_properties(runtime.shared_library PROPERTIES LABELS correctness)
endif()
