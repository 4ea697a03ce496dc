//===- PipeSlotsAttrs.td - The lengths of cells in slots ---*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The slot lengths that a schedule states, so that its table can be read
// without a cost model. StageSlots of Schedule/SlotLengths.h has the same data
// as a plain struct.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPESLOTSATTRS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPESLOTSATTRS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Pipe_SlotsAttr : AttrDef<Pipe_Dialect, "Slots"> {
  let mnemonic = "slots";
  let summary = "lengths of cells in slots";
  let description = [{
    Slots by phase: F, B, I, W, R, O, G, and FB for an overlapped pair, by the
    stage of its first cell. One number applies to every stage. A list has one
    number per stage of a path, if all paths have equally many stages, or one
    per stage of all paths, one path after the other. A number or list without a
    name comes first and gives weights of stages: a cell takes its unit slots
    times the weight of its stage.

    Defaults: F, I, W, O and G take the weight of their stage, or one slot; R
    takes as many slots as F, B the sum of I and W, a pair the sum of its cells.
    If B is given, I and W must be given too for split backwards. Copies take no
    slots.

    ```mlir
    pipe.schedule @asymmetric workers 2 microbatches 1 aligned slots <[1, 2]> {
      path on [0, 1]
      worker 0 runs [0F0 _6 0B0]
      worker 1 runs [_ 1F0 1B0 _2]
    }
    pipe.schedule @measured workers 2 microbatches 1
        aligned slots <F = [4, 5], B = 9> {
      path on [0, 1]
      worker 0 runs [0F0 _14 0B0]
      worker 1 runs [_4 1F0 1B0 _9]
    }
    ```

    Constraints:
    - `slots_c1`: names are known and none occurs twice; there is at least one
      number.
    - `slots_c2`: numbers of slots are 0 or more; weights are at most 2^61.
  }];
  // Numbers of all names, concatenated; `counts` has the number of values of
  // each name.
  let parameters = (ins
    ArrayRefParameter<"int64_t">:$counts,
    ArrayRefParameter<"int64_t">:$numbers
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The lengths in their shortest form, or null for unit slots.
    static SlotsAttr get(::mlir::MLIRContext *context,
                         const ::pipesched::Placement &placement,
                         ::llvm::ArrayRef<::pipesched::StageSlots> stages);
    /// The lengths by global stage. Errors: a list that fits neither the stages
    /// of every path nor the stages of all paths.
    ::llvm::Expected<::std::vector<::pipesched::StageSlots>>
    toStages(const ::pipesched::Placement &placement) const;
  }];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPESLOTSATTRS_TD
