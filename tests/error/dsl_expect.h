// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/common/spec_graph.h"

namespace kdagen::test {

/// The message of the error that building the spec throws; fails the test if it is of another class or none.
template <class Expected>
std::string error_of(const Body& body, const Options::Values& values = {}) {
  try {
    graph_of(body, values);
    ADD_FAILURE() << "no error";
  } catch (const Expected& e) {
    EXPECT_EQ(e.exit_code(), 2);
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
  }
  return "";
}

}  // namespace kdagen::test

/// The statement, on its own line, is refused with "file:line: error: message".
#define EXPECT_REFUSED(statement, message)                                                                      \
  EXPECT_EQ(kdagen::test::error_of<kdagen::SpecError>(                                                          \
                [](kdagen::Spec& s, const kdagen::Options& o, kdagen::Axis t, kdagen::Axis h, kdagen::Axis d) { \
                  (void)o;                                                                                      \
                  kdagen::Value x = s.input("x", {t, h, d}), w = s.input("w", {t, h});                          \
                  kdagen::Value p = s.param("p", {h, d});                                                       \
                  statement;                                                                                    \
                  s.output("y", x* w* p);                                                                       \
                }),                                                                                             \
            std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": error: " + message)
