// SPDX-License-Identifier: Apache-2.0
// The only header that a spec includes.
//
//   #include <kdagen/kdagen.h>
//   using namespace kdagen;
//
//   static Spec scaled_square(const Options& o) {
//     Spec s("scaled_square", "y = gain * x^2", o);
//     Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
//     Value x = s.input("x", {t, h, d});
//     Constant gain = o.number("gain", 1.0, 0.0, 16.0);
//     s.output("y", x * x * gain);
//     return s;
//   }
//   KDAGEN_SPEC(scaled_square, scaled_square)
#pragma once
#include "kdagen/axis.h"
#include "kdagen/error.h"
#include "kdagen/math.h"
#include "kdagen/options.h"
#include "kdagen/registry.h"
#include "kdagen/scan.h"
#include "kdagen/spec.h"
#include "kdagen/value.h"
