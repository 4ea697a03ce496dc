// RUN: pipesched-translate --export-svg %s | FileCheck %s --check-prefixes=CHECK,TIMED
// RUN: pipesched-translate --export-svg --svg-variant=timed %s | FileCheck %s --check-prefixes=CHECK,TIMED
// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefixes=CHECK,SLOTS
// RUN: pipesched-translate --export-svg %s \
// RUN:   | %python -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.stdin)"

// The longest picture has 960 px from x = 76 on; 160 us of time or 16 slots are then
// 6 px per us or 60 px per slot. A slot of the legend is 20 px high.

// CHECK:      <?xml version="1.0" encoding="UTF-8"?>
// CHECK-NEXT: <svg xmlns="http://www.w3.org/2000/svg" width="1064" height="{{[0-9.]+}}" viewBox="0 0 1064 {{[0-9.]+}}">
// CHECK:      .F0{fill:#244fa3}
// CHECK-NEXT: .F1{fill:#9ab9ec}
// CHECK-NEXT: .B0{fill:#cf6a12}
// CHECK:      >F forward</text>
// CHECK:      >B backward</text>
// CHECK:      >dark to light: path 0 to 1</text>

// TIMED:      <tspan class="t">line</tspan><tspan class="s" dx="12">1f1b · 2 workers × 1 microbatch · step 80.00 us · idle 62.50 %</tspan>
// SLOTS:      <tspan class="t">line</tspan><tspan class="s" dx="12">1f1b · 2 workers × 1 microbatch · 6 slots · bubble 50.00 %</tspan>
// TIMED:      >us</text>
// SLOTS:      >slot</text>
// CHECK:      >worker 0</text>
// TIMED:      <rect class="F0" x="76" y="{{[0-9.]+}}" width="59.2" height="24"><title>0F0: 0 ps to 10.00 us</title></rect>
// SLOTS:      <rect class="F0" x="76" y="{{[0-9.]+}}" width="59.2" height="24"><title>0F0: slots 0 to 1</title></rect>
// CHECK-NEXT: <text class="l" x="105.6" y="{{[0-9.]+}}">0</text>
// TIMED:      <rect class="B0" x="436" {{.*}}<title>0B0: 60.00 us to 80.00 us</title></rect>
// SLOTS:      <rect class="B0" x="316" {{.*}}<title>0B0: slots 4 to 6</title></rect>
// TIMED:      <rect class="F0" opacity=".85" x="136" {{.*}} width="30" height="3"><title>send 0F0: 10.00 us to 15.00 us</title></rect>
// TIMED-NEXT: <rect class="F0" opacity=".4" x="166" {{.*}} width="30" height="3"><title>send 0F0: 15.00 us to 20.00 us</title></rect>
// SLOTS-NOT:  <title>send
pipe.schedule @line workers 2 microbatches 1 family "1f1b"
    profile <"F=10us,B=20us,send=5us,comm=5us"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}

// Two paths: the second is lighter and has black numbers.

// CHECK:      <tspan class="t">mirrored</tspan>
// CHECK:      <title>0F0:
// CHECK-NEXT: <text class="l"
// CHECK:      <rect class="F1" {{.*}}<title>1F1:
// CHECK-NEXT: <text class="d" {{.*}}>1</text>
pipe.schedule @mirrored workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}

// Two overlapped cells are drawn above each other, 12 px each, in one black frame.

// CHECK:      <tspan class="t">pairs</tspan>
// CHECK:      <rect class="F0" {{.*}} height="12"><title>0F1:
// CHECK:      <rect class="B0" {{.*}} height="12"><title>0B0:
// CHECK:      <rect class="p" {{.*}} height="24"/>
pipe.schedule @pairs workers 1 microbatches 2 profile <"F=50us,B=30us"> {
  path on [0]
  worker 0 runs [0F0 0F1+0B0 0B1]
}

// Idle slots that an aligned table contains are drawn.

// CHECK: <tspan class="t">aligned</tspan>
// SLOTS: <title>0B0: slots 14 to 16</title>
pipe.schedule @aligned workers 1 microbatches 1 aligned {
  path on [0]
  worker 0 runs [0F0 _13 0B0]
}
// CHECK: </svg>
