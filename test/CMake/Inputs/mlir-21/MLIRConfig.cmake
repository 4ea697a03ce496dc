message(FATAL_ERROR "an MLIR of the wrong version was taken")
