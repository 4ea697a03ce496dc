//===- ReferenceTest.cpp - The steps of the unpipelined model -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference of `pipesched-run --check` must be right by itself: the
// functions that it calls, their order, and the origin of each argument.
// test/python/training/test_stage_models.py compares numbers of the same
// functions with PyTorch's.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/Reference.h"
#include "PipeSched/InitAll.h"
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
/// Records calls. Each result of the n-th call, and each sum, is a new tensor,
/// which starts with the f32 n (or the sum's).
class RecordingCaller : public ReferenceCaller {
public:
  struct Call {
    std::string name;
    std::vector<ReferenceArgument> arguments;
    std::vector<ReferenceTensor> results;
  };

  std::vector<ReferenceTensor>
  call(const StageFunction &function,
       llvm::ArrayRef<ReferenceArgument> arguments) override {
    func::FuncOp op = function.op;
    Call &made = calls.emplace_back();
    made.name = op.getSymName().str();
    made.arguments = arguments.vec();
    for (const RoleValue &value : function.results)
      made.results.push_back(fill(value.getTensorType(), calls.size()));
    return made.results;
  }
  ReferenceTensor add(RankedTensorType type, const ReferenceTensor &left,
                      const ReferenceTensor &right) override {
    return fill(type, numberIn(left) + numberIn(right));
  }

  static float numberIn(const ReferenceTensor &tensor) {
    return *reinterpret_cast<const float *>(tensor.get());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Call &call : calls)
      names.push_back(call.name);
    return names;
  }
  /// The first call of a function.
  const Call &find(StringRef name) const {
    return *llvm::find_if(calls, [&](const Call &c) { return c.name == name; });
  }

  std::vector<Call> calls;

private:
  static ReferenceTensor fill(RankedTensorType type, float number) {
    ReferenceTensor tensor = makeReferenceZeros(type);
    *reinterpret_cast<float *>(tensor.get()) = number;
    return tensor;
  }
};

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
    block.assign(layout.bytes, 0);
    numberOf(PersistentKind::Param, 0) = 100;
    numberOf(PersistentKind::Param, 1) = 200;
  }

  void run(bool updates = true) {
    runReferenceStep(caller, functions, layout, /*numMicrobatches=*/3, updates,
                     /*step=*/7, block.data());
  }
  float &numberOf(PersistentKind kind, int64_t stage, int64_t element = 0) {
    return reinterpret_cast<float *>(
        block.data() + layout.find(kind, stage, 0)->offset)[element];
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  StageFunctions functions;
  PersistentLayout layout;
  std::vector<char> block;
  RecordingCaller caller;
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

/// Forwards, loss and backwards of each microbatch, then updates; whole
/// backwards before split ones, and never R.
TEST_F(ReferenceTest, Order) {
  run();
  std::vector<std::string> wanted;
  for (int microbatch = 0; microbatch < 3; ++microbatch)
    for (const char *name :
         {"data", "f0", "f1", "target", "loss", "i1", "w1", "b0"})
      wanted.push_back(name);
  wanted.push_back("u0");
  EXPECT_EQ(caller.names(), wanted);
}

/// Each argument is the result that the schedule would bring there.
TEST_F(ReferenceTest, Arguments) {
  run();
  auto argument = [&](StringRef name, size_t number) {
    return caller.find(name).arguments[number].tensor;
  };
  auto result = [&](StringRef name, size_t number) {
    return caller.find(name).results[number];
  };
  EXPECT_EQ(caller.find("data").arguments[1].number, 7); // the step
  EXPECT_EQ(argument("f0", 1), result("data", 0));
  EXPECT_EQ(argument("f1", 1), result("f0", 0));
  EXPECT_EQ(argument("loss", 0), result("f1", 0));
  EXPECT_EQ(argument("loss", 1), result("target", 0));
  EXPECT_EQ(argument("i1", 1), result("loss", 1));
  EXPECT_EQ(argument("w1", 0), result("f0", 0));
  EXPECT_EQ(argument("w1", 1), result("i1", 1));
  EXPECT_EQ(argument("b0", 0), result("f0", 1));
  EXPECT_EQ(argument("b0", 1), result("i1", 0));
  EXPECT_EQ(caller.find("u0").arguments[3].number, 7);
  std::vector<int64_t> microbatches;
  for (const RecordingCaller::Call &call : caller.calls)
    if (call.name == "target")
      microbatches.push_back(call.arguments[0].number);
  EXPECT_EQ(microbatches, (std::vector<int64_t>{0, 1, 2}));
}

/// The sums of gradients start at zero in each step. A function that gives the
/// part of a microbatch has it added, one that takes the sum gives the new one.
TEST_F(ReferenceTest, Gradients) {
  numberOf(PersistentKind::Gradient, 0) = 1000;
  run();
  // The sum of the calls 8, 16 and 24; w1 is called before each.
  EXPECT_EQ(numberOf(PersistentKind::Gradient, 0), 8 + 16 + 24);
  EXPECT_EQ(numberOf(PersistentKind::Gradient, 1), 23);
  EXPECT_EQ(RecordingCaller::numberIn(caller.find("w1").arguments[2].tensor),
            0);
  EXPECT_EQ(caller.calls[14].name, "w1");
  EXPECT_EQ(caller.calls[14].arguments[2].tensor, caller.calls[6].results[0]);
  EXPECT_EQ(RecordingCaller::numberIn(caller.find("u0").arguments[2].tensor),
            8 + 16 + 24);
}

/// Losses are in the order of microbatches; parameters become the result of the
/// update, or stay.
TEST_F(ReferenceTest, Block) {
  run(/*updates=*/false);
  EXPECT_EQ(numberOf(PersistentKind::Param, 0), 100);
  for (int microbatch = 0; microbatch < 3; ++microbatch)
    EXPECT_EQ(numberOf(PersistentKind::Loss, 1, microbatch),
              5 + 8 * microbatch);
  caller.calls.clear();
  run();
  EXPECT_EQ(RecordingCaller::numberIn(caller.find("f0").arguments[0].tensor),
            25); // the block, after the step
  EXPECT_EQ(numberOf(PersistentKind::Param, 0), 25);
  EXPECT_EQ(numberOf(PersistentKind::State, 0), 25);
  EXPECT_EQ(numberOf(PersistentKind::Param, 1), 200); // without an update
}

/// Only stages with an init function are written.
TEST_F(ReferenceTest, Init) {
  runReferenceInit(caller, functions, layout, block.data());
  EXPECT_EQ(caller.names(), std::vector<std::string>{"init0"});
  EXPECT_EQ(numberOf(PersistentKind::Param, 0), 1);
  EXPECT_EQ(numberOf(PersistentKind::Param, 1), 200);
}
