# Precompiled headers of LLVM, MLIR and GoogleTest, which otherwise take most of
# the time of a translation unit: 5 of 6 seconds for a pass. Each set is
# compiled once for a preset, and all targets that link its libraries use it. It
# holds no times of files, so that a compiler cache can share it between
# checkouts. Sources must also compile without
# (PIPESCHED_PRECOMPILE_HEADERS=OFF).

set(PIPESCHED_LLVM_HEADERS
  <llvm/ADT/STLExtras.h>
  <llvm/ADT/StringExtras.h>
  <llvm/Support/Error.h>
  <llvm/Support/FormatVariadic.h>
  <llvm/Support/raw_ostream.h>
  <algorithm>
  <optional>
  <string>
  <vector>)

set(PIPESCHED_MLIR_HEADERS
  ${PIPESCHED_LLVM_HEADERS}
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpImplementation.h>
  <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h>
  <mlir/Pass/PassManager.h>)

# Dialects in which functions of stages are written.
set(PIPESCHED_DIALECT_HEADERS
  ${PIPESCHED_MLIR_HEADERS}
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Bufferization/IR/Bufferization.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>)

# pipesched_add_headers(name headers... [LINK_LIBS ...]): a set of precompiled
# headers, with the definitions of LINK_LIBS. CMake wants a target with a source
# to compile them.
function(pipesched_add_headers name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  if(NOT PIPESCHED_PRECOMPILE_HEADERS)
    return()
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Has precompiled headers.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK_LIBS})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(${name} PRIVATE
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  set_target_properties(${name} PROPERTIES FOLDER "PipeSched/Headers")
endfunction()

# pipesched_use_headers(target [TESTS] [MLIR libraries...]): uses the set that
# fits the libraries that the target links. To use MLIR's headers, it must link
# MLIR's symbols.
function(pipesched_use_headers target)
  cmake_parse_arguments(ARG "TESTS" "" "" ${ARGN})
  set(headers LLVM)
  if(ARG_TESTS AND ARG_UNPARSED_ARGUMENTS)
    set(headers MLIRTest)
  elseif(ARG_TESTS)
    set(headers LLVMTest)
  elseif(ARG_UNPARSED_ARGUMENTS MATCHES "MLIRLinalg")
    set(headers Dialect)
  elseif(ARG_UNPARSED_ARGUMENTS)
    set(headers MLIR)
  endif()
  if(PIPESCHED_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} REUSE_FROM PipeSched${headers}Headers)
  endif()
endfunction()
