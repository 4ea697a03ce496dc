//===- FuseOuterLoops.td - Outer loops that ops share ------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_FUSEOUTERLOOPS_TD
#define PIPESCHED_CONVERSION_FUSEOUTERLOOPS_TD

include "mlir/Pass/PassBase.td"

def FuseOuterLoopsPass : Pass<"fuse-outer-loops", "::mlir::ModuleOp"> {
  let summary = "Let ops of linalg that follow each other share outer loops";
  let description = [{
    Behind bufferization, ops of linalg whose first loops are parallel and of
    the same size, and of which each slice along these loops needs no other
    slice of the others, become one loop over slices; the same again inside of
    it. So a softmax or a layer norm reads a row from memory once, and the
    scores of each head are in the caches when its products need them. A
    temporary that the loop alone uses has room for one slice.

    Ops stay as they are, where they have fewer than 8192 elements, slices would
    have fewer than 128, or nothing is shared. Products of matrices are sliced
    along dimensions that both matrices have. Elements are computed, and sums
    added up, as before.

    ```mlir
    #all = affine_map<(m, n) -> (m, n)>
    #rows = affine_map<(m, n) -> (m)>
    func.func @less_largest(%x: memref<64x256xf32> {llvm.noalias},
                            %y: memref<64x256xf32> {llvm.noalias}) {
      %least = arith.constant 0xFF800000 : f32
      %t = memref.alloc() : memref<64xf32>
      linalg.fill ins(%least : f32) outs(%t : memref<64xf32>)
      linalg.generic {indexing_maps = [#all, #rows],
                      iterator_types = ["parallel", "reduction"]}
          ins(%x : memref<64x256xf32>) outs(%t : memref<64xf32>) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.maximumf %b, %a : f32
        linalg.yield %c : f32
      }
      linalg.generic {indexing_maps = [#all, #rows, #all],
                      iterator_types = ["parallel", "parallel"]}
          ins(%x, %t : memref<64x256xf32>, memref<64xf32>)
          outs(%y : memref<64x256xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %d = arith.subf %a, %b : f32
        linalg.yield %d : f32
      }
      memref.dealloc %t : memref<64xf32>
      return
    }
    ```

    After `fuse-outer-loops,canonicalize`:

    ```mlir
    #row = affine_map<(n) -> (n)>
    #one = affine_map<(n) -> ()>
    func.func @less_largest(%x: memref<64x256xf32> {llvm.noalias},
                            %y: memref<64x256xf32> {llvm.noalias}) {
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %c0 = arith.constant 0 : index
      %least = arith.constant 0xFF800000 : f32
      %t = memref.alloc() : memref<f32>
      scf.for %i = %c0 to %c64 step %c1 {
        linalg.fill ins(%least : f32) outs(%t : memref<f32>)
        %row = memref.subview %x[%i, 0] [1, 256] [1, 1]
            : memref<64x256xf32> to memref<256xf32, strided<[1], offset: ?>>
        linalg.generic {indexing_maps = [#row, #one],
                        iterator_types = ["reduction"]}
            ins(%row : memref<256xf32, strided<[1], offset: ?>>)
            outs(%t : memref<f32>) {
        ^bb0(%a: f32, %b: f32):
          %c = arith.maximumf %b, %a : f32
          linalg.yield %c : f32
        }
        %out = memref.subview %y[%i, 0] [1, 256] [1, 1]
            : memref<64x256xf32> to memref<256xf32, strided<[1], offset: ?>>
        linalg.generic {indexing_maps = [#row, #one, #row],
                        iterator_types = ["parallel"]}
            ins(%row, %t : memref<256xf32, strided<[1], offset: ?>>,
                           memref<f32>)
            outs(%out : memref<256xf32, strided<[1], offset: ?>>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %d = arith.subf %a, %b : f32
          linalg.yield %d : f32
        }
      }
      memref.dealloc %t : memref<f32>
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_FUSEOUTERLOOPS_TD
