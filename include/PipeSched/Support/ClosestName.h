//===- ClosestName.h - Suggestions for misspelled names ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A diagnostic about an unknown name suggests the most similar known name. If
// no name is similar, it lists the known names instead of guessing.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_CLOSESTNAME_H
#define PIPESCHED_SUPPORT_CLOSESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace pipesched {

/// Returns the known name with the least edit distance, ignoring case, if it is
/// close: at most one edit more than a third of the letters, and fewer edits
/// than letters. A name that is a prefix of another counts as one edit. On ties
/// returns the first; returns an empty text if none is close.
llvm::StringRef closeName(llvm::StringRef name,
                          llvm::ArrayRef<llvm::StringRef> known);

/// Returns the end of a message about an unknown name: ", the closest is 'x'"
/// if a name is close, otherwise " (known: a, b, c)" with the first 20 names
/// and the number of the others; empty if there are no names.
std::string nameHint(llvm::StringRef name,
                     llvm::ArrayRef<llvm::StringRef> known);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_CLOSESTNAME_H
