// RUN: split-file %s %t
// RUN: pipesched-opt %t/ops.mlir --lower-stage-ops | FileCheck %s --check-prefix=OPS
// RUN: pipesched-opt %t/copies.mlir --lower-memref-copies | FileCheck %s --check-prefix=COPIES
// RUN: pipesched-opt %t/invalid.mlir --lower-stage-ops --verify-diagnostics
// RUN: not pipesched-opt %t/named.mlir --pipesched-to-llvm 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: not pipesched-run %t/named.mlir --save-parameters=%t 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: sed 's/call @narrow(%%x)/call @same(%%x)/' %t/named.mlir > %t/init.mlir
// RUN: not pipesched-run %t/init.mlir 2>&1 | FileCheck %s --check-prefix=INIT
// RUN: pipesched-run %t/model.mlir --schedule=gpipe --steps=1 --check | FileCheck %s --check-prefix=MODEL

// Softmax of equal numbers is 1/4 each; 2 rows of 3 microbatches add up to 6. Columns swap.
// MODEL: step 0: loss 6,
// MODEL: check: passed

//--- ops.mlir
// Powers by numbers that are known are products, of which there are vectors.
// OPS-LABEL: @power(
// OPS-NOT:     fpowi
// OPS:         arith.mulf
// OPS-NOT:     fpowi
// OPS:         return
func.func @power(%x: f32) -> f32 {
  %two = arith.constant 2 : i64
  %y = math.fpowi %x, %two : f32, i64
  return %y : f32
}

// Of a power below 0, the quotient has the sign of the zero.
// OPS-LABEL: @negative_power(
// OPS:         arith.mulf
// OPS-NEXT:    %[[CUBE:.*]] = arith.mulf
// OPS-NEXT:    %[[POWER:.*]] = arith.divf %{{.*}}, %[[CUBE]]
// OPS-NEXT:    return %[[POWER]]
func.func @negative_power(%x: f32) -> f32 {
  %n = arith.constant -3 : i64
  %y = math.fpowi %x, %n : f32, i64
  return %y : f32
}

// OPS-LABEL: @clamp(
// OPS-SAME:    %[[X:[^:]*]]: f32, %[[LOW:[^:]*]]: f32, %[[HIGH:[^:]*]]: f32
// OPS:         %[[RAISED:.*]] = arith.maximumf %[[X]], %[[LOW]]
// OPS:         arith.minimumf %[[RAISED]], %[[HIGH]]
func.func @clamp(%x: f32, %low: f32, %high: f32) -> f32 {
  %y = math.clampf %x to [%low, %high] : f32
  return %y : f32
}

// Sums of narrow floats are f32, and so are the products that they add.
// OPS-LABEL: @narrow_sums(
// OPS:         %[[START:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// OPS:         %[[SUM:.*]] = linalg.generic {{.*}} outs(%[[START]] : tensor<4xf32>)
// OPS:           %[[A:.*]] = arith.extf %{{.*}} : bf16 to f32
// OPS:           %[[B:.*]] = arith.extf %{{.*}} : bf16 to f32
// OPS:           %[[TERM:.*]] = arith.mulf %[[A]], %[[B]] : f32
// OPS:           arith.addf %{{.*}}, %[[TERM]] : f32
// OPS:         arith.truncf %[[SUM]] : tensor<4xf32> to tensor<4xbf16>
// OPS:         linalg.generic
// OPS:           %[[SO_FAR:.*]] = arith.addf {{.*}} : f32
// OPS-NEXT:      linalg.yield %[[SO_FAR]]
func.func @narrow_sums(%x: tensor<4x8xbf16>, %y: tensor<8xbf16>, %z: tensor<8xf16>,
    %sum: tensor<f16>) -> (tensor<4xbf16>, tensor<f16>) {
  %zero = arith.constant 0.0 : bf16
  %empty = tensor.empty() : tensor<4xbf16>
  %start = linalg.fill ins(%zero : bf16) outs(%empty : tensor<4xbf16>) -> tensor<4xbf16>
  %r = linalg.matvec ins(%x, %y : tensor<4x8xbf16>, tensor<8xbf16>)
      outs(%start : tensor<4xbf16>) -> tensor<4xbf16>
  // Rounded in each step as it is written.
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>],
      iterator_types = ["reduction"]} ins(%z : tensor<8xf16>) outs(%sum : tensor<f16>) {
  ^bb0(%a: f16, %o: f16):
    %p = arith.extf %a : f16 to f32
    %q = arith.extf %o : f16 to f32
    %t = arith.addf %p, %q : f32
    %u = arith.truncf %t : f32 to f16
    linalg.yield %u : f16
  } -> tensor<f16>
  return %r, %s : tensor<4xbf16>, tensor<f16>
}

// OPS-LABEL: @narrow_maximum(
// OPS-NOT:     f32
// OPS:         return
func.func @narrow_maximum(%x: tensor<8xf16>, %s: tensor<f16>) -> tensor<f16> {
  %r = linalg.reduce { arith.maximumf } ins(%x : tensor<8xf16>) outs(%s : tensor<f16>)
      dimensions = [0]
  return %r : tensor<f16>
}

// Padding below 0 takes elements away.
// OPS-LABEL: @crop(
// OPS-SAME:    %[[X:[^:]*]]: tensor<3x4xf32>
// OPS:         %[[PART:.*]] = tensor.extract_slice %[[X]][0, 1] [1, 3] [1, 1]
// OPS:         tensor.pad %[[PART]] low[1, 0] high[0, 2]
func.func @crop(%x: tensor<3x4xf32>) -> tensor<2x5xf32> {
  %zero = arith.constant 0.0 : f32
  %y = tensor.pad %x low[1, -1] high[-2, 2] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<3x4xf32> to tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

//--- copies.mlir
// COPIES-LABEL: @copies(
// COPIES:         memref.copy %{{.*}}, %{{.*}} : memref<4x6xf32> to memref<4x6xf32>
// COPIES:         linalg.generic
// COPIES-NOT:     memref.copy
func.func @copies(%a: memref<4x6xf32>, %b: memref<4x6xf32>,
    %c: memref<4x3xf32, strided<[6, 1], offset: 3>>, %d: memref<4x3xf32>) {
  memref.copy %a, %b : memref<4x6xf32> to memref<4x6xf32>
  memref.copy %d, %c : memref<4x3xf32>
      to memref<4x3xf32, strided<[6, 1], offset: 3>>
  return
}

//--- invalid.mlir
func.func @eight_bits(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  // expected-error@+1 {{'arith.negf' op in function 'eight_bits' has numbers of type 'f8E4M3FN', which cannot be compiled; wanted f16, bf16, f32 or f64}}
  %y = arith.negf %x : tensor<4xf8E4M3FN>
  // expected-error@+1 {{'func.return' op in function 'eight_bits' has numbers of type 'f8E4M3FN'}}
  return %y : tensor<4xf8E4M3FN>
}
func.func @outside(%x: tensor<2x4xf32>) -> (f32, tensor<2x4xf32>) {
  %i = arith.constant 1 : index
  %j = arith.constant 4 : index
  %k = arith.constant -1 : index
  // expected-error@+1 {{'tensor.extract' op in function 'outside' has the index 4 in dimension 1 of 'tensor<2x4xf32>'}}
  %y = tensor.extract %x[%i, %j] : tensor<2x4xf32>
  // expected-error@+1 {{'tensor.insert' op in function 'outside' has the index -1 in dimension 0 of 'tensor<2x4xf32>'}}
  %z = tensor.insert %y into %x[%k, %i] : tensor<2x4xf32>
  return %y, %z : f32, tensor<2x4xf32>
}
func.func @scatter(%x: tensor<2xf32>, %y: tensor<4xf32>, %i: tensor<2x1xi8>) -> tensor<4xf32> {
  // expected-error@+1 {{'tensor.scatter' op in function 'scatter' cannot be compiled: use linalg.generic or a loop with tensor.extract and tensor.insert}}
  %z = tensor.scatter %x into %y[%i] scatter_dims([0]) unique
      : (tensor<2xf32>, tensor<4xf32>, tensor<2x1xi8>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func @gather(%x: tensor<4xf32>, %i: tensor<2x1xindex>) -> tensor<2xf32> {
  // expected-error@+1 {{'tensor.gather' op in function 'gather' cannot be compiled: use linalg.generic}}
  %z = tensor.gather %x[%i] gather_dims([0])
      : (tensor<4xf32>, tensor<2x1xindex>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}
func.func @bitcast(%x: tensor<2xf32>) -> tensor<2xi32> {
  // expected-error@+1 {{'tensor.bitcast' op in function 'bitcast' cannot be compiled: there is no lowering of it to loops}}
  %y = tensor.bitcast %x : tensor<2xf32> to tensor<2xi32>
  return %y : tensor<2xi32>
}

//--- named.mlir
// Errors say which stages need the function, also by way of another one.
// NAMED: error: 'arith.truncf' op in function 'narrow' (F of stages 0, 1 and 3; init of stages 0 to 3) has numbers of type 'f8E4M3FN'
// INIT:  error: 'arith.truncf' op in function 'narrow' (init of stages 0 to 3) has numbers of type 'f8E4M3FN'
pipe.schedule @p workers 1 microbatches 1 {
  path on [0, 0, 0, 0]
  stage 0 init @init forward @half backward @half_back
  stage 1 init @init forward @half backward @half_back
  stage 2 init @init forward @scale backward @half_back
  stage 3 init @init forward @half backward @half_back
  data @data
  loss @loss
  worker 0 runs [0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0]
}
func.func private @narrow(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.truncf %x : tensor<4xf32> to tensor<4xf8E4M3FN>
  %z = arith.extf %y : tensor<4xf8E4M3FN> to tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @init() -> (tensor<4xf32> {pipe.param = "w"}) {
  %x1 = arith.constant dense<1.0> : tensor<4xf32>
  %y = call @narrow(%x1) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @half(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = call @narrow(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @scale(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @half_back(%dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  return %dy, %dy : tensor<4xf32>, tensor<4xf32>
}
func.func @data() -> (tensor<4xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  return %zero, %y : tensor<f32>, tensor<4xf32>
}

//--- model.mlir
pipe.schedule @p workers 2 microbatches 3 {
  path on [0, 1]
  stage 0 forward @swap backward @swap_back
  stage 1 forward @softmax backward @swap_back
  data @data
  loss @loss
}
func.func @swap(%x: tensor<2x4xf32> {pipe.input})
    -> (tensor<2x4xf32> {pipe.output}) {
  %a = tensor.extract_slice %x[0, 0] [2, 2] [1, 1]
      : tensor<2x4xf32> to tensor<2x2xf32>
  %b = tensor.extract_slice %x[0, 2] [2, 2] [1, 1]
      : tensor<2x4xf32> to tensor<2x2xf32>
  %y = tensor.concat dim(1) %b, %a
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func @softmax(%x: tensor<2x4xf32> {pipe.input})
    -> (tensor<2x4xf32> {pipe.output}) {
  %empty = tensor.empty() : tensor<2x4xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<2x4xf32>)
      outs(%empty : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func @swap_back(%dy: tensor<2x4xf32> {pipe.output_gradient})
    -> (tensor<2x4xf32> {pipe.input_gradient}) {
  %dx = call @swap(%dy) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %dx : tensor<2x4xf32>
}
func.func @data() -> (tensor<2x4xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<2x4xf32>
  return %x : tensor<2x4xf32>
}
func.func @loss(%y: tensor<2x4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<2x4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<2x4xf32>)
      outs(%zero : tensor<f32>) dimensions = [0, 1]
  return %sum, %y : tensor<f32>, tensor<2x4xf32>
}
