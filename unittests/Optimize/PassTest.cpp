//===- PassTest.cpp - pipe-optimize in another compiler -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass installs no signal handlers and uses the threads of its context.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <csignal>

using namespace mlir;
using namespace pipesched;

static constexpr const char *kSchedule = R"(
pipe.schedule @s workers 3 microbatches 5
    profile <"F=10us,I=12us,W=8us,D=14us,U=14us,comm=1us"> {
  path on [0, 1, 2]
}
)";

/// The schedule that the pass makes from kSchedule, as text. `onRemark` is
/// called while the pass runs.
static std::string runPass(MLIRContext &context, const char *options,
                           llvm::function_ref<void()> onRemark) {
  context.loadDialect<pipe::PipeDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(kSchedule, &context);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    EXPECT_EQ(diagnostic.getSeverity(), DiagnosticSeverity::Remark);
    onRemark();
    return success();
  });
  static bool isRegistered = (pipe::registerPipeSchedTransformsPasses(), true);
  (void)isRegistered;
  PassManager passes(&context);
  EXPECT_TRUE(succeeded(parsePassPipeline(
      (llvm::Twine("pipe-optimize{") + options + "}").str(), passes)));
  EXPECT_TRUE(succeeded(passes.run(*module)));
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

static constexpr const char *kQuick =
    "memory=2 offload=true max-evaluations=500 explain=false";

#if LLVM_ON_UNIX
static void onInterrupt(int /*signal*/) {}

/// SIGINT is delivered to the host before, during and after the pass.
TEST(PipeOptimizePass, LeavesSignalsAlone) {
  auto handlerNow = [] {
    struct sigaction action = {};
    EXPECT_EQ(sigaction(SIGINT, nullptr, &action), 0);
    return action.sa_handler;
  };
  auto before = std::signal(SIGINT, onInterrupt);
  MLIRContext context;
  unsigned numRemarks = 0;
  runPass(context, kQuick, [&] {
    ++numRemarks;
    EXPECT_EQ(handlerNow(), onInterrupt);
    EXPECT_EQ(InterruptWatch::current(), nullptr);
  });
  EXPECT_EQ(numRemarks, 1u);
  EXPECT_EQ(handlerNow(), onInterrupt);
  std::signal(SIGINT, before);
}
#endif

/// The output has the same bytes with and without the threads of the context.
TEST(PipeOptimizePass, DoesNotDependOnThreads) {
  const char *options = "memory=2 offload=true max-evaluations=200000 "
                        "explain=false";
  MLIRContext sequential(MLIRContext::Threading::DISABLED);
  std::string text = runPass(sequential, options, [] {});
  EXPECT_EQ(runPass(sequential, options, [] {}), text);
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(2));
  MLIRContext parallel(MLIRContext::Threading::DISABLED);
  parallel.setThreadPool(pool);
  EXPECT_EQ(runPass(parallel, options, [] {}), text);
}
