//===- KernelDialect.td - A dialect whose ops state work -*- tablegen -*---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces that somebody else's dialect needs so that costs are derived from
// functions with its ops.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_STAGES_KERNELDIALECT_TD
#define PIPESCHED_UNITTESTS_STAGES_KERNELDIALECT_TD

include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.td"
include "mlir/IR/OpBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::kernel";
}

/// Fused attention: two products of a matrix, a softmax between them.
def Kernel_AttentionOp
    : Op<Kernel_Dialect, "attention",
         [DeclareOpInterfaceMethods<Pipe_StageWorkOpInterface>]> {
  let arguments = (ins AnyRankedTensor:$query, AnyRankedTensor:$key,
                       AnyRankedTensor:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$query `,` $key `,` $value attr-dict `:` type($query) "
                       "`,` type($key) `,` type($value) `->` type($result)";
}

/// States the work that its attributes say, also where it makes no sense.
def Kernel_WorkOp
    : Op<Kernel_Dialect, "work",
         [DeclareOpInterfaceMethods<Pipe_StageWorkOpInterface>]> {
  let arguments = (ins I64Attr:$flops, I64Attr:$bytes, UnitAttr:$link);
  let assemblyFormat = "$flops $bytes (`link` $link^)? attr-dict";
}

/// Without the interface; a test attaches an external model.
def Kernel_SilentOp : Op<Kernel_Dialect, "silent"> {
  let arguments = (ins Optional<AnyType>:$operand);
  let results = (outs Optional<AnyType>:$result);
  let assemblyFormat =
      "($operand^ `:` type($operand))? (`->` type($result)^)? attr-dict";
}

#endif // PIPESCHED_UNITTESTS_STAGES_KERNELDIALECT_TD
