// A small input that asks for much is answered by how much that is, before the work begins: 512
// workers by 16,400 microbatches are 2^24 cells and a little more.
// RUN: echo 'module {}' | pipesched-opt-raw --pass-pipeline='builtin.module(pipe-create{workers=512 microbatches=16400}, pipe-schedule-gpipe)' -o /dev/null 2>&1 | FileCheck %s
// RUN: echo 'module {}' | pipesched-opt-raw --pass-pipeline='builtin.module(pipe-create{workers=4 microbatches=1000}, pipe-schedule-gpipe)' -o /dev/null 2>&1 | count 0

// CHECK: remark: asks for 16793600 cells or more: 0.1 GiB of rows, and up to 0.8 GiB and about 3 s for a report, or 3.6 GiB and 7 s where that needs a graph
