//===- HuggingFaceReader.h - Reads a config.json ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns one configuration and its family into an architecture. Each method
// reads one topic, in the order of `read`.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEREADER_H
#define PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEREADER_H

#include "FieldReader.h"
#include "HuggingFaceFamilies.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

namespace pipesched {

/// Fills an architecture from a configuration and the known traits of its
/// family. The configuration collects errors, the architecture notes.
class HuggingFaceReader {
public:
  HuggingFaceReader(ConfigReader &config, const ModelFamily &family,
                    Architecture &arch)
      : config(config), family(family), arch(arch) {}

  /// `sequence` is the length to train with; 0: not given.
  void read(int64_t sequence);

private:
  void flattenChildren();
  void applyDefaults();
  void refuseUnmodelled();
  void readSizes();
  void readKeyValueHeads();
  void readHeads();
  void readLatentAttention();
  void readActivation();
  void readNorms();
  void readBiases();
  void readEmbedding();
  void readExpertGroups(Experts &experts);
  void readExperts();
  void readMlp();
  LayerSet readExpertLayers();
  int64_t readSharedWidth();
  // HuggingFaceLinear.cpp
  void prepareLinear();
  void readLinear();
  void readGatedDelta();
  void readStateSpace();
  void readMamba();
  void readPattern();
  void readShortConvolution();
  void adjustFeedforward();
  std::optional<LayerSet> readLinearWords();

  void readWindow();
  bool readLayerTypes();
  bool readLocalLayers();
  void readSequence(int64_t sequence);
  void nameTheRest();

  /// Returns the list of the layers for which `isMember` is true.
  LayerSet listLayers(llvm::function_ref<bool(int64_t)> isMember);
  bool isFamily(llvm::StringRef type) const { return family.type == type; }
  bool failed() { return config.getErrors().any(); }
  void note(const llvm::Twine &text) { arch.notes.push_back(text.str()); }

  ConfigReader &config;
  const ModelFamily &family;
  Architecture &arch;
  int64_t maxPositions = 0;
  /// The layers with experts, if they were read together with recurrences.
  std::optional<LayerSet> expertLayers;
};

/// Whether a word of `layer_types` means a recurrence.
bool isLinearWord(llvm::StringRef word);

/// Field names that several readers use.
namespace field {
inline constexpr llvm::StringRef kLayers[] = {"num_hidden_layers", "n_layer",
                                              "num_layers", "n_layers"};
inline constexpr llvm::StringRef kFeedforward[] = {
    "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
    "block_ff_dim"};
inline constexpr llvm::StringRef kActivation[] = {
    "hidden_act", "activation_function", "hidden_activation", "activation"};
} // namespace field

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEREADER_H
