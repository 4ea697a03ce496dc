// RUN: pipesched-opt %s --call-blas --canonicalize | FileCheck %s

// Rows and columns of the call are those of memory: no matrix is copied.
// CHECK-LABEL: func.func @transposed(
// CHECK-NOT:     alloc
// CHECK:         call @pipesched_rt_matmul(%c1_i32, %c32_i64, %c48_i64, %c16_i64, %{{.*}}, %c1_i64, %c32_i64, %{{.*}}, %c1_i64, %c16_i64, %{{.*}}, %c48_i64, %c1_i64)
func.func @transposed(%a: memref<16x32xf64>, %b: memref<48x16xf64>, %c: memref<32x48xf64>) {
  linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>,
                                 affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<16x32xf64>, memref<48x16xf64>) outs(%c : memref<32x48xf64>)
  return
}

// Two dimensions of rows are one; a part of a larger matrix has its stride.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT:     alloc
// CHECK:         %[[W:.*]] = memref.extract_aligned_pointer_as_index %{{.*}} strided<[100, 1], offset: 7>>
// CHECK-NEXT:    arith.addi %[[W]], %c28
// CHECK-NOT:     scf.for
// CHECK:         call @pipesched_rt_matmul(%c0_i32, %c16_i64, %c24_i64, %c16_i64, %{{.*}}, %c16_i64, %c1_i64, %{{.*}}, %c100_i64, %c1_i64, %{{.*}}, %c24_i64, %c1_i64)
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#w = affine_map<(b, m, n, k) -> (k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @rows(%x: memref<2x8x16xf32>, %w: memref<16x24xf32, strided<[100, 1], offset: 7>>,
                %y: memref<2x8x24xf32>) {
  linalg.generic {indexing_maps = [#x, #w, #y],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<2x8x16xf32>, memref<16x24xf32, strided<[100, 1], offset: 7>>)
      outs(%y : memref<2x8x24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %b, %a : f32
    %s = arith.addf %p, %c : f32
    linalg.yield %s : f32
  }
  return
}

// A product with a vector, in a loop over the batch.
// CHECK-LABEL: func.func @batch(
// CHECK:         scf.for %[[I:.*]] = %c0 to %c4 step %c1 {
// CHECK:           arith.muli %[[I]], %c32768
// CHECK:           call @pipesched_rt_matmul(%c0_i32, %c128_i64, %c1_i64, %c64_i64, %{{.*}}, %c64_i64, %c1_i64, %{{.*}}, %c1_i64, %c1_i64, %{{.*}}, %c1_i64, %c1_i64)
func.func @batch(%a: memref<4x128x64xf32>, %b: memref<4x64xf32>, %c: memref<4x128xf32>) {
  linalg.batch_matvec ins(%a, %b : memref<4x128x64xf32>, memref<4x64xf32>) outs(%c : memref<4x128xf32>)
  return
}

// Summands that do not follow each other, and results in a column of columns.
// CHECK-LABEL: func.func @copies(
// CHECK-SAME:    %[[Q:[^:]*]]: memref<4x32x8xf32>, %[[W:[^:]*]]: memref<4x8x16xf32>, %[[Y:[^:]*]]:
// CHECK:         linalg.generic {{.*}} ins(%[[Q]] : memref<4x32x8xf32>) outs(%[[ROWS:.*]] : memref<32x4x8xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[Y]] : {{.*}}) outs(%[[SUMS:.*]] : memref<32x16xf32>)
// CHECK:         memref.extract_aligned_pointer_as_index %[[ROWS]]
// CHECK:         memref.extract_aligned_pointer_as_index %[[W]]
// CHECK:         memref.extract_aligned_pointer_as_index %[[SUMS]]
// CHECK:         call @pipesched_rt_matmul(%c0_i32, %c32_i64, %c16_i64, %c32_i64,
// CHECK:         linalg.generic {{.*}} ins(%[[SUMS]] : memref<32x16xf32>) outs(%[[Y]] :
// CHECK:         memref.dealloc %[[ROWS]]
// CHECK:         memref.dealloc %[[SUMS]]
#heads = affine_map<(m, n, h, d) -> (h, m, d)>
#weights = affine_map<(m, n, h, d) -> (h, d, n)>
#sums = affine_map<(m, n, h, d) -> (m, n)>
func.func @copies(%q: memref<4x32x8xf32>, %w: memref<4x8x16xf32>, %y: memref<32x16xf32, strided<[64, 2]>>) {
  linalg.generic {indexing_maps = [#heads, #weights, #sums],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%q, %w : memref<4x32x8xf32>, memref<4x8x16xf32>) outs(%y : memref<32x16xf32, strided<[64, 2]>>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// What lower-stage-ops makes of bf16: elements become f32, and sums are.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME:    %[[X:[^:]*]]: memref<32x16xbf16>
// CHECK:         linalg.generic {{.*}} ins(%[[X]] : memref<32x16xbf16>) outs(%[[WIDE:.*]] : memref<32x16xf32>)
// CHECK:           arith.extf
// CHECK:         call @pipesched_rt_matmul(%c0_i32, %c32_i64, %c24_i64, %c16_i64,
// CHECK:         memref.dealloc %[[WIDE]]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @narrow(%x: memref<32x16xbf16>, %w: memref<16x24xf32>, %y: memref<32x24xf32>) {
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<32x16xbf16>, memref<16x24xf32>) outs(%y : memref<32x24xf32>) {
  ^bb0(%in: bf16, %b: f32, %c: f32):
    %a = arith.extf %in : bf16 to f32
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  }
  return
}

// Integers, small products, single numbers and other sums stay.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     call
// CHECK:         return
func.func @others(%i: memref<32x32xi32>, %f: memref<8x8xf32>, %v: memref<8192xf32>, %s: memref<f32>,
                  %x: memref<32x16xf32>, %w: memref<16x24xf32>, %y: memref<32x24xf32>) {
  linalg.matmul ins(%i, %i : memref<32x32xi32>, memref<32x32xi32>) outs(%i : memref<32x32xi32>)
  linalg.matmul ins(%f, %f : memref<8x8xf32>, memref<8x8xf32>) outs(%f : memref<8x8xf32>)
  linalg.dot ins(%v, %v : memref<8192xf32>, memref<8192xf32>) outs(%s : memref<f32>)
  linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<32x16xf32>, memref<16x24xf32>) outs(%y : memref<32x24xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %e = math.exp %p : f32
    %t = arith.addf %c, %e : f32
    linalg.yield %t : f32
  }
  return
}
