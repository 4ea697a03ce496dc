//===- Description.h - Descriptions as JSON files ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads descriptions from systems/ and models/, which are embedded in the
// library, and from files: PipeSched's own (docs/schemas has the fields),
// Hugging Face configurations and Calculon's files (docs/Models.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_DESCRIPTION_H
#define PIPESCHED_DESCRIPTION_DESCRIPTION_H

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipesched {

/// Whether `sources` must state the origin of each number of a description. It
/// must in shipped descriptions.
enum class SourceRule { Optional, Required };

/// Which rates of a system are used: the rates under the load of a training,
/// which its field `load` states, or the peaks of data sheets. Auto: rates
/// under load if the system has them.
enum class Rates { Auto, Load, DataSheet };

template <>
struct EnumNames<Rates> {
  static constexpr EnumName<Rates> values[] = {
      {Rates::Auto, "auto", "Under load if the description has them"},
      {Rates::Load, "load", "Under the load of a training"},
      {Rates::DataSheet, "data-sheet", "The peaks of data sheets"}};
};

/// Reads one description. Messages call the text `file`. Errors name file and
/// field: text that is not JSON; a field that is unknown (with the closest
/// known one), missing, repeated, of a wrong type or out of range; a source for
/// an absent field; a number without a source if `rule` requires one; a system
/// that lacks the requested rates under load.
llvm::Expected<HardwareFacts> systemFromJson(llvm::StringRef text,
                                             llvm::StringRef file,
                                             SourceRule rule,
                                             Rates rates = Rates::Auto);
/// The same for a model; the fields decide the format. A `sequence` above 0
/// replaces the text's; Hugging Face configurations have none. Further errors:
/// as for checkArchitecture; a configuration for a kind of model without a cost
/// model here.
llvm::Expected<Architecture> architectureFromJson(llvm::StringRef text,
                                                  llvm::StringRef file,
                                                  SourceRule rule,
                                                  int64_t sequence = 0);
/// Reads a profile, `{"F": "18.522ms", "I": ["0.8ms", "1ms"]}` with the names
/// of profileNames().
llvm::Expected<Profile> profileFromJson(llvm::StringRef text,
                                        llvm::StringRef file);

/// These functions read a file. Further errors: a file that cannot be read.
llvm::Expected<HardwareFacts> readSystem(llvm::StringRef path,
                                         Rates rates = Rates::Auto);
llvm::Expected<Architecture> readArchitecture(llvm::StringRef path,
                                              int64_t sequence = 0);
llvm::Expected<Profile> readProfile(llvm::StringRef path);

/// Finds a shipped description by its name or an alias. Errors: an unknown
/// name, with the closest known one and a list of all.
llvm::Expected<HardwareFacts> findSystem(llvm::StringRef name,
                                         Rates rates = Rates::Auto);
llvm::Expected<Architecture> findArchitecture(llvm::StringRef name,
                                              int64_t sequence = 0);

/// A shipped description as text; its name is the file name without the
/// extension.
struct EmbeddedFile {
  llvm::StringLiteral name, text;
};
/// All shipped descriptions, sorted by name.
llvm::ArrayRef<EmbeddedFile> embeddedSystems();
llvm::ArrayRef<EmbeddedFile> embeddedModels();

/// Returns the facts of a model for microbatches of `size` sequences. Facts
/// cannot be scaled, because weights are read once for any size. The facts come
/// from the only model in `others` that differs just in size (areSizesOfOne),
/// or else from a shipped description that yields exactly `model` under some
/// options. Error texts continue "the schedule ": neither is found; several of
/// `others` match; as for expandArchitecture.
llvm::Expected<ModelFacts> resizeModel(const ModelFacts &model, int64_t size,
                                       llvm::ArrayRef<ModelFacts> others);

/// A run of Calculon. A worker represents the accelerators of one pipeline
/// stage of one replica.
struct CalculonExecution {
  int64_t workers = 1;        ///< of one pipeline
  int64_t accelerators = 1;   ///< of a worker: tensor parallelism
  int64_t replicas = 1;       ///< data parallelism
  int64_t chunks = 1;         ///< stages per worker
  int64_t globalBatch = 1;    ///< of all replicas
  int64_t microbatchSize = 1; ///< in sequences
  int64_t microbatches = 1;   ///< of one replica
  Recompute recompute = Recompute::None;
  bool sequenceParallel = true; ///< the residual stream is sharded (rs_ag)
  /// The optimizer state is sharded over replicas.
  bool shardsOptimizer = false;
  /// Features that the file enables and PipeSched does not model.
  std::vector<std::string> notes;

  /// Returns the passes that create and schedule such a pipeline.
  std::string schedulePipeline() const;
  /// Returns options of pipe-attach-model; the next function, of
  /// pipe-attach-system.
  std::string modelOptions() const;
  std::string systemOptions() const;
};

/// Reads Calculon's execution file. Errors name file and field: text that is
/// not JSON; a field that is unknown, missing, of a wrong type or out of range;
/// degrees whose product is not the number of processors; a batch that they do
/// not divide; inference.
llvm::Expected<CalculonExecution> executionFromJson(llvm::StringRef text,
                                                    llvm::StringRef file);

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_DESCRIPTION_H
