//===- PipeProfileAttrs.td - Measured times ----------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The times of the phases of a stage, in the syntax of pipe-attach-profile.
// Profile of Facts/Facts.h has the same data as a plain struct.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEPROFILEATTRS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEPROFILEATTRS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Pipe_ProfileAttr : AttrDef<Pipe_Dialect, "Profile"> {
  let mnemonic = "profile";
  let summary = "measured times of a stage";
  let description = [{
    Times by phase: F, B, I, W, R, D, U, O, G, and FB for an overlapped pair;
    for messages `comm`, the latency, and `send`, the time for which a message
    holds its queues. One time applies to every stage; a list has one per stage.
    Units are ps, ns, us, ms and s; a time is a whole number of picoseconds.

    Defaults: B is I + W, R is F, FB is F + B; D, U, O, G, comm and send are 0.
    If only B is given, a table with I and W is an error.

    ```mlir
    pipe.schedule @profiled workers 2 microbatches 2
        profile <"F=[18ms,19.5ms],I=18.086ms,W=9.337ms,comm=601us"> {
      path on [0, 1]
    }
    ```

    Constraints:
    - `profile_c1`: names are known and none occurs twice; there is at least
      one.
    - `profile_c2`: times are not negative, have a unit, and are whole
      picoseconds within 64 bits.
  }];
  // The canonical text, defined by parseProfile and printProfile.
  let parameters = (ins StringRefParameter<>:$times);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static ProfileAttr get(::mlir::MLIRContext *context,
                           const ::pipesched::Profile &profile);
    ::pipesched::Profile toFacts() const;
  }];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEPROFILEATTRS_TD
