# SPDX-License-Identifier: Apache-2.0
# KDAGEN_SANITIZE: the whole tree with -fsanitize=..., but for what cannot be (docs/testing.md).
set(KDAGEN_SANITIZE_OPTIONS "")
if(KDAGEN_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "KDAGEN_FUZZERS needs clang: -DCMAKE_CXX_COMPILER=clang++-19 (package libclang-rt-19-dev)")
endif()
if(KDAGEN_SANITIZE)
  set(KDAGEN_SANITIZE_OPTIONS -fsanitize=${KDAGEN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  if(KDAGEN_FUZZERS)
    list(APPEND KDAGEN_SANITIZE_OPTIONS -fsanitize=fuzzer-no-link)
  endif()
  add_compile_options(${KDAGEN_SANITIZE_OPTIONS})
  add_link_options(-fsanitize=${KDAGEN_SANITIZE})
  # Settings without which every program would report what is no fault of its own; linked into all of them.
  add_library(kdagen_sanitizer_settings OBJECT ${CMAKE_SOURCE_DIR}/cmake/sanitizer_settings.cpp)
  link_libraries($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:kdagen_sanitizer_settings>>)
endif()
