// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 max-evaluations=1000 threads=1 schedule=s},pipe-verify{memory=2 schedule=s})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=2000 threads=1 explain=false schedule=slow_copies},pipe-verify{memory=2 transport=delay schedule=slow_copies})' 2>&1 | FileCheck %s --check-prefix=OFFLOAD
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=300B recompute=selective split-backward=false max-evaluations=400 threads=1 schedule=recomputed},pipe-verify{memory=300B schedule=recomputed})' 2>&1 | FileCheck %s --check-prefix=RECOMPUTE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 max-evaluations=400 threads=1 explain=false placements=linear,v schedule=placed})' 2>&1 | FileCheck %s --check-prefix=PLACED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{objective=period memory=2 max-evaluations=400 threads=1 explain=false schedule=s})' 2>&1 | FileCheck %s --check-prefix=PERIOD
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{objective=period memory=12 memory-times=given split-backward=false offload=true recompute=full placements=v,wave chunks=3 waves=4 time-limit=0.5 gap=0.25 seed=7 threads=2 max-evaluations=9 cache=%t.other explain=false schedule=problem})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-optimize{cache={{.+}} chunks=3 explain=false gap=2.500000e-01 max-evaluations=9 memory=12 memory-times=given objective=period offload=true placements={v,wave} recompute=full schedule=problem seed=7 split-backward=false threads=2 time-limit=5.000000e-01 waves=4}

// The times found are those of the timeline under delay, to the picosecond; other
// transports time the schedule like any other.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=2000 threads=1 explain=false schedule=slow_copies},pipe-schedule-gpipe)' -o %t.mlir 2> %t.remarks
// RUN: pipesched-translate --export-report --transport=delay %t.mlir -o %t.delay
// RUN: %python %S/Inputs/optimized-times.py %t.remarks %t.delay | FileCheck %s --check-prefix=DELAY
// RUN: pipesched-translate --export-report --transport=overlap %t.mlir | FileCheck %s --check-prefix=OTHER
// RUN: pipesched-translate --export-report --transport=blocking %t.mlir | FileCheck %s --check-prefix=OTHER
// DELAY: @slow_copies takes what was found

// The result does not depend on the number of threads. With sanitizers only a unit test shows this,
// since a million evaluations are the fewest with which two searches run.

// RUN: %if !sanitizer %{ pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=1000000 explain=false schedule=slow_copies})' -o %t.one 2> %t.one.remarks --mlir-disable-threading %}
// RUN: %if !sanitizer %{ pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=1000000 explain=false threads=2 schedule=slow_copies})' -o %t.two 2> %t.two.remarks %}
// RUN: %if !sanitizer %{ cmp %t.one %t.two %}
// RUN: %if !sanitizer %{ cmp %t.one.remarks %t.two.remarks %}
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEFAULTS
// DEFAULTS: pipe-optimize{{.*}}max-evaluations=2000000{{.*}}time-limit={{INF|inf}}

// A folder keeps what was found: the second run reads it.

// RUN: rm -rf %t.cache
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=2000 threads=1 explain=false cache=%t.cache schedule=slow_copies})' -o %t.first
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 offload=true max-evaluations=2000 seed=5 threads=1 explain=false cache=%t.cache schedule=slow_copies})' -o %t.second
// RUN: cmp %t.first %t.second
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=2 cache=%s/folder schedule=s max-evaluations=10 threads=1})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: warning: cannot create the folder '{{.*}}optimize.mlir/folder': {{.+}}

// Without a model and a profile a slot is 1 us. Alignment, family and gradient rule are dropped.
// CHECK: remark: @s: makespan 13us, proven optimal; lower bound 13us ({{.+}}), gap 0.00 %; from {{.+}}
// CHECK: note: without split-backward: 15us, 15.38 % longer
// CHECK:      {{^ +}}pipe.schedule @s workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// PERIOD: remark: @s: period {{[0-9]+}}us, {{.+}}
pipe.schedule @s workers 2 microbatches 4 family "gpipe" gradient after W aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0F3 _3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3]
  worker 1 runs [_ 1F0 1F1 1F2 1F3 1I0 1W0 1I1 1W1 1I2 1W2 1I3 1W3 _2]
}

// OFFLOAD: remark: @slow_copies: makespan {{[0-9]+}}us, {{.+}}; lower bound {{[0-9]+}}us ({{.+}}), gap {{.+}} %; from {{.+}}
// OFFLOAD:      {{^ +}}pipe.schedule @slow_copies workers 4 microbatches 6 profile
// OFFLOAD-NEXT:    path on [0, 1, 2, 3]
// OFFLOAD-NEXT:    worker 0 runs [{{.*}}0D{{.*}}0d{{.*}}0U{{.*}}]
// OTHER: "schedule": "slow_copies"
// OTHER: "makespan_ps": {{[0-9]+}},
pipe.schedule @slow_copies workers 4 microbatches 6 profile <"F=10us,I=12us,W=8us,D=14us,U=14us,comm=2us,send=1us"> {
  path on [0, 1, 2, 3]
}

// RECOMPUTE: remark: @recomputed: makespan {{[0-9]+}}us, {{.+}}
// RECOMPUTE: note: without recompute: 240us, {{.+}} % longer
// RECOMPUTE:      {{^ +}}pipe.schedule @recomputed workers 2 microbatches 4 recompute selective model @tiny profile
// RECOMPUTE-NEXT:    path on [0, 1]
// RECOMPUTE-NEXT:    worker 0 runs [{{.*}}0R{{.*}}]
pipe.model @tiny microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 240 recomputed_bytes 10 core_bytes 200 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
pipe.schedule @recomputed workers 2 microbatches 4 model @tiny profile <"F=10us,B=20us,R=2us"> {
  path on [0, 1]
}

// PLACED:      {{^ +}}pipe.schedule @placed workers 2 microbatches 4 {
// PLACED-NEXT:    path on [0, 1]
// PLACED-NEXT:    worker 0 runs [
pipe.schedule @placed workers 2 microbatches 4 {
  path on [1, 0]
}

pipe.schedule @problem workers 1 microbatches 1 profile <"F=1us,B=1us,D=1us,U=1us"> {
  path on [0]
}
