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

/// "file:line: error: message", with LINE in the message replaced by the line.
inline std::string refusal_at(const char* file, int line, std::string message) {
  const std::string number = std::to_string(line);
  for (std::size_t at; (at = message.find("LINE")) != std::string::npos;) message.replace(at, 4, number);
  return std::string(file) + ":" + number + ": error: " + message;
}

}  // namespace kdagen::test

/// The statement is refused at its line with the message.
// clang-format off: it takes a product in a macro for a pointer
#define EXPECT_REFUSED(statement, message)                                                                      \
  EXPECT_EQ(kdagen::test::error_of<kdagen::SpecError>(                                                          \
                [](kdagen::Spec& s, const kdagen::Options& o, kdagen::Axis t, kdagen::Axis h, kdagen::Axis d) { \
                  (void)o;                                                                                      \
                  kdagen::Value x = s.input("x", {t, h, d}), w = s.input("w", {t, h});                          \
                  kdagen::Value p = s.param("p", {h, d});                                                       \
                  statement;                                                                                    \
                  s.output("y", x * w * p);                                                                       \
                }),                                                                                             \
            kdagen::test::refusal_at(__FILE__, __LINE__, message))
// clang-format on
