//===- PathText.h - Paths written by hand -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads paths and counts per stage from the text of an option, in the syntax of
// pipe.path.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_TABLE_PATHTEXT_H
#define PIPESCHED_SCHEDULE_TABLE_PATHTEXT_H

#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// Reads paths separated by semicolons. Each gives the workers of its stages,
/// then optional clauses:
///
///     0,1,2,3 takes 0:8:2; 3:-1:-1 takes 1:8:2 weights 1*2,2*2
///     0:8 frozen 0:2;  0:8 none
///
/// Any list may be in brackets. A range is begin:end or begin:end:step and
/// excludes its end; workers may count down. `n*c` means n, c times. Errors
/// name the character. Placement::create checks the meaning of the numbers.
llvm::Expected<std::vector<Path>> parsePaths(llvm::StringRef text);

/// Reads non-empty lists of counts separated by semicolons: "7,8*14,7; 8*16".
llvm::Expected<std::vector<std::vector<int64_t>>>
parseStageCounts(llvm::StringRef text);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_TABLE_PATHTEXT_H
