// RUN: pipesched-opt %s -convert-pipe-to-exec -split-input-file | FileCheck %s
// RUN: pipesched-opt %s -convert-pipe-to-exec=receive-placement=consumer -split-input-file | FileCheck %s --check-prefix=CONSUMER

// Messages of slot s come after the cells that start in s: worker 1 receives 0F2 and
// 2B0 before it runs 1B0. With consumer 0F2 comes before 1F2.
// CHECK-LABEL: exec.program @one_f_one_b workers 3 microbatches 3 family "1f1b" {
// CHECK-NEXT:      pipe.path on [0, 1, 2]
// CHECK-NEXT:      worker 0 {
// CHECK-NEXT:        %f0 = compute 0F0
// CHECK-NEXT:        %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:        %f1 = compute 0F1
// CHECK-NEXT:        %s1 = send 0F1 to 1 after %f1
// CHECK-NEXT:        %f2 = compute 0F2
// CHECK-NEXT:        %s2 = send 0F2 to 1 after %f2
// CHECK-NEXT:        %g0 = recv 1B0 from 1
// CHECK-NEXT:        %b0 = compute 0B0 after %f0, %g0
// CHECK-NEXT:        %g1 = recv 1B1 from 1
// CHECK-NEXT:        %b1 = compute 0B1 after %f1, %g1
// CHECK-NEXT:        %g2 = recv 1B2 from 1
// CHECK-NEXT:        %b2 = compute 0B2 after %f2, %g2
// CHECK-NEXT:      }
// CHECK-NEXT:      worker 1 {
// CHECK-NEXT:        %act0 = recv 0F0 from 0
// CHECK-NEXT:        %f0 = compute 1F0 after %act0
// CHECK-NEXT:        %s0 = send 1F0 to 2 after %f0
// CHECK-NEXT:        %act1 = recv 0F1 from 0
// CHECK-NEXT:        %f1 = compute 1F1 after %act1
// CHECK-NEXT:        %s1 = send 1F1 to 2 after %f1
// CHECK-NEXT:        %act2 = recv 0F2 from 0
// CHECK-NEXT:        %g0 = recv 2B0 from 2
// CHECK-NEXT:        %b0 = compute 1B0 after %f0, %g0
// CHECK-NEXT:        %sg0 = send 1B0 to 0 after %b0
// CHECK-NEXT:        %f2 = compute 1F2 after %act2
// CHECK-NEXT:        %s2 = send 1F2 to 2 after %f2
// CHECK-NEXT:        %g1 = recv 2B1 from 2
// CHECK-NEXT:        %b1 = compute 1B1 after %f1, %g1
// CHECK-NEXT:        %sg1 = send 1B1 to 0 after %b1
// CHECK-NEXT:        %g2 = recv 2B2 from 2
// CHECK-NEXT:        %b2 = compute 1B2 after %f2, %g2
// CHECK-NEXT:        %sg2 = send 1B2 to 0 after %b2
// CHECK-NEXT:      }
// CHECK-NEXT:      worker 2 {
// CHECK-NEXT:        %act0 = recv 1F0 from 1
// CHECK-NEXT:        %f0 = compute 2F0 after %act0
// CHECK-NEXT:        %act1 = recv 1F1 from 1
// CHECK-NEXT:        %b0 = compute 2B0 after %f0
// CHECK-NEXT:        %sg0 = send 2B0 to 1 after %b0
// CHECK-NEXT:        %f1 = compute 2F1 after %act1
// CHECK-NEXT:        %b1 = compute 2B1 after %f1
// CHECK-NEXT:        %sg1 = send 2B1 to 1 after %b1
// CHECK-NEXT:        %act2 = recv 1F2 from 1
// CHECK-NEXT:        %f2 = compute 2F2 after %act2
// CHECK-NEXT:        %b2 = compute 2B2 after %f2
// CHECK-NEXT:        %sg2 = send 2B2 to 1 after %b2
// CHECK-NEXT:      }
// CHECK-NEXT:    }

// CONSUMER-LABEL: exec.program @one_f_one_b
// CONSUMER:         worker 1 {
// CONSUMER:           %act1 = recv 0F1 from 0
// CONSUMER-NEXT:      %f1 = compute 1F1 after %act1
// CONSUMER-NEXT:      %s1 = send 1F1 to 2 after %f1
// CONSUMER-NEXT:      %g0 = recv 2B0 from 2
// CONSUMER-NEXT:      %b0 = compute 1B0 after %f0, %g0
// CONSUMER-NEXT:      %sg0 = send 1B0 to 0 after %b0
// CONSUMER-NEXT:      %act2 = recv 0F2 from 0
// CONSUMER-NEXT:      %f2 = compute 1F2 after %act2
// CONSUMER:         worker 2 {
// CONSUMER:           %sg0 = send 2B0 to 1 after %b0
// CONSUMER-NEXT:      %act1 = recv 1F1 from 1
// CONSUMER-NEXT:      %f1 = compute 2F1 after %act1
pipe.schedule @one_f_one_b workers 3 microbatches 3 family "1f1b" {
  path on [0, 1, 2]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1B0 1F2 1B1 1B2]
  worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2]
}

// -----

// The header, paths and foreign attributes are kept. The gradient is sent after W.
// CHECK-LABEL: exec.program @header workers 2 microbatches 4 family "gpipe" {split_backward = true} gradient after W recompute selective model @toy profile <"F=1us,I=1us,W=1us"> attributes {test.a} {
// CHECK-NEXT:    pipe.path on [0, 1] takes [0:4:2] blocks [1, 3]
// CHECK-NEXT:    pipe.path on [1, 0] takes [1, 3] weights [3, 1]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:      %act1_1 = recv 0F1 from 1
// CHECK-NEXT:      %f2 = compute 0F2
// CHECK-NEXT:      %s2 = send 0F2 to 1 after %f2
// CHECK-NEXT:      %act3_1 = recv 0F3 from 1
// CHECK-NEXT:      %g0 = recv 1W0 from 1
// CHECK-NEXT:      %i0 = compute 0I0 after %f0, %g0
// CHECK-NEXT:      %w0 = compute 0W0 after %i0
// CHECK-NEXT:      %g2 = recv 1W2 from 1
// CHECK-NEXT:      %i2 = compute 0I2 after %f2, %g2
// CHECK-NEXT:      %w2 = compute 0W2 after %i2
// CHECK-NEXT:      %f1_1 = compute 1F1 after %act1_1
// CHECK-NEXT:      %f3_1 = compute 1F3 after %act3_1
// CHECK-NEXT:      %i1_1 = compute 1I1 after %f1_1
// CHECK-NEXT:      %w1_1 = compute 1W1 after %i1_1
// CHECK-NEXT:      %sg1_1 = send 1W1 to 1 after %w1_1
// CHECK-NEXT:      %i3_1 = compute 1I3 after %f3_1
// CHECK-NEXT:      %w3_1 = compute 1W3 after %i3_1
// CHECK-NEXT:      %sg3_1 = send 1W3 to 1 after %w3_1
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK-NEXT:      %f1 = compute 0F1
// CHECK-NEXT:      %s1 = send 0F1 to 0 after %f1
// CHECK-NEXT:      %act0_1 = recv 0F0 from 0
// CHECK-NEXT:      %f3 = compute 0F3
// CHECK-NEXT:      %s3 = send 0F3 to 0 after %f3
// CHECK-NEXT:      %act2_1 = recv 0F2 from 0
// CHECK-NEXT:      %f0_1 = compute 1F0 after %act0_1
// CHECK-NEXT:      %f2_1 = compute 1F2 after %act2_1
// CHECK-NEXT:      %i0_1 = compute 1I0 after %f0_1
// CHECK-NEXT:      %w0_1 = compute 1W0 after %i0_1
// CHECK-NEXT:      %sg0_1 = send 1W0 to 0 after %w0_1
// CHECK-NEXT:      %i2_1 = compute 1I2 after %f2_1
// CHECK-NEXT:      %w2_1 = compute 1W2 after %i2_1
// CHECK-NEXT:      %sg2_1 = send 1W2 to 0 after %w2_1
// CHECK-NEXT:      %g1 = recv 1W1 from 0
// CHECK-NEXT:      %i1 = compute 0I1 after %f1, %g1
// CHECK-NEXT:      %w1 = compute 0W1 after %i1
// CHECK-NEXT:      %g3 = recv 1W3 from 0
// CHECK-NEXT:      %i3 = compute 0I3 after %f3, %g3
// CHECK-NEXT:      %w3 = compute 0W3 after %i3
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.model @toy microbatch_size 1 boundary_bytes 64 state_bytes [2, 2, 12] {
  block "layer" x 4 parameters 16 activation_bytes 256 {}
}
pipe.schedule @header workers 2 microbatches 4 family "gpipe" {split_backward = true}
    gradient after W recompute selective model @toy profile <"F=1us,I=1us,W=1us"> attributes {test.a} {
  path on [0, 1] takes [0:4:2] blocks [1, 3]
  path on [1, 0] takes [1, 3] weights [3, 1]
  worker 0 runs [0F0 0F2 0I0 0W0 0I2 0W2 1F1 1F3 1I1 1W1 1I3 1W3]
  worker 1 runs [0F1 0F3 1F0 1F2 1I0 1W0 1I2 1W2 0I1 0W1 0I3 0W3]
}

// -----

// Neighbouring stages of one worker need no message: 2F0 waits for 1F0 itself. Workers
// are in order, even if the rows are not.
// CHECK-LABEL: exec.program @v workers 2 microbatches 1 {
// CHECK-NEXT:    pipe.path on [0, 1, 1, 0]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:      %act0_3 = recv 2F0 from 1
// CHECK-NEXT:      %f0_3 = compute 3F0 after %act0_3
// CHECK-NEXT:      %b0_3 = compute 3B0 after %f0_3
// CHECK-NEXT:      %sg0_3 = send 3B0 to 1 after %b0_3
// CHECK-NEXT:      %g0 = recv 1B0 from 1
// CHECK-NEXT:      %b0 = compute 0B0 after %f0, %g0
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK-NEXT:      %act0 = recv 0F0 from 0
// CHECK-NEXT:      %f0 = compute 1F0 after %act0
// CHECK-NEXT:      %f0_2 = compute 2F0 after %f0
// CHECK-NEXT:      %s0_2 = send 2F0 to 0 after %f0_2
// CHECK-NEXT:      %g0_2 = recv 3B0 from 0
// CHECK-NEXT:      %b0_2 = compute 2B0 after %f0_2, %g0_2
// CHECK-NEXT:      %b0 = compute 1B0 after %f0, %b0_2
// CHECK-NEXT:      %sg0 = send 1B0 to 0 after %b0
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.schedule @v workers 2 microbatches 1 {
  path on [0, 1, 1, 0]
  worker 1 runs [1F0 2F0 2B0 1B0]
  worker 0 runs [0F0 3F0 3B0 0B0]
}

// -----

// A copy waits for the compute cell before it, which issues it; a join becomes a wait;
// a backward waits for its reload.
// CHECK-LABEL: exec.program @offloaded workers 1 microbatches 2 {
// CHECK-NEXT:    pipe.path on [0]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %d0 = offload 0D0 after %f0
// CHECK-NEXT:      %f1 = compute 0F1
// CHECK-NEXT:      wait after %d0
// CHECK-NEXT:      %b1 = compute 0B1 after %f1
// CHECK-NEXT:      %u0 = reload 0U0 after %b1, %d0
// CHECK-NEXT:      wait after %u0
// CHECK-NEXT:      %b0 = compute 0B0 after %f0, %u0
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.schedule @offloaded workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0d0 0B1 0U0 0u0 0B0]
}

// -----

// An overlapped pair is one op that waits once for each dependence of its halves. Idle
// slots are dropped, and a wait of the pair occurs once for both.
// CHECK-LABEL: exec.program @overlapped workers 1 microbatches 2 {
// CHECK-NEXT:    pipe.path on [0]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %f1_i0 = compute 0F1+0I0 after %f0
// CHECK-NEXT:      %w0 = compute 0W0 after %f1_i0
// CHECK-NEXT:      %r1 = compute 0R1 after %f1_i0
// CHECK-NEXT:      %i1 = compute 0I1 after %f1_i0, %r1
// CHECK-NEXT:      %w1 = compute 0W1 after %i1
// CHECK-NEXT:      %o0 = compute 0O0
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.schedule @overlapped workers 1 microbatches 2 aligned {
  path on [0]
  worker 0 runs [0F0 _2 0F1+0I0 0W0 0R1 0I1 0W1 0O0]
}

// -----

// Both halves of a pair may send.
// CHECK-LABEL: exec.program @pairs workers 2 microbatches 4 {
// CHECK-NEXT:    pipe.path on [0, 1] takes [0, 2]
// CHECK-NEXT:    pipe.path on [1, 0] takes [1, 3]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:      %act1_1 = recv 0F1 from 1
// CHECK-NEXT:      %f1_1 = compute 1F1 after %act1_1
// CHECK-NEXT:      %f2_b1 = compute 0F2+1B1 after %f1_1
// CHECK-NEXT:      %s2 = send 0F2 to 1 after %f2_b1
// CHECK-NEXT:      %sg1_1 = send 1B1 to 1 after %f2_b1
// CHECK-NEXT:      %act3_1 = recv 0F3 from 1
// CHECK-NEXT:      %g0 = recv 1B0 from 1
// CHECK-NEXT:      %f3_b0 = compute 1F3+0B0 after %act3_1, %f0, %g0
// CHECK-NEXT:      %b3_1 = compute 1B3 after %f3_b0
// CHECK-NEXT:      %sg3_1 = send 1B3 to 1 after %b3_1
// CHECK-NEXT:      %g2 = recv 1B2 from 1
// CHECK-NEXT:      %b2 = compute 0B2 after %f2_b1, %g2
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK-NEXT:      %f1 = compute 0F1
// CHECK-NEXT:      %s1 = send 0F1 to 0 after %f1
// CHECK-NEXT:      %act0_1 = recv 0F0 from 0
// CHECK-NEXT:      %f0_1 = compute 1F0 after %act0_1
// CHECK-NEXT:      %f3_b0 = compute 0F3+1B0 after %f0_1
// CHECK-NEXT:      %s3 = send 0F3 to 0 after %f3_b0
// CHECK-NEXT:      %sg0_1 = send 1B0 to 0 after %f3_b0
// CHECK-NEXT:      %act2_1 = recv 0F2 from 0
// CHECK-NEXT:      %g1 = recv 1B1 from 0
// CHECK-NEXT:      %f2_b1 = compute 1F2+0B1 after %act2_1, %f1, %g1
// CHECK-NEXT:      %b2_1 = compute 1B2 after %f2_b1
// CHECK-NEXT:      %sg2_1 = send 1B2 to 0 after %b2_1
// CHECK-NEXT:      %g3 = recv 1B3 from 0
// CHECK-NEXT:      %b3 = compute 0B3 after %f3_b0, %g3
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.schedule @pairs workers 2 microbatches 4 {
  path on [0, 1] takes [0, 2]
  path on [1, 0] takes [1, 3]
  worker 0 runs [0F0 1F1 0F2+1B1 1F3+0B0 1B3 0B2]
  worker 1 runs [0F1 1F0 0F3+1B0 1F2+0B1 1B2 0B3]
}

// -----

// An offload waits for the send of the output that it frees, and a join holds the
// reload right after it.
// CHECK-LABEL: exec.program @sent_and_offloaded workers 2 microbatches 2 {
// CHECK:         worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:      %d0 = offload 0D0 after %f0, %s0
// CHECK-NEXT:      %f1 = compute 0F1
// CHECK-NEXT:      %s1 = send 0F1 to 1 after %f1
// CHECK-NEXT:      %d1 = offload 0D1 after %f1, %s1
// CHECK-NEXT:      wait after %d1
// CHECK-NEXT:      %u0 = reload 0U0 after %f1, %d0
pipe.schedule @sent_and_offloaded workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0D0 0F1 0D1 0d1 0U0 0B0 0U1 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
