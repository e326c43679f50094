// SPDX-License-Identifier: Apache-2.0
#include "tests/error/dsl_expect.h"

using namespace kdagen;

namespace {
const std::string rule = " is not an identifier; start with a letter and go on with letters, digits or _";
const std::string taken = " (line LINE); choose another";
}  // namespace

TEST(NameErrors, Identifiers) {
  EXPECT_REFUSED(s.let("a-b", exp(x)), "the value name \"a-b\"" + rule);
  EXPECT_REFUSED(s.input("", {t, h}), "the input name \"\"" + rule);
  EXPECT_REFUSED(s.output("_z", x), "the output name \"_z\"" + rule);
  EXPECT_REFUSED(s.param("\xCE\xB1", {h}), "the param name \"\xCE\xB1\"" + rule);
  EXPECT_REFUSED(o.number("2x", 1), "the option name \"2x\"" + rule);
  EXPECT_REFUSED(Spec("a b", "", o), "the spec name \"a b\"" + rule);
  EXPECT_REFUSED(Spec("a", "\xFF", o), "the summary is not UTF-8");
}

TEST(NameErrors, Duplicates) {
  EXPECT_REFUSED(s.input("x", {t, h}), "the input x: the name is taken by x" + taken);
  EXPECT_REFUSED(s.param("w", {h}), "the param w: the name is taken by w" + taken);
  EXPECT_REFUSED(s.let("p", exp(x)), "the value p: the name is taken by p" + taken);
  EXPECT_REFUSED(s.output("x", x), "the output x: the name is taken by x" + taken);
  EXPECT_REFUSED(s.output("z", x); s.output("z", x), "the output z: the name is taken by x" + taken);
  EXPECT_REFUSED(Value a = s.let("a", exp(x)); s.output("a", x), "the output a: the name is taken by a" + taken);
  EXPECT_REFUSED(Value a = s.let("a", exp(x)); s.output("a", a);
                 s.output("a", a), "output a is declared twice; choose another name");
  EXPECT_REFUSED(s.let("a", x), "let a: the value already has the name x; use that");
}

TEST(NameErrors, GradientsHaveNamesToo) {
  EXPECT_REFUSED(s.let("dx", exp(x)), "the value dx: dx is the name of the gradient of x; choose another");
  EXPECT_REFUSED(s.param("dw", {h}), "the param dw: dw is the name of the gradient of w; choose another");
  EXPECT_REFUSED(s.param("dz", {h});
                 s.output("z", x), "the output z: dz is the name of the gradient of z; choose another");
  EXPECT_REFUSED(s.input("cu_seqlens", {t, h}), "the name cu_seqlens is the sequence offsets'; choose another");
}
