// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/manifest.h"

TEST(ManifestErrors, UnknownSchema) {
  EXPECT_THROW(kdagen::runtime::load_manifest(R"({"schema":2})"), kdagen::UsageError);
}
