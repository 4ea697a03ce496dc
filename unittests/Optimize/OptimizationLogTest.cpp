//===- OptimizationLogTest.cpp - Receivers of results ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Logs of several contexts, and several logs of one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Transforms/OptimizationLog.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::pipe;

static void note(mlir::MLIRContext &context, const char *name) {
  OptimizationSummary found;
  found.name = name;
  OptimizationLog::note(&context, std::move(found));
}

static std::string take(OptimizationLog &log) {
  std::string names;
  for (const OptimizationSummary &found : log.take())
    names += found.name + " ";
  return names;
}

TEST(OptimizationLog, GetsWhatItsContextFinds) {
  mlir::MLIRContext one, other;
  OptimizationLog ofOne(&one), ofOther(&other);
  note(one, "a");
  note(other, "b");
  note(one, "c");
  EXPECT_EQ(take(ofOne), "a c ");
  EXPECT_EQ(take(ofOther), "b ");
  EXPECT_EQ(take(ofOne), "");
}

TEST(OptimizationLog, OfSeveralTheLastOneGetsIt) {
  mlir::MLIRContext context;
  note(context, "before");
  OptimizationLog outer(&context);
  note(context, "a");
  {
    OptimizationLog inner(&context);
    note(context, "b");
    EXPECT_EQ(take(inner), "b ");
  }
  note(context, "c");
  EXPECT_EQ(take(outer), "a c ");
}

TEST(OptimizationLog, NobodyListensAfterItsEnd) {
  mlir::MLIRContext context;
  {
    OptimizationLog log(&context);
  }
  note(context, "late");
  OptimizationLog log(&context);
  EXPECT_EQ(take(log), "");
}
