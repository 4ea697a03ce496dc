//===- ProgressLine.cpp - Progress of a search ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blanks erase the rest of a longer line, so that the only control code is the
// carriage return.
//
//===----------------------------------------------------------------------===//

#include "ProgressLine.h"
#include "PipeSched/Support/PrintableText.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"

using namespace pipesched;
using namespace pipesched::optimize;

static constexpr unsigned kBarWidth = 20;

ProgressLine::ProgressLine(llvm::StringRef name, const SolverOptions &limits)
    : name(printableText(name)), timeLimitSeconds(limits.timeLimitSeconds),
      maxEvaluations(limits.maxEvaluations),
      isTerminal(llvm::sys::Process::StandardErrIsDisplayed()) {}

/// The used share of the limit that is closest, from 0 to 1.
double ProgressLine::shareOf(const Progress &progress) const {
  double share = 0;
  if (timeLimitSeconds > 0)
    share = progress.seconds / timeLimitSeconds;
  if (maxEvaluations > 0)
    share =
        std::max(share, double(progress.evaluations) / double(maxEvaluations));
  return std::min(share, 1.0);
}

void ProgressLine::show(const Progress &progress) {
  if (!isTerminal)
    return;
  auto full = static_cast<unsigned>(shareOf(progress) * kBarWidth);
  std::string line;
  llvm::raw_string_ostream os(line);
  os << name << " [" << std::string(full, '=')
     << std::string(kBarWidth - full, ' ') << "] "
     << llvm::format("%.0f s of %.0f s", progress.seconds, timeLimitSeconds);
  if (progress.best > 0)
    os << ", best " << progress.best;
  if (progress.lowerBound > 0)
    os << ", bound " << progress.lowerBound;
  if (progress.best > 0 && progress.lowerBound > 0)
    os << llvm::format(
        ", gap %.1f %%",
        100.0 * (double(progress.best) / double(progress.lowerBound) - 1));
  size_t length = line.size();
  if (length < width)
    line.append(width - length, ' ');
  width = length;
  llvm::errs() << "\r" << line;
}

void ProgressLine::clear() {
  if (width > 0)
    llvm::errs() << "\r" << std::string(width, ' ') << "\r";
  width = 0;
}
