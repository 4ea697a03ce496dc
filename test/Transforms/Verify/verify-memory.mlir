// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=2 schedule=one_f_one_b})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=1 schedule=recomputed})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=2 memory-times=given schedule=offloaded},pipe-verify{memory=2 memory-times=given schedule=offloaded transport=delay},pipe-verify{memory=2 schedule=joined})' -o /dev/null
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=1})' 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=2})' 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=1 schedule=one_f_one_b},pipe-verify{memory=340kB schedule=one_f_one_b})' 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=1 schedule=one_f_one_b},pipe-verify{memory=341.76kB schedule=one_f_one_b},pipe-attach-system{name=toy},pipe-verify{memory=system schedule=one_f_one_b})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{memory=3 schedule=one_f_one_b transport=blocking})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-verify{memory=3 memory-times=any messages=unbounded receive-placement=arrival schedule=one_f_one_b transport=blocking}

// ONE:      :[[#@LINE+11]]:22: error: 'pipe.worker' op worker 0 holds 2 activations at cell 1 (0F1), 1 activation more than the budget of 1 activation
// ONE-NEXT: worker 0 runs
// ONE-NEXT: ^
// ONE-NEXT: :[[#@LINE+8]]:22: note: they are those of 0F0, 0F1
// BYTES:      :[[#@LINE+7]]:22: error: 'pipe.worker' op worker 0 holds 341760 bytes (333.8 KiB) at cell 1 (0F1), 1760 bytes (1.7 KiB) more than the budget of 340000 bytes (332.0 KiB)
// BYTES-NEXT: worker 0 runs
// BYTES-NEXT: ^
// BYTES-NEXT: :[[#@LINE+4]]:22: note: 9920 bytes (9.7 KiB) of weights, 9920 bytes (9.7 KiB) of gradients, 59520 bytes (58.1 KiB) of optimizer state and 262400 bytes (256.2 KiB) of activations, of 2 microbatches
// BYTES-NOT:  note:
pipe.schedule @one_f_one_b workers 2 microbatches 3 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}

// R makes them whole one at a time.
pipe.schedule @recomputed workers 2 microbatches 3 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0R0 0B0 0R1 0B1 0R2 0B2]
  worker 1 runs [1F0 1F1 1F2 1R0 1B0 1R1 1B1 1R2 1B2]
}

// 0D0 ends with 0F1, before 0F2 starts, but nothing says that it must. The pass
// checks all schedules.
// ONE:      :[[#@LINE+10]]:30: error: 'pipe.worker' op worker 0 may hold 3 activations at cell 3 (0F2), 2 activations more than the budget of 1 activation
// ONE-NEXT: worker 0 runs
// ONE-NEXT: ^
// ONE-NEXT: :[[#@LINE+7]]:30: note: what 0D0 frees counts, since nothing before waits for it: a join (0d0) does; memory-times=given proves the budget for the attached times alone
// TWO:      :[[#@LINE+6]]:30: error: 'pipe.worker' op worker 0 may hold 3 activations at cell 3 (0F2), 1 activation more than the budget of 2 activations
// TWO-NEXT: worker 0 runs
// TWO-NEXT: ^
// TWO-NEXT: :[[#@LINE+3]]:30: note: what 0D0 frees counts
pipe.schedule @offloaded workers 1 microbatches 3 profile <"F=10ps,B=20ps,D=10ps"> {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0F2 0B2 0B1 0U0 0B0]
}

// 0F2 waits for the memory that 0D0 frees, and the reload 0U0 for what 0D1 frees:
// one join before the compute cell, one only before the reload.
// TWO-NOT: error
pipe.schedule @joined workers 1 microbatches 3 {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0D1 0d0 0F2 0d1 0U0 0B2 0U1 0B0 0B1]
}
