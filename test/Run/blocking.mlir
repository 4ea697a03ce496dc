// Messages of 256 KiB, one for each cell: 1F1B with sends that block
// until their receives have the data stops, as the proof says, and the shipped
// form, which posts its sends, ends. The same under MPI: mpich.test, openmpi.test.

// RUN: not pipesched-run %s --schedule=1f1b --blocking --messages=rendezvous > %t.out 2>&1
// RUN: FileCheck %s --check-prefix=STOPS --input-file=%t.out
// RUN: pipesched-run %s --schedule=1f1b --messages=rendezvous --check --tolerance=0 \
// RUN:   | FileCheck %s --check-prefix=ENDS
// RUN: pipesched-run %s --schedule=1f1b --messages=buffered --blocking --check --tolerance=0 \
// RUN:   | FileCheck %s --check-prefix=ENDS
// RUN: pipesched-run %s --schedule=gpipe --blocking --messages=rendezvous --check \
// RUN:   | FileCheck %s --check-prefix=ENDS

// STOPS:      error: deadlock: no worker can go on
// STOPS-NEXT: worker 0, instruction {{[0-9]+}} (send 0F{{[0-9]}} to 1): waits for its send of 262144 bytes to worker 1 with tag {{[0-9]}}
// STOPS:      worker 1, instruction {{[0-9]+}} (send 1B{{[0-9]}} to 0): waits for its send of 262144 bytes to worker 0 with tag {{[0-9]}}
// STOPS-NOT:  step 0
// ENDS: step 2
// ENDS: check: passed

// The proof of the same, before a run by MPI: nothing is compiled or started.

// RUN: not pipesched-run %s --schedule=1f1b --backend=mpi --blocking --messages=rendezvous \
// RUN:   --mpicc=no-mpicc > %t.out 2>&1
// RUN: FileCheck %s --check-prefix=PROOF --input-file=%t.out
// PROOF:      error: 'exec.program' op deadlocks with --blocking, if sends wait for their receives, in a cycle of 4 waits
// PROOF:      note: send {{.*}} on worker {{[01]}} waits for recv {{.*}} on worker {{[01]}} (its message)
// PROOF:      error: --blocking: MPI would hang; leave it out, or take --messages=buffered; --backend=loopback shows where the workers stop

// Without --messages, MPI decides by the size of a message.

// RUN: not pipesched-run %s --schedule=1f1b --backend=mpi --blocking --mpicc=no-mpicc 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MAYBE
// MAYBE: error: --blocking: MPI may hang, by the size of messages;

// What the proof does not refuse goes on, here to a compiler that there is not.

// RUN: not pipesched-run %s --schedule=gpipe --backend=mpi --blocking --messages=rendezvous \
// RUN:   --mpirun=true --mpicc=no-mpicc 2>&1 | FileCheck %s --check-prefix=GOESON
// RUN: not pipesched-run %s --schedule=1f1b --backend=mpi --blocking --messages=buffered \
// RUN:   --mpirun=true --mpicc=no-mpicc 2>&1 | FileCheck %s --check-prefix=GOESON
// RUN: not pipesched-run %s --schedule=1f1b --backend=mpi --messages=rendezvous \
// RUN:   --mpirun=true --mpicc=no-mpicc 2>&1 | FileCheck %s --check-prefix=GOESON
// GOESON-NOT: deadlocks
// GOESON: error: --mpicc: 'no-mpicc' is not found

func.func @forward(%w: tensor<65536xf32> {pipe.param = "w"}, %x: tensor<65536xf32> {pipe.input})
    -> (tensor<65536xf32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<65536xf32>
  return %y : tensor<65536xf32>
}
func.func @backward(%w: tensor<65536xf32> {pipe.param = "w"}, %x: tensor<65536xf32> {pipe.input},
                    %dy: tensor<65536xf32> {pipe.output_gradient})
    -> (tensor<65536xf32> {pipe.input_gradient}, tensor<65536xf32> {pipe.gradient = "w"}) {
  %dx = arith.mulf %w, %dy : tensor<65536xf32>
  %dw = arith.mulf %x, %dy : tensor<65536xf32>
  return %dx, %dw : tensor<65536xf32>, tensor<65536xf32>
}
func.func @data(%microbatch: i64 {pipe.microbatch}) -> (tensor<65536xf32> {pipe.input}) {
  %m = arith.sitofp %microbatch : i64 to f32
  %one = arith.constant 1.0 : f32
  %x = arith.addf %m, %one : f32
  %xs = tensor.splat %x : tensor<65536xf32>
  return %xs : tensor<65536xf32>
}
func.func @loss(%y: tensor<65536xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<65536xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.reduce { arith.addf } ins(%y : tensor<65536xf32>)
      outs(%zero : tensor<f32>) dimensions = [0]
  return %loss, %y : tensor<f32>, tensor<65536xf32>
}
pipe.schedule @p workers 2 microbatches 6 {
  path on [0, 1]
  stage 0 forward @forward backward @backward
  stage 1 forward @forward backward @backward
  data @data
  loss @loss
}
