//===- ReferenceTest.cpp - The code of the unpipelined model --------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `pipesched-run --check` compares with must be right by itself: which
// functions the reference calls, in which order, and where each of their
// arguments comes from. test/python/training/test_stage_models.py compares
// numbers of the same functions with PyTorch's.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/Reference.h"
#include "PipeSched/InitAll.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace pipesched;

// Stage 0 has whole and split backwards and recomputation, and W's part of one
// microbatch; stage 1 only split ones, and W takes the sum.
static constexpr char kText[] = R"mlir(
!x = tensor<4xf32>
!l = tensor<f32>
func.func private @init0() -> (!x {pipe.param = "w"}) {
  %w = arith.constant dense<1.0> : !x
  return %w : !x
}
func.func private @data(%m: i64 {pipe.microbatch}, %s: i64 {pipe.step})
    -> (!x {pipe.input}) {
  %x = arith.constant dense<1.0> : !x
  return %x : !x
}
func.func private @f0(%w: !x {pipe.param = "w"}, %x: !x {pipe.input})
    -> (!x {pipe.output}, !x {pipe.residual = "r"}) {
  return %x, %w : !x, !x
}
func.func private @r0(%w: !x {pipe.param = "w"}, %x: !x {pipe.input})
    -> (!x {pipe.residual = "r"}) {
  return %w : !x
}
func.func private @b0(%r: !x {pipe.residual = "r"},
    %dy: !x {pipe.output_gradient}) -> (!x {pipe.gradient = "w"}) {
  return %dy : !x
}
func.func private @i0(%dy: !x {pipe.output_gradient}) -> () {
  return
}
func.func private @w0(%r: !x {pipe.residual = "r"},
    %dy: !x {pipe.output_gradient}) -> (!x {pipe.gradient = "w"}) {
  return %dy : !x
}
func.func private @u0(%w: !x {pipe.param = "w"}, %m: !x {pipe.state = "m"},
    %dw: !x {pipe.gradient = "w"}, %s: i64 {pipe.step})
    -> (!x {pipe.param = "w"}, !x {pipe.state = "m"}) {
  return %w, %m : !x, !x
}
func.func private @f1(%w: !x {pipe.param = "w"}, %x: !x {pipe.input})
    -> (!x {pipe.output}) {
  return %x : !x
}
func.func private @i1(%w: !x {pipe.param = "w"},
    %dy: !x {pipe.output_gradient})
    -> (!x {pipe.input_gradient}, !x {pipe.residual = "dz"}) {
  return %dy, %dy : !x, !x
}
func.func private @w1(%x: !x {pipe.input}, %dz: !x {pipe.residual = "dz"},
    %sum: !x {pipe.gradient = "w"}) -> (!x {pipe.gradient = "w"}) {
  return %sum : !x
}
func.func private @target(%m: i64 {pipe.microbatch}) -> (!x {pipe.target}) {
  %t = arith.constant dense<2.0> : !x
  return %t : !x
}
func.func private @loss(%y: !x {pipe.output}, %t: !x {pipe.target})
    -> (!l {pipe.loss}, !x {pipe.output_gradient}) {
  %l = arith.constant dense<0.0> : !l
  return %l, %y : !l, !x
}
pipe.schedule @p workers 2 microbatches 3 {
  path on [0, 1]
  stage 0 init @init0 forward @f0 recompute @r0 backward @b0 input_gradient @i0
      weight_gradient @w0 update @u0
  stage 1 forward @f1 input_gradient @i1 weight_gradient @w1
  data @data
  target @target
  loss @loss
}
)mlir";

namespace {
class ReferenceTest : public testing::Test {
protected:
  void SetUp() override {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(kText, &context);
    ASSERT_TRUE(module);
    FailureOr<StageFunctions> loaded =
        loadStageFunctions(*module->getOps<pipe::ScheduleOp>().begin());
    ASSERT_TRUE(succeeded(loaded));
    functions = std::move(*loaded);
    layout = layOutReference(functions, /*numMicrobatches=*/3);
  }

  func::FuncOp build(bool updates = true, int64_t numMicrobatches = 3) {
    func::FuncOp step =
        buildReferenceStep(*module, "step" + std::to_string(++numBuilt),
                           functions, layout, numMicrobatches, updates);
    EXPECT_TRUE(succeeded(verify(step)));
    return step;
  }
  static std::vector<std::string> calleesOf(Operation *root) {
    std::vector<std::string> names;
    root->walk(
        [&](func::CallOp call) { names.push_back(call.getCallee().str()); });
    return names;
  }
  static func::CallOp find(Operation *root, StringRef callee) {
    func::CallOp found;
    root->walk([&](func::CallOp call) {
      if (call.getCallee() == callee)
        found = call;
    });
    return found;
  }
  /// What is read from or written to the place of a tensor in a block.
  template <typename OpT>
  SmallVector<OpT> accesses(func::FuncOp function, unsigned block,
                            PersistentKind kind, int64_t stage) {
    const PersistentTensor *tensor = layout.find(kind, stage, 0);
    SmallVector<OpT> found;
    function.walk([&](memref::ViewOp view) {
      APInt offset;
      if (view.getSource() == function.getArgument(block) &&
          matchPattern(view.getByteShift(), m_ConstantInt(&offset)) &&
          offset == uint64_t(tensor->offset))
        for (Operation *user : view->getUsers())
          if (auto op = dyn_cast<OpT>(user))
            found.push_back(op);
    });
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  StageFunctions functions;
  PersistentLayout layout;
  int numBuilt = 0;
};
} // namespace

/// One block with the tensors of both stages, and a loss for each microbatch.
TEST_F(ReferenceTest, Layout) {
  std::vector<std::string> kinds;
  for (const PersistentTensor &tensor : layout.tensors)
    kinds.push_back(std::to_string(tensor.stage) + " " +
                    enumName(tensor.kind).str());
  EXPECT_EQ(kinds,
            (std::vector<std::string>{"0 param", "0 state", "0 gradient",
                                      "1 param", "1 gradient", "1 loss"}));
  EXPECT_EQ(layout.find(PersistentKind::Loss, 1, 0)->bytes, 3 * 4);
}

/// Forwards, loss and backwards of a microbatch in the loop, updates behind it;
/// whole backwards before split ones, and never R.
TEST_F(ReferenceTest, Order) {
  func::FuncOp step = build();
  auto loop = *step.getOps<scf::ForOp>().begin();
  EXPECT_EQ(calleesOf(loop),
            (std::vector<std::string>{"data", "f0", "f1", "target", "loss",
                                      "i1", "w1", "b0"}));
  EXPECT_EQ(calleesOf(step).back(), "u0");
  EXPECT_EQ(calleesOf(step).size(), 9u);
  EXPECT_TRUE(loop->isBeforeInBlock(find(step, "u0")));
}

/// Each argument is the result that the schedule would bring there.
TEST_F(ReferenceTest, Arguments) {
  func::FuncOp step = build();
  auto get = [&](StringRef name) { return find(step, name); };
  auto loop = *step.getOps<scf::ForOp>().begin();
  EXPECT_EQ(get("data").getOperand(1), step.getArgument(2));
  EXPECT_EQ(get("f0").getOperand(1), get("data").getResult(0));
  EXPECT_EQ(get("f1").getOperand(1), get("f0").getResult(0));
  EXPECT_EQ(get("loss").getOperand(0), get("f1").getResult(0));
  EXPECT_EQ(get("loss").getOperand(1), get("target").getResult(0));
  EXPECT_EQ(get("i1").getOperand(1), get("loss").getResult(1));
  EXPECT_EQ(get("w1").getOperand(0), get("f0").getResult(0));
  EXPECT_EQ(get("w1").getOperand(1), get("i1").getResult(1));
  EXPECT_EQ(get("b0").getOperand(0), get("f0").getResult(1));
  EXPECT_EQ(get("b0").getOperand(1), get("i1").getResult(0));
  EXPECT_EQ(get("u0").getOperand(3), step.getArgument(2));
  // The number of the microbatch is that of the loop.
  auto number = get("target").getOperand(0).getDefiningOp();
  EXPECT_EQ(number->getOperand(0), loop.getInductionVar());
}

/// The sums of gradients begin at zero in each step. A function that gives the
/// part of a microbatch has it added, one that takes the sum gives the new one.
TEST_F(ReferenceTest, Gradients) {
  func::FuncOp step = build();
  auto loop = *step.getOps<scf::ForOp>().begin();
  ASSERT_EQ(loop.getInitArgs().size(), 3u); // two gradients, and the losses
  for (Value start : loop.getInitArgs()) {
    auto fill = start.getDefiningOp<linalg::FillOp>();
    ASSERT_TRUE(fill);
    EXPECT_TRUE(matchPattern(fill.getInputs().front(), m_AnyZeroFloat()));
  }
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  auto added = yield.getOperand(0).getDefiningOp<linalg::AddOp>();
  ASSERT_TRUE(added);
  EXPECT_EQ(added.getInputs()[0], loop.getRegionIterArgs()[0]);
  EXPECT_EQ(added.getInputs()[1], find(step, "b0").getResult(0));
  EXPECT_EQ(yield.getOperand(1), find(step, "w1").getResult(0));
  EXPECT_EQ(find(step, "w1").getOperand(2), loop.getRegionIterArgs()[1]);
  // The update takes the sum of all microbatches.
  EXPECT_EQ(find(step, "u0").getOperand(2), loop.getResult(0));
}

/// Reads parameters and states from the first block, and writes what is new,
/// and what stays, to the second.
TEST_F(ReferenceTest, Blocks) {
  using Read = bufferization::ToTensorOp;
  using Write = bufferization::MaterializeInDestinationOp;
  for (bool updates : {true, false}) {
    func::FuncOp step = build(updates);
    auto read = accesses<Read>(step, 0, PersistentKind::Param, 0);
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(find(step, "f0").getOperand(0), read[0].getResult());
    EXPECT_TRUE(accesses<Write>(step, 0, PersistentKind::Param, 0).empty());
    auto written = accesses<Write>(step, 1, PersistentKind::Param, 0);
    ASSERT_EQ(written.size(), 1u);
    func::CallOp update = find(step, "u0");
    EXPECT_EQ(bool(update), updates);
    EXPECT_EQ(written[0].getSource(), updates ? Value(update.getResult(0))
                                              : Value(read[0].getResult()));
    // Stage 1 has no update.
    auto kept = accesses<Write>(step, 1, PersistentKind::Param, 1);
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_TRUE(kept[0].getSource().getDefiningOp<Read>());
    auto gradient = accesses<Write>(step, 1, PersistentKind::Gradient, 1);
    ASSERT_EQ(gradient.size(), 1u);
    EXPECT_TRUE(gradient[0].getSource().getDefiningOp<scf::ForOp>());
  }
}

/// The code is as long for many microbatches as for few.
TEST_F(ReferenceTest, SizeOfCode) {
  auto count = [](func::FuncOp function) {
    int64_t ops = 0;
    function.walk([&](Operation *) { ++ops; });
    return ops;
  };
  EXPECT_EQ(count(build(true, 1)), count(build(true, 1000)));
}

/// Only stages with an init function are written.
TEST_F(ReferenceTest, Init) {
  func::FuncOp init = buildReferenceInit(*module, "init", functions, layout);
  EXPECT_TRUE(succeeded(verify(init)));
  EXPECT_EQ(calleesOf(init), std::vector<std::string>{"init0"});
  using Write = bufferization::MaterializeInDestinationOp;
  auto written = accesses<Write>(init, 0, PersistentKind::Param, 0);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].getSource(), find(init, "init0").getResult(0));
  EXPECT_TRUE(accesses<Write>(init, 0, PersistentKind::Param, 1).empty());
}
