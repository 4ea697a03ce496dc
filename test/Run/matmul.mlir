// Products of matrices in any order of dimensions, of all types and by any library, have the bits
// of the unpipelined model, which calls the same library. Without one the losses are the same but
// for rounding, also of an executable.
// UNSUPPORTED: sanitizer
// RUN: rm -rf %t && mkdir %t && cp %s %t/f32.mlir && cd %t
// RUN: for type in f64 bf16 f16; do sed "s/f32/$type/g" %s > $type.mlir; done
// RUN: for type in f32 f64 bf16 f16; do \
// RUN:   pipesched-run $type.mlir --schedule=gpipe --steps=2 --check --no-update > $type.out && \
// RUN:   FileCheck %s < $type.out && \
// RUN:   pipesched-run $type.mlir --schedule=gpipe --steps=2 --check --blas=none > $type.loops && \
// RUN:   FileCheck %s < $type.loops && \
// RUN:   pipesched-run $type.mlir --schedule=gpipe --emit=llvm | FileCheck %s --check-prefix=CALLS || exit 1; done
// CHECK:      losses             1           1  0.00e+00
// CHECK-NEXT: gradients          3           3  0.00e+00
// CHECK-NEXT: parameters         3           3  0.00e+00
// CHECK-NEXT: check: passed
// CALLS: call void @pipesched_rt_matmul(
// RUN: grep -h -o '^step 1: loss .....' f32.out f32.loops f64.out f64.loops | uniq | count 1
// RUN: grep -h -o '^step 1: loss ....' f16.out f16.loops | uniq | count 1
// RUN: grep -h -o '^step 1: loss ....' bf16.out bf16.loops | uniq | count 1
// Loops may use the longest vectors.
// RUN: pipesched-run f32.mlir --schedule=gpipe --emit=llvm | FileCheck %s --check-prefix=VECTORS
// VECTORS: "prefer-vector-width"="512"

// Which library is taken: one that says when it multiplies, and wrong ones.
// RUN: %cc -shared -fPIC %S/Inputs/blas.c -o right.so
// RUN: %cc -shared -fPIC -DWRONG %S/Inputs/blas.c -o wrong.so
// RUN: %cc -shared -fPIC -DSKIPS_ZEROS %S/Inputs/blas.c -o skips.so
// RUN: pipesched-run f32.mlir --schedule=gpipe --steps=1 --check --blas=./right.so > out 2>&1
// RUN: FileCheck %s --check-prefix=RIGHT < out
// RUN: env PIPESCHED_BLAS=./right.so pipesched-run f32.mlir --schedule=gpipe --steps=1 --check > out 2>&1
// RUN: FileCheck %s --check-prefix=RIGHT < out
// RIGHT-COUNT-1: the library of the test has one thread
// RIGHT: the library of the test multiplies
// RIGHT: check: passed
// RUN: not pipesched-run f32.mlir --schedule=gpipe --blas=./wrong.so 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not pipesched-run f32.mlir --schedule=gpipe --blas=./skips.so 2>&1 | FileCheck %s --check-prefix=SKIPS
// RUN: not pipesched-run f32.mlir --schedule=gpipe --blas=./no.so 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not pipesched-run f32.mlir --schedule=gpipe --blas=libc.so.6 2>&1 | FileCheck %s --check-prefix=OTHER
// WRONG: error: PIPESCHED_BLAS: ./wrong.so: computes wrong products of matrices
// SKIPS: error: PIPESCHED_BLAS: ./skips.so: computes wrong products of matrices
// MISSING: error: PIPESCHED_BLAS: ./no.so: cannot open shared object file
// OTHER: error: PIPESCHED_BLAS: libc.so.6: has no cblas_sgemm and cblas_dgemm

// Without a name the first right one is taken. Without any, loops multiply.
// RUN: mkdir found none && cp wrong.so found/libblis.so.4 && cp right.so found/libblis.so
// RUN: env LD_LIBRARY_PATH=found pipesched-run f32.mlir --schedule=gpipe --steps=1 --check > out 2>&1
// RUN: FileCheck %s --check-prefix=SECOND < out
// SECOND: warning: libblis.so.4: computes wrong products of matrices; the next library is tried
// SECOND: the library of the test multiplies
// SECOND: check: passed
// RUN: for name in libblis.so.4 libblis.so libopenblas.so.0 libcblas.so.3 libblas.so.3; do echo > none/$name; done
// RUN: env LD_LIBRARY_PATH=none pipesched-run f32.mlir --schedule=gpipe --steps=1 --check > out 2>&1
// RUN: FileCheck %s --check-prefix=NONE < out
// NONE-COUNT-1: warning: no BLAS library is found
// NONE-NOT: warning
// NONE: check: passed

// An executable has the runtime in it, and loads a library when it runs.
// RUN: pipesched-run f32.mlir --schedule=gpipe --steps=2 --emit=executable -o program --cc=%cc
// RUN: ./program | grep -o '^step 1: loss .....' > printed
// RUN: grep -o '^step 1: loss .....' f32.loops | diff - printed
// RUN: env PIPESCHED_BLAS=./right.so ./program 2>&1 | FileCheck %s --check-prefix=PROGRAM
// RUN: not env PIPESCHED_BLAS=./wrong.so ./program 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not pipesched-run f32.mlir --schedule=gpipe --emit=executable -o program --blas=none 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EMIT
// PROGRAM: the library of the test multiplies
// PROGRAM: step 1: loss
// EMIT: error: --blas belongs to runs; a program reads the environment variable PIPESCHED_BLAS when it starts

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
// Sums over two dimensions; rows of two dimensions that lie apart.
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
