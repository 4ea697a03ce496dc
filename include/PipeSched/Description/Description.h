//===- Description.h - Systems, models and profiles as JSON files --*- C++
//-*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the descriptions in systems/ and models/, which the library carries
// with it, and others from files: our own (docs/CostModel.md has the fields),
// Hugging Face configurations and Calculon's files (docs/Models.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_DESCRIPTION_H
#define PIPESCHED_DESCRIPTION_DESCRIPTION_H

#include "PipeSched/CostModel/Transformer/TransformerBlock.h"
#include "llvm/ADT/ArrayRef.h"

namespace pipesched {

/// Whether each number of a description must have its origin in `sources`:
/// those that ship must.
enum class SourceRule { Optional, Required };

/// Reads one description. `file` is what messages call the text. Errors name
/// file and field: text that is no JSON; a field that is unknown (with the
/// closest), missing, there twice, of a wrong type or out of range; a source
/// for a field that is not there, or a number without one where `rule` wants
/// it.
llvm::Expected<SystemFacts>
systemFromJson(llvm::StringRef text, llvm::StringRef file, SourceRule rule);
/// The format is told by the fields. `sequence` above 0 goes before that of the
/// text; configurations of Hugging Face have none. Further errors:
/// checkArchitecture's; a configuration of a kind of model that has no cost
/// model here.
llvm::Expected<Architecture> architectureFromJson(llvm::StringRef text,
                                                  llvm::StringRef file,
                                                  SourceRule rule,
                                                  int64_t sequence = 0);
/// `{"F": "18.522ms", "I": ["0.8ms", "1ms"]}`; the names of profileNames().
llvm::Expected<Profile> profileFromJson(llvm::StringRef text,
                                        llvm::StringRef file);

/// The same from a file. Errors: a file that cannot be read, too.
llvm::Expected<SystemFacts> readSystem(llvm::StringRef path);
llvm::Expected<Architecture> readArchitecture(llvm::StringRef path,
                                              int64_t sequence = 0);
llvm::Expected<Profile> readProfile(llvm::StringRef path);

/// A description that ships with the library, by its name or an alias. Errors:
/// an unknown name, with the closest and all that there are.
llvm::Expected<SystemFacts> findSystem(llvm::StringRef name);
llvm::Expected<Architecture> findArchitecture(llvm::StringRef name,
                                              int64_t sequence = 0);

/// A shipped description as text; the name is its file's without the ending.
struct EmbeddedFile {
  llvm::StringLiteral name, text;
};
/// All that ship, by name.
llvm::ArrayRef<EmbeddedFile> embeddedSystems();
llvm::ArrayRef<EmbeddedFile> embeddedModels();

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_DESCRIPTION_H
