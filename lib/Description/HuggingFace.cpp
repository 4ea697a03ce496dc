//===- HuggingFace.cpp - Hugging Face's config.json -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides which part of a file is read, as which family, and the model's name.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "HuggingFaceReader.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

bool pipesched::isHuggingFaceConfig(const json::Object &file) {
  static constexpr StringRef names[] = {"model_type",  "architectures",
                                        "hidden_size", "num_hidden_layers",
                                        "n_embd",      "transformers_version"};
  bool isOurs = file.get("hidden") && file.get("layers");
  return !isOurs && llvm::any_of(names, [&](StringRef name) {
    return file.get(name) != nullptr;
  });
}

std::string pipesched::nameOfFile(StringRef path) {
  StringRef stem = llvm::sys::path::stem(path);
  if (stem != "config" && !stem.empty() && !stem.starts_with("<") &&
      stem != "-")
    return stem.str();
  StringRef folder =
      llvm::sys::path::filename(llvm::sys::path::parent_path(path));
  return folder.starts_with(".") ? "" : folder.str();
}

/// Guesses an unknown family from the fields.
static ModelFamily guessModelFamily(ConfigReader &config, StringRef modelType,
                                    Architecture &arch) {
  static constexpr StringRef layerNormNames[] = {
      "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"};
  ModelFamily family = {""};
  bool hasLayerNorm = config.has(layerNormNames) && !config.has("rms_norm_eps");
  StringRef activation = config.text(field::kActivation, "silu");
  bool hasGate = activation == "silu" || activation == "swish" ||
                 activation.ends_with("glu");
  family.norm = hasLayerNorm ? Norm::LayerNorm : Norm::RMSNorm;
  family.traits = hasGate ? kGated : 0;
  arch.notes.push_back(
      ("does not know the model_type '" + modelType + "' and assumes " +
       (hasLayerNorm ? "LayerNorm" : "RMSNorm") +
       " before attention and MLP, " +
       (hasGate ? "a gated MLP" : "an MLP without gate") +
       ", and no biases and tied embeddings but those that fields name")
          .str());
  return family;
}

static bool hasWidth(const json::Object &object) {
  return object.get("hidden_size") || object.get("n_embd");
}

/// Finds the configuration of the language model: an object in the file, which
/// has precedence over fields next to it as in transformers, or the whole file.
static const json::Object *findText(const json::Object &file, StringRef &path) {
  for (StringRef name : {"text_config", "llm_config", "language_config"}) {
    const json::Object *object = file.getObject(name);
    if (object && (hasWidth(*object) || !hasWidth(file))) {
      path = name;
      return object;
    }
  }
  return &file;
}

/// Whether a field describes another part of the model, such as a tower for
/// images or sound: an object with sizes, or the name of another model.
static bool isOtherPart(StringRef name, const json::Value &value) {
  static constexpr StringRef words[] = {"vision", "visual", "image", "img",
                                        "video",  "audio",  "speech"};
  static constexpr StringRef sizes[] = {
      "hidden_size", "num_hidden_layers", "num_layers", "n_layer", "layers",
      "n_embd",      "encoder_layers",    "embed_dim",  "d_model", "depth",
      "width"};
  const json::Object *object = value.getAsObject();
  if (!object)
    return name.ends_with("_tower") && value.getAsString();
  return llvm::any_of(words, [&](StringRef w) { return name.contains(w); }) ||
         llvm::any_of(sizes, [&](StringRef s) { return object->get(s); });
}

/// The other parts of the model in a file, sorted; not the object at `inside`.
static std::vector<std::string> otherParts(const json::Object &file,
                                           StringRef inside) {
  std::vector<std::string> parts;
  for (const auto &[key, value] : file)
    if (StringRef(key) != inside && isOtherPart(key, value))
      parts.push_back(key.str());
  llvm::sort(parts);
  return parts;
}

Architecture pipesched::readHuggingFace(const json::Object &file,
                                        StringRef path, int64_t sequence,
                                        FileErrors &errors) {
  StringRef inside;
  const json::Object *text = findText(file, inside);
  ConfigReader config(*text, inside, errors);
  ConfigReader whole(file, "", errors);
  StringRef modelType =
      config.text("model_type", whole.text("model_type", "unknown"));
  Architecture arch;
  std::vector<std::string> parts = otherParts(file, inside);
  if (!parts.empty())
    arch.notes.push_back("leaves out other parts of the model: " +
                         llvm::join(parts, ", "));
  if (!inside.empty()) {
    arch.notes.push_back(("reads " + inside).str());
    if (const json::Value *tied = whole.find("tie_word_embeddings"))
      config.setDefault("tie_word_embeddings", *tied);
  }
  if (StringRef why = reasonUnsupported(modelType); !why.empty())
    errors.report("model_type", "'" + modelType + "' " + why);
  if (config.flag("is_encoder_decoder", false))
    errors.report("is_encoder_decoder",
                  "a pipeline has one stack of layers, not two");

  const ModelFamily *known = findModelFamily(modelType);
  ModelFamily guessed = {""};
  if (!known && !errors.any())
    guessed = guessModelFamily(config, modelType, arch);
  for (const std::string &part : parts)
    config.find(StringRef(part));
  HuggingFaceReader reader(config, known ? *known : guessed, arch);
  if (!errors.any())
    reader.read(sequence);

  arch.name = nameOfFile(path);
  if (arch.name.empty())
    arch.name = llvm::sys::path::filename(whole.text("_name_or_path")).str();
  if (arch.name.empty())
    arch.name = modelType.str();
  arch.source = ("Hugging Face configuration, model_type " + modelType).str();
  return arch;
}
