// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-seq1f1b{schedule=seq1f1b slices=2},pipe-schedule-seq1f1b{schedule=interleaved slices=2 chunks=2},pipe-schedule-slimpipe{schedule=slimpipe slices=4},pipe-schedule-slimpipe{schedule=slimpipe_chunks slices=4 chunks=2},pipe-schedule-terapipe{schedule=terapipe slices=2},pipe-schedule-zb-h1{schedule=zb_h1 slices=2},pipe-schedule-zb-v{schedule=zb_v slices=2},pipe-schedule-greedy{schedule=greedy slices=2},pipe-verify)' | FileCheck %s

// The order of Seq1F1B, arXiv 2406.03488: D-r+k-1 forwards first.
// CHECK-LABEL: pipe.schedule @seq1f1b workers 4 microbatches 4 slices 2 family "seq1f1b" {
// CHECK-NEXT:     path on [0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F1.0 0F1.1 0F2.0 0B0.1 0F2.1 0B0.0 0F3.0 0B1.1 0F3.1 0B1.0 0B2.1 0B2.0 0B3.1 0B3.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 1F1.0 1F1.1 1B0.1 1F2.0 1B0.0 1F2.1 1B1.1 1F3.0 1B1.0 1F3.1 1B2.1 1B2.0 1B3.1 1B3.0]
// CHECK-NEXT:     worker 2 runs [2F0.0 2F0.1 2F1.0 2B0.1 2F1.1 2B0.0 2F2.0 2B1.1 2F2.1 2B1.0 2F3.0 2B2.1 2F3.1 2B2.0 2B3.1 2B3.0]
// CHECK-NEXT:     worker 3 runs [3F0.0 3F0.1 3B0.1 3F1.0 3B0.0 3F1.1 3B1.1 3F2.0 3B1.0 3F2.1 3B2.1 3F3.0 3B2.0 3F3.1 3B3.1 3B3.0]
// CHECK-NEXT:   }
pipe.schedule @seq1f1b workers 4 microbatches 4 {
  path on [0, 1, 2, 3]
}

// Chunks take turns in groups of the least multiple of k that is at least D.
// CHECK-LABEL: pipe.schedule @interleaved workers 2 microbatches 2 slices 2 family "seq1f1b" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 2F0.0 2F0.1 0F1.0 0F1.1 2B0.1 2F1.0 2B0.0 2F1.1 0B0.1 0B0.0 2B1.1 2B1.0 0B1.1 0B1.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 3F0.0 3F0.1 3B0.1 1F1.0 3B0.0 1F1.1 1B0.1 3F1.0 1B0.0 3F1.1 3B1.1 3B1.0 1B1.1 1B1.0]
// CHECK-NEXT:   }
pipe.schedule @interleaved workers 2 microbatches 2 {
  path on [0, 1]
}

// As many slices in flight as one microbatch has, and two more for each later worker.
// CHECK-LABEL: pipe.schedule @slimpipe workers 2 microbatches 2 slices 4 family "slimpipe" {
// CHECK-NEXT:     path on [0, 1]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F0.2 0F0.3 0F1.0 0F1.1 0B0.3 0F1.2 0B0.2 0F1.3 0B0.1 0B0.0 0B1.3 0B1.2 0B1.1 0B1.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 1F0.2 1F0.3 1B0.3 1F1.0 1B0.2 1F1.1 1B0.1 1F1.2 1B0.0 1F1.3 1B1.3 1B1.2 1B1.1 1B1.0]
// CHECK-NEXT:   }
pipe.schedule @slimpipe workers 2 microbatches 2 {
  path on [0, 1]
}

// CHECK-LABEL: pipe.schedule @slimpipe_chunks workers 2 microbatches 1 slices 4 family "slimpipe" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 2F0.0 2F0.1 0F0.2 0F0.3 2F0.2 2F0.3 2B0.3 2B0.2 0B0.3 0B0.2 2B0.1 2B0.0 0B0.1 0B0.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 3F0.0 3F0.1 1F0.2 1F0.3 3F0.2 3F0.3 3B0.3 3B0.2 1B0.3 1B0.2 3B0.1 3B0.0 1B0.1 1B0.0]
// CHECK-NEXT:   }
pipe.schedule @slimpipe_chunks workers 2 microbatches 1 {
  path on [0, 1]
}

// All forwards, then all backwards.
// CHECK-LABEL: pipe.schedule @terapipe workers 2 microbatches 2 slices 2 family "terapipe" {
// CHECK-NEXT:     path on [0, 1]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F1.0 0F1.1 0B0.1 0B0.0 0B1.1 0B1.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 1F1.0 1F1.1 1B0.1 1B0.0 1B1.1 1B1.0]
// CHECK-NEXT:   }
pipe.schedule @terapipe workers 2 microbatches 2 {
  path on [0, 1]
}

// ZB-H1 over slices: W is put off by r slices.
// CHECK-LABEL: pipe.schedule @zb_h1 workers 3 microbatches 3 slices 2 family "zb-h1" {
// CHECK-NEXT:     path on [0, 1, 2]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F1.0 0F1.1 0I0.1 0W0.1 0F2.0 0I0.0 0W0.0 0F2.1 0I1.1 0W1.1 0I1.0 0W1.0 0I2.1 0W2.1 0I2.0 0W2.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 1F1.0 1I0.1 1F1.1 1I0.0 1W0.1 1F2.0 1I1.1 1W0.0 1F2.1 1I1.0 1W1.1 1I2.1 1W1.0 1I2.0 1W2.1 1W2.0]
// CHECK-NEXT:     worker 2 runs [2F0.0 2F0.1 2I0.1 2F1.0 2I0.0 2F1.1 2I1.1 2W0.1 2F2.0 2I1.0 2W0.0 2F2.1 2I2.1 2W1.1 2I2.0 2W1.0 2W2.1 2W2.0]
// CHECK-NEXT:   }
pipe.schedule @zb_h1 workers 3 microbatches 3 {
  path on [0, 1, 2]
}

// ZB-V over slices: each chunk runs one forward more before its first I.
// CHECK-LABEL: pipe.schedule @zb_v workers 2 microbatches 3 slices 2 family "zb-v" {
// CHECK-NEXT:     path on [0, 1, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F1.0 3F0.0 0F1.1 3F0.1 3I0.1 3W0.1 3F1.0 3I0.0 3W0.0 0F2.0 0I0.1 0W0.1 3F1.1 3I1.1 3W1.1 0F2.1 0I0.0 0W0.0 3F2.0 3I1.0 3W1.0 0I1.1 0W1.1 3F2.1 3I2.1 3W2.1 0I1.0 0W1.0 3I2.0 3W2.0 0I2.1 0W2.1 0I2.0 0W2.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 2F0.0 1F0.1 2F0.1 1F1.0 2F1.0 2I0.1 2W0.1 1F1.1 1I0.1 1W0.1 2F1.1 2I0.0 2W0.0 1F2.0 1I0.0 1W0.0 2F2.0 2I1.1 2W1.1 1F2.1 1I1.1 1W1.1 2F2.1 2I1.0 2W1.0 1I1.0 1W1.0 2I2.1 2W2.1 1I2.1 2I2.0 1I2.0 1W2.1 2W2.0 1W2.0]
// CHECK-NEXT:   }
pipe.schedule @zb_v workers 2 microbatches 3 {
  path on [0, 1]
}

// The greedy rule: a slice is ready once the one before it has run.
// CHECK-LABEL: pipe.schedule @greedy workers 2 microbatches 2 slices 2 family "greedy" gradient after W {
// CHECK-NEXT:     path on [0, 1]
// CHECK-NEXT:     worker 0 runs [0F0.0 0F0.1 0F1.0 0F1.1 0I0.1 0W0.1 0I0.0 0W0.0 0I1.1 0W1.1 0I1.0 0W1.0]
// CHECK-NEXT:     worker 1 runs [1F0.0 1F0.1 1I0.1 1I0.0 1W0.1 1W0.0 1F1.0 1F1.1 1I1.1 1I1.0 1W1.1 1W1.0]
// CHECK-NEXT:   }
pipe.schedule @greedy workers 2 microbatches 2 {
  path on [0, 1]
}
