//===- FunctionWorkTest.cpp - FLOPs and bytes of functions ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions that are small enough to be counted by hand.
//
//===----------------------------------------------------------------------===//

#include "CountFunctions.h"
#include "mlir/AsmParser/AsmParser.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched;
using testing::HasSubstr;
using FunctionWorkTest = CountFunctions;

//===----------------------------------------------------------------------===//
// Linalg
//===----------------------------------------------------------------------===//

TEST_F(FunctionWorkTest, Matmul) {
  // x [8, 24] w [24, 16]: 2 x 8 x 24 x 16 FLOPs. The sum is read and written.
  EXPECT_WORK(count("(%x: tensor<8x24xf32>, %w: tensor<24x16xf32>, "
                    "%a: tensor<8x16xf32>) -> tensor<8x16xf32>",
                    "%0 = linalg.matmul ins(%x, %w : tensor<8x24xf32>, "
                    "tensor<24x16xf32>) outs(%a : tensor<8x16xf32>) "
                    "-> tensor<8x16xf32>\nreturn %0 : tensor<8x16xf32>"),
              6144, 0, 4 * (192 + 384 + 128 + 128),
              4 * (192 + 384 + 128 + 128));
}

TEST_F(FunctionWorkTest, FillIsBytesOnly) {
  EXPECT_WORK(count("() -> tensor<8x4xbf16>",
                    "%c = arith.constant 0.0 : bf16\n"
                    "%e = tensor.empty() : tensor<8x4xbf16>\n"
                    "%0 = linalg.fill ins(%c : bf16) outs(%e : "
                    "tensor<8x4xbf16>) -> tensor<8x4xbf16>\n"
                    "return %0 : tensor<8x4xbf16>"),
              0, 0, 64, 64);
}

TEST_F(FunctionWorkTest, ProductsOfMatricesAndVectorsAreContractions) {
  EXPECT_WORK(count("(%w: tensor<3x5xf64>, %x: tensor<5xf64>, "
                    "%a: tensor<3xf64>) -> tensor<3xf64>",
                    "%0 = linalg.matvec ins(%w, %x : tensor<3x5xf64>, "
                    "tensor<5xf64>) outs(%a : tensor<3xf64>) -> tensor<3xf64>\n"
                    "return %0 : tensor<3xf64>"),
              30, 0, 8 * (15 + 5 + 3 + 3), 8 * (15 + 5 + 3 + 3));
  EXPECT_WORK(count("(%x: tensor<5xf64>, %y: tensor<5xf64>, "
                    "%a: tensor<f64>) -> tensor<f64>",
                    "%0 = linalg.dot ins(%x, %y : tensor<5xf64>, tensor<5xf64>)"
                    " outs(%a : tensor<f64>) -> tensor<f64>\n"
                    "return %0 : tensor<f64>"),
              0, 10, 8 * (5 + 5 + 1 + 1), 8 * (5 + 5 + 1 + 1));
}

/// Attention scores as a front end writes them: batch and head are named
/// dimensions, the inputs are cast on the way.
TEST_F(FunctionWorkTest, GenericContraction) {
  EXPECT_WORK(count(R"(
    #q = affine_map<(b, h, i, j, d) -> (b, i, h, d)>
    #k = affine_map<(b, h, i, j, d) -> (b, j, h, d)>
    #s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
    func.func @scores(%q: tensor<2x3x4x5xbf16>, %k: tensor<2x7x4x5xbf16>,
                      %a: tensor<2x4x3x7xf32>) -> tensor<2x4x3x7xf32> {
      %0 = linalg.generic {indexing_maps = [#q, #k, #s],
          iterator_types = ["parallel", "parallel", "parallel", "parallel",
                            "reduction"]}
          ins(%q, %k : tensor<2x3x4x5xbf16>, tensor<2x7x4x5xbf16>)
          outs(%a : tensor<2x4x3x7xf32>) {
      ^bb0(%x: bf16, %y: bf16, %acc: f32):
        %1 = arith.extf %x : bf16 to f32
        %2 = arith.extf %y : bf16 to f32
        %3 = arith.mulf %1, %2 : f32
        %4 = arith.addf %acc, %3 : f32
        linalg.yield %4 : f32
      } -> tensor<2x4x3x7xf32>
      return %0 : tensor<2x4x3x7xf32>
    })"),
              2 * 2 * 4 * 3 * 7 * 5, 0, 2 * (120 + 280) + 4 * (168 + 168),
              2 * (120 + 280) + 4 * (168 + 168));
}

TEST_F(FunctionWorkTest, Convolution) {
  // Image [1, 6, 6, 3], kernel [3, 3, 3, 8]: 4 x 4 x 8 sums of 27 products.
  EXPECT_WORK(
      count("(%x: tensor<1x6x6x3xf32>, %w: tensor<3x3x3x8xf32>, "
            "%a: tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>",
            "%0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x6x6x3xf32>, "
            "tensor<3x3x3x8xf32>) outs(%a : tensor<1x4x4x8xf32>) "
            "-> tensor<1x4x4x8xf32>\nreturn %0 : tensor<1x4x4x8xf32>"),
      2 * 128 * 27, 0, 4 * (108 + 216 + 128 + 128),
      4 * (108 + 216 + 128 + 128));
}

TEST_F(FunctionWorkTest, PoolingIsNoContraction) {
  // The window is a shape; its elements are not read.
  EXPECT_WORK(
      count("(%x: tensor<1x4x4x3xf32>, %w: tensor<2x2xf32>, "
            "%a: tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32>",
            "%0 = linalg.pooling_nhwc_max ins(%x, %w : tensor<1x4x4x3xf32>, "
            "tensor<2x2xf32>) outs(%a : tensor<1x3x3x3xf32>) "
            "-> tensor<1x3x3x3xf32>\nreturn %0 : tensor<1x3x3x3xf32>"),
      0, 27 * 4, 4 * (48 + 27 + 27), 4 * (48 + 27 + 27));
}

/// exp(x - max) of rows: a float op each; the row's maximum is read once a row.
TEST_F(FunctionWorkTest, GenericVector) {
  EXPECT_WORK(count(R"(
    #ij = affine_map<(i, j) -> (i, j)>
    #i = affine_map<(i, j) -> (i)>
    func.func @shifted(%x: tensor<4x8xf32>, %m: tensor<4xf32>)
        -> tensor<4x8xf32> {
      %e = tensor.empty() : tensor<4x8xf32>
      %0 = linalg.generic {indexing_maps = [#ij, #i, #ij],
          iterator_types = ["parallel", "parallel"]}
          ins(%x, %m : tensor<4x8xf32>, tensor<4xf32>)
          outs(%e : tensor<4x8xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %1 = arith.subf %a, %b : f32
        %2 = math.exp %1 : f32
        linalg.yield %2 : f32
      } -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    })"),
              0, 2 * 32, 4 * (32 + 4 + 32), 4 * (32 + 4 + 32));
}

TEST_F(FunctionWorkTest, Softmax) {
  EXPECT_WORK(count("(%x: tensor<4x8xf32>) -> tensor<4x8xf32>",
                    "%e = tensor.empty() : tensor<4x8xf32>\n"
                    "%0 = linalg.softmax dimension(1) ins(%x : "
                    "tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> "
                    "tensor<4x8xf32>\nreturn %0 : tensor<4x8xf32>"),
              0, 5 * 32, 256, 256);
}

/// A lookup in a table reads the rows that it needs, not the table.
TEST_F(FunctionWorkTest, Gather) {
  EXPECT_WORK(count(R"(
    func.func @lookup(%table: tensor<100x4xf32>, %tokens: tensor<3xi32>)
        -> tensor<3x4xf32> {
      %e = tensor.empty() : tensor<3x4xf32>
      %0 = linalg.generic {
          indexing_maps = [affine_map<(i, j) -> (i)>,
                           affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}
          ins(%tokens : tensor<3xi32>) outs(%e : tensor<3x4xf32>) {
      ^bb0(%token: i32, %out: f32):
        %row = arith.index_cast %token : i32 to index
        %column = linalg.index 1 : index
        %1 = tensor.extract %table[%row, %column] : tensor<100x4xf32>
        linalg.yield %1 : f32
      } -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    })"),
              0, 0, 4 * (3 + 12 + 12), 4 * (3 + 12 + 12));
}

//===----------------------------------------------------------------------===//
// Scalars and tensors
//===----------------------------------------------------------------------===//

TEST_F(FunctionWorkTest, FlopsOfScalars) {
  const std::pair<const char *, int64_t> cases[] = {
      {"arith.divf %x, %y : f32", 1},
      {"arith.maximumf %x, %y : f32", 1},
      {"arith.cmpf olt, %x, %y : f32", 1},
      {"arith.negf %x : f32", 1},
      {"arith.truncf %x : f32 to bf16", 0},
      {"arith.select %b, %x, %y : f32", 0},
      {"arith.addi %i, %i : i32", 0},
      {"arith.sitofp %i : i32 to f32", 0},
      {"math.fma %x, %y, %x : f32", 2},
      {"math.erf %x : f32", 1},
      {"math.powf %x, %y : f32", 1},
      {"math.rsqrt %x : f32", 1},
      {"math.ctpop %i : i32", 0}};
  for (auto [op, flops] : cases) {
    SCOPED_TRACE(op);
    EXPECT_WORK(count("(%x: f32, %y: f32, %i: i32, %b: i1)",
                      "%0 = " + std::string(op) + "\nreturn"),
                0, flops, 0, 0);
  }
}

TEST_F(FunctionWorkTest, TensorOpsMoveBytes) {
  const std::pair<const char *, int64_t> cases[] = {
      {"tensor.extract_slice %x[0, 0] [2, 8] [1, 1] : tensor<4x8xf32> to "
       "tensor<2x8xf32>",
       0},
      {"tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into "
       "tensor<32xf32>",
       0},
      {"tensor.insert_slice %s into %x[0, 0] [2, 8] [1, 1] : tensor<2x8xf32> "
       "into tensor<4x8xf32>",
       2 * 64},
      {"tensor.concat dim(0) %x, %s : (tensor<4x8xf32>, tensor<2x8xf32>) -> "
       "tensor<6x8xf32>",
       2 * 192},
      {"tensor.splat %c : tensor<4x8xf32>", 128},
      {"tensor.extract %x[%i, %i] : tensor<4x8xf32>", 4},
      {"tensor.gather %x[%t] gather_dims([0]) : (tensor<4x8xf32>, "
       "tensor<3x1xindex>) -> tensor<3x1x8xf32>",
       2 * 96 + 24},
      {"tensor.pad %x low[1, 0] high[0, 0] {\n^bb0(%a: index, %b: index):\n"
       "tensor.yield %c : f32\n} : tensor<4x8xf32> to tensor<5x8xf32>",
       128 + 160}};
  for (auto [op, bytes] : cases) {
    SCOPED_TRACE(op);
    FailureOr<FunctionWork> work =
        count("(%x: tensor<4x8xf32>, %s: tensor<2x8xf32>, %c: f32, %i: index, "
              "%t: tensor<3x1xindex>)",
              "%0 = " + std::string(op) + "\nreturn");
    ASSERT_TRUE(succeeded(work)) << errors;
    EXPECT_EQ(work->unfusedBytes, bytes);
    EXPECT_EQ(work->vectorFlops + work->contractionFlops, 0);
  }
}

TEST_F(FunctionWorkTest, BytesOfElements) {
  auto bytes = [&](StringRef type) {
    return bytesOfTensor(parseType(type, &context));
  };
  EXPECT_EQ(bytes("tensor<3x5xi1>"), 15);
  EXPECT_EQ(bytes("tensor<3x5xf8E4M3FN>"), 15);
  EXPECT_EQ(bytes("tensor<3xindex>"), 24);
  EXPECT_EQ(bytes("tensor<3xcomplex<f32>>"), 24);
  EXPECT_EQ(bytes("tensor<f64>"), 8);
  EXPECT_EQ(bytes("tensor<0x4xf32>"), 0);
  EXPECT_FALSE(bytes("tensor<?xf32>"));
  EXPECT_FALSE(bytes("tensor<*xf32>"));
  EXPECT_FALSE(bytes("memref<3xf32>"));
  EXPECT_FALSE(bytes("f32"));
  EXPECT_FALSE(bytes("tensor<4611686018427387904xf32>"));
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

/// Fused, an argument that no op uses is not read, and a result that is an
/// argument is not written.
TEST_F(FunctionWorkTest, FusedBytesAreThoseOfUsedArgumentsAndResults) {
  EXPECT_WORK(count("(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) "
                    "-> (tensor<8xf32>, tensor<8xf32>)",
                    "%0 = math.exp %x : tensor<8xf32>\n"
                    "%1 = math.exp %0 : tensor<8xf32>\n"
                    "return %1, %y : tensor<8xf32>, tensor<8xf32>"),
              0, 16, 4 * 32, 2 * 32);
}

TEST_F(FunctionWorkTest, FusedBytesAreNotMoreThanUnfused) {
  EXPECT_WORK(count("(%x: tensor<100x8xf32>) -> tensor<8xf32>",
                    "%0 = tensor.extract_slice %x[0, 0] [1, 8] [1, 1] : "
                    "tensor<100x8xf32> to tensor<8xf32>\n"
                    "%1 = math.exp %0 : tensor<8xf32>\n"
                    "return %1 : tensor<8xf32>"),
              0, 8, 64, 64);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

static const char *const kLoop = R"(
  %lower = arith.constant 1 : index
  %upper = arith.constant 12 : index
  %step = arith.constant 3 : index
  %0 = scf.for %i = %lower to %upper step %step iter_args(%a = %x)
      -> tensor<8xf32> {
    %1 = math.exp %a : tensor<8xf32>
    scf.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>)";

TEST_F(FunctionWorkTest, LoopsMultiply) {
  // Runs for 1, 4, 7 and 10.
  FailureOr<FunctionWork> work =
      count("(%x: tensor<8xf32>) -> tensor<8xf32>", kLoop);
  EXPECT_WORK(work, 0, 4 * 8, 4 * 64, 64);
  ASSERT_EQ(work->ops.size(), 1u);
  EXPECT_EQ(work->ops[0].name, "math.exp");
  EXPECT_EQ(work->ops[0].count, 4);
}

TEST_F(FunctionWorkTest, LoopsHaveConstantBounds) {
  EXPECT_TRUE(failed(count("(%n: index)", "%c = arith.constant 1 : index\n"
                                          "scf.for %i = %c to %n step %c {\n"
                                          "}\nreturn")));
  EXPECT_EQ(errors, "'scf.for' op has bounds or a step that are not constant, "
                    "so that the number of its runs is not known\n");
}

static std::string branch(const std::string &otherwise) {
  return "%0 = scf.if %c -> tensor<8xf32> {\n"
         "  %1 = math.exp %x : tensor<8xf32>\n"
         "  scf.yield %1 : tensor<8xf32>\n"
         "} else {\n" +
         otherwise + "}\nreturn %0 : tensor<8xf32>";
}

TEST_F(FunctionWorkTest, BranchesTakeTheLargerSide) {
  const std::string signature = "(%c: i1, %x: tensor<8xf32>) -> tensor<8xf32>";
  EXPECT_WORK(count(signature, branch("scf.yield %x : tensor<8xf32>\n")), 0, 8,
              64, 64);
  EXPECT_WORK(count(signature, branch("%2 = math.fma %x, %x, %x : "
                                      "tensor<8xf32>\n"
                                      "scf.yield %2 : tensor<8xf32>\n")),
              0, 16, 128, 64);
}

TEST_F(FunctionWorkTest, CallsAreFollowed) {
  FailureOr<FunctionWork> work = count(R"(
    func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = call @once(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = call @once(%0) : (tensor<8xf32>) -> tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    func.func @once(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = math.exp %x : tensor<8xf32>
      return %0 : tensor<8xf32>
    })");
  EXPECT_WORK(work, 0, 16, 128, 64);
  ASSERT_EQ(work->ops.size(), 1u);
  EXPECT_EQ(work->ops[0].count, 2);
}

TEST_F(FunctionWorkTest, RefusesRecursion) {
  EXPECT_TRUE(
      failed(count("func.func @a() {\ncall @b() : () -> ()\nreturn\n}\n"
                   "func.func @b() {\ncall @a() : () -> ()\nreturn\n}\n")));
  EXPECT_THAT(errors, HasSubstr("'func.call' op calls @a again before it has "
                                "returned"));
  EXPECT_THAT(errors, HasSubstr("note: called from here"));
}

TEST_F(FunctionWorkTest, RefusesFunctionsWithoutBody) {
  EXPECT_TRUE(failed(count("func.func @a() {\ncall @b() : () -> ()\nreturn\n}\n"
                           "func.func private @b()\n")));
  EXPECT_THAT(errors, HasSubstr("calls @b, which has no body to count"));
}

TEST_F(FunctionWorkTest, RefusesDynamicShapes) {
  EXPECT_TRUE(failed(count("(%x: tensor<?xf32>) -> tensor<?xf32>",
                           "%0 = math.exp %x : tensor<?xf32>\n"
                           "return %0 : tensor<?xf32>")));
  EXPECT_EQ(errors, "'math.exp' op operand #0 has type 'tensor<?xf32>', whose "
                    "FLOPs and bytes are unknown; costs need ranked tensors of "
                    "static shape, so give the sizes\n");
}

TEST_F(FunctionWorkTest, RefusesWorkOver64Bits) {
  const std::string type = "tensor<2147483648x2147483648xi8>";
  EXPECT_TRUE(failed(count("(%x: " + type + ", %y: " + type + ")",
                           "%0 = arith.addi %x, %y : " + type + "\nreturn")));
  EXPECT_THAT(errors, HasSubstr("'arith.addi' op has over 2^63 - 1 flops or "
                                "bytes"));
}
