//===- PrintableText.cpp - Names on a terminal ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks code points: control characters beyond ASCII have two bytes, marks of
// direction two or three.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/PrintableText.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace pipesched;

static bool isControl(unsigned point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0);
}

/// Marks, embeddings, overrides and isolates of Unicode's bidirectional
/// algorithm.
static bool isDirection(unsigned point) {
  return point == 0x61c || point == 0x200e || point == 0x200f ||
         (point >= 0x202a && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// The code point at the start of valid UTF-8, and its bytes.
static std::pair<unsigned, size_t> firstPoint(llvm::StringRef text) {
  size_t count =
      llvm::getNumBytesForUTF8(static_cast<llvm::UTF8>(text.front()));
  unsigned point = static_cast<unsigned char>(text.front());
  if (count > 1)
    point &= 0x7fu >> count;
  for (char byte : text.substr(1, count - 1))
    point = point << 6 | (static_cast<unsigned char>(byte) & 0x3f);
  return {point, count};
}

std::string pipesched::printableText(llvm::StringRef text) {
  std::string valid = llvm::json::fixUTF8(text), printable;
  llvm::raw_string_ostream os(printable);
  for (llvm::StringRef rest = valid; !rest.empty();) {
    auto [point, count] = firstPoint(rest);
    if (isControl(point))
      os << llvm::format("\\x%02x", point);
    else if (isDirection(point))
      os << llvm::format("\\u%04x", point);
    else
      os << rest.take_front(count);
    rest = rest.drop_front(count);
  }
  return printable;
}
