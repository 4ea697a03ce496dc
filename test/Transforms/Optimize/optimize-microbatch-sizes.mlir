// RUN: rm -rf %t && split-file %s %t

// The models are in the module, as in the description of the pass.

// RUN: pipesched-opt %t/models.mlir --pass-pipeline='builtin.module(pipe-optimize{microbatch-sizes=1,2 max-evaluations=2000 threads=1},pipe-verify{memory=system transport=delay})' -o %t/models.out 2> %t/models.remarks
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t/models.remarks
// RUN: FileCheck %s --check-prefix=ROWS --input-file=%t/models.out
// RUN: pipesched-translate --export-report --transport=delay %t/models.out -o %t/models.report
// RUN: %python %S/Inputs/optimized-times.py %t/models.remarks %t/models.report | FileCheck %s --check-prefix=TIMES
// REMARK:      remark: @s: makespan 58.4us, proven optimal; lower bound 58.4us ({{.+}}), gap 0.00 %; from {{.+}}
// REMARK:      note: chosen: microbatch size 2
// REMARK:      note: with microbatch size 1: 106.1us at least, 81.68 % longer
// REMARK:      note: without split-backward: 68.4us, 17.12 % longer
// ROWS:      {{^ +}}pipe.schedule @s workers 2 microbatches 4 model @two {
// ROWS-NEXT:   path on [0, 1]
// ROWS-NEXT:   worker 0 runs [0F0 {{.+}}]
// ROWS-NEXT:   worker 1 runs [1F0 {{.+}}]
// TIMES: @s takes what was found

// The model ships: attaching it in the chosen size gives the same model, and schedules
// of one size share it. A size that a bound does not rule out is searched.

// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=4},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=4,1,2 memory=500000B max-evaluations=4000 threads=1 explain=false},pipe-verify{memory=500000B transport=delay})' -o %t/shipped.out 2> %t/shipped.remarks
// RUN: FileCheck %s --check-prefix=SHIPPED --input-file=%t/shipped.out
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t/shipped.remarks
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=4},pipe-attach-model{name=toy microbatch-size=1})' | grep 'pipe.model\|block\|kernel' > %t/attached
// RUN: grep 'pipe.model\|block\|kernel' %t/shipped.out | diff - %t/attached

// So does one with other bytes of parameters.

// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=4 parameter-bytes=2,4,12},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=4,1,2 memory=600000B max-evaluations=400 threads=1 explain=false})' -o %t/bytes.out 2> /dev/null
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=4 parameter-bytes=2,4,12},pipe-attach-model{name=toy microbatch-size=1 parameter-bytes=2,4,12})' | grep 'pipe.model\|block\|kernel' > %t/bytes
// RUN: grep 'pipe.model\|block\|kernel' %t/bytes.out | diff - %t/bytes
// SHIPPED: pipe.model @toy microbatch_size 4
// SHIPPED: pipe.model @toy_0 microbatch_size 1
// SHIPPED-NOT: pipe.model
// SHIPPED:      {{^ +}}pipe.schedule @one_path workers 2 microbatches 8 model @toy_0 {
// SHIPPED-NEXT:   path on [0, 1]
// SHIPPED-NEXT:   worker 0 runs [0F0 {{.*}}0F7{{.*}}]
// SHIPPED:      {{^ +}}pipe.schedule @two_paths workers 2 microbatches 8 model @toy_0 {
// SHIPPED-NEXT:   path on [0, 1] takes [0:4]
// SHIPPED-NEXT:   path on [1, 0] takes [4:8]
// WHY: remark: @one_path: makespan
// WHY: note: chosen: microbatch size 1
// WHY: note: with microbatch size 4: worker 0 has a capacity of 420640 bytes, which holds no schedule: 219360 more is needed, 640000 at least
// WHY: note: with microbatch size 2: {{[0-9.]+}}us{{( at least)?}}, {{[0-9.]+}} % longer

// A model from a file is attached in each size, and last in that of the schedule.

// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/bloom-560m.json sequence=1024 microbatch-size=8},pipe-attach-model{file=%data/huggingface/bloom-560m.json sequence=1024 microbatch-size=4},pipe-attach-system{name=h100-sxm},pipe-optimize{microbatch-sizes=4,8 max-evaluations=500 threads=1 explain=false schedule=one_path},pipe-verify{memory=system transport=delay schedule=one_path})' 2>&1 | FileCheck %s --check-prefix=FROMFILE
// FROMFILE: remark: @one_path: makespan
// FROMFILE: note: chosen: microbatch size {{4|8}}
// FROMFILE: note: with microbatch size {{4|8}}: {{.+}} % longer
// FROMFILE: pipe.model @bloom_560m microbatch_size 8
// FROMFILE: pipe.model @bloom_560m_0 microbatch_size 4

// With placements, offload, the period and a cache; the second run answers from the cache.

// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=1,2 placements=linear,v objective=period offload=true memory=250000B max-evaluations=500 threads=1 cache=%t/cache schedule=one_path})' -o %t/first.out 2> %t/first.remarks
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=1,2 placements=linear,v objective=period offload=true memory=250000B max-evaluations=500 threads=1 seed=5 cache=%t/cache schedule=one_path})' -o %t/second.out 2> %t/second.remarks
// RUN: diff %t/first.out %t/second.out
// RUN: diff %t/first.remarks %t/second.remarks
// RUN: FileCheck %s --check-prefix=BOTH --input-file=%t/first.remarks
// BOTH: remark: @one_path: period
// BOTH: note: chosen: placement {{linear|v}}, microbatch size {{1|2}}
// BOTH-COUNT-3: note: with placement {{linear|v}}, microbatch size {{1|2}}: {{.+}}
// BOTH: note: without split-backward: {{.+}}
// BOTH: note: without offload: {{.+}}

// The search starts from the given rows if they have the size and the placement;
// otherwise they are dropped.

// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=2 placements=linear time-limit=0 max-evaluations=1 threads=1 explain=false})' 2>&1 | FileCheck %s --check-prefix=SEED
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=1 time-limit=0 threads=1 explain=false},pipe-verify)' 2>&1 | FileCheck %s --check-prefix=NOSEED
// SEED: remark: @mine: {{.+}}; from mine
// NOSEED: remark: @mine: {{.+}}; from {{[^m]}}
// NOSEED: pipe.schedule @mine workers 1 microbatches 4 model

//--- models.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "small", accelerators = 1,
        matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 100000000000>,
        memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000>,
    "network" = #pipe.network_spec<bytes_per_s = 10000000000,
        latency_ps = 1000000>>} {
  pipe.model @one microbatch_size 1 boundary_bytes 1000
      state_bytes [2, 2, 12] {
    block "layer" x 4 parameters 100000 activation_bytes 10000 {
      kernel "linear" on matrix F <1000000 flops, 210000 bytes>
          I <1000000 flops, 210000 bytes> W <1000000 flops, 210000 bytes>
    }
  }
  pipe.model @two microbatch_size 2 boundary_bytes 2000
      state_bytes [2, 2, 12] {
    block "layer" x 4 parameters 100000 activation_bytes 20000 {
      kernel "linear" on matrix F <2000000 flops, 220000 bytes>
          I <2000000 flops, 220000 bytes> W <2000000 flops, 220000 bytes>
    }
  }
  pipe.schedule @s workers 2 microbatches 8 model @one {
    path on [0, 1]
  }
}

//--- problems.mlir
pipe.schedule @one_path workers 2 microbatches 2 {
  path on [0, 1]
}
pipe.schedule @two_paths workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
}

//--- rows.mlir
pipe.schedule @mine workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0I0 0F1 0W0 0I1 0W1]
}
