# usage: mpi-ops.sh FOLDER OPT MLIR_OPT PLUGIN CC MODEL PASSES: lowers the schedule of a model to
# FOLDER/program.o, with messages as ops of MPI. PASSES make the program and order its messages.
set -e
folder=$1 opt=$2 mlir_opt=$3 plugin=$4 cc=$5 model=$6 passes=$7
$opt $model --pass-pipeline="builtin.module($passes, exec-assign-buffers, convert-exec-to-mpi)" \
  -o $folder/functions.mlir
$mlir_opt $folder/functions.mlir -o $folder/program.mlir \
  --load-dialect-plugin=$plugin --load-pass-plugin=$plugin \
  --pass-pipeline='builtin.module(symbol-dce,
  lower-affine, lower-stage-ops, inline, symbol-dce, canonicalize, cse, fold-matmul-transposes,
  func.func(convert-elementwise-to-linalg), eliminate-empty-tensors, verify-kernel-stores,
  one-shot-bufferize{bufferize-function-boundaries allow-return-allocs-from-loops
    function-boundary-type-conversion=identity-layout-map},
  canonicalize, cse, deallocate-buffers, canonicalize, buffer-deallocation-simplification,
  bufferization-lower-deallocations, func.func(optimize-allocation-liveness),
  convert-bufferization-to-memref, inline, symbol-dce, lower-extern-calls, lower-memref-copies,
  func.func(convert-linalg-to-loops), func.func(convert-vector-to-scf), expand-strided-metadata,
  lower-affine, convert-scf-to-cf, lower-stage-checks, canonicalize, cse,
  convert-func-to-llvm{use-bare-ptr-memref-call-conv}, convert-to-llvm, reconcile-unrealized-casts)'
mlir-translate --mlir-to-llvmir $folder/program.mlir -o $folder/program.ll
$cc -w -O2 -c $folder/program.ll -o $folder/program.o
