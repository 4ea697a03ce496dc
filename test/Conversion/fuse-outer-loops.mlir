// RUN: pipesched-opt %s --fuse-outer-loops --canonicalize --split-input-file | FileCheck %s

// The steps of a softmax of each head, in front of them a product of both its
// matrices: one loop over heads, and in it one over rows. Temporaries shrink to
// what a head or a row needs, behind a reshape too.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME:    %[[Q:[^:]*]]: memref<2x128x64xf32>
// CHECK-DAG:     %[[SCORES:.*]] = memref.alloc() {alignment = 64 : i64} : memref<128x128xf32>
// CHECK-DAG:     %[[SUM:.*]] = memref.alloc() : memref<f32>
// CHECK-DAG:     %[[EXP:.*]] = memref.alloc() : memref<128xf32>
// CHECK:         scf.for %[[HEAD:.*]] =
// CHECK-DAG:       linalg.fill ins(%{{.*}} : f32) outs(%[[SCORES]] : memref<128x128xf32>)
// CHECK-DAG:       %[[Q1:.*]] = memref.subview %[[Q]][%[[HEAD]], 0, 0]
// CHECK:           linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[Q1]],
// CHECK-SAME:        outs(%[[SCORES]] :
// CHECK:           scf.for %[[ROW:.*]] =
// CHECK:             linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK-NEXT:        ^bb0
// CHECK-NEXT:          %[[COLUMN:.*]] = linalg.index 0
// CHECK-NEXT:          arith.cmpi ule, %[[COLUMN]], %[[ROW]]
// CHECK:               math.exp
// CHECK:             outs(%[[SUM]] : memref<f32>)
// CHECK:             linalg.generic {{.*}}iterator_types = ["reduction"]
// CHECK:             linalg.generic {{.*}}iterator_types = ["parallel"]
// CHECK:               arith.divf
// CHECK:         memref.dealloc %[[SCORES]]
// CHECK-NOT:     linalg
// CHECK:         return
#q = affine_map<(h, m, n, k) -> (h, m, k)>
#k = affine_map<(h, m, n, k) -> (h, n, k)>
#s = affine_map<(h, m, n, k) -> (h, m, n)>
#all = affine_map<(h, m, n) -> (h, m, n)>
#rows = affine_map<(h, m, n) -> (h, m)>
func.func @attention(%q: memref<2x128x64xf32> {llvm.noalias}, %k: memref<2x128x64xf32> {llvm.noalias},
                     %y: memref<2x128x128xf32> {llvm.noalias}) {
  %zero = arith.constant 0.0 : f32
  %flat = memref.alloc() {alignment = 64 : i64} : memref<256x128xf32>
  %scores = memref.expand_shape %flat [[0, 1], [2]] output_shape [2, 128, 128]
      : memref<256x128xf32> into memref<2x128x128xf32>
  linalg.fill ins(%zero : f32) outs(%scores : memref<2x128x128xf32>)
  linalg.generic {indexing_maps = [#q, #k, #s],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : memref<2x128x64xf32>, memref<2x128x64xf32>) outs(%scores : memref<2x128x128xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %d = arith.addf %c, %p : f32
    linalg.yield %d : f32
  }
  %exp = memref.alloc() : memref<2x128x128xf32>
  linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%scores : memref<2x128x128xf32>) outs(%exp : memref<2x128x128xf32>) {
  ^bb0(%a: f32, %b: f32):
    %column = linalg.index 2 : index
    %row = linalg.index 1 : index
    %seen = arith.cmpi ule, %column, %row : index
    %e = math.exp %a : f32
    %f = arith.select %seen, %e, %zero : f32
    linalg.yield %f : f32
  }
  memref.dealloc %flat : memref<256x128xf32>
  %sum = memref.alloc() : memref<2x128xf32>
  linalg.fill ins(%zero : f32) outs(%sum : memref<2x128xf32>)
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%exp : memref<2x128x128xf32>) outs(%sum : memref<2x128xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  linalg.generic {indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%exp, %sum : memref<2x128x128xf32>, memref<2x128xf32>) outs(%y : memref<2x128x128xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  }
  memref.dealloc %exp : memref<2x128x128xf32>
  memref.dealloc %sum : memref<2x128xf32>
  return
}

// -----

// An op that has nothing to do with those around it stays in front of the loop.
// A temporary that is used behind it keeps its size.
// CHECK-LABEL: func.func @between(
// CHECK:         %[[T:.*]] = memref.alloc() : memref<64x256xf32>
// CHECK:         linalg.fill {{.*}} outs(%arg2 : memref<7xf32>)
// CHECK:         scf.for %[[I:.*]] =
// CHECK:           %[[SLICE:.*]] = memref.subview %[[T]][%[[I]], 0]
// CHECK:           linalg.generic {{.*}} outs(%[[SLICE]] :
// CHECK:           linalg.generic {{.*}} ins(%[[SLICE]],
// CHECK:         linalg.transpose ins(%[[T]]
// CHECK:         memref.dealloc %[[T]]
func.func @between(%x: memref<64x256xf32> {llvm.noalias}, %y: memref<64x256xf32> {llvm.noalias},
                   %z: memref<7xf32> {llvm.noalias}, %w: memref<256x64xf32> {llvm.noalias}) {
  %zero = arith.constant 0.0 : f32
  %t = memref.alloc() : memref<64x256xf32>
  linalg.add ins(%x, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%t : memref<64x256xf32>)
  linalg.fill ins(%zero : f32) outs(%z : memref<7xf32>)
  linalg.mul ins(%t, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%y : memref<64x256xf32>)
  linalg.transpose ins(%t : memref<64x256xf32>) outs(%w : memref<256x64xf32>) permutation = [1, 0]
  memref.dealloc %t : memref<64x256xf32>
  return
}

// -----

// Rows that need columns, and the other way.
// CHECK-LABEL: func.func @transposed(
// CHECK-NOT:     scf.for
func.func @transposed(%x: memref<128x128xf32> {llvm.noalias}, %y: memref<128x128xf32> {llvm.noalias}) {
  %t = memref.alloc() : memref<128x128xf32>
  linalg.add ins(%x, %x : memref<128x128xf32>, memref<128x128xf32>) outs(%t : memref<128x128xf32>)
  linalg.transpose ins(%t : memref<128x128xf32>) outs(%y : memref<128x128xf32>) permutation = [1, 0]
  memref.dealloc %t : memref<128x128xf32>
  return
}

// -----

// The sum over rows is there only behind the last of them.
// CHECK-LABEL: func.func @sum_of_rows(
// CHECK-NOT:     scf.for
#all = affine_map<(m, n) -> (m, n)>
#columns = affine_map<(m, n) -> (n)>
func.func @sum_of_rows(%x: memref<64x256xf32> {llvm.noalias}, %y: memref<64x256xf32> {llvm.noalias},
                       %s: memref<256xf32> {llvm.noalias}) {
  linalg.generic {indexing_maps = [#all, #columns], iterator_types = ["reduction", "parallel"]}
      ins(%x : memref<64x256xf32>) outs(%s : memref<256xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  }
  linalg.generic {indexing_maps = [#all, #columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : memref<64x256xf32>, memref<256xf32>) outs(%y : memref<64x256xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  }
  return
}

// -----

// A product whose second matrix all rows need stays whole.
// CHECK-LABEL: func.func @product(
// CHECK-NOT:     scf.for
func.func @product(%x: memref<64x256xf32> {llvm.noalias}, %w: memref<256x256xf32> {llvm.noalias},
                   %y: memref<64x256xf32> {llvm.noalias}) {
  %t = memref.alloc() : memref<64x256xf32>
  linalg.matmul ins(%x, %w : memref<64x256xf32>, memref<256x256xf32>) outs(%t : memref<64x256xf32>)
  linalg.add ins(%t, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%y : memref<64x256xf32>)
  memref.dealloc %t : memref<64x256xf32>
  return
}

// -----

// Arguments may be one memory.
// CHECK-LABEL: func.func @arguments(
// CHECK-NOT:     scf.for
func.func @arguments(%x: memref<64x256xf32>, %y: memref<64x256xf32>) {
  linalg.add ins(%x, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%y : memref<64x256xf32>)
  linalg.mul ins(%x, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%y : memref<64x256xf32>)
  return
}

// -----

// Slices of another shape of the same memory could be others.
// CHECK-LABEL: func.func @reshaped(
// CHECK-NOT:     scf.for
func.func @reshaped(%x: memref<64x256xf32> {llvm.noalias}, %y: memref<64x16x16xf32> {llvm.noalias}) {
  %t = memref.alloc() : memref<64x256xf32>
  linalg.add ins(%x, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%t : memref<64x256xf32>)
  %u = memref.expand_shape %t [[0], [1, 2]] output_shape [64, 16, 16]
      : memref<64x256xf32> into memref<64x16x16xf32>
  linalg.exp ins(%u : memref<64x16x16xf32>) outs(%y : memref<64x16x16xf32>)
  memref.dealloc %t : memref<64x256xf32>
  return
}

// -----

// A body loads what it wants.
// CHECK-LABEL: func.func @lookup(
// CHECK-NOT:     scf.for
#all = affine_map<(m, n) -> (m, n)>
func.func @lookup(%x: memref<64x256xf32> {llvm.noalias}, %y: memref<64x256xf32> {llvm.noalias},
                  %i: memref<64x256xindex> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %t = memref.alloc() : memref<64x256xf32>
  linalg.add ins(%x, %x : memref<64x256xf32>, memref<64x256xf32>) outs(%t : memref<64x256xf32>)
  linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%i, %x : memref<64x256xindex>, memref<64x256xf32>) outs(%y : memref<64x256xf32>) {
  ^bb0(%at: index, %a: f32, %b: f32):
    %c = memref.load %t[%at, %c0] : memref<64x256xf32>
    linalg.yield %c : f32
  }
  memref.dealloc %t : memref<64x256xf32>
  return
}

// -----

// So few elements, or so short rows, that a loop would not pay.
// CHECK-LABEL: func.func @small(
// CHECK-NOT:     scf.for
func.func @small(%x: memref<31x256xf32> {llvm.noalias}, %y: memref<31x256xf32> {llvm.noalias},
                 %u: memref<512x64xf32> {llvm.noalias}, %v: memref<512x64xf32> {llvm.noalias}) {
  linalg.add ins(%x, %x : memref<31x256xf32>, memref<31x256xf32>) outs(%y : memref<31x256xf32>)
  linalg.exp ins(%y : memref<31x256xf32>) outs(%y : memref<31x256xf32>)
  linalg.add ins(%u, %u : memref<512x64xf32>, memref<512x64xf32>) outs(%v : memref<512x64xf32>)
  linalg.exp ins(%v : memref<512x64xf32>) outs(%v : memref<512x64xf32>)
  return
}
