// RUN: pipesched-opt %s --vectorize-row-reductions --canonicalize | FileCheck %s

// The sum of squares of rows, less their mean: a mean is the same in all lanes,
// and what remains of a row is added at the end, then what was there.
// CHECK-LABEL: func.func @variance(
// CHECK-SAME:    %[[X:.*]]: memref<8x70xf32>, %[[MEAN:.*]]: memref<8xf32>, %[[Y:.*]]: memref<8xf32>)
// CHECK-DAG:     %[[C64:.*]] = arith.constant 64 : index
// CHECK-DAG:     %[[C70:.*]] = arith.constant 70 : index
// CHECK:         scf.for %[[ROW:.*]] =
// CHECK:           vector.load %[[X]][%[[ROW]], %{{.*}}] : memref<8x70xf32>, vector<32xf32>
// CHECK:           %[[M:.*]] = memref.load %[[MEAN]][%[[ROW]]]
// CHECK:           vector.broadcast %[[M]] : f32 to vector<32xf32>
// CHECK:           arith.subf %{{.*}} : vector<32xf32>
// CHECK:           arith.mulf %{{.*}} : vector<32xf32>
// CHECK:           arith.addf %{{.*}} : vector<32xf32>
// CHECK:           arith.addf %{{.*}} : vector<16xf32>
// CHECK:           arith.addf %{{.*}} : vector<1xf32>
// CHECK:           %[[SUM:.*]] = scf.for %{{.*}} = %[[C64]] to %[[C70]]
// CHECK:             arith.subf %{{.*}} : f32
// CHECK:           %[[OLD:.*]] = memref.load %[[Y]][%[[ROW]]]
// CHECK:           %[[NEW:.*]] = arith.addf %{{.*}}, %[[OLD]] : f32
// CHECK:           memref.store %[[NEW]], %[[Y]][%[[ROW]]]
#all = affine_map<(m, k) -> (m, k)>
#rows = affine_map<(m, k) -> (m)>
#columns = affine_map<(m, k) -> (k)>
func.func @variance(%x: memref<8x70xf32>, %mean: memref<8xf32>, %y: memref<8xf32>) {
  linalg.generic {indexing_maps = [#all, #rows, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %mean : memref<8x70xf32>, memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    %e = arith.mulf %d, %d : f32
    %s = arith.addf %e, %c : f32
    linalg.yield %s : f32
  }
  return
}

// Whether any number of a row is not masked; the numbers are not contiguous.
// CHECK-LABEL: func.func @any(
// CHECK:         vector.from_elements {{.*}} : vector<32xf32>
// CHECK:         arith.cmpf one, {{.*}} : vector<32xf32>
// CHECK:         arith.ori {{.*}} : vector<16xi1>
func.func @any(%x: memref<8x32xf32, strided<[64, 2]>>, %y: memref<8xi1>) {
  %masked = arith.constant 0xFF800000 : f32
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<8x32xf32, strided<[64, 2]>>) outs(%y : memref<8xi1>) {
  ^bb0(%a: f32, %b: i1):
    %c = arith.cmpf one, %a, %masked : f32
    %d = arith.ori %c, %b : i1
    linalg.yield %d : i1
  }
  return
}

// Left alone: few numbers, columns, differences, indices, bits, two sums, powers
// whose exponents are data.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     vector
// CHECK-COUNT-7: linalg.generic
func.func @others(%few: memref<8x31xf32>, %x: memref<64x64xf32>, %bits: memref<64x64xi1>, %y: memref<8xf32>,
                  %z: memref<64xf32>, %i: memref<64xindex>, %b: memref<64xi1>, %all: memref<f32>,
                  %powers: memref<64x64xi32>) {
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%few : memref<8x31xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (k, m)>, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x64xf32>) outs(%z : memref<64xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x64xf32>) outs(%z : memref<64xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.subf %c, %a : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<64x64xf32>) outs(%z : memref<64xf32>) {
  ^bb0(%a: f32, %c: f32):
    %k = linalg.index 1 : index
    %n = arith.index_cast %k : index to i32
    %f = arith.sitofp %n : i32 to f32
    %s = arith.addf %f, %c : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%bits : memref<64x64xi1>) outs(%b : memref<64xi1>) {
  ^bb0(%a: i1, %c: i1):
    %s = arith.ori %a, %c : i1
    linalg.yield %s : i1
  }
  linalg.generic {indexing_maps = [#all, affine_map<(m, k) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%x : memref<64x64xf32>) outs(%all : memref<f32>) {
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#all, #all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x, %powers : memref<64x64xf32>, memref<64x64xi32>) outs(%z : memref<64xf32>) {
  ^bb0(%a: f32, %p: i32, %c: f32):
    %f = math.fpowi %a, %p : f32, i32
    %s = arith.addf %f, %c : f32
    linalg.yield %s : f32
  }
  return
}
