//===- ProfileText.h - Profiles as text -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one grammar of measured times, in pass options, the profile attribute and
// JSON: exact decimals with units.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_PROFILETEXT_H
#define PIPESCHED_FACTS_PROFILETEXT_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Reads `18.522ms` as 18522000000: a decimal number and one of ps, ns, us, ms,
/// s. Errors quote the text: no number, negative, no unit, finer than a
/// picosecond, over int64.
llvm::Expected<int64_t> parseTime(llvm::StringRef text);

/// The shortest text that parseTime reads as `ps`, in the largest unit that
/// gives at least 1.
std::string printTime(int64_t ps);

/// The names that a profile may contain: F, B, I, W, R, D, U, O, G, FB, comm,
/// send.
llvm::ArrayRef<llvm::StringRef> profileNames();

/// The list of a profile that has this name, or null.
std::vector<int64_t> *findTimes(Profile &profile, llvm::StringRef name);

/// Reads `F=18.522ms,I=[0.8ms,1ms],comm=601us` and skips spaces between words.
/// Errors: an unknown name, with the closest known one; a name given twice; an
/// empty profile; as for parseTime.
llvm::Expected<Profile> parseProfile(llvm::StringRef text);

/// Prints a profile for parseProfile, without spaces, in the order of
/// profileNames().
std::string printProfile(const Profile &profile);

} // namespace pipesched

#endif // PIPESCHED_FACTS_PROFILETEXT_H
