// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2 way=ramp blocks=120})' | FileCheck %s --check-prefix=RAMP
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=4:6 way=ends blocks=40})' | FileCheck %s --check-prefix=ENDS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=2:1 way=middle pairs=2 assign=halves})' | FileCheck %s --check-prefix=MIDDLE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=3:2 on=wave})' | FileCheck %s --check-prefix=WAVE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=2:1 way=middle pairs=2 assign=halves})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-asymmetric{ratio=1:3})' | FileCheck %s --check-prefix=MODEL
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:3},pipe-attach-model{name=toy})' | FileCheck %s --check-prefix=MODEL

// CHECK-LABEL:  pipe.schedule @p workers 4 microbatches 8 {
// CHECK-NEXT:     path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// CHECK-NEXT:     path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
// CHECK-NEXT:   }
// RAMP-LABEL:   pipe.schedule @p workers 4 microbatches 8 {
// RAMP-NEXT:      path on [0, 1, 2, 3] takes [0:8:2] blocks [15, 25, 35, 45]
// RAMP-NEXT:      path on [3, 2, 1, 0] takes [1:8:2] blocks [15, 25, 35, 45]
// RAMP-NEXT:    }
// ENDS-LABEL:   pipe.schedule @p workers 4 microbatches 8 {
// ENDS-NEXT:      path on [0, 1, 2, 3] takes [0:8:2] blocks [6, 10, 10, 14]
// ENDS-NEXT:      path on [3, 2, 1, 0] takes [1:8:2] blocks [6, 10, 10, 14]
// ENDS-NEXT:    }
// MIDDLE-LABEL: pipe.schedule @p workers 4 microbatches 8 {
// MIDDLE-NEXT:    path on [0, 1, 2, 3] takes [0:2] weights [3, 5, 1, 3]
// MIDDLE-NEXT:    path on [3, 2, 1, 0] takes [2:4] weights [3, 5, 1, 3]
// MIDDLE-NEXT:    path on [2, 3, 0, 1] takes [4:6] weights [3, 5, 1, 3]
// MIDDLE-NEXT:    path on [1, 0, 3, 2] takes [6:8] weights [3, 5, 1, 3]
// MIDDLE-NEXT:  }
// WAVE-LABEL:   pipe.schedule @p workers 4 microbatches 8 {
// WAVE-NEXT:      path on [0, 1, 2, 3, 3, 2, 1, 0] weights [3, 3, 3, 3, 2, 2, 2, 2]
// WAVE-NEXT:    }
// MODEL-LABEL:  pipe.schedule @p workers 4 microbatches 8 model @toy {
// MODEL-NEXT:     path on [0, 1, 2, 3] takes [0:8:2] blocks [1, 1, 3, 3]
// MODEL-NEXT:     path on [3, 2, 1, 0] takes [1:8:2] blocks [1, 1, 3, 3]
// MODEL-NEXT:   }
// PIPELINE:     pipe-place-asymmetric{assign=halves blocks=0 on=mirrored pairs=2 ratio=2:1 schedule= waves=1 way=middle}
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
