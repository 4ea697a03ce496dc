// RUN: pipesched-translate --export-shardy-rules --shardy-schedule=whole %s \
// RUN:   | FileCheck %s --check-prefix=WHOLE --match-full-lines --strict-whitespace
// RUN: pipesched-translate --export-shardy-rules --shardy-backward=cells --shardy-schedule=whole %s \
// RUN:   | FileCheck %s --check-prefix=WHOLE --match-full-lines --strict-whitespace

// The whole text is one argument. Rows are in the order of workers, without idle
// slots.

// WHOLE:-mpmd-rule-based-schedule='rules=FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=1)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=1)]),FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=1)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=1)])'
// WHOLE-NOT:{{.}}
pipe.schedule @whole workers 2 microbatches 2 {
  path on [0, 1]
  worker 1 runs [_ 1F0 1B0 1F1 1B1]
  worker 0 runs [0F0 0F1 _2 0B0 0B1]
}

// Stages keep their numbers if a worker has several.

// RUN: pipesched-translate --export-shardy-rules --shardy-schedule=chunks %s \
// RUN:   | FileCheck %s --check-prefix=CHUNKS --match-full-lines --strict-whitespace
// CHUNKS:-mpmd-rule-based-schedule='rules=FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s2"],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s2"(1)],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=0)]),FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s3"],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s3"(1)],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0)])'
pipe.schedule @chunks workers 2 microbatches 1 {
  path on [0, 1, 0, 1]
  worker 0 runs [0F0 2F0 2B0 0B0]
  worker 1 runs [1F0 3F0 3B0 1B0]
}

// I keeps what is transferred, W drops it.

// RUN: pipesched-translate --export-shardy-rules --shardy-schedule=split %s 2>%t.warnings \
// RUN:   | FileCheck %s --check-prefix=SPLIT --match-full-lines --strict-whitespace
// RUN: FileCheck %s --check-prefix=UNSPLIT <%t.warnings
// SPLIT:-mpmd-rule-based-schedule='rules=FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=1)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=0,split_type=kKeepTransferred)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=1)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=0,split_type=kDropTransferred)]),FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0,split_type=kKeepTransferred)->FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=1)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=1)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0,split_type=kDropTransferred)])'
// UNSPLIT: warning: worker 0: cell 2 (0I0): Shardy splits only backwards whose gradient goes to another mesh, but the gradient of stage 0 stays on its mesh; --shardy-backward=fragments writes it whole
// UNSPLIT-NOT: warning

// Shardy splits exactly the backwards whose gradient leaves the mesh, and so a B with
// such a gradient is written as two halves.

// RUN: pipesched-translate --export-shardy-rules --shardy-backward=fragments --shardy-schedule=split %s 2>%t.none \
// RUN:   | FileCheck %s --check-prefix=FRAGMENTS --match-full-lines --strict-whitespace
// RUN: count 0 <%t.none
// FRAGMENTS:-mpmd-rule-based-schedule='rules=FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=1)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=0)->FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=1)]),FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=0)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0,split_type=kKeepTransferred)->FragmentInfo(origins=["s1"],mesh_name="m1",call_counter=1)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=1,split_type=kKeepTransferred)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=1,split_type=kDropTransferred)->FragmentInfo(origins=["s1"(1)],mesh_name="m1",call_counter=0,split_type=kDropTransferred)])'
pipe.schedule @split workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0I0 0B1 0W0]
  worker 1 runs [1F0 1I0 1F1 1B1 1W0]
}

// A schedule without split cells belongs to a program that is not split.

// RUN: pipesched-translate --export-shardy-rules --shardy-backward=fragments --shardy-schedule=whole %s \
// RUN:   | FileCheck %s --check-prefix=WHOLE --match-full-lines --strict-whitespace

// Names are those of the program, with stage ids if it has them.

// RUN: pipesched-translate --export-shardy-rules --shardy-stage-prefix=layers. --shardy-mesh-prefix= \
// RUN:   --shardy-stage-ids --shardy-schedule=late %s 2>%t.late \
// RUN:   | FileCheck %s --check-prefix=NAMES --match-full-lines --strict-whitespace
// NAMES:-mpmd-rule-based-schedule='rules=FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["layers.0"],mesh_name="0",call_counter=0,stage=0)->FragmentInfo(origins=["layers.0"(1)],mesh_name="0",call_counter=0,stage=0)]),FragmentScheduleRule(ordered_fragments=[FragmentInfo(origins=["layers.1"],mesh_name="2",call_counter=0,stage=1)->FragmentInfo(origins=["layers.1"(1)],mesh_name="2",call_counter=0,stage=1,split_type=kKeepTransferred)->FragmentInfo(origins=["layers.1"(1)],mesh_name="2",call_counter=0,stage=1,split_type=kDropTransferred)])'

// Only the order is written; Shardy decides when a message is sent.

// RUN: FileCheck %s --check-prefix=LATE <%t.late
// LATE: warning: Shardy sends gradients after I, the schedule after W; the order of fragments is the same
// LATE-NOT: warning
pipe.schedule @late workers 3 microbatches 1 gradient after W {
  path on [0, 2]
  worker 0 runs [0F0 0B0]
  worker 1 runs [_3]
  worker 2 runs [1F0 1I0 1W0]
}
