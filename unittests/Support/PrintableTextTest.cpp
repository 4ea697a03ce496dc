//===- PrintableTextTest.cpp - Names on a terminal ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/PrintableText.h"
#include "gtest/gtest.h"

using pipesched::printableText;

TEST(PrintableText, KeepsWhatPeopleRead) {
  EXPECT_EQ(printableText("4 x 8, Größe 时间 🚀"), "4 x 8, Größe 时间 🚀");
  EXPECT_EQ(printableText(""), "");
}

TEST(PrintableText, ShowsWhatTerminalsObey) {
  EXPECT_EQ(printableText("\x1b[2J\n\t\x7f"), "\\x1b[2J\\x0a\\x09\\x7f");
  EXPECT_EQ(printableText("\xc2\x9b"
                          "31m"),
            "\\x9b31m");
  EXPECT_EQ(printableText("a\u202eb\u2066c\u200fd\u061c"),
            "a\\u202eb\\u2066c\\u200fd\\u061c");
}

TEST(PrintableText, RepairsBrokenSequences) {
  EXPECT_EQ(printableText("a\xff\xe2\x80"), "a\uFFFD\uFFFD");
}
