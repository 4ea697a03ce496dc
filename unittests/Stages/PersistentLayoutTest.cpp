//===- PersistentLayoutTest.cpp - Blocks kept between steps ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two stages on two paths in opposite directions: every worker holds both.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/PersistentLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace pipesched;

// Parameter "w" has 10 numbers (40 bytes, one slot), "b" 20 bytes; the f16
// gradient of "h" is between them in the function and after them in the
// block.
static constexpr char kText[] = R"mlir(
func.func private @f0(%w: tensor<10xf32> {pipe.param = "w"},
    %h: tensor<40xf16> {pipe.param = "h"},
    %b: tensor<5xf32> {pipe.param = "b"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func private @b0(%w: tensor<10xf32> {pipe.param = "w"},
    %h: tensor<40xf16> {pipe.param = "h"},
    %b: tensor<5xf32> {pipe.param = "b"},
    %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<10xf32> {pipe.gradient = "w"},
        tensor<40xf16> {pipe.gradient = "h"},
        tensor<5xf32> {pipe.gradient = "b"}) {
  return %w, %h, %b : tensor<10xf32>, tensor<40xf16>, tensor<5xf32>
}
func.func private @f1(%x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func private @b1(%dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}) {
  return %dy : tensor<4xf32>
}
func.func private @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  return %zero, %y : tensor<f32>, tensor<4xf32>
}
func.func private @data(%m: i64 {pipe.microbatch})
    -> (tensor<4xf32> {pipe.input}) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  return %zero : tensor<4xf32>
}
pipe.schedule @p workers 2 microbatches 20 {
  path on [0, 1] takes [0:10]
  path on [1, 0] takes [10:20]
  stage 0 forward @f0 backward @b0
  stage 1 forward @f1 backward @b1
  data @data
  loss @loss
}
)mlir";

namespace {
class PersistentLayoutTest : public testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<pipe::PipeDialect, func::FuncDialect>();
    context.loadDialect<arith::ArithDialect>();
    module = parseSourceString<ModuleOp>(kText, &context);
    ASSERT_TRUE(module);
    auto schedule = *module->getOps<pipe::ScheduleOp>().begin();
    FailureOr<StageFunctions> loaded = loadStageFunctions(schedule);
    FailureOr<Placement> placement = pipe::loadPlacement(schedule);
    ASSERT_TRUE(succeeded(loaded) && succeeded(placement));
    layouts = layOutPersistent(*loaded, *placement);
    ASSERT_EQ(layouts.size(), 2u);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<PersistentLayout> layouts;
};
} // namespace

TEST_F(PersistentLayoutTest, HoldsEachStageOnceAndGroupsGradients) {
  using Kind = PersistentKind;
  for (const PersistentLayout &layout : layouts) {
    //   w | h (80) | b | dw | db | dh | losses (20 f32)
    EXPECT_EQ(layout.find(Kind::Param, 0, 0)->offset, 0);
    EXPECT_EQ(layout.find(Kind::Param, 0, 1)->offset, 64);
    EXPECT_EQ(layout.find(Kind::Param, 0, 2)->offset, 192);
    EXPECT_EQ(layout.find(Kind::Gradient, 0, 0)->offset, 256);
    EXPECT_EQ(layout.find(Kind::Gradient, 0, 2)->offset, 320);
    EXPECT_EQ(layout.find(Kind::Gradient, 0, 1)->offset, 384);
    EXPECT_EQ(layout.find(Kind::Loss, 1)->offset, 512);
    EXPECT_EQ(layout.find(Kind::Loss, 1)->bytes, 80);
    EXPECT_EQ(layout.bytes, 640);
    EXPECT_EQ(layout.tensors.size(), 7u);
    EXPECT_EQ(layout.find(Kind::State, 0, 0), nullptr);
  }
}

TEST_F(PersistentLayoutTest, HasOneRunPerElementType) {
  ArrayRef<GradientRun> runs = layouts[0].runsOf(0);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_TRUE(runs[0].elementType.isF32());
  EXPECT_EQ(runs[0].offset, 256);
  EXPECT_EQ(runs[0].bytes, 128);
  EXPECT_TRUE(runs[1].elementType.isF16());
  EXPECT_EQ(runs[1].bytes, 128);
  EXPECT_TRUE(layouts[0].runsOf(1).empty());
}

TEST_F(PersistentLayoutTest, WritesTensorsAsJson) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  writeTensors(json, layouts[1]);
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  ASSERT_TRUE(bool(parsed));
  const llvm::json::Object *loss = parsed->getAsArray()->back().getAsObject();
  EXPECT_EQ(loss->getString("kind"), "loss");
  EXPECT_EQ(loss->getInteger("stage"), 1);
  EXPECT_EQ(loss->getInteger("offset"), 512);
  EXPECT_EQ(loss->getArray("shape")->front().getAsInteger(), 20);
  EXPECT_EQ(loss->getString("type"), "f32");
}
