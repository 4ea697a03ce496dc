// Products of matrices have the bits of plain loops, in any order of dimensions,
// for both types and however they are multiplied. The kernels of the functions
// call the runtime; with loops nothing does.
// RUN: pipesched-run %s --schedule=gpipe --steps=2 --check | FileCheck %s
// RUN: sed 's/f32/f64/g' %s | pipesched-run - --schedule=gpipe --steps=2 --check | FileCheck %s
// RUN: pipesched-run %s --schedule=gpipe --steps=2 --check --matmul=loops | FileCheck %s
// CHECK:      losses             1           1  0.00e+00
// CHECK-NEXT: gradients          3           3  0.00e+00
// CHECK-NEXT: parameters         3           3  0.00e+00
// CHECK-NEXT: check: passed
// RUN: pipesched-run %s --schedule=gpipe --emit=llvm | FileCheck %s --check-prefix=CALLS
// CALLS: call void @pipesched_rt_matmul(
// RUN: pipesched-run %s --schedule=gpipe --emit=llvm --matmul=loops | FileCheck %s --check-prefix=LOOPS
// LOOPS-NOT: pipesched_rt_matmul
// Loops may use the longest vectors.
// RUN: pipesched-run %s --schedule=gpipe --emit=llvm | FileCheck %s --check-prefix=VECTORS
// VECTORS: "prefer-vector-width"="512"

// An executable has the kernels in it.
// RUN: pipesched-run %s --schedule=gpipe --steps=2 | grep -o 'loss [^,]*' > %t.run
// RUN: pipesched-run %s --schedule=gpipe --steps=2 --emit=executable -o %t.program
// RUN: %t.program | grep -o 'loss [^,]*' > %t.printed
// RUN: diff %t.run %t.printed

pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @init forward @forward backward @backward
  data @data
  loss @loss
}
func.func private @numbers(%n: index, %scale: f32) -> f32 {
  %i = arith.index_cast %n : index to i32
  %a = arith.constant 37 : i32
  %m = arith.constant 101 : i32
  %p = arith.muli %i, %a : i32
  %r = arith.remsi %p, %m : i32
  %f = arith.sitofp %r : i32 to f32
  %y = arith.mulf %f, %scale : f32
  return %y : f32
}
func.func @init() -> (tensor<40x24xf32> {pipe.param = "w"}, tensor<12x24x8xf32> {pipe.param = "q"},
                      tensor<8x36xf32> {pipe.param = "v"}) {
  %scale = arith.constant 0.00123 : f32
  %w = tensor.generate {
  ^bb0(%i: index, %j: index):
    %c = arith.constant 24 : index
    %r = arith.muli %i, %c : index
    %n = arith.addi %r, %j : index
    %y = func.call @numbers(%n, %scale) : (index, f32) -> f32
    tensor.yield %y : f32
  } : tensor<40x24xf32>
  %q = tensor.generate {
  ^bb0(%h: index, %i: index, %j: index):
    %c = arith.constant 7 : index
    %r = arith.muli %i, %c : index
    %s = arith.addi %r, %j : index
    %n = arith.addi %h, %s : index
    %y = func.call @numbers(%n, %scale) : (index, f32) -> f32
    tensor.yield %y : f32
  } : tensor<12x24x8xf32>
  %v = tensor.generate {
  ^bb0(%i: index, %j: index):
    %n = arith.muli %i, %j : index
    %y = func.call @numbers(%n, %scale) : (index, f32) -> f32
    tensor.yield %y : f32
  } : tensor<8x36xf32>
  return %w, %q, %v : tensor<40x24xf32>, tensor<12x24x8xf32>, tensor<8x36xf32>
}
func.func @data(%mb: i64 {pipe.microbatch}) -> (tensor<2x36x24xf32> {pipe.input}) {
  %scale = arith.constant 0.0217 : f32
  %b = arith.index_cast %mb : i64 to index
  %x = tensor.generate {
  ^bb0(%h: index, %i: index, %j: index):
    %c = arith.constant 5 : index
    %r = arith.muli %i, %c : index
    %s = arith.addi %r, %j : index
    %t = arith.addi %h, %s : index
    %n = arith.addi %t, %b : index
    %y = func.call @numbers(%n, %scale) : (index, f32) -> f32
    tensor.yield %y : f32
  } : tensor<2x36x24xf32>
  return %x : tensor<2x36x24xf32>
}
// y = x w^T, of which rows and batches are one dimension; the scores of y with
// itself; and their product with y.
func.func @forward(%w: tensor<40x24xf32> {pipe.param = "w"}, %x: tensor<2x36x24xf32> {pipe.input})
    -> (tensor<2x36x40xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x36x40xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x36x40xf32>) -> tensor<2x36x40xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>,
                       affine_map<(b, m, n, k) -> (b, m, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<2x36x24xf32>, tensor<40x24xf32>) outs(%z : tensor<2x36x40xf32>) {
  ^bb0(%a: f32, %c: f32, %sum: f32):
    %p = arith.mulf %c, %a : f32
    %s = arith.addf %p, %sum : f32
    linalg.yield %s : f32
  } -> tensor<2x36x40xf32>
  %e2 = tensor.empty() : tensor<2x36x36xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x36x36xf32>) -> tensor<2x36x36xf32>
  %scores = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
      affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]
      ins(%y, %y : tensor<2x36x40xf32>, tensor<2x36x40xf32>) outs(%z2 : tensor<2x36x36xf32>) -> tensor<2x36x36xf32>
  %out = linalg.batch_matmul ins(%scores, %y : tensor<2x36x36xf32>, tensor<2x36x40xf32>)
      outs(%z : tensor<2x36x40xf32>) -> tensor<2x36x40xf32>
  return %out : tensor<2x36x40xf32>
}
// Sums over two dimensions; rows of two dimensions that lie apart; a product
// with a vector, which is too small.
func.func @backward(%w: tensor<40x24xf32> {pipe.param = "w"}, %q: tensor<12x24x8xf32> {pipe.param = "q"},
    %v: tensor<8x36xf32> {pipe.param = "v"}, %x: tensor<2x36x24xf32> {pipe.input},
    %dy: tensor<2x36x40xf32> {pipe.output_gradient}, %sum: tensor<40x24xf32> {pipe.gradient = "w"})
    -> (tensor<40x24xf32> {pipe.gradient = "w"}, tensor<12x24x8xf32> {pipe.gradient = "q"},
        tensor<8x36xf32> {pipe.gradient = "v"}) {
  %zero = arith.constant 0.0 : f32
  %dw = linalg.generic {
      indexing_maps = [affine_map<(n, k, b, m) -> (b, m, n)>, affine_map<(n, k, b, m) -> (b, m, k)>,
                       affine_map<(n, k, b, m) -> (n, k)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%dy, %x : tensor<2x36x40xf32>, tensor<2x36x24xf32>) outs(%sum : tensor<40x24xf32>) {
  ^bb0(%a: f32, %c: f32, %s: f32):
    %p = arith.mulf %a, %c : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<40x24xf32>
  %e = tensor.empty() : tensor<24x12x36xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<24x12x36xf32>) -> tensor<24x12x36xf32>
  %apart = linalg.generic {
      indexing_maps = [affine_map<(s, h, n, d) -> (h, s, d)>, affine_map<(s, h, n, d) -> (d, n)>,
                       affine_map<(s, h, n, d) -> (s, h, n)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %v : tensor<12x24x8xf32>, tensor<8x36xf32>) outs(%z : tensor<24x12x36xf32>) {
  ^bb0(%a: f32, %c: f32, %s: f32):
    %p = arith.mulf %a, %c : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<24x12x36xf32>
  %ev = tensor.empty() : tensor<8x36xf32>
  %zv = linalg.fill ins(%zero : f32) outs(%ev : tensor<8x36xf32>) -> tensor<8x36xf32>
  %dv = linalg.generic {
      indexing_maps = [affine_map<(d, n, h, s) -> (h, s, d)>, affine_map<(d, n, h, s) -> (s, h, n)>,
                       affine_map<(d, n, h, s) -> (d, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%q, %apart : tensor<12x24x8xf32>, tensor<24x12x36xf32>) outs(%zv : tensor<8x36xf32>) {
  ^bb0(%a: f32, %c: f32, %s: f32):
    %p = arith.mulf %a, %c : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<8x36xf32>
  return %dw, %q, %dv : tensor<40x24xf32>, tensor<12x24x8xf32>, tensor<8x36xf32>
}
func.func @loss(%y: tensor<2x36x40xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<2x36x40xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce {arith.addf} ins(%y : tensor<2x36x40xf32>) outs(%zero : tensor<f32>) dimensions = [0, 1, 2]
  return %sum, %y : tensor<f32>, tensor<2x36x40xf32>
}
