// RUN: pipesched-opt %s --lower-matmuls --canonicalize --cse | FileCheck %s
// RUN: pipesched-opt %s --lower-matmuls=to=loops | FileCheck %s --check-prefix=LOOPS

// The second matrix is transposed: its rows are 1 apart.
// CHECK-LABEL: func.func @transposed(
// CHECK-SAME:    %[[A:.*]]: memref<32x16xf32>, %[[B:.*]]: memref<48x16xf32>, %[[C:.*]]: memref<32x48xf32>)
// CHECK-DAG:     %[[TYPE:.*]] = arith.constant 0 : i32
// CHECK-DAG:     %[[I1:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[I16:.*]] = arith.constant 16 : i64
// CHECK-DAG:     %[[I32:.*]] = arith.constant 32 : i64
// CHECK-DAG:     %[[I48:.*]] = arith.constant 48 : i64
// CHECK-DAG:     %[[I0:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK:         call @pipesched_rt_matmul(%[[TYPE]], %[[I32]], %[[I48]], %[[I16]],
// CHECK-SAME:      %{{[^,]*}}, %[[I16]], %[[I1]], %{{[^,]*}}, %[[I1]], %[[I16]], %[[AT:[^,]*]], %[[I48]], %[[I1]],
// CHECK-SAME:      %[[AT]], %[[I48]], %[[I1]], %[[NULL]], %[[I0]], %[[I0]], %[[NULL]])
// LOOPS-LABEL: func.func @transposed(
// LOOPS:         math.fma
func.func @transposed(%a: memref<32x16xf32>, %b: memref<48x16xf32>, %c: memref<32x48xf32>) {
  linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                                 affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<32x16xf32>, memref<48x16xf32>) outs(%c : memref<32x48xf32>)
  return
}

// One call for each matrix of a batch, of f64.
// CHECK-LABEL: func.func @batch(
// CHECK-DAG:     %[[TYPE:.*]] = arith.constant 1 : i32
// CHECK-DAG:     %[[I16:.*]] = arith.constant 16 : i64
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK:         scf.for %{{.*}} = %{{.*}} to %[[C3]]
// CHECK:           call @pipesched_rt_matmul(%[[TYPE]], %[[I16]], %[[I16]], %[[I16]],
func.func @batch(%a: memref<3x16x16xf64>, %b: memref<3x16x16xf64>, %c: memref<3x16x16xf64>) {
  linalg.batch_matmul ins(%a, %b : memref<3x16x16xf64>, memref<3x16x16xf64>) outs(%c : memref<3x16x16xf64>)
  return
}

// Rows of a batch that all multiply by the same matrix are rows of one.
// CHECK-LABEL: func.func @collapsed(
// CHECK-DAG:     %[[I48:.*]] = arith.constant 48 : i64
// CHECK-DAG:     %[[I16:.*]] = arith.constant 16 : i64
// CHECK-NOT:     scf.for
// CHECK:         call @pipesched_rt_matmul(%{{.*}}, %[[I48]], %[[I16]], %[[I16]],
func.func @collapsed(%a: memref<3x16x16xf32>, %b: memref<16x16xf32>, %c: memref<3x16x16xf32>) {
  linalg.generic {
      indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>,
                       affine_map<(b, m, n, k) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<3x16x16xf32>, memref<16x16xf32>) outs(%c : memref<3x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  return
}

// A part of a larger matrix, at a place that is not known.
// CHECK-LABEL: func.func @part(
// CHECK-SAME:    %{{.*}}, %[[OFFSET:[a-z0-9]*]]: index)
// CHECK:         call @pipesched_rt_matmul(
func.func @part(%all: memref<64x64xf32>, %b: memref<16x16xf32>, %c: memref<16x16xf32>, %offset: index) {
  %a = memref.subview %all[%offset, 8] [16, 16] [1, 2] : memref<64x64xf32> to memref<16x16xf32, strided<[64, 2], offset: ?>>
  linalg.matmul ins(%a, %b : memref<16x16xf32, strided<[64, 2], offset: ?>>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)
  return
}

// Left alone: too small, a vector, integers, another body, another sum.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     call
// CHECK:         return
// LOOPS-LABEL: func.func @others(
// LOOPS-NOT:     math.fma
func.func @others(%small: memref<15x16xf32>, %a: memref<64x64xf32>, %v: memref<64xf32>, %w: memref<64xf32>,
                  %i: memref<64x64xi32>, %square: memref<16x16xf32>, %c: memref<15x16xf32>) {
  linalg.matmul ins(%small, %square : memref<15x16xf32>, memref<16x16xf32>) outs(%c : memref<15x16xf32>)
  linalg.matvec ins(%a, %v : memref<64x64xf32>, memref<64xf32>) outs(%w : memref<64xf32>)
  linalg.matmul ins(%i, %i : memref<64x64xi32>, memref<64x64xi32>) outs(%i : memref<64x64xi32>)
  linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %a : memref<64x64xf32>, memref<64x64xf32>) outs(%a : memref<64x64xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %x : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %a : memref<64x64xf32>, memref<64x64xf32>) outs(%a : memref<64x64xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.maximumf %z, %p : f32
    linalg.yield %s : f32
  }
  return
}

// A product that begins with zeros does not write them. The fill may be of the
// same elements in another shape, and others may be used in between.
memref.global constant @table : memref<16x16xf32> = dense<1.0>
// CHECK-LABEL: func.func @zeros(
// CHECK-DAG:     %[[I0:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK-NOT:     linalg.fill
// CHECK:         call @pipesched_rt_matmul({{.*}}, %[[NULL]], %[[I0]], %[[I0]], %[[NULL]], %[[I0]], %[[I0]], %[[NULL]])
// LOOPS-LABEL: func.func @zeros(
// LOOPS:         linalg.fill
func.func @zeros(%a: memref<16x16xf32>, %c: memref<2x8x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %other = memref.alloc() : memref<16x16xf32>
  %table = memref.get_global @table : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%c : memref<2x8x16xf32>)
  linalg.transpose ins(%table : memref<16x16xf32>) outs(%other : memref<16x16xf32>) permutation = [1, 0]
  %rows = memref.collapse_shape %c [[0, 1], [2]] : memref<2x8x16xf32> into memref<16x16xf32>
  linalg.matmul ins(%a, %other : memref<16x16xf32>, memref<16x16xf32>) outs(%rows : memref<16x16xf32>)
  memref.dealloc %other : memref<16x16xf32>
  return
}

// The fill stays: it is read in between, or maybe, is of a part, of other
// numbers, or of several products of a loop over summands.
// CHECK-LABEL: func.func @written(
// CHECK-COUNT-6: linalg.fill
// CHECK:         return
func.func @written(%a: memref<16x16xf32>, %heads: memref<4x16x16xf32>, %c: memref<16x16xf32>, %d: memref<16x16xf32>,
                   %larger: memref<32x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant -0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<16x16xf32>)
  linalg.copy ins(%c : memref<16x16xf32>) outs(%d : memref<16x16xf32>)
  linalg.matmul ins(%a, %a : memref<16x16xf32>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)

  linalg.fill ins(%zero : f32) outs(%c : memref<16x16xf32>)
  linalg.copy ins(%a : memref<16x16xf32>) outs(%d : memref<16x16xf32>)
  linalg.matmul ins(%a, %a : memref<16x16xf32>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)

  linalg.fill ins(%zero : f32) outs(%c : memref<16x16xf32>)
  func.call @anything() : () -> ()
  linalg.matmul ins(%a, %a : memref<16x16xf32>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)

  linalg.fill ins(%zero : f32) outs(%larger : memref<32x16xf32>)
  %part = memref.subview %larger[0, 0] [16, 16] [1, 1] : memref<32x16xf32> to memref<16x16xf32, strided<[16, 1]>>
  linalg.matmul ins(%a, %a : memref<16x16xf32>, memref<16x16xf32>) outs(%part : memref<16x16xf32, strided<[16, 1]>>)

  linalg.fill ins(%minus : f32) outs(%c : memref<16x16xf32>)
  linalg.matmul ins(%a, %a : memref<16x16xf32>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)

  linalg.fill ins(%zero : f32) outs(%c : memref<16x16xf32>)
  linalg.generic {
      indexing_maps = [affine_map<(m, n, h, k) -> (h, m, k)>, affine_map<(m, n, h, k) -> (h, k, n)>,
                       affine_map<(m, n, h, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%heads, %heads : memref<4x16x16xf32>, memref<4x16x16xf32>) outs(%c : memref<16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  return
}
func.func private @anything()
