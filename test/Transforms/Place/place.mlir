// The passes of placements that need nothing but numbers: their options and paths.

// DEFINE: %{passes} = \
// DEFINE: pipe-place-linear{schedule=linear}, \
// DEFINE: pipe-place-linear{schedule=uneven}, \
// DEFINE: pipe-place-v{schedule=v}, \
// DEFINE: pipe-place-v{schedule=one}, \
// DEFINE: pipe-place-wave{schedule=wave waves=2}, \
// DEFINE: pipe-place-interleaved{schedule=interleaved chunks=4}, \
// DEFINE: pipe-place-bidirectional{schedule=bidirectional}, \
// DEFINE: pipe-place-bidirectional{schedule=halves pairs=2 assign=halves}, \
// DEFINE: pipe-place-asymmetric{schedule=asymmetric}, \
// DEFINE: pipe-place-asymmetric{schedule=ramp ratio=1:2 way=ramp blocks=120}, \
// DEFINE: pipe-place-asymmetric{schedule=ends ratio=4:6 way=ends blocks=40}, \
// DEFINE: pipe-place-asymmetric{schedule=middle ratio=2:1 way=middle pairs=2 assign=halves}, \
// DEFINE: pipe-place-asymmetric{schedule=on_wave ratio=3:2 on=wave}

// RUN: pipesched-opt %s --dump-pass-pipeline --pass-pipeline='builtin.module(%{passes})' -o %t 2> %t.dump
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=DUMP < %t.dump

// With a model, stages have its layers, whether it comes before or after.
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=asymmetric},pipe-place-asymmetric{ratio=1:3 schedule=asymmetric})' | FileCheck %s --check-prefix=MODEL
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:3 schedule=asymmetric},pipe-attach-model{name=toy schedule=asymmetric})' | FileCheck %s --check-prefix=MODEL
// MODEL-LABEL: pipe.schedule @asymmetric workers 4 microbatches 8 model @toy {
// MODEL-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] blocks [1, 1, 3, 3]
// MODEL-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] blocks [1, 1, 3, 3]

// DUMP:      builtin.module(
// DUMP-NEXT:   pipe-place-linear{schedule=linear},
// DUMP-NEXT:   pipe-place-linear{schedule=uneven},
// DUMP-NEXT:   pipe-place-v{schedule=v},
// DUMP-NEXT:   pipe-place-v{schedule=one},
// DUMP-NEXT:   pipe-place-wave{schedule=wave waves=2},
// DUMP-NEXT:   pipe-place-interleaved{chunks=4 schedule=interleaved},
// DUMP-NEXT:   pipe-place-bidirectional{assign=alternate pairs=1 schedule=bidirectional},
// DUMP-NEXT:   pipe-place-bidirectional{assign=halves pairs=2 schedule=halves},
// DUMP-NEXT:   pipe-place-asymmetric{assign=alternate blocks=0 on=mirrored pairs=1 ratio=1:2 schedule=asymmetric waves=1 way=halves},
// DUMP-NEXT:   pipe-place-asymmetric{assign=alternate blocks=120 on=mirrored pairs=1 ratio=1:2 schedule=ramp waves=1 way=ramp},
// DUMP-NEXT:   pipe-place-asymmetric{assign=alternate blocks=40 on=mirrored pairs=1 ratio=4:6 schedule=ends waves=1 way=ends},
// DUMP-NEXT:   pipe-place-asymmetric{assign=halves blocks=0 on=mirrored pairs=2 ratio=2:1 schedule=middle waves=1 way=middle},
// DUMP-NEXT:   pipe-place-asymmetric{assign=alternate blocks=0 on=wave pairs=1 ratio=3:2 schedule=on_wave waves=1 way=halves}

// CHECK-LABEL: pipe.schedule @linear workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2]
// CHECK-NEXT:  }
pipe.schedule @linear workers 3 microbatches 6 {
  path on [2, 1, 0]
}

// Blocks are dropped with the paths to which they belong.
// CHECK-LABEL: pipe.schedule @uneven workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:  }
pipe.schedule @uneven workers 2 microbatches 4 {
  path on [1, 0, 1] takes [0:2] blocks [4, 2, 2]
  path on [0, 1] takes [2:4]
}

// CHECK-LABEL: pipe.schedule @v workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2, 2, 1, 0]
// CHECK-NEXT:  }
pipe.schedule @v workers 3 microbatches 6 {
  path on [0, 1, 2]
}

// CHECK-LABEL: pipe.schedule @one workers 1 microbatches 6 {
// CHECK-NEXT:    path on [0, 0]
// CHECK-NEXT:  }
pipe.schedule @one workers 1 microbatches 6 {
  path on [0]
}

// CHECK-LABEL: pipe.schedule @wave workers 2 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 1, 0, 0, 1, 1, 0]
// CHECK-NEXT:  }
pipe.schedule @wave workers 2 microbatches 6 {
  path on [0, 1]
}

// CHECK-LABEL: pipe.schedule @interleaved workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
// CHECK-NEXT:  }
pipe.schedule @interleaved workers 3 microbatches 6 {
  path on [0, 1, 2]
}

// CHECK-LABEL: pipe.schedule @bidirectional workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:8:2]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [1:8:2]
// CHECK-NEXT:  }
pipe.schedule @bidirectional workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @halves workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:2]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [2:4]
// CHECK-NEXT:    path on [2, 3, 0, 1] takes [4:6]
// CHECK-NEXT:    path on [1, 0, 3, 2] takes [6:8]
// CHECK-NEXT:  }
pipe.schedule @halves workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Stages of unequal length: 1 to 2 without options.
// CHECK-LABEL: pipe.schedule @asymmetric workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
// CHECK-NEXT:  }
pipe.schedule @asymmetric workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @ramp workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] blocks [15, 25, 35, 45]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] blocks [15, 25, 35, 45]
// CHECK-NEXT:  }
pipe.schedule @ramp workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @ends workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] blocks [6, 10, 10, 14]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] blocks [6, 10, 10, 14]
// CHECK-NEXT:  }
pipe.schedule @ends workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @middle workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:2] weights [3, 5, 1, 3]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [2:4] weights [3, 5, 1, 3]
// CHECK-NEXT:    path on [2, 3, 0, 1] takes [4:6] weights [3, 5, 1, 3]
// CHECK-NEXT:    path on [1, 0, 3, 2] takes [6:8] weights [3, 5, 1, 3]
// CHECK-NEXT:  }
pipe.schedule @middle workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @on_wave workers 4 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 2, 3, 3, 2, 1, 0] weights [3, 3, 3, 3, 2, 2, 2, 2]
// CHECK-NEXT:  }
pipe.schedule @on_wave workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
