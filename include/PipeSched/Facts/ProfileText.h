//===- ProfileText.h - Profiles as text -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common grammar of measured times in pass options, the profile attribute
// and JSON: exact decimals with units.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_PROFILETEXT_H
#define PIPESCHED_FACTS_PROFILETEXT_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Reads `18.522ms` as 18522000000: a decimal number and one of ps, ns, us, ms,
/// s. Errors quote the text: not a number, negative, no unit, finer than a
/// picosecond, over int64.
llvm::Expected<int64_t> parseTime(llvm::StringRef text);

/// Returns the shortest text that parseTime reads as `ps`, in the largest unit
/// in which the number is at least 1.
std::string printTime(int64_t ps);

/// Returns the names that a profile may contain: F, B, I, W, R, D, U, O, G, FB,
/// comm, send.
llvm::ArrayRef<llvm::StringRef> profileNames();

/// The names of times that may differ by microbatch: F, B, I, W, R, D, U, the
/// phases of shards, comm, send.
llvm::ArrayRef<llvm::StringRef> microbatchNames();

/// The times of a NamedTimes that have this name, or null.
template <typename Named>
auto findTimes(Named &times, llvm::StringRef name) -> decltype(&times.commPs) {
  if (name.size() == 1)
    if (std::optional<Phase> phase = phaseFromLetter(name.front());
        phase && kCostedPhases.contains(*phase))
      return &times.phasePs[*phase];
  if (name == "FB")
    return &times.overlappedPs;
  if (name == "comm")
    return &times.commPs;
  return name == "send" ? &times.sendPs : nullptr;
}

/// Reads `F=18.522ms,I=[0.8ms,1ms],comm=601us` and skips spaces between words.
/// Times by microbatch are `microbatches.F=[1ms,3ms]`, or a list of such lists
/// by stage. Errors: an unknown name, with the closest known one; a name given
/// twice, also by microbatch; an empty profile; as for parseTime.
llvm::Expected<Profile> parseProfile(llvm::StringRef text);

/// Refuses times that are given both by stage and by microbatch.
llvm::Error checkNames(const Profile &profile);

/// Prints a profile for parseProfile, without spaces, in the order of
/// profileNames(), then of microbatchNames().
std::string printProfile(const Profile &profile);

} // namespace pipesched

#endif // PIPESCHED_FACTS_PROFILETEXT_H
