//===- ForeignWorkTest.cpp - Work of other dialects' ops ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An op of another dialect that implements StageWorkOpInterface is counted as
// it says; one that does not is refused, until it gets an external model.
//
//===----------------------------------------------------------------------===//

#include "CountFunctions.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

#include "KernelDialect.h.inc"
#define GET_OP_CLASSES
#include "KernelOps.h.inc"

#include "KernelDialect.cpp.inc"
#define GET_OP_CLASSES
#include "KernelOps.cpp.inc"

void kernel::KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "KernelOps.cpp.inc"
      >();
}

using namespace mlir;
using namespace pipesched;
using namespace pipesched;
using testing::HasSubstr;

/// 4 T s q FLOPs for T tokens that see s others, in heads of q elements in all.
FailureOr<SmallVector<EngineWork>> kernel::AttentionOp::getStageWork() {
  auto query = cast<RankedTensorType>(getQuery().getType());
  auto key = cast<RankedTensorType>(getKey().getType());
  if (!query.hasStaticShape() || !key.hasStaticShape())
    return emitOpError("needs static shapes");
  int64_t bytes = 0;
  for (Type type : {getQuery().getType(), getKey().getType(),
                    getValue().getType(), getResult().getType()})
    bytes += *bytesOfTensor(type);
  return SmallVector<EngineWork>{
      {Engine::Matrix,
       {4 * query.getDimSize(0) * key.getDimSize(0) * query.getDimSize(1),
        bytes}}};
}

FailureOr<SmallVector<EngineWork>> kernel::WorkOp::getStageWork() {
  return SmallVector<EngineWork>{{getLink() ? Engine::Link : Engine::Vector,
                                  {int64_t(getFlops()), int64_t(getBytes())}}};
}

namespace {
struct ForeignWorkTest : CountFunctions {
  ForeignWorkTest() { context.loadDialect<kernel::KernelDialect>(); }
};

/// For an op whose class cannot be changed.
struct SilentWork
    : pipe::StageWorkOpInterface::ExternalModel<SilentWork, kernel::SilentOp> {
  FailureOr<SmallVector<EngineWork>> getStageWork(Operation *op) const {
    return SmallVector<EngineWork>{{Engine::Vector, {7, 3}},
                                   {Engine::MatrixFp8, {11, 5}}};
  }
};

const std::string kGenericWithSilent = R"(
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>],
                       iterator_types = ["parallel"]} outs(%0 : tensor<4xf32>) {
  ^bb0(%out: f32):
    %2 = kernel.silent %out : f32 -> f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return)";
} // namespace

TEST_F(ForeignWorkTest, IsCounted) {
  FailureOr<FunctionWork> work =
      count("(%q: tensor<8x4xbf16>, %k: tensor<6x4xbf16>) -> tensor<8x4xbf16>",
            "%0 = kernel.attention %q, %k, %k : tensor<8x4xbf16>, "
            "tensor<6x4xbf16>, tensor<6x4xbf16> -> tensor<8x4xbf16>\n"
            "return %0 : tensor<8x4xbf16>");
  // Unfused, the keys are read twice.
  EXPECT_WORK(work, 4 * 8 * 6 * 4, 0, 2 * (32 + 24 + 24 + 32),
              2 * (32 + 24 + 32));
  ASSERT_EQ(work->ops.size(), 1u);
  EXPECT_EQ(work->ops[0].name, "kernel.attention");
}

TEST_F(ForeignWorkTest, PayloadOfLinkIsNoTraffic) {
  FailureOr<FunctionWork> work =
      count("()", "kernel.work 0 100 link\nkernel.work 8 50\nreturn");
  EXPECT_WORK(work, 0, 8, 50, 0);
  ASSERT_EQ(work->ops.size(), 2u);
  EXPECT_EQ(work->ops[0].run, (EngineWork{Engine::Link, {0, 100}}));
}

TEST_F(ForeignWorkTest, ReportsItsOwnErrors) {
  EXPECT_TRUE(
      failed(count("(%q: tensor<?x4xbf16>) -> tensor<?x4xbf16>",
                   "%0 = kernel.attention %q, %q, %q : tensor<?x4xbf16>, "
                   "tensor<?x4xbf16>, tensor<?x4xbf16> -> tensor<?x4xbf16>\n"
                   "return %0 : tensor<?x4xbf16>")));
  EXPECT_EQ(errors, "'kernel.attention' op needs static shapes\n");
}

TEST_F(ForeignWorkTest, IsChecked) {
  EXPECT_TRUE(failed(count("()", "kernel.work -1 0\nreturn")));
  EXPECT_THAT(errors, HasSubstr("states -1 flops and 0 bytes"));
  EXPECT_TRUE(failed(count("()", "kernel.work 1 8 link\nreturn")));
  EXPECT_THAT(errors, HasSubstr("states 1 flops and 8 bytes, expected neither "
                                "below 0, and no flops on link"));
}

TEST_F(ForeignWorkTest, IsRefusedWithout) {
  EXPECT_TRUE(failed(count("()", "kernel.silent\nreturn")));
  EXPECT_EQ(errors, "'kernel.silent' op has no known work; lower it to linalg, "
                    "tensor, arith, math or scf, or let it implement "
                    "StageWorkOpInterface\n");
  errors.clear();
  EXPECT_TRUE(failed(count("()", kGenericWithSilent)));
  EXPECT_THAT(errors, HasSubstr("'kernel.silent' op has no known work"));
}

TEST_F(ForeignWorkTest, TakesAnExternalModel) {
  kernel::SilentOp::attachInterface<SilentWork>(context);
  EXPECT_WORK(count("()", "kernel.silent\nreturn"), 11, 7, 8, 0);
  // In a body it runs for each of 4 elements, as a part of the linalg op.
  EXPECT_WORK(count("()", kGenericWithSilent), 0, 4 * 18, 4 * 8 + 2 * 16, 0);
}
