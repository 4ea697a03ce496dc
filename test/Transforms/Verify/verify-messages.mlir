// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=unbounded receive-placement=consumer})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=fifo})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=batched})' -o /dev/null
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=batched receive-placement=arrival schedule=one_f_one_b})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=rendezvous})' 2>&1 | FileCheck %s --check-prefix=RENDEZVOUS
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=fifo receive-placement=consumer})' 2>&1 | FileCheck %s --check-prefix=FIFO
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=batched receive-placement=consumer})' 2>&1 | FileCheck %s --check-prefix=BATCHED

// PIPELINE: pipe-verify{memory= memory-times=any messages=batched receive-placement=arrival schedule=one_f_one_b transport=overlap}

// Neighbours exchange 0F2 and 1B1, and both send first.
// RENDEZVOUS:      :[[#@LINE+8]]:1: error: 'pipe.schedule' op deadlocks with messages=rendezvous in a cycle of 4 waits
// RENDEZVOUS-NEXT: pipe.schedule @one_f_one_b
// RENDEZVOUS:      :[[#@LINE+8]]:30: note: send 0F2 to 1 on worker 0 waits for recv 0F2 from 0 on worker 1 (its message)
// RENDEZVOUS:      :[[#@LINE+8]]:3: note: recv 0F2 from 0 comes after send 1B1 to 0 in the row of worker 1
// RENDEZVOUS:      :[[#@LINE+7]]:30: note: send 1B1 to 0 on worker 1 waits for recv 1B1 from 1 on worker 0 (its message)
// RENDEZVOUS:      :[[#@LINE+5]]:3: note: recv 1B1 from 1 comes after send 0F2 to 1 in the row of worker 0
// FIFO-NOT: op deadlocks
// BATCHED-NOT: op deadlocks
pipe.schedule @one_f_one_b workers 2 microbatches 3 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}

// At any time all messages go one way.
// RENDEZVOUS-NOT: op deadlocks
pipe.schedule @gpipe workers 2 microbatches 3 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}

// Worker 1 wants the second message first.
// RENDEZVOUS: error: 'pipe.schedule' op deadlocks with messages=rendezvous in a cycle of 4 waits
// FIFO:      :[[#@LINE+6]]:1: error: 'pipe.schedule' op deadlocks with messages=fifo in a cycle of 2 waits
// FIFO-NEXT: pipe.schedule @crossing
// FIFO:      :[[#@LINE+7]]:3: note: recv 0F0 from 0 comes after recv 0F1 from 0 in the row of worker 1
// FIFO:      :[[#@LINE+6]]:3: note: recv 0F1 from 0 on worker 1 waits for recv 0F0 from 0 on worker 1 (sent before it)
// FIFO-NOT: note:
// BATCHED:   error: 'pipe.schedule' op deadlocks with messages=batched in a cycle of 4 waits
pipe.schedule @crossing workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B1 0B0]
  worker 1 runs [1F1 1B1 1F0 1B0]
}

// Worker 0 has a compute, and so a batch, between 0F2 and the receive of 1B0;
// worker 1 answers with 1B0 in the batch before that of 0F2.
// BATCHED:      :[[#@LINE+7]]:1: error: 'pipe.schedule' op deadlocks with messages=batched in a cycle of 4 waits
// BATCHED-NEXT: pipe.schedule @late_receives
// BATCHED:      :[[#@LINE+7]]:26: note: send 0F2 to 1 on worker 0 waits for recv 0F2 from 0 on worker 1 (its message)
// BATCHED:      :[[#@LINE+7]]:3: note: recv 0F2 from 0 comes after send 1B0 to 0 in the row of worker 1
// BATCHED:      :[[#@LINE+6]]:22: note: send 1B0 to 0 on worker 1 waits for recv 1B0 from 1 on worker 0 (its message)
// BATCHED:      :[[#@LINE+4]]:3: note: recv 1B0 from 1 comes after send 0F2 to 1 in the row of worker 0
// BATCHED-NOT: note:
pipe.schedule @late_receives workers 2 microbatches 4 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3]
}
