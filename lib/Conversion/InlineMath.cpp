//===- InlineMath.cpp - exp, erf and tanh as arithmetic -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A call of the C library for each element keeps a loop from being vectorized.
// These are the same functions of f32 without branches and calls:
//
//   exp(x)  = 2^n p(r), where x = n ln 2 + r and |r| <= ln 2 / 2
//   erf(x)  = x + x p(x^2) below 0.92, beyond it 1 - exp(-t - t p(t)), t = |x|
//   tanh(x) = x + x^3 p(x^2) below 0.6, beyond it 1 - 2 / (exp(2 t) + 1)
//
// The polynomials p have the least error relative to the result: they were
// fitted in double precision, and coefficients are rounded to f32.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace pipesched {
#define GEN_PASS_DEF_INLINEMATHPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

namespace {
/// Arithmetic on values of one type: f32, or vectors of it.
class Emitter {
public:
  Emitter(RewriterBase &rewriter, Operation *op)
      : builder(op->getLoc(), rewriter), type(op->getResult(0).getType()) {
    Type i32 = builder.getI32Type();
    auto vector = dyn_cast<VectorType>(type);
    integers = vector ? vector.cloneWith(std::nullopt, i32) : i32;
  }

  Value exp(Value x);
  Value erf(Value x);
  Value tanh(Value x);

private:
  Value number(float value);
  Value integer(int32_t value);
  Value fma(Value a, Value b, Value c) {
    return math::FmaOp::create(builder, a, b, c);
  }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, a, b); }
  Value negate(Value a) { return arith::NegFOp::create(builder, a); }
  Value isBelow(Value a, float limit) {
    return arith::CmpFOp::create(builder, arith::CmpFPredicate::OLT, a,
                                 number(limit));
  }
  Value isAbove(Value a, float limit) {
    return arith::CmpFOp::create(builder, arith::CmpFPredicate::OGT, a,
                                 number(limit));
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, condition, a, b);
  }
  /// NaN stays NaN.
  Value atMost(Value a, float limit) {
    return select(isAbove(a, limit), number(limit), a);
  }
  /// Both functions are odd; -0 stays -0.
  Value withSignOf(Value x, Value magnitude) {
    return math::CopySignOp::create(builder, magnitude, x);
  }
  Value powerOf2(Value exponent);
  Value polynomial(Value x, ArrayRef<float> coefficients);
  Value expInRange(Value x);

  ImplicitLocOpBuilder builder;
  Type type, integers;
};
} // namespace

Value Emitter::number(float value) {
  TypedAttr attribute = builder.getF32FloatAttr(value);
  if (auto vector = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(vector, value);
  return arith::ConstantOp::create(builder, attribute);
}

Value Emitter::integer(int32_t value) {
  TypedAttr attribute = builder.getI32IntegerAttr(value);
  if (auto vector = dyn_cast<VectorType>(integers))
    attribute = DenseElementsAttr::get(vector, value);
  return arith::ConstantOp::create(builder, attribute);
}

/// 2^exponent for -126 to 127, made of the bits of an f32.
Value Emitter::powerOf2(Value exponent) {
  Value biased = arith::AddIOp::create(builder, exponent, integer(127));
  Value bits = arith::ShLIOp::create(builder, biased, integer(23));
  return arith::BitcastOp::create(builder, type, bits);
}

/// By Horner's rule; the coefficient of the highest power comes first.
Value Emitter::polynomial(Value x, ArrayRef<float> coefficients) {
  Value sum = number(coefficients.front());
  for (float coefficient : coefficients.drop_front())
    sum = fma(sum, x, number(coefficient));
  return sum;
}

/// The power of 2 goes in two factors, each of which is a normal number, so
/// that what overflows or becomes denormal is rounded once.
Value Emitter::expInRange(Value x) {
  // Adding 1.5 2^23 rounds to an integer, which then is the low bits.
  constexpr float kRound = 12582912.0f;
  Value shifted = fma(x, number(1.44269502f), number(kRound));
  Value bits = arith::BitcastOp::create(builder, integers, shifted);
  Value start = arith::BitcastOp::create(builder, integers, number(kRound));
  Value n = arith::SubIOp::create(builder, bits, start);
  Value k = sub(shifted, number(kRound));
  // ln 2 in two parts, the first with few bits.
  Value r = fma(k, number(-0.693145751953125f), x);
  r = fma(k, number(-1.42860677e-06f), r);
  Value q = polynomial(
      r, {0.00139506003f, 0.00836895371f, 0.0416662042f, 0.166665183f, 0.5f});
  Value p = add(fma(mul(r, r), q, r), number(1));
  Value half = arith::ShRSIOp::create(builder, n, integer(1));
  Value rest = arith::SubIOp::create(builder, n, half);
  return mul(mul(p, powerOf2(half)), powerOf2(rest));
}

/// Beyond these limits the result is infinite, or 0. What becomes 0, such as
/// the masked half of attention scores, is computed from 0: processors take a
/// hundred times as long to multiply where the product is denormal or below.
Value Emitter::exp(Value x) {
  Value capped = atMost(x, 89);
  Value isZero = isBelow(capped, -104);
  Value result = expInRange(select(isZero, number(0), capped));
  return select(isZero, number(0), result);
}

Value Emitter::erf(Value x) {
  Value t = math::AbsFOp::create(builder, x);
  Value p = polynomial(mul(x, x), {8.34522479e-05f, -0.000813743754f,
                                   0.0052006343f, -0.0268592708f, 0.112836939f,
                                   -0.376126337f, 0.128379167f});
  Value small = fma(p, x, x);
  Value c = atMost(t, 4);
  Value q =
      polynomial(c, {1.07633604e-05f, -0.000318061473f, 0.00362292566f,
                     -0.0237201998f, 0.106187626f, 0.63518149f, 0.128640966f});
  Value minus = negate(c);
  Value rest = expInRange(fma(q, minus, minus));
  return withSignOf(x, select(isBelow(t, 0.92f), small, sub(number(1), rest)));
}

Value Emitter::tanh(Value x) {
  Value t = math::AbsFOp::create(builder, x);
  Value s = mul(x, x);
  Value p = polynomial(s, {0.00223106107f, -0.00826708708f, 0.0217344384f,
                           -0.0539524753f, 0.133332478f, -0.333333318f});
  Value small = fma(mul(p, s), x, x);
  Value c = atMost(t, 10);
  Value sum = add(expInRange(add(c, c)), number(1));
  Value quotient = arith::DivFOp::create(builder, number(2), sum);
  return withSignOf(x,
                    select(isBelow(t, 0.6f), small, sub(number(1), quotient)));
}

/// Whether the op is on f32, or on vectors of it whose sizes are known.
static bool isOnF32(Operation *op) {
  Type type = op->getResult(0).getType();
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getElementType().isF32() && !vector.isScalable()
                : type.isF32();
}

namespace {
template <typename Op, Value (Emitter::*emit)(Value)>
struct InlineFunction : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!isOnF32(op))
      return failure();
    Emitter emitter(rewriter, op);
    rewriter.replaceOp(op, (emitter.*emit)(op.getOperand()));
    return success();
  }
};

struct InlineMathPass : pipesched::impl::InlineMathPassBase<InlineMathPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<InlineFunction<math::ExpOp, &Emitter::exp>,
                 InlineFunction<math::ErfOp, &Emitter::erf>,
                 InlineFunction<math::TanhOp, &Emitter::tanh>>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
