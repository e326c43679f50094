// SPDX-License-Identifier: Apache-2.0
#include "runtime/manifest.h"

#include <gtest/gtest.h>

#include "tests/common/manifests.h"

using namespace kdagen::runtime;
using kdagen::testing::sample_manifest;

TEST(Manifest, FieldsAreRead) {
  const Manifest m = sample_manifest();
  EXPECT_EQ(m.kernel, "norm_bwd");
  EXPECT_EQ(m.options["eps"], 1e-6);
  ASSERT_EQ(m.tensors.size(), 7u);
  EXPECT_EQ(m.tensors[4].unit, "ln2");
  EXPECT_EQ(m.tensors[5].layout, Layout::htd);
  EXPECT_TRUE(m.tensors[1].optional);
  EXPECT_EQ(m.workspace[1].elements, (Product{"heads", "segments", "dim"}));
  EXPECT_EQ(m.launches[2].entry_any, "norm_bwd_any");
  EXPECT_EQ(m.launches[2].tiles_per_block, 4);
  EXPECT_EQ(m.launches[0].tiles_per_block, 1);
  EXPECT_EQ(m.launches[1].when, When::packed_i64);
  EXPECT_EQ(argument_words(m), 5 * 4 + 6);
}

TEST(Manifest, DumpLoadsBackToTheSameBytes) {
  const std::string text = dump_manifest(sample_manifest());
  EXPECT_EQ(dump_manifest(load_manifest(text)), text);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text.find("{\n  \"schema\": 1,\n  \"kernel\": \"norm_bwd\""), 0u);
}
