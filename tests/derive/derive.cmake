# SPDX-License-Identifier: Apache-2.0
file(GLOB derive_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
add_executable(test_derive ${derive_tests})
kdagen_define_shipped_specs(test_derive)
target_link_libraries(test_derive PRIVATE kdagen_codegen kdagen_specs kdagen_dsl GTest::gtest_main)
gtest_discover_tests(test_derive PROPERTIES LABELS derive)
