//===- CalculonExecution.cpp - Calculon's execution files -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields of github.com/calculon-ai/calculon. Features without a counterpart
// here are noted if a file turns them on.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/CalculonExecution.h"
#include "FieldReader.h"
#include "PipeSched/Facts/Deployment.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// As options
//===----------------------------------------------------------------------===//

std::string CalculonExecution::schedulePipeline() const {
  std::string text = ("pipe-create{workers=" + Twine(workers) +
                      " microbatches=" + Twine(microbatches) + "},")
                         .str();
  if (chunks == 1)
    return text + "pipe-schedule-1f1b";
  return (text + "pipe-place-interleaved{chunks=" + Twine(chunks) +
          "},pipe-schedule-interleaved-1f1b")
      .str();
}

std::string CalculonExecution::modelOptions() const {
  std::string text = ("microbatch-size=" + Twine(microbatchSize)).str();
  if (recompute != Recompute::None)
    text += " recompute=" + enumName(recompute).str();
  if (!sequenceParallel)
    text += " sequence-parallel=false";
  return text;
}

std::string CalculonExecution::systemOptions() const {
  std::string text = ("accelerators=" + Twine(accelerators)).str();
  if (replicas > 1)
    text += (" data-parallel=" + Twine(replicas)).str();
  if (shardsOptimizer)
    text += " sharding=" + enumName(Sharding::Optimizer).str();
  return text;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

static void readDegrees(FieldReader &reader, CalculonExecution &execution) {
  FileErrors &errors = reader.getErrors();
  int64_t processors = reader.integer("num_procs", 1);
  execution.accelerators = reader.integer("tensor_par", 1);
  execution.workers = reader.integer("pipeline_par", 1);
  execution.replicas = reader.integer("data_par", 1);
  execution.chunks = reader.integer("pipeline_interleaving", 1);
  if (!reader.isSound())
    return;
  int64_t pipeline = 0, product = 0;
  if (llvm::MulOverflow(execution.accelerators, execution.workers, pipeline) ||
      llvm::MulOverflow(pipeline, execution.replicas, product) ||
      product != processors)
    errors.report("num_procs",
                  "expected the product of tensor_par, pipeline_par and "
                  "data_par, found " +
                      Twine(processors));
  if (execution.workers == 1 && execution.chunks > 1)
    errors.report("pipeline_interleaving",
                  "one worker has one chunk, found " + Twine(execution.chunks));
}

static void readBatch(FieldReader &reader, CalculonExecution &execution) {
  FileErrors &errors = reader.getErrors();
  execution.globalBatch = reader.integer("batch_size", 1);
  execution.microbatchSize = reader.integer("microbatch_size", 1);
  if (!reader.isSound())
    return;
  int64_t step = 0;
  if (llvm::MulOverflow(execution.microbatchSize, execution.replicas, step) ||
      execution.globalBatch % step) {
    errors.report("batch_size",
                  "expected a multiple of microbatch_size times data_par, "
                  "found " +
                      Twine(execution.globalBatch));
    return;
  }
  execution.microbatches = execution.globalBatch / step;
}

/// Notes the features that a file turns on and PipeSched does not model.
static void readRest(FieldReader &reader, CalculonExecution &execution) {
  auto note = [&](StringRef text) { execution.notes.push_back(text.str()); };
  auto noteFlag = [&](StringRef name, StringRef text) {
    if (reader.flag(name, false))
      note((name + ": " + text).str());
  };
  execution.shardsOptimizer = reader.flag("optimizer_sharding", false);
  noteFlag("data_par_overlap",
           "pipe-add-optimizer{all-reduce=eager} hides reductions");
  noteFlag("seq_par_ag_redo", "inputs of layers are kept, not gathered again");
  noteFlag("weight_offload", "weights stay on the accelerators");
  noteFlag("activations_offload", "pipe-add-offload places copies to the host");
  noteFlag("optimizer_offload", "optimizer state stays on the accelerators");
  if (reader.choice("attention_type", {"multihead", "multiquery"}, 0) == 1)
    note("attention_type: the number of key-value heads is the model's");
  if (reader.choice("tensor_par_overlap", {"none", "ring", "pipe"}, 0) != 0)
    note("tensor_par_overlap: all-reduces of a layer are not hidden");
  execution.sequenceParallel =
      reader.choice("tensor_par_comm_type", {"ar", "p2p_rs_ag", "rs_ag"}, 2) ==
      2;
  std::string type = reader.text("datatype", "float16");
  if (type != "float16" && type != "bfloat16")
    note("datatype: the bytes of an element are the model's, not those of " +
         type);
  // The model decides about fusion, and networks have fixed roles.
  reader.flag("fused_activation", true);
  bool tensorAcross = reader.integer("tensor_par_net", 0, 0) != 0;
  bool pipelineWithin = reader.integer("pipeline_par_net", 0, 1) == 0;
  reader.integer("data_par_net", 0, 1);
  if (tensorAcross || pipelineWithin)
    note("tensor_par_net, pipeline_par_net: the accelerators of a worker use "
         "the first network, workers the last");
}

llvm::Expected<CalculonExecution> pipesched::executionFromJson(StringRef text,
                                                               StringRef file) {
  llvm::Expected<llvm::json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  FieldReader reader(&*value, "", errors);
  CalculonExecution execution;
  readDegrees(reader, execution);
  readBatch(reader, execution);
  execution.recompute = Recompute(
      reader.choice("activation_recompute", {"none", "attn_only", "full"}, 0));
  if (!reader.flag("training", true))
    errors.report("training", "inference has no backward to schedule");
  readRest(reader, execution);
  reader.finish();
  if (errors.any())
    return errors.take();
  return execution;
}
