// A row is a blob: it is written, read back, and refused if it is truncated or changed.

// RUN: pipesched-opt-raw %s --emit-bytecode -o %t.bc
// RUN: pipesched-opt-raw %t.bc | FileCheck %s
// RUN: %python %S/Inputs/refuses-prefixes.py %t.bc pipesched-opt-raw

// The idle entry _12 is 0c 00 00 00 00 00 00 0b; the last byte is its phase.
// RUN: %python -c "import sys; b = open(sys.argv[1], 'rb').read(); i = b.index(bytes([12, 0, 0, 0, 0, 0, 0, 11])); open(sys.argv[2], 'wb').write(b[:i+7] + bytes([21]) + b[i+8:])" %t.bc %t.phase.bc
// RUN: not pipesched-opt-raw %t.phase.bc 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: {{.*}}: entry 1 (1513209474796486668) is not the bits of a cell

// RUN: %python -c "import sys; b = open(sys.argv[1], 'rb').read(); i = b.index(bytes([12, 0, 0, 0, 0, 0, 0, 11])); open(sys.argv[2], 'wb').write(b[:i] + bytes([0]) + b[i+1:])" %t.bc %t.idle.bc
// RUN: not pipesched-opt-raw %t.idle.bc 2>&1 | FileCheck %s --check-prefix=IDLE
// IDLE: error: {{.*}}: entry 1 (792633534417207296) is not the bits of a cell

// CHECK:      pipe.schedule @s workers 2 microbatches 3 family "hand" {group = 4 : i64} gradient after W {
// CHECK-NEXT:   path on [0, 1] takes [0:3:2] weights [1, 2]
// CHECK-NEXT:   path on [1, 0] takes [1] blocks [3, 5]
// CHECK-NEXT:   worker 0 runs [0F0 _12 0F2+1F1 0I0 0W0 1B1 0I2 0W2]
// CHECK-NEXT:   worker 1 runs []
// CHECK-NEXT: }
pipe.schedule @s workers 2 microbatches 3 family "hand" {group = 4} gradient after W {
  path on [0, 1] takes [0:3:2] weights [1, 2]
  path on [1, 0] takes [1] blocks [3, 5]
  worker 0 runs [0F0 _12 0F2+1F1 0I0 0W0 1B1 0I2 0W2]
  worker 1 runs []
}
