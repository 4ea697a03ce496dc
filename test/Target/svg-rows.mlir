// RUN: split-file %s %t
// RUN: pipesched-translate --export-svg --svg-variant=rows %t/both.mlir | FileCheck %s
// RUN: pipesched-translate --export-svg --svg-variant=rows %t/both.mlir \
// RUN:   | %python -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.stdin)"
// RUN: not pipesched-translate --export-svg --svg-variant=rows %t/other.mlir 2>&1 | FileCheck %s --check-prefix=ERROR

// Both headings come first, then for each worker a row of each schedule. The longest timeline, of
// 6 us, takes 960 px.

// CHECK:      <tspan class="t">first</tspan>
// CHECK:      <tspan class="t">second</tspan>
// CHECK:      >worker 0</text>
// CHECK:      <title>0F0: 0 ps to 1.000 us</title>
// CHECK:      <title>0B0: 4.000 us to 6.000 us</title>
// CHECK-NOT:  >worker
// CHECK:      width="159.2"{{.*}}<title>0F0: 0 ps to 1.000 us</title>
// CHECK:      <title>0B0: 4.000 us to 6.000 us</title>
// CHECK:      >worker 1</text>
// CHECK:      <title>1F0: 1.000 us to 2.000 us</title>
// CHECK-NOT:  >worker
// CHECK:      <title>1F0: 1.000 us to 2.000 us</title>
// CHECK:      </svg>

// ERROR: error: 'builtin.module' op 'small' has 1 workers and 'first' 2; rows can be below each other only if they are of the same workers

//--- both.mlir
pipe.schedule @first workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
pipe.schedule @second workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
//--- other.mlir
pipe.schedule @first workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
pipe.schedule @small workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
