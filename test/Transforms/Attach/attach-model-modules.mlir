// RUN: split-file %s %t
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/model.json microbatch-size=2})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/model.json microbatch-size=2},pipe-attach-system{name=toy})' | pipesched-translate --export-report | FileCheck %s --check-prefix=REPORT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/deep.json microbatch-size=2})' 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/twice.json microbatch-size=2})' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/other.json microbatch-size=2})' 2>&1 | FileCheck %s --check-prefix=OTHER

// Layers of a module are blocks with messages of their sizes: 2 x 2 x 9 x 6.
// CHECK:      pipe.model @vlm microbatch_size 2 boundary_bytes 1280
// CHECK:        block "vision_layer" x 2 {{.*}} message_bytes [216, 216] {
// CHECK:        block "layer" x 3
// CHECK-NOT:    message_bytes

// The path divides only its layers by weights.
// CHECK:      pipe.schedule @s
// CHECK-NEXT:   path on [1, 2] blocks [1, 2]
// CHECK-NEXT:   node 2 on [0] frozen holds "vision_layer" x 2

// A frozen encoder has weights only; its message goes to worker 1, which holds
// the tensor.
// REPORT:      "memory": {
// REPORT:        "gradient_bytes": [0, {{[1-9]}}
// REPORT:        "optimizer_bytes": [0, {{[1-9]}}

// DEEP: deep.json: modules[0]: unknown field 'modules'
// TWICE: twice.json: modules: 'vision' is there twice
// OTHER: node 2 holds blocks 'vision_layer', and model 'vlm' has: layer

//--- model.json
{
  "name": "vlm", "description": "An encoder of images and a language model",
  "hidden": 10, "feedforward": 40, "sequence": 32, "layers": 3,
  "attention_heads": 2, "activation": "gelu", "norm": "layer",
  "modules": [{
    "name": "vision", "hidden": 6, "feedforward": 24, "sequence": 9,
    "layers": 2, "attention_heads": 2, "activation": "gelu", "norm": "layer"
  }]
}

//--- deep.json
{
  "name": "vlm", "description": "A module of a module",
  "hidden": 10, "feedforward": 40, "sequence": 32, "layers": 3,
  "attention_heads": 2, "activation": "gelu", "norm": "layer",
  "modules": [{
    "name": "vision", "hidden": 6, "feedforward": 24, "sequence": 9,
    "layers": 2, "attention_heads": 2, "activation": "gelu", "norm": "layer",
    "modules": []
  }]
}

//--- twice.json
{
  "name": "vlm", "description": "Two modules with one name",
  "hidden": 10, "feedforward": 40, "sequence": 32, "layers": 3,
  "attention_heads": 2, "activation": "gelu", "norm": "layer",
  "modules": [{
    "name": "vision", "hidden": 6, "feedforward": 24, "sequence": 9,
    "layers": 2, "attention_heads": 2, "activation": "gelu", "norm": "layer"
  }, {
    "name": "vision", "hidden": 6, "feedforward": 24, "sequence": 9,
    "layers": 2, "attention_heads": 2, "activation": "gelu", "norm": "layer"
  }]
}

//--- other.json
{
  "name": "vlm", "description": "No encoder",
  "hidden": 10, "feedforward": 40, "sequence": 32, "layers": 3,
  "attention_heads": 2, "activation": "gelu", "norm": "layer"
}

//--- s.mlir
pipe.schedule @s workers 3 microbatches 2 {
  path on [1, 2] weights [1, 2]
  node 2 on [0] frozen holds "vision_layer" x 2
  edge 2 -> 0
  worker 0 runs [2F0 2F1]
  worker 1 runs [0F0 0F1 0B0 0B1]
  worker 2 runs [1F0 1B0 1F1 1B1]
}
