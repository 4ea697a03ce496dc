// A report has no formula for rows that are not those of the family that the schedule names.
// RUN: pipesched-translate %s --export-report | FileCheck %s

// CHECK: "family": "gpipe"
// CHECK-NOT: "formula": {
// CHECK: "formula_reason": "cell 1 (1B0) differs from family \"gpipe\", which has 1F1 here; remove 'family' from the schedule, or generate its rows again"
pipe.schedule @s workers 2 microbatches 2 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
