// RUN: pipesched-translate --export-torch-csv --torch-csv-schedule=pairs %s \
// RUN:   | FileCheck %s --check-prefix=ONLY --match-full-lines --strict-whitespace
// RUN: pipesched-translate --export-torch-csv --torch-csv-format=compute_only \
// RUN:   --torch-csv-schedule=pairs %s \
// RUN:   | FileCheck %s --check-prefix=ONLY --match-full-lines --strict-whitespace
// RUN: pipesched-translate --export-torch-csv --torch-csv-format=compute_comms \
// RUN:   --torch-csv-schedule=pairs %s \
// RUN:   | FileCheck %s --check-prefix=COMMS --match-full-lines --strict-whitespace

//      ONLY:0F0,0F1,,0B0,0B1
// ONLY-NEXT:,1F0,(1F1;1B0)OVERLAP_F_B,1I1,1W1

// compute_comms has what PyTorch's runtime makes of the other file when it loads
// it; empty cells have no effect on that.

//      COMMS:0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD
// COMMS-NEXT:1UNSHARD,1RECV_F0,1F0,1RECV_F1,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1I1,1SEND_B1,1W1,1REDUCE_GRAD,1RESHARD
pipe.schedule @pairs workers 2 microbatches 2 {
  path on [0, 1]
  worker 1 runs [_ 1F0 1F1+1B0 1I1 1W1]
  worker 0 runs [0F0 0F1 _ 0B0 0B1]
}

// Columns of an aligned schedule are slots.

// RUN: pipesched-opt --pass-pipeline='builtin.module(pipe-schedule-1f1b{schedule=one},pipe-align-slots{schedule=one})' %s \
// RUN:   | pipesched-translate --export-torch-csv --torch-csv-schedule=one \
// RUN:   | FileCheck %s --check-prefix=SLOTS --match-full-lines --strict-whitespace
//      SLOTS:0F0,0F1,,,0B0,,,0B1,
// SLOTS-NEXT:,1F0,1B0,,1F1,1B1,,,
pipe.schedule @one workers 2 microbatches 2 {
  path on [0, 1]
}

// A rank holds the parameters of three stages at a time.

// RUN: pipesched-opt --pass-pipeline='builtin.module(pipe-schedule-looped-bfs{schedule=five})' %s \
// RUN:   | pipesched-translate --export-torch-csv --torch-csv-format=compute_comms \
// RUN:     --torch-csv-schedule=five \
// RUN:   | FileCheck %s --check-prefix=SHARDS --match-full-lines --strict-whitespace
//      SHARDS:0UNSHARD,1UNSHARD,2UNSHARD,0F0,0RESHARD,3UNSHARD,1F0,1RESHARD,4UNSHARD,2F0,3F0,4F0,4B0,4REDUCE_GRAD,4RESHARD,1UNSHARD,3B0,3REDUCE_GRAD,3RESHARD,0UNSHARD,2B0,2REDUCE_GRAD,2RESHARD,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD,0RESHARD
pipe.schedule @five workers 1 microbatches 1 {
  path on [0, 0, 0, 0, 0]
}
