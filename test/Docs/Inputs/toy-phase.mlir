//--- good.mlir
pipe.schedule @snapshot workers 1 microbatches 2 profile <"F=10us,B=11us,X=5us"> {
  path on [0]
  worker 0 runs [0F0 0F1 0X1 0B0 0B1]
}
//--- without.mlir
pipe.schedule @plain workers 1 microbatches 2 profile <"F=10us,B=11us"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
//--- bad.mlir
pipe.schedule @early workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0X0 0F0 0B0]
}
//--- rows.mlir
pipe.schedule @rows workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0X0 0B0]
}
