// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefixes=CHECK,SLOTS
// RUN: pipesched-translate --export-svg %s | FileCheck %s --check-prefixes=CHECK,TIMED

// Copies have bars below the row. Over time they are as long as the copies take. Over slots, where
// copies take none, they are short, start where the copy is issued, and have joins next to them.

// CHECK:       >D offload</text>
// CHECK:       >U reload</text>
// CHECK:       >O optimizer</text>
// CHECK:       >bars below a row: offload, reload</text>

// 7 slots are 960 px.

// SLOTS:       <rect class="D0" x="213.14" y="{{[0-9.]+}}" width="5" height="3"><title>0D0: slot 1</title></rect>
// SLOTS-NEXT:  <rect class="D0" opacity=".4" x="350.29" {{.*}}<title>0d0: slot 2</title></rect>
// SLOTS-NEXT:  <rect class="U0" x="350.29" {{.*}}<title>0U0: slot 2</title></rect>
// SLOTS-NEXT:  <rect class="U0" opacity=".4" x="357.29" {{.*}}<title>0u0: slot 2</title></rect>
// SLOTS-NOT:   <rect class="{{[DU]}}

// TIMED:       <rect class="D0" {{.*}}<title>0D0: 1.000 us to
// TIMED:       <rect class="U0" {{.*}}<title>0U0: {{.*}} us to
// TIMED-NOT:   <title>0d0
pipe.schedule @offloaded workers 1 microbatches 2 profile <"F=1us,B=2us,D=1us,U=1us,O=1us"> {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0d0 0U0 0u0 0B0 0B1 0O0]
}
