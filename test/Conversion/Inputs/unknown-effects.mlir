
// Appended to a module of schedules: upstream does not know what a fence does to memory.
func.func @start() {
  llvm.fence seq_cst
  func.return
}
