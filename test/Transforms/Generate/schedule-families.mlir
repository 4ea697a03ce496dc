// The pass of each family: its options, and a table of a small size by whole rows. Larger tables, the sizes that
// a family refuses and its promises are tested in unittests/Schedule.

// DEFINE: %{passes} = \
// DEFINE: pipe-schedule-gpipe{schedule=gpipe}, \
// DEFINE: pipe-schedule-gpipe{schedule=gpipe_split split-backward=true gradient-after=I}, \
// DEFINE: pipe-schedule-1f1b{schedule=one_f_one_b}, \
// DEFINE: pipe-schedule-eager-1f1b{schedule=eager split-backward=true}, \
// DEFINE: pipe-schedule-zb-h1{schedule=zb_h1}, \
// DEFINE: pipe-schedule-zb-h2{schedule=zb_h2}, \
// DEFINE: pipe-schedule-looped-bfs{schedule=looped_bfs chunks=2}, \
// DEFINE: pipe-schedule-mpmd-circular{schedule=mpmd_circular chunks=2}, \
// DEFINE: pipe-schedule-interleaved-1f1b{schedule=interleaved chunks=2 group=3}, \
// DEFINE: pipe-schedule-combined-1f1b{schedule=combined chunks=2}, \
// DEFINE: pipe-schedule-interleaved-zb{schedule=interleaved_zb chunks=2}, \
// DEFINE: pipe-schedule-chimera{schedule=chimera construction=halving pairs=1}, \
// DEFINE: pipe-schedule-hanayo{schedule=hanayo waves=1}, \
// DEFINE: pipe-schedule-zb-v{schedule=zb_v}, \
// DEFINE: pipe-schedule-v-half{schedule=v_half}, \
// DEFINE: pipe-schedule-v-min{schedule=v_min}, \
// DEFINE: pipe-schedule-zb-auto{schedule=zb_auto memory=3}, \
// DEFINE: pipe-schedule-dualpipe-v{schedule=dualpipe_v}, \
// DEFINE: pipe-schedule-dualpipe{schedule=dualpipe}, \
// DEFINE: pipe-schedule-greedy{schedule=greedy gradient-after=I}, \
// DEFINE: pipe-schedule-vocab-1f1b{schedule=vocab}, \
// DEFINE: pipe-schedule-vocab-1f1b{schedule=vocab_2 vocabulary=vocab-2}, \
// DEFINE: pipe-schedule-vocab-1f1b{schedule=vocab_short backward=150}, \
// DEFINE: pipe-schedule-vocab-v-half{schedule=vocab_v}, \
// DEFINE: pipe-schedule-interlaced-1f1b{schedule=interlaced}

// RUN: pipesched-opt %s --dump-pass-pipeline --pass-pipeline='builtin.module(%{passes},pipe-verify)' -o %t 2> %t.dump
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=DUMP < %t.dump

// DUMP:      builtin.module(
// DUMP-NEXT:   pipe-schedule-gpipe{forward-only=false gradient-after=W schedule=gpipe split-backward=false},
// DUMP-NEXT:   pipe-schedule-gpipe{forward-only=false gradient-after=I schedule=gpipe_split split-backward=true},
// DUMP-NEXT:   pipe-schedule-1f1b{forward-only=false gradient-after=W schedule=one_f_one_b split-backward=false},
// DUMP-NEXT:   pipe-schedule-eager-1f1b{gradient-after=W schedule=eager split-backward=true},
// DUMP-NEXT:   pipe-schedule-zb-h1{schedule=zb_h1 slices=0},
// DUMP-NEXT:   pipe-schedule-zb-h2{schedule=zb_h2 slices=0},
// DUMP-NEXT:   pipe-schedule-looped-bfs{chunks=2 forward-only=false gradient-after=W schedule=looped_bfs split-backward=false},
// DUMP-NEXT:   pipe-schedule-mpmd-circular{chunks=2 forward-only=false gradient-after=W schedule=mpmd_circular split-backward=false},
// DUMP-NEXT:   pipe-schedule-interleaved-1f1b{chunks=2 forward-only=false gradient-after=W group=3 schedule=interleaved split-backward=false},
// DUMP-NEXT:   pipe-schedule-combined-1f1b{chunks=2 group=0 schedule=combined},
// DUMP-NEXT:   pipe-schedule-interleaved-zb{chunks=2 group=0 schedule=interleaved_zb},
// DUMP-NEXT:   pipe-schedule-chimera{construction=halving gradient-after=W pairs=1 schedule=chimera split-backward=false},
// DUMP-NEXT:   pipe-schedule-hanayo{forward-only=false gradient-after=W schedule=hanayo split-backward=true waves=1},
// DUMP-NEXT:   pipe-schedule-zb-v{forward-only=false schedule=zb_v slices=0},
// DUMP-NEXT:   pipe-schedule-v-half{schedule=v_half},
// DUMP-NEXT:   pipe-schedule-v-min{schedule=v_min},
// DUMP-NEXT:   pipe-schedule-zb-auto{memory=3 schedule=zb_auto},
// DUMP-NEXT:   pipe-schedule-dualpipe-v{schedule=dualpipe_v},
// DUMP-NEXT:   pipe-schedule-dualpipe{schedule=dualpipe},
// DUMP-NEXT:   pipe-schedule-greedy{forward-only=false gradient-after=I schedule=greedy slices=0 slot= slots=unit split-backward=true},
// DUMP-NEXT:   pipe-schedule-vocab-1f1b{backward=0 embedding=false schedule=vocab vocabulary=vocab-1},
// DUMP-NEXT:   pipe-schedule-vocab-1f1b{backward=0 embedding=false schedule=vocab_2 vocabulary=vocab-2},
// DUMP-NEXT:   pipe-schedule-vocab-1f1b{backward=150 embedding=false schedule=vocab_short vocabulary=vocab-1},
// DUMP-NEXT:   pipe-schedule-vocab-v-half{embedding=false schedule=vocab_v vocabulary=vocab-1},
// DUMP-NEXT:   pipe-schedule-interlaced-1f1b{embedding=false schedule=interlaced},

// All forwards, then all backwards.
// CHECK-LABEL: pipe.schedule @gpipe workers 3 microbatches 3 family "gpipe" {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
// CHECK-NEXT:  worker 2 runs [2F0 2F1 2F2 2B0 2B1 2B2]
pipe.schedule @gpipe workers 3 microbatches 3 {
  path on [0, 1, 2]
}

// A split backward is an adjacent pair; the path decides which worker has which stage.
// CHECK-LABEL: pipe.schedule @gpipe_split workers 2 microbatches 2 family "gpipe" {split_backward = true} {
// CHECK-NEXT:  path on [1, 0]
// CHECK-NEXT:  worker 0 runs [1F0 1F1 1I0 1W0 1I1 1W1]
// CHECK-NEXT:  worker 1 runs [0F0 0F1 0I0 0W0 0I1 0W1]
pipe.schedule @gpipe_split workers 2 microbatches 2 {
  path on [1, 0]
}

// The order of PipeDream-Flush: D-r-1 forwards first.
// CHECK-LABEL: pipe.schedule @one_f_one_b workers 3 microbatches 4 family "1f1b" {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3]
// CHECK-NEXT:  worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3]
pipe.schedule @one_f_one_b workers 3 microbatches 4 {
  path on [0, 1, 2]
}

// Two forwards more for each later stage, instead of one.
// CHECK-LABEL: pipe.schedule @eager workers 3 microbatches 4 family "eager-1f1b" {split_backward = true} gradient after W {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1F2 1I0 1W0 1F3 1I1 1W1 1I2 1W2 1I3 1W3]
// CHECK-NEXT:  worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3]
pipe.schedule @eager workers 3 microbatches 4 {
  path on [0, 1, 2]
}

// W is put off by r microbatches.
// CHECK-LABEL: pipe.schedule @zb_h1 workers 3 microbatches 4 family "zb-h1" {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3]
// CHECK-NEXT:  worker 2 runs [2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3]
pipe.schedule @zb_h1 workers 3 microbatches 4 {
  path on [0, 1, 2]
}

// Forwards fill the whole way there and back.
// CHECK-LABEL: pipe.schedule @zb_h2 workers 3 microbatches 5 family "zb-h2" {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 0F3 0F4 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1F2 1I0 1F3 1I1 1F4 1I2 1W0 1I3 1W1 1I4 1W2 1W3 1W4]
// CHECK-NEXT:  worker 2 runs [2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2F4 2I4 2W0 2W1 2W2 2W3 2W4]
pipe.schedule @zb_h2 workers 3 microbatches 5 {
  path on [0, 1, 2]
}

// Backwards in reverse, chunk by chunk.
// CHECK-LABEL: pipe.schedule @looped_bfs workers 2 microbatches 2 family "looped-bfs" {
// CHECK-NEXT:  path on [0, 1, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0]
pipe.schedule @looped_bfs workers 2 microbatches 2 {
  path on [0, 1]
}

// Phase by phase.
// CHECK-LABEL: pipe.schedule @mpmd_circular workers 2 microbatches 3 family "mpmd-circular" {
// CHECK-NEXT:  path on [0, 1, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 2F0 2F1 0F2 2F2 2B0 2B1 0B0 0B1 2B2 0B2]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 3F0 3F1 1F2 3F2 3B0 3B1 1B0 1B1 3B2 1B2]
pipe.schedule @mpmd_circular workers 2 microbatches 3 {
  path on [0, 1]
}

// Groups take turns on the chunks.
// CHECK-LABEL: pipe.schedule @interleaved workers 2 microbatches 3 family "interleaved-1f1b" {group = 3 : i64} {
// CHECK-NEXT:  path on [0, 1, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1B0 1B1 1B2]
pipe.schedule @interleaved workers 2 microbatches 3 {
  path on [0, 1]
}

// Each forward is paired with the backward after it.
// CHECK-LABEL: pipe.schedule @combined workers 2 microbatches 4 family "combined-1f1b" {
// CHECK-NEXT:  path on [0, 1, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 2F0 2F1 0F2 0F3+2B0 2F2+2B1 2F3+0B0 0B1 2B2 2B3 0B2 0B3]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 3F0 3F1+3B0 1F2+3B1 1F3+1B0 3F2+1B1 3F3+3B2 3B3 1B2 1B3]
pipe.schedule @combined workers 2 microbatches 4 {
  path on [0, 1]
}

// Interleaved 1F1B with W put off by the worker.
// CHECK-LABEL: pipe.schedule @interleaved_zb workers 2 microbatches 2 family "interleaved-zb" {
// CHECK-NEXT:  path on [0, 1, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1]
pipe.schedule @interleaved_zb workers 2 microbatches 2 {
  path on [0, 1]
}

// Two paths in opposite directions replace the linear one.
// CHECK-LABEL: pipe.schedule @chimera workers 2 microbatches 8 family "chimera" {construction = "halving"} {
// CHECK-NEXT:  path on [0, 1] takes [0:8:2]
// CHECK-NEXT:  path on [1, 0] takes [1:8:2]
// CHECK-NEXT:  worker 0 runs [0F0 0F2 1F1 1F3 1B1 0B0 1B3 0B2 0F4 0F6 1F5 1F7 1B5 0B4 1B7 0B6]
// CHECK-NEXT:  worker 1 runs [0F1 0F3 1F0 1F2 1B0 0B1 1B2 0B3 0F5 0F7 1F4 1F6 1B4 0B5 1B6 0B7]
pipe.schedule @chimera workers 2 microbatches 8 {
  path on [0, 1]
}

// A wave replaces the linear path.
// CHECK-LABEL: pipe.schedule @hanayo workers 2 microbatches 2 family "hanayo" gradient after W {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1]
pipe.schedule @hanayo workers 2 microbatches 2 {
  path on [0, 1]
}

// A V replaces the linear path.
// CHECK-LABEL: pipe.schedule @zb_v workers 2 microbatches 4 family "zb-v" {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3]
pipe.schedule @zb_v workers 2 microbatches 4 {
  path on [0, 1]
}

// Half of the memory of 1F1B.
// CHECK-LABEL: pipe.schedule @v_half workers 2 microbatches 4 family "v-half" {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F3 3W1 3F2 0I1 3I2 0W1 3W2 3F3 3I3 0I2 3W3 0I3 0W2 0W3]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2W1 1F3 1W1 2F3 2I2 1I2 2I3 1I3 2W2 1W2 2W3 1W3]
pipe.schedule @v_half workers 2 microbatches 4 {
  path on [0, 1]
}

// A third of it.
// CHECK-LABEL: pipe.schedule @v_min workers 3 microbatches 3 family "v-min" {
// CHECK-NEXT:  path on [0, 1, 2, 2, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 5F0 5I0 5W0 5F1 0I0 5I1 0W0 5W1 5F2 5I2 0I1 5W2 0W1 0I2 0W2]
// CHECK-NEXT:  worker 1 runs [1F0 1F1 1F2 4F0 4I0 4W0 4F1 1I0 1W0 4I1 4F2 4W1 1I1 4I2 1W1 4W2 1I2 1W2]
// CHECK-NEXT:  worker 2 runs [2F0 3F0 2F1 3F1 3I0 2I0 3W0 2F2 2W0 3F2 3I1 2I1 3W1 2W1 3I2 2I2 3W2 2W2]
pipe.schedule @v_min workers 3 microbatches 3 {
  path on [0, 1, 2]
}

// The shortest within a memory.
// CHECK-LABEL: pipe.schedule @zb_auto workers 2 microbatches 3 family "zb-auto" {memory = 3 : i64} {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F2 0I1 3W1 0W1 3F2 3I2 3W2 0I2 0W2]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 1F1 2I0 2W0 2F1 1I0 1W0 2I1 1I1 1F2 2W1 2F2 1W1 2I2 1I2 2W2 1W2]
pipe.schedule @zb_auto workers 2 microbatches 3 {
  path on [0, 1]
}

// Half of DualPipe, folded.
// CHECK-LABEL: pipe.schedule @dualpipe_v workers 2 microbatches 4 family "dualpipe-v" {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3+3B1 3F2+0B0 3B2 3F3+0B1 3B3 0I2 0W2 0I3 0W3]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 1F1 2F1 1F2 2B0 2F2+1B0 1F3+2B1 2F3+1B1 2B2 1B2 2I3 1I3 2W3 1W3]
pipe.schedule @dualpipe_v workers 2 microbatches 4 {
  path on [0, 1]
}

// Both directions of two mirrored paths overlap.
// CHECK-LABEL: pipe.schedule @dualpipe workers 2 microbatches 4 family "dualpipe" {
// CHECK-NEXT:  path on [0, 1] takes [0:2]
// CHECK-NEXT:  path on [1, 0] takes [2:4]
// CHECK-NEXT:  worker 0 runs [0F0 1F2 0F1 1B2 1F3+0B0 1B3 0I1 0W1]
// CHECK-NEXT:  worker 1 runs [0F2 1F0 0F3 1B0 1F1+0B2 1B1 0I3 0W3]
pipe.schedule @dualpipe workers 2 microbatches 4 {
  path on [0, 1]
}

// The furthest cell first, on any path.
// CHECK-LABEL: pipe.schedule @greedy workers 2 microbatches 2 family "greedy" {
// CHECK-NEXT:  path on [0, 0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 1F0 0F1 1F1 1I0 0I0 0W0 1W0 1I1 0I1 0W1 1W1]
// CHECK-NEXT:  worker 1 runs [2F0 2I0 2W0 2F1 2I1 2W1]
pipe.schedule @greedy workers 2 microbatches 2 {
  path on [0, 0, 1]
}

// The order of the paper: worker 0, the fourth from the last, is B F S, the others B S F.
// CHECK-LABEL: pipe.schedule @vocab workers 4 microbatches 6 family "vocab-1f1b" {
// CHECK-NEXT:  path on [0, 1, 2, 3]
// CHECK-NEXT:  worker 0 runs [0F0 0X0 0F1 0X1 0F2 0X2 0F3 0X3 0S0 0Y0 0F4 0X4 0S1 0Y1 0T0 0Z0 0F5 0X5 0S2 0Y2 0T1 0Z1 0S3 0Y3 0T2 0Z2 0S4 0Y4 0T3 0Z3 0B0 0S5 0Y5 0T4 0Z4 0B1 0T5 0Z5 0B2 0B3 0B4 0B5]
// CHECK-NEXT:  worker 1 runs [1F0 1X0 1F1 1X1 1F2 1X2 1S0 1Y0 1F3 1X3 1S1 1Y1 1T0 1Z0 1F4 1X4 1S2 1Y2 1T1 1Z1 1S3 1Y3 1T2 1Z2 1B0 1S4 1Y4 1T3 1Z3 1F5 1X5 1B1 1S5 1Y5 1T4 1Z4 1B2 1T5 1Z5 1B3 1B4 1B5]
// CHECK-NEXT:  worker 2 runs [2F0 2X0 2F1 2X1 2S0 2Y0 2F2 2X2 2S1 2Y1 2T0 2Z0 2F3 2X3 2S2 2Y2 2T1 2Z1 2B0 2S3 2Y3 2T2 2Z2 2F4 2X4 2B1 2S4 2Y4 2T3 2Z3 2F5 2X5 2B2 2S5 2Y5 2T4 2Z4 2B3 2T5 2Z5 2B4 2B5]
// CHECK-NEXT:  worker 3 runs [3F0 3X0 3S0 3Y0 3F1 3X1 3S1 3Y1 3T0 3Z0 3F2 3X2 3B0 3S2 3Y2 3T1 3Z1 3F3 3X3 3B1 3S3 3Y3 3T2 3Z2 3F4 3X4 3B2 3S4 3Y4 3T3 3Z3 3F5 3X5 3B3 3S5 3Y5 3T4 3Z4 3B4 3T5 3Z5 3B5]
pipe.schedule @vocab workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// Vocab-2 waits once in the output layer, Vocab-1 twice.
// CHECK-LABEL: pipe.schedule @vocab_2 workers 4 microbatches 6 family "vocab-1f1b" {vocabulary = "vocab-2"} {
// CHECK-NEXT:  path on [0, 1, 2, 3]
// CHECK-NEXT:  worker 0 runs [0F0 0X0 0F1 0X1 0F2 0X2 0F3 0X3 0S0 0Y0 0F4 0X4 0S1 0Y1 0T0 0S2 0Y2 0T1 0S3 0Y3 0T2 0B0 0F5 0X5 0S4 0Y4 0T3 0B1 0S5 0Y5 0T4 0B2 0T5 0B3 0B4 0B5]
// CHECK-NEXT:  worker 1 runs [1F0 1X0 1F1 1X1 1F2 1X2 1S0 1Y0 1F3 1X3 1S1 1Y1 1T0 1S2 1Y2 1T1 1B0 1S3 1Y3 1T2 1F4 1X4 1B1 1S4 1Y4 1T3 1F5 1X5 1B2 1S5 1Y5 1T4 1B3 1T5 1B4 1B5]
// CHECK-NEXT:  worker 2 runs [2F0 2X0 2F1 2X1 2S0 2Y0 2F2 2X2 2S1 2Y1 2T0 2B0 2S2 2Y2 2T1 2F3 2X3 2B1 2S3 2Y3 2T2 2F4 2X4 2B2 2S4 2Y4 2T3 2F5 2X5 2B3 2S5 2Y5 2T4 2B4 2T5 2B5]
// CHECK-NEXT:  worker 3 runs [3F0 3X0 3S0 3Y0 3F1 3X1 3B0 3S1 3Y1 3T0 3F2 3X2 3B1 3S2 3Y2 3T1 3F3 3X3 3B2 3S3 3Y3 3T2 3F4 3X4 3B3 3S4 3Y4 3T3 3F5 3X5 3B4 3S5 3Y5 3T4 3B5 3T5]
pipe.schedule @vocab_2 workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// Where B takes less than two F, another worker is B F S.
// CHECK-LABEL: pipe.schedule @vocab_short workers 3 microbatches 3 family "vocab-1f1b" {backward = 150 : i64} {
// CHECK-NEXT:  path on [0, 1, 2]
// CHECK-NEXT:  worker 0 runs [0F0 0X0 0F1 0X1 0F2 0X2 0S0 0Y0 0S1 0Y1 0T0 0Z0 0S2 0Y2 0T1 0Z1 0T2 0Z2 0B0 0B1 0B2]
// CHECK-NEXT:  worker 1 runs [1F0 1X0 1F1 1X1 1S0 1Y0 1F2 1X2 1S1 1Y1 1T0 1Z0 1S2 1Y2 1T1 1Z1 1B0 1T2 1Z2 1B1 1B2]
// CHECK-NEXT:  worker 2 runs [2F0 2X0 2S0 2Y0 2F1 2X1 2S1 2Y1 2T0 2Z0 2F2 2X2 2B0 2S2 2Y2 2T1 2Z1 2B1 2T2 2Z2 2B2]
pipe.schedule @vocab_short workers 3 microbatches 3 {
  path on [0, 1, 2]
}

// V-Half with the output layer of Vocab-1.
// CHECK-LABEL: pipe.schedule @vocab_v workers 2 microbatches 2 family "vocab-v-half" {
// CHECK-NEXT:  path on [0, 1, 1, 0]
// CHECK-NEXT:  worker 0 runs [0F0 0F1 3F0 3X0 3S0 3Y0 3T0 3Z0 3I0 3F1 3X1 3S1 3Y1 3T1 3Z1 3I1 0I0 3W0 0I1 3W1 0W0 0W1]
// CHECK-NEXT:  worker 1 runs [1F0 2F0 2X0 1F1 2S0 2Y0 2T0 2Z0 2F1 2X1 2I0 2S1 2Y1 2T1 2Z1 1I0 2I1 1I1 2W0 1W0 2W1 1W1]
pipe.schedule @vocab_v workers 2 microbatches 2 {
  path on [0, 1]
}

// All workers meet at the output layer.
// CHECK-LABEL: pipe.schedule @interlaced workers 2 microbatches 3 family "interlaced-1f1b" {
// CHECK-NEXT:  path on [0, 1]
// CHECK-NEXT:  worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0F1 0X1 0S1 0Y1 0T1 0Z1 0F2 0X2 0B0 0S2 0Y2 0T2 0Z2 0B1 0B2]
// CHECK-NEXT:  worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1 1F2 1X2 1S2 1Y2 1T2 1Z2 1B2]
pipe.schedule @interlaced workers 2 microbatches 3 {
  path on [0, 1]
}
