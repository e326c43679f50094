# SPDX-License-Identifier: Apache-2.0
# The small libraries every part may use. With KDAGEN_STATIC nothing of them stays shared: Boost comes as an archive, fmt as
# headers (Debian has no archive of it). xxHash is a header always: users define XXH_INLINE_ALL.
if(KDAGEN_STATIC)
  set(Boost_USE_STATIC_LIBS ON)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
  add_library(fmt::fmt INTERFACE IMPORTED GLOBAL)
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections)
else()
  find_package(fmt REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(xxhash INTERFACE)
target_include_directories(xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
find_package(Boost 1.74 REQUIRED COMPONENTS context)
