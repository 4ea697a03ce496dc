// Errors point at the cell, not only at its line, and print no row.

// RUN: split-file %s %t
// RUN: not pipesched-opt %t/letter.mlir 2>&1 | FileCheck %s --check-prefix=LETTER
// RUN: not pipesched-opt %t/number.mlir 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not pipesched-opt %t/order.mlir 2>&1 | FileCheck %s --check-prefix=ORDER

//--- letter.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0K1]
}
// LETTER:      letter.mlir:3:26: error: custom op 'pipe.worker' unknown phase 'K' in '0K1'

//--- number.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1+0B0 _0 0B1]
}
// NUMBER:      number.mlir:3:30: error: custom op 'pipe.worker' idle slots of '_0'

//--- order.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1
                 0B0 0F1]
}
// ORDER:      order.mlir:4:22: error: 'pipe.worker' op cell 3 (0F1) occurs twice
// ORDER-NEXT: {{^}}                 0B0 0F1]
// ORDER-NEXT: {{^}}                     ^
// ORDER-NEXT: order.mlir:3:22: note: 0F1 is cell 1 of this row
// ORDER-NOT:  see current operation

// Comments and overlaps between the cells.
// RUN: not pipesched-opt %t/comment.mlir 2>&1 | FileCheck %s --check-prefix=COMMENT

//--- comment.mlir
pipe.schedule @s workers 1 microbatches 3 {
  path on [0]
  worker 0 runs [0F0 // ] 0F0
                 0F1 0F2+0B0
                 0B1 0F1]
}
// COMMENT:      comment.mlir:5:22: error: 'pipe.worker' op cell 5 (0F1) occurs twice
// COMMENT:      comment.mlir:4:18: note: 0F1 is cell 1 of this row

// A row that a pass has changed has no places in the text: its first word marks it.
// RUN: not pipesched-opt %t/changed.mlir --pass-pipeline='builtin.module(pipe-split-backward, pipe-verify{memory=1})' 2>&1 | FileCheck %s --check-prefix=CHANGED

//--- changed.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
// CHANGED: changed.mlir:3:3: error: 'pipe.worker' op worker 0 holds 2 activations
