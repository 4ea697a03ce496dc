//===- ModelJson.cpp - Models as JSON -------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields of models/*.json: an architecture, from which TransformerBlock.h
// makes kernels.
//
//===----------------------------------------------------------------------===//

#include "Sources.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

/// `attention_width`, or `head_size` times the heads; the hidden size without.
static void readAttentionWidth(FieldReader &reader, Architecture &arch) {
  bool hasWidth = reader.find("attention_width");
  bool hasHeadSize = reader.find("head_size");
  FileErrors &errors = reader.getErrors();
  if (hasWidth && hasHeadSize)
    errors.report("attention_width", "expected either this or head_size");
  arch.attentionWidth = reader.integer("attention_width", 1, arch.hidden);
  if (!hasHeadSize)
    return;
  int64_t headSize = reader.integer("head_size", 1, 1);
  if (llvm::MulOverflow(headSize, arch.attentionHeads, arch.attentionWidth))
    errors.report("head_size", "all heads together are wider than 2^63 - 1");
}

static void readSizes(FieldReader &reader, Architecture &arch) {
  arch.hidden = reader.integer("hidden", 1);
  arch.feedforward = reader.integer("feedforward", 1);
  arch.sequence = reader.integer("sequence", 1);
  arch.layers = reader.integer("layers", 1);
  arch.attentionHeads = reader.integer("attention_heads", 1);
  arch.keyValueHeads =
      reader.integer("key_value_heads", 1, arch.attentionHeads);
  readAttentionWidth(reader, arch);
  arch.vocabulary = reader.integer("vocabulary", 1, 0);
  arch.globalBatch = reader.integer("global_batch", 1, 0);
}

static void readForm(FieldReader &reader, Architecture &arch) {
  arch.activation = Activation(reader.choice("activation", {"gelu", "swiglu"}));
  arch.norm = Norm(reader.choice("norm", {"layer", "rms"}));
  arch.attention = Attention(reader.choice("attention", {"unfused", "fused"},
                                           unsigned(Attention::Fused)));
  arch.dropout = reader.flag("dropout", false);
  arch.biases = reader.flag("biases", false);
  arch.learnedPositions = reader.flag("learned_positions", false);
  if (arch.learnedPositions && !arch.vocabulary)
    reader.getErrors().report("learned_positions",
                              "stand in the embedding, which needs the field "
                              "'vocabulary'");
}

static void readBytes(FieldReader &reader, Architecture &arch) {
  arch.bytesPerElement = reader.integer("bytes_per_element", 1, 2);
  arch.weightBytesPerParameter =
      reader.integer("weight_bytes_per_parameter", 0, 2);
  arch.gradientBytesPerParameter =
      reader.integer("gradient_bytes_per_parameter", 0, 2);
  arch.optimizerBytesPerParameter =
      reader.integer("optimizer_bytes_per_parameter", 0, 12);
}

llvm::Expected<Architecture> pipesched::architectureFromJson(StringRef text,
                                                             StringRef file,
                                                             SourceRule rule) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  FieldReader reader(&*value, "", errors);
  Architecture arch;
  arch.name = reader.text("name");
  arch.source = reader.text("description");
  readSizes(reader, arch);
  readForm(reader, arch);
  readBytes(reader, arch);
  readAliases(reader);
  checkSources(reader, *value, rule);
  reader.finish();
  if (errors.any())
    return errors.take();
  return arch;
}
