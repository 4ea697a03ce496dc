// Errors point at the cell, not only at its line, and print no row.

// RUN: split-file %s %t
// RUN: not pipesched-opt %t/letter.mlir 2>&1 | FileCheck %s --check-prefix=LETTER
// RUN: not pipesched-opt %t/number.mlir 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not pipesched-opt %t/order.mlir 2>&1 | FileCheck %s --check-prefix=ORDER

//--- letter.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0X1]
}
// LETTER:      letter.mlir:3:26: error: custom op 'pipe.worker' unknown phase 'X' in '0X1'

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
// ORDER:      order.mlir:3:3: error: 'pipe.worker' op cell 3 (0F1) occurs twice
// ORDER-NEXT:   worker 0 runs [0F0 0F1
// ORDER-NEXT:   ^
// ORDER-NEXT: order.mlir:3:3: note: 0F1 is cell 1 of this row
// ORDER-NOT:  see current operation
