//===- PrintableTextTest.cpp - Names on a terminal ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

TEST(PrintableText, ShowsWhatNoXmlMayHave) {
  EXPECT_EQ(printableText("a\uFFFEb\uFFFFc\uFFFD"), "a\\ufffeb\\uffffc\uFFFD");
}

TEST(PrintableText, RepairsBrokenSequences) {
  EXPECT_EQ(printableText("a\xff\xe2\x80"), "a\uFFFD\uFFFD");
}

TEST(PrintableText, KeepsLines) {
  EXPECT_EQ(pipesched::printableLines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b");
}

TEST(PrintableText, EscapesInIR) {
  using pipesched::escapeHidden;
  EXPECT_EQ(escapeHidden("@\"a\x1b\\\"\\\\\r\x7f\" // \x1b\n\tGröße"),
            "@\"a\\1B\\\"\\\\\\0D\\7F\" // \\1B\n\tGröße");
  EXPECT_EQ(escapeHidden("\"\u202e\xff\xe2\x80"), "\"\\E2\\80\\AE\\FF\\E2\\80");
  EXPECT_EQ(escapeHidden("\"a\\"), "\"a\\");
}

TEST(PrintableText, KeepsLinesOfIR) {
  using pipesched::escapeHidden;
  EXPECT_EQ(escapeHidden("a\r\nb\rc"), "a\r\nb\nc");
  // A string ends with its line, and a quote in a comment starts none.
  EXPECT_EQ(escapeHidden("\"a\n\r\" // \"\r"), "\"a\n\n\" // \"\n");
}
