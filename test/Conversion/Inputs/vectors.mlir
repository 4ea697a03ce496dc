func.func @vector(%x: vector<4xf32>) -> vector<4xf32> {
  %y = math.exp %x : vector<4xf32>
  return %y : vector<4xf32>
}
func.func @double(%x: f64) -> f64 {
  %y = math.erf %x : f64
  return %y : f64
}
func.func @scalable(%x: vector<[4]xf32>) -> vector<[4]xf32> {
  %y = math.tanh %x : vector<[4]xf32>
  return %y : vector<[4]xf32>
}
