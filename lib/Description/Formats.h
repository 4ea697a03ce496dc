//===- Formats.h - Input files by format ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PipeSched's own files and files of other tools; fields decide the format.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_FORMATS_H
#define PIPESCHED_LIB_DESCRIPTION_FORMATS_H

#include "FieldReader.h"
#include "PipeSched/Description/Description.h"

namespace pipesched {

inline constexpr double kTera = 1e12, kGiga = 1e9, kMega = 1e6;

/// Read the fields of PipeSched's own files, docs/schemas/*.schema.json.
Architecture readModelFields(const llvm::json::Value &file, SourceRule rule,
                             FileErrors &errors);
HardwareFacts readSystemFields(const llvm::json::Value &file, Rates rates,
                               SourceRule rule, FileErrors &errors);
/// Reads times of stages. Errors name an entry of a list by its index, from 0.
Profile readTimesFields(const llvm::json::Value &file, FileErrors &errors);

/// Hugging Face's config.json. `sequence` is the length for training, or 0 if
/// it is not given. The notes list assumptions and omissions.
bool isHuggingFaceConfig(const llvm::json::Object &file);
Architecture readHuggingFace(const llvm::json::Object &file,
                             llvm::StringRef path, int64_t sequence,
                             FileErrors &errors);

/// Calculon's application and system files.
bool isCalculonApplication(const llvm::json::Object &file);
Architecture readCalculonApplication(const llvm::json::Value &file,
                                     llvm::StringRef path, FileErrors &errors);
bool isCalculonSystem(const llvm::json::Object &file);
HardwareFacts readCalculonSystem(const llvm::json::Value &file,
                                 llvm::StringRef path, FileErrors &errors);

/// Returns a name for a model or system whose file has none: the stem of the
/// file name, or the name of its folder if the stem is generic ("config").
std::string nameOfFile(llvm::StringRef path);

/// Reads the list `aliases`, other names of a description; empty if absent.
std::vector<std::string> readAliases(FieldReader &reader);

/// Finishes the reader of a whole file and reports its errors first; then
/// checks `sources`, an object from field paths ("memory" or
/// "memory.capacity_gb") to texts. Errors: a path without a value; if sources
/// are required, a number with a source neither at its own path nor at a path
/// above.
void finishWithSources(FieldReader &reader, const llvm::json::Value &file,
                       SourceRule rule);

/// Reads a share above 0 and at most 1, in parts per million.
int64_t readShare(const llvm::json::Value &value, const llvm::Twine &path,
                  FileErrors &errors);

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_FORMATS_H
