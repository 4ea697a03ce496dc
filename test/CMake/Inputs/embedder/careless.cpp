//===- careless.cpp - A project that uses an analysis too -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Has the symbols that the test of `embedder` looks for.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Graph/Timeline.h"

int main() {
  auto *volatile function = &pipesched::computeTimeline;
  return function ? 0 : 1;
}
