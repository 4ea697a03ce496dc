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

//      COMMS:0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1
// COMMS-NEXT:1RECV_F0,1RECV_F1,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1I1,1SEND_B1,1W1
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

// The order of the last stage's forwards causes a warning.

// RUN: pipesched-translate --export-torch-csv --torch-csv-schedule=backwards %s \
// RUN:   2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER-DAG: warning: worker 0: cell 1 (0F0) comes after 0F1: PyTorch's runtime wants the forwards of the last stage in the order of microbatches
// ORDER-DAG: 0F1,0F0,0B0,0B1
pipe.schedule @backwards workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F1 0F0 0B0 0B1]
}
