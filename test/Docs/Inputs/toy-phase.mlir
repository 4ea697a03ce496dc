//--- good.mlir
pipe.schedule @snapshot workers 1 microbatches 2 profile <"F=10us,B=11us,N=5us"> {
  path on [0]
  worker 0 runs [0F0 0F1 0N1 0B0 0B1]
}
//--- without.mlir
pipe.schedule @plain workers 1 microbatches 2 profile <"F=10us,B=11us"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
//--- bad.mlir
pipe.schedule @early workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0N0 0F0 0B0]
}
//--- rows.mlir
pipe.schedule @rows workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0N0 0B0]
}
//--- wide.mlir
pipe.schedule @wide workers 3 microbatches 1 profile <"F=10us,B=5us,P=4us,Q=3us,L=8us,H=7us"> {
  path on [0, 1, 2]
  worker 0 runs [0F0 0P0 0H0 0B0]
  worker 1 runs [1F0 1P0 1H0 1B0]
  worker 2 runs [2F0 2P0 2Q0 2L0 2H0 2B0]
}
//--- held.mlir
pipe.schedule @held workers 3 microbatches 1 {
  path on [0, 1, 2]
  worker 0 runs [0F0 0H0 0P0 0B0]
  worker 1 runs [1F0 1P0 1H0 1B0]
  worker 2 runs [2F0 2P0 2Q0 2L0 2H0 2B0]
}
//--- shard.mlir
pipe.schedule @shard workers 2 microbatches 2 {
  path on [0, 1, 0, 1]
  worker 0 runs [0F0 2F0 0P0 0H0 2B0 0B0 0F1 2F1 2P1 0H1 2B1 0B1]
  worker 1 runs [1F0 3F0 1P0 3Q0 3L0 3H0 3B0 1B0 1F1 3F1 3P1 3Q1 3L1 3B1 1B1]
}
//--- shards.mlir
pipe.schedule @shards workers 2 microbatches 1 {
  path on [0, 1, 0, 1]
  worker 0 runs [0F0 0P0 2F0 2P0 0H0 2B0 0B0]
  worker 1 runs [1F0 3F0 1P0 3Q0 3L0 3H0 3B0 1B0]
}
