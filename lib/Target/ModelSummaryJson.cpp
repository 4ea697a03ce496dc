//===- ModelSummaryJson.cpp - A model in a few numbers, as JSON -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys are in the order of docs/Models.md; callers rely on all of them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/ModelSummaryJson.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

static void writeOptional(json::OStream &json, StringRef key,
                          std::optional<int64_t> value) {
  if (value)
    json.attribute(key, *value);
  else
    json.attribute(key, nullptr);
}

static StringRef wordOf(BlockPosition position) {
  switch (position) {
  case BlockPosition::First:
    return "first";
  case BlockPosition::Layer:
    return "layer";
  case BlockPosition::Last:
    return "last";
  }
  llvm_unreachable("all positions are handled");
}

static void writeBlock(json::OStream &json, const BlockSummary &block) {
  json.object([&] {
    json.attribute("name", block.name);
    json.attribute("position", wordOf(block.position));
    json.attribute("count", block.count);
    json.attribute("parameters", block.parameters);
    json.attribute("active_parameters", block.activeParameters);
    json.attribute("tied_parameters", block.tiedParameters);
    json.attribute("expert_parameters", block.expertParameters);
    writeOptional(json, "flops_per_token", block.flopsPerToken);
    json.attribute("activation_bytes", block.activationBytes);
    json.attribute("weight_grad_bytes", block.weightGradBytes);
    json.attribute("recomputed_bytes", block.recomputedBytes);
  });
}

void pipesched::writeModelSummary(json::OStream &json,
                                  const ModelSummary &summary,
                                  llvm::ArrayRef<std::string> notes,
                                  std::optional<Attention> attention) {
  json.object([&] {
    json.attribute("model", summary.name);
    json.attribute("source", summary.source);
    json.attribute("layers", summary.layers);
    json.attribute("parameters", summary.parameters);
    json.attribute("active_parameters", summary.activeParameters);
    writeOptional(json, "expert_parameters", summary.expertParameters);
    writeOptional(json, "flops_per_token", summary.flopsPerToken);
    writeOptional(json, "attention_flops_per_token",
                  summary.attentionFlopsPerToken);
    writeOptional(json, "expert_flops_per_token", summary.expertFlopsPerToken);
    json.attribute("microbatch_size", summary.microbatchSize);
    writeOptional(json, "sequence",
                  summary.sequence ? std::optional(summary.sequence)
                                   : std::nullopt);
    writeOptional(json, "vocabulary",
                  summary.vocabulary ? std::optional(summary.vocabulary)
                                     : std::nullopt);
    if (attention)
      json.attribute("attention", enumName(*attention));
    else
      json.attribute("attention", nullptr);
    json.attribute("activation_bytes_per_block",
                   summary.activationBytesPerBlock);
    json.attribute("activation_bytes", summary.activationBytes);
    json.attribute("boundary_bytes", summary.boundaryBytes);
    json.attribute("weight_bytes", summary.weightBytes);
    writeOptional(json, "expert_weight_bytes", summary.expertWeightBytes);
    json.attribute("gradient_bytes", summary.gradientBytes);
    json.attribute("optimizer_bytes", summary.optimizerBytes);
    json.attributeArray("blocks", [&] {
      for (const BlockSummary &block : summary.blocks)
        writeBlock(json, block);
    });
    json.attributeArray("notes", [&] {
      for (const std::string &note : notes)
        json.value(note);
    });
  });
}
