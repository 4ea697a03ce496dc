# usage: run-mutant.sh NAME LLVM_TOOLS CC SOURCE_DIR BUILD_DIR PYTHON: compiles
# NAME.llvm.mlir, a form of the program @one of linear.mlir, and runs it by
# run-linear.sh.
set -e
name=$1 tools=$2
shift 2
"$tools/mlir-translate" --mlir-to-llvmir "$name.llvm.mlir" \
  | sed 's/@malloc(/@counted_malloc(/; s/@free(/@counted_free(/' > "$name.ll"
"$1" -w -O2 -c "$name.ll" -o "$name.o"
sh "$2/test/Conversion/Inputs/run-linear.sh" "$1" "$2" "$3" "$4" "$name.o" one
