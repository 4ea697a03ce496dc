//===- WordSections.h - Compact tables of repeated rows ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes rows of 32-bit words into a table whose size hardly depends on how
// many times the rows repeat. The table is lossless for any words.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_WORDSECTIONS_H
#define PIPESCHED_SUPPORT_WORDSECTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace pipesched {

/// A part of the rows: `length` words that occur `times` times.
///
/// If `times` is 1, the table has the words unchanged, from `position` on.
///
/// Otherwise the table has `length` columns at `position`, with three words for
/// each word of a repetition: base, cycle, step. In repetition r, counted from
/// 0, the word is, modulo 2^32,
///
///   base + r * step                               if cycle is 0
///   table[base + r % cycle] + r / cycle * step    else
///
/// So for any number of repetitions, a microbatch that grows by 2 takes three
/// words, and a place in memory that cycles through four values takes seven.
struct WordSection {
  uint32_t position, length, times;

  /// Returns word `i` of repetition `r`.
  uint32_t read(llvm::ArrayRef<uint32_t> table, uint32_t i, uint32_t r) const;
};

/// Divides `words` into sections and appends their entries to `table`.
/// `rowBegins` are the positions of the rows in `words`, in ascending order,
/// the first 0; rows count as alike if their first words and their lengths are
/// equal. Sections are whole rows of together at most kMaxSectionWords words,
/// or one longer row.
std::vector<WordSection> writeSections(llvm::ArrayRef<uint32_t> words,
                                       llvm::ArrayRef<uint32_t> rowBegins,
                                       std::vector<uint32_t> &table);

inline constexpr uint32_t kMaxSectionWords = 8192;

/// Returns the words that the sections encode.
std::vector<uint32_t> readSections(llvm::ArrayRef<WordSection> sections,
                                   llvm::ArrayRef<uint32_t> table);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_WORDSECTIONS_H
