// RUN: split-file %s %t
// RUN: pipesched-opt %t/good.mlir --verify-kernel-stores | FileCheck %s
// RUN: pipesched-opt %t/bad.mlir --verify-kernel-stores --split-input-file --verify-diagnostics
// RUN: mlir-opt %t/merged.mlir --eliminate-empty-tensors -o %t/eliminated.mlir
// RUN: not pipesched-opt %t/eliminated.mlir --verify-kernel-stores 2>&1 | FileCheck %s --check-prefix=MERGED
// RUN: mlir-opt %t/eliminated.mlir --one-shot-bufferize | FileCheck %s --check-prefix=WRONG

// What upstream's passes make of stores without a separate tensor:
// the second product lends the memory of the first, which is stored in front.
// MERGED: error: 'bufferization.materialize_in_destination' op in function 'merged' may read from argument 2, which an earlier store overwrites
// MERGED: note: it is read by this tensor
// WRONG-LABEL: @merged(
// WRONG:         linalg.matmul {{.*}} outs(%[[H:.*]] : memref<4x4xf32>)
// WRONG-NEXT:    linalg.matmul {{.*}} outs(%arg2 : memref<4x4xf32>)
// WRONG-NEXT:    %[[Y:.*]] = memref.expand_shape %arg2
// WRONG-NEXT:    memref.copy %[[H]], %arg2
// WRONG-NEXT:    memref.copy %[[Y]], %arg3

//--- good.mlir
// CHECK-LABEL: @in_place(
func.func @in_place(%x: memref<4xf32>, %y: memref<2x2xf32>, %r: memref<4xf32>) {
  %old_x = bufferization.to_tensor %x restrict writable
      : memref<4xf32> to tensor<4xf32>
  %old_y = bufferization.to_tensor %y restrict writable
      : memref<2x2xf32> to tensor<2x2xf32>
  %read = bufferization.to_tensor %r restrict : memref<4xf32> to tensor<4xf32>
  %read_again = bufferization.to_tensor %r restrict
      : memref<4xf32> to tensor<4xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %sum = scf.for %i = %zero to %four step %one iter_args(%carried = %old_x)
      -> tensor<4xf32> {
    %number = tensor.extract %read[%i] : tensor<4xf32>
    %next = tensor.insert %number into %carried[%i] : tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  %flat = tensor.collapse_shape %old_y [[0, 1]]
      : tensor<2x2xf32> into tensor<4xf32>
  %copy = linalg.copy ins(%read_again : tensor<4xf32>)
      outs(%flat : tensor<4xf32>) -> tensor<4xf32>
  %new_y = tensor.expand_shape %copy [[0, 1]] output_shape [2, 2]
      : tensor<4xf32> into tensor<2x2xf32>
  bufferization.materialize_in_destination %sum in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  %unused = arith.constant 1.0 : f32
  bufferization.materialize_in_destination %new_y in restrict writable %y
      : (tensor<2x2xf32>, memref<2x2xf32>) -> ()
  return
}
// CHECK-LABEL: @from_elsewhere(
func.func @from_elsewhere(%x: memref<4xf32>, %y: memref<4xf32>,
    %z: memref<4xf32>, %r: memref<4xf32>) {
  %old_x = bufferization.to_tensor %x restrict writable
      : memref<4xf32> to tensor<4xf32>
  %read = bufferization.to_tensor %r restrict : memref<4xf32> to tensor<4xf32>
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  bufferization.materialize_in_destination %ones in restrict writable %y
      : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %old_x in restrict writable %z
      : (tensor<4xf32>, memref<4xf32>) -> ()
  bufferization.materialize_in_destination %read in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

//--- bad.mlir
func.func @swap(%x: memref<4xf32>, %y: memref<4xf32>) {
  // expected-note@+1 {{it is read by this tensor}}
  %old_x = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %old_y = bufferization.to_tensor %y restrict : memref<4xf32> to tensor<4xf32>
  bufferization.materialize_in_destination %old_y in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'swap' may read from argument 0, which an earlier store overwrites}}
  bufferization.materialize_in_destination %old_x in restrict writable %y
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @on_one_side(%x: memref<4xf32>, %y: memref<4xf32>, %c: i1) {
  // expected-note@+1 {{it is read by this tensor}}
  %old_x = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %old_y = bufferization.to_tensor %y restrict : memref<4xf32> to tensor<4xf32>
  %either = scf.if %c -> tensor<4xf32> {
    scf.yield %old_y : tensor<4xf32>
  } else {
    scf.yield %old_x : tensor<4xf32>
  }
  bufferization.materialize_in_destination %old_y in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'on_one_side' may read from argument 0, which an earlier store overwrites}}
  bufferization.materialize_in_destination %either in restrict writable %y
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @between(%x: memref<4xf32>, %r: memref<f32>) -> f32 {
  %old = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %zero = arith.constant 0 : index
  // expected-note@+1 {{the store is here}}
  bufferization.materialize_in_destination %ones in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  // expected-error@+1 {{'tensor.extract' op in function 'between' follows a store to memory}}
  %y = tensor.extract %old[%zero] : tensor<4xf32>
  return %y : f32
}

// -----

func.func @in_a_loop(%x: memref<4xf32>, %n: index) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'in_a_loop' stores to memory in front of other blocks}}
    bufferization.materialize_in_destination %ones in restrict writable %x
        : (tensor<4xf32>, memref<4xf32>) -> ()
  }
  return
}

// -----

func.func @twice(%x: memref<4xf32>) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  // expected-note@+1 {{the first is here}}
  bufferization.materialize_in_destination %ones in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'twice' is a second store of the memory of argument 0}}
  bufferization.materialize_in_destination %ones in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @part(%x: memref<8xf32>) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %half = memref.subview %x[4] [4] [1]
      : memref<8xf32> to memref<4xf32, strided<[1], offset: 4>>
  // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'part' stores to memory that is not an argument}}
  bufferization.materialize_in_destination %ones in restrict writable %half
      : (tensor<4xf32>, memref<4xf32, strided<[1], offset: 4>>) -> ()
  return
}

// -----

func.func @written_by_memref(%x: memref<4xf32>) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %zero = arith.constant 0 : index
  // expected-error@+1 {{'memref.load' op in function 'written_by_memref' touches the memory of argument 0, which is written}}
  %y = memref.load %x[%zero] : memref<4xf32>
  bufferization.materialize_in_destination %ones in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

func.func @not_restricted(%x: memref<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'bufferization.to_tensor' op in function 'not_restricted' lacks 'restrict', so that argument 0 may be other memory as well}}
  %y = bufferization.to_tensor %x writable : memref<4xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @two_names(%x: memref<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-note@+1 {{the first is here}}
  %y = bufferization.to_tensor %x restrict writable
      : memref<4xf32> to tensor<4xf32>
  // expected-error@+1 {{'bufferization.to_tensor' op in function 'two_names' is a second name of the memory of argument 0, which is written}}
  %z = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @by_an_unknown_op(%x: memref<4xf32>, %v: vector<4xf32>) {
  // expected-note@+1 {{it comes from here}}
  %y = builtin.unrealized_conversion_cast %v : vector<4xf32> to tensor<4xf32>
  // expected-error@+1 {{'bufferization.materialize_in_destination' op in function 'by_an_unknown_op' stores a tensor whose memory is not known}}
  bufferization.materialize_in_destination %y in restrict writable %x
      : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

//--- merged.mlir
func.func @merged(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>,
    %into_h: memref<4x4xf32>, %into_y: memref<2x2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %h = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 2, 4]
      : tensor<4x4xf32> into tensor<2x2x4xf32>
  bufferization.materialize_in_destination %h in restrict writable %into_h
      : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  bufferization.materialize_in_destination %y3 in restrict writable %into_y
      : (tensor<2x2x4xf32>, memref<2x2x4xf32>) -> ()
  return
}
