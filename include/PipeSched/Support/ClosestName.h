//===- ClosestName.h - Suggestions for misspelled names ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A diagnostic that rejects a name suggests the known name it resembles most. A
// name that resembles none is answered by a list, not by a guess.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_CLOSESTNAME_H
#define PIPESCHED_SUPPORT_CLOSESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace pipesched {

/// The known name with the least edit distance, ignoring case, if it is close:
/// at most one edit more than a third of the letters, and fewer than there are
/// letters. A name that starts another one is one edit away from it. The first
/// on a tie; empty if none is close.
llvm::StringRef closeName(llvm::StringRef name,
                          llvm::ArrayRef<llvm::StringRef> known);

/// Returns the end of a message about an unknown name: ", the closest is 'x'"
/// if one is close, otherwise " (known: a, b, c)" with the first 20 names and
/// the number of the others; nothing if there are no names.
std::string nameHint(llvm::StringRef name,
                     llvm::ArrayRef<llvm::StringRef> known);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_CLOSESTNAME_H
