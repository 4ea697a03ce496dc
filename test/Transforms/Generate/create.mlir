// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=small workers=4 microbatches=8})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=1},pipe-create{name=largest workers=65536 microbatches=2147483647})' | FileCheck %s --check-prefix=SIZES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=small workers=4 microbatches=8})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

module {}

// CHECK:      module {
// CHECK-NEXT:   pipe.schedule @small workers 4 microbatches 8 {
// CHECK-NEXT:     path on [0, 1, 2, 3]
// CHECK-NEXT:   }
// CHECK-NEXT: }

// SIZES:      pipe.schedule @schedule workers 1 microbatches 1 {
// SIZES-NEXT:   path on [0]
// SIZES-NEXT: }
// SIZES-NEXT: pipe.schedule @largest workers 65536 microbatches 2147483647 {
// SIZES-NEXT:   path on [0, 1, 2,
// SIZES-SAME:   65534, 65535]

// PIPELINE: pipe-create{microbatches=8 name=small slices=1 workers=4}
