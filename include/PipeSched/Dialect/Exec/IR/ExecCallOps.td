//===- ExecCallOps.td - Calls of other compilers' code -----*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops for calls of functions without a body, used while functions of stages are
// lowered.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECCALLOPS_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECCALLOPS_TD

include "PipeSched/Dialect/Exec/IR/ExecDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_CallExternOp : Exec_Op<"call_extern", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "calls a C function of another compiler";
  let description = [{
    A call of the C function `symbol`, on tensors or on memrefs, by the
    interface of docs/Stages.md ("Extern functions"). `lower-stage-ops` makes it
    of calls of functions with `pipe.extern`, and `lower-extern-calls` makes it
    a call of C after bufferization.

    The function takes the operands in `ins`, then the operands in `outs`, in
    their order. `in_place` has a number for each of `outs`: -1 if the function
    writes its memory without reading it; else the operand is passed with its
    old value, and the number is its position among all pointers.

    ```mlir
    func.func @step(%w: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
      %new = exec.call_extern "sgd" ins(%g : tensor<8xf32>)
          outs(%w : tensor<8xf32>) in_place [0] -> tensor<8xf32>
      return %new : tensor<8xf32>
    }
    ```

    Constraints:
    - `call_extern_c1`: `in_place` has a number for each of `outs`, -1 or a
      place that no other result has.
    - `call_extern_c2`: shapes are static.
    - `call_extern_c3`: operands are all tensors and numbers, with a result for
      each of `outs`, or all memrefs and numbers, without results.
  }];
  let arguments = (ins StrAttr:$symbol, Variadic<AnyType>:$inputs,
                       Variadic<AnyShaped>:$inits,
                       DenseI64ArrayAttr:$inPlace);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $symbol (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`outs` `(` $inits^ `:` type($inits) `)`)? `in_place` $inPlace attr-dict
    (`->` type($results)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitsMutable();
    }
    /// Whether the function reads the contents of this one of `outs`.
    bool readsInit(unsigned index) { return getInPlace()[index] >= 0; }
    /// All operands in the order in which the function takes them.
    ::llvm::SmallVector<::mlir::OpOperand *> getOperandsInOrder();
  }];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECCALLOPS_TD
