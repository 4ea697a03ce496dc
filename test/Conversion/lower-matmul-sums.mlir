// RUN: pipesched-opt %s --lower-matmuls --canonicalize --cse --split-input-file | FileCheck %s
// RUN: pipesched-opt %s --lower-matmuls=only-sums --canonicalize --cse --split-input-file \
// RUN:   | FileCheck %s --check-prefixes=CHECK,ONLY
// RUN: pipesched-opt %s --lower-matmuls=to=loops --split-input-file | FileCheck %s --check-prefix=LOOPS

// A bias is added to two sequences: the call begins with zeros, adds the row,
// whose rows are 0 apart, and writes the result. A product to which nothing is
// added is left by `only-sums`.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME:    %[[BIAS:[a-z0-9]*]]: memref<48xf32>, %[[Y:[a-z0-9]*]]: memref<2x16x48xf32>
// CHECK-DAG:     %[[I0:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[I1:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[I32:.*]] = arith.constant 32 : i64
// CHECK-DAG:     %[[I48:.*]] = arith.constant 48 : i64
// CHECK-DAG:     %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK-NOT:     memref.alloc
// CHECK-DAG:     %[[AT_Y:.*]] = memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK-DAG:     %[[Y_I64:.*]] = arith.index_cast %[[AT_Y]]
// CHECK-DAG:     %[[TO:.*]] = llvm.inttoptr %[[Y_I64]]
// CHECK-DAG:     %[[AT_BIAS:.*]] = memref.extract_aligned_pointer_as_index %[[BIAS]]
// CHECK-DAG:     %[[BIAS_I64:.*]] = arith.index_cast %[[AT_BIAS]]
// CHECK-DAG:     %[[ROW:.*]] = llvm.inttoptr %[[BIAS_I64]]
// CHECK:         call @pipesched_rt_matmul(%{{[^,]*}}, %[[I32]], %[[I48]],
// CHECK-SAME:      %[[TO]], %[[I48]], %[[I1]], %[[NULL]], %[[I0]], %[[I0]], %[[ROW]], %[[I0]], %[[I1]], %[[NULL]])
// ONLY-NOT:      call
// CHECK:         return
// LOOPS-LABEL: func.func @bias(
// LOOPS:         math.fma
// LOOPS:         arith.addf
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#w = affine_map<(b, m, n, k) -> (k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (n)>
func.func @bias(%x: memref<2x16x16xf32> {llvm.noalias}, %w: memref<16x48xf32> {llvm.noalias}, %bias: memref<48xf32>,
                %y: memref<2x16x48xf32> {llvm.noalias}, %z: memref<16x16xf32> {llvm.noalias}) {
  %zero = arith.constant 0.0 : f32
  %flat = memref.alloc() : memref<32x48xf32>
  %p = memref.expand_shape %flat [[0, 1], [2]] output_shape [2, 16, 48] : memref<32x48xf32> into memref<2x16x48xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<2x16x48xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<2x16x16xf32>, memref<16x48xf32>) outs(%p : memref<2x16x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %c, %d : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%bias, %p : memref<48xf32>, memref<2x16x48xf32>) outs(%y : memref<2x16x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.addf %a, %b : f32
    linalg.yield %d : f32
  }
  memref.dealloc %flat : memref<32x48xf32>
  %z0 = memref.subview %x[0, 0, 0] [1, 16, 16] [1, 1, 1] : memref<2x16x16xf32> to memref<16x16xf32, strided<[16, 1]>>
  linalg.matmul ins(%z0, %z0 : memref<16x16xf32, strided<[16, 1]>>, memref<16x16xf32, strided<[16, 1]>>)
      outs(%z : memref<16x16xf32>)
  return
}

// -----

// The other summand is a part of the result; the product is read once more; the result is an input; what is in
// between writes the other summand; another op; another start.
// CHECK-LABEL: func.func @others(
// ONLY-NOT:      call
// CHECK:         arith.addf
// ONLY-NOT:      call
// CHECK:         linalg.add
// ONLY-NOT:      call
// CHECK:         linalg.add
// ONLY-NOT:      call
// CHECK:         linalg.add
// ONLY-NOT:      call
// CHECK:         linalg.sub
// ONLY-NOT:      call
// CHECK:         linalg.add
// ONLY-NOT:      call
// CHECK:         return
func.func @others(%x: memref<16x16xf32> {llvm.noalias}, %r: memref<16x16xf32> {llvm.noalias},
                  %y: memref<16x16xf32> {llvm.noalias}, %z: memref<16x16xf32> {llvm.noalias}) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %p = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<16x16xf32>)
  linalg.matmul ins(%x, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%p : memref<16x16xf32>)
  %column = memref.subview %r[0, 0] [1, 16] [1, 1] : memref<16x16xf32> to memref<16xf32, strided<[1]>>
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%p, %column : memref<16x16xf32>, memref<16xf32, strided<[1]>>) outs(%r : memref<16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.addf %a, %b : f32
    linalg.yield %d : f32
  }
  %q = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%q : memref<16x16xf32>)
  linalg.matmul ins(%x, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%q : memref<16x16xf32>)
  linalg.add ins(%q, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%y : memref<16x16xf32>)
  linalg.copy ins(%q : memref<16x16xf32>) outs(%z : memref<16x16xf32>)
  %s = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<16x16xf32>)
  linalg.matmul ins(%x, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%s : memref<16x16xf32>)
  linalg.add ins(%s, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%x : memref<16x16xf32>)
  %t = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%t : memref<16x16xf32>)
  linalg.matmul ins(%x, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%t : memref<16x16xf32>)
  linalg.fill ins(%one : f32) outs(%r : memref<16x16xf32>)
  linalg.add ins(%t, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%y : memref<16x16xf32>)
  %u = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%u : memref<16x16xf32>)
  linalg.matmul ins(%x, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%u : memref<16x16xf32>)
  linalg.sub ins(%u, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%y : memref<16x16xf32>)
  %v = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%one : f32) outs(%v : memref<16x16xf32>)
  linalg.matmul ins(%x, %x : memref<16x16xf32>, memref<16x16xf32>) outs(%v : memref<16x16xf32>)
  linalg.add ins(%v, %r : memref<16x16xf32>, memref<16x16xf32>) outs(%y : memref<16x16xf32>)
  return
}

// -----

// A gradient is added to what there is: the call is where the product was, in
// front of what needs its memory, and has the product's memory for parts of it.
// Both reductions, over sequences and their tokens, are one.
// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:    %[[G:[a-z0-9]*]]: memref<16x48xf32> {llvm.noalias})
// CHECK-DAG:     %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr
// CHECK-DAG:     %[[I0:.*]] = arith.constant 0 : i64
// CHECK-DAG:     %[[I1:.*]] = arith.constant 1 : i64
// CHECK-DAG:     %[[I48:.*]] = arith.constant 48 : i64
// CHECK-DAG:     %[[P:.*]] = memref.alloc() : memref<16x48xf32>
// CHECK-DAG:     %[[AT_G:.*]] = memref.extract_aligned_pointer_as_index %[[G]]
// CHECK-DAG:     %[[G_I64:.*]] = arith.index_cast %[[AT_G]]
// CHECK-DAG:     %[[TO:.*]] = llvm.inttoptr %[[G_I64]]
// CHECK-DAG:     %[[AT_P:.*]] = memref.extract_aligned_pointer_as_index %[[P]]
// CHECK-DAG:     %[[P_I64:.*]] = arith.index_cast %[[AT_P]]
// CHECK-DAG:     %[[PARTS:.*]] = llvm.inttoptr %[[P_I64]]
// CHECK:         call @pipesched_rt_matmul({{.*}}, %[[TO]], %[[I48]], %[[I1]], %[[NULL]], %[[I0]], %[[I0]],
// CHECK-SAME:      %[[TO]], %[[I48]], %[[I1]], %[[PARTS]])
// CHECK-NEXT:    linalg.fill
// CHECK-NOT:     linalg.add
// CHECK:         return
#x = affine_map<(m, n, b, k) -> (b, k, m)>
#y = affine_map<(m, n, b, k) -> (b, k, n)>
#g = affine_map<(m, n, b, k) -> (m, n)>
func.func @gradient(%x: memref<2x16x16xf32> {llvm.noalias}, %y: memref<2x16x48xf32> {llvm.noalias},
                    %g: memref<16x48xf32> {llvm.noalias}) {
  %zero = arith.constant 0.0 : f32
  %p = memref.alloc() : memref<16x48xf32>
  linalg.fill ins(%zero : f32) outs(%p : memref<16x48xf32>)
  linalg.generic {indexing_maps = [#x, #y, #g], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %y : memref<2x16x16xf32>, memref<2x16x48xf32>) outs(%p : memref<16x48xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    %e = arith.addf %c, %d : f32
    linalg.yield %e : f32
  }
  linalg.fill ins(%zero : f32) outs(%x : memref<2x16x16xf32>)
  linalg.add ins(%g, %p : memref<16x48xf32>, memref<16x48xf32>) outs(%g : memref<16x48xf32>)
  memref.dealloc %p : memref<16x48xf32>
  return
}
