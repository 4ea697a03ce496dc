//===- Description.h - Descriptions as JSON files ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the descriptions in systems/ and models/, which are embedded in the
// library, and others from files: PipeSched's own (docs/schemas has the
// fields), Hugging Face configurations and Calculon's files (docs/Models.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_DESCRIPTION_H
#define PIPESCHED_DESCRIPTION_DESCRIPTION_H

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipesched {

/// Whether `sources` must give the origin of each number of a description; it
/// must in descriptions that ship.
enum class SourceRule { Optional, Required };

/// Reads one description. Messages call the text `file`. Errors name file and
/// field: text that is no JSON; a field that is unknown (with the closest known
/// one), missing, repeated, of a wrong type or out of range; a source for an
/// absent field; a number without a source if `rule` requires one.
llvm::Expected<HardwareFacts>
systemFromJson(llvm::StringRef text, llvm::StringRef file, SourceRule rule);
/// The fields decide the format. A `sequence` above 0 replaces that of the
/// text; Hugging Face configurations have none. Further errors: those of
/// checkArchitecture; a configuration for a kind of model without a cost model
/// here.
llvm::Expected<Architecture> architectureFromJson(llvm::StringRef text,
                                                  llvm::StringRef file,
                                                  SourceRule rule,
                                                  int64_t sequence = 0);
/// Reads `{"F": "18.522ms", "I": ["0.8ms", "1ms"]}` with the names of
/// profileNames().
llvm::Expected<Profile> profileFromJson(llvm::StringRef text,
                                        llvm::StringRef file);

/// The same from a file. Further errors: a file that cannot be read.
llvm::Expected<HardwareFacts> readSystem(llvm::StringRef path);
llvm::Expected<Architecture> readArchitecture(llvm::StringRef path,
                                              int64_t sequence = 0);
llvm::Expected<Profile> readProfile(llvm::StringRef path);

/// Finds a shipped description by its name or an alias. Errors: an unknown
/// name, with the closest known one and a list of all.
llvm::Expected<HardwareFacts> findSystem(llvm::StringRef name);
llvm::Expected<Architecture> findArchitecture(llvm::StringRef name,
                                              int64_t sequence = 0);

/// A shipped description as text; its name is the file name without the ending.
struct EmbeddedFile {
  llvm::StringLiteral name, text;
};
/// All shipped descriptions, sorted by name.
llvm::ArrayRef<EmbeddedFile> embeddedSystems();
llvm::ArrayRef<EmbeddedFile> embeddedModels();

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_DESCRIPTION_H
