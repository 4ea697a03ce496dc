//--- good.mlir
pipe.schedule @gathered workers 2 microbatches 2 profile <"F=10us,B=20us,M=5us"> {
  path on [0, 1]
  worker 0 runs [0F0 0M0 0F1 0M1 0B0 0B1]
  worker 1 runs [1F0 1M0 1B0 1F1 1M1 1B1]
}
//--- without.mlir
pipe.schedule @plain workers 2 microbatches 2 profile <"F=10us,B=20us"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
//--- missing.mlir
pipe.schedule @missing workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0M0 0B0]
  worker 1 runs [1F0 1B0]
}
//--- opposite.mlir
pipe.schedule @opposite workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0M1 0M0 0B0 0B1]
  worker 1 runs [1F0 1M0 1F1 1M1 1B0 1B1]
}
//--- alone.mlir
exec.program @alone {
  worker 0 {
    %f0 = compute 0F0
    %ag0 = all_gather 0M0 after %f0
  }
  worker 1 {
    %f0 = compute 1F0
  }
}
//--- unready.mlir
exec.program @unready {
  worker 0 {
    %f0 = compute 0F0
    %f1 = compute 0F1
    %ag0 = all_gather 0M0 after %f1
  }
}
//--- lock.mlir
exec.program @lock workers 2 microbatches 2 profile <"F=10us,M=5us"> {
  worker 0 {
    %f0 = compute 0F0
    %f1 = compute 0F1
    %ag1 = all_gather 0M1 after %f1
    %ag0 = all_gather 0M0 after %f0
  }
  worker 1 {
    %f0 = compute 1F0
    %f1 = compute 1F1
    %ag0 = all_gather 1M0 after %f0
    %ag1 = all_gather 1M1 after %f1
  }
}
//--- functions.mlir
func.func @d() -> (tensor<8xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
exec.program @compiled workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @d
  worker 0 {
    %f0 = compute 0F0
    %ag0 = all_gather 0M0 after %f0
  }
}
