//===- Sources.h - What all description files have --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Aliases, and the sources of numbers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_SOURCES_H
#define PIPESCHED_LIB_DESCRIPTION_SOURCES_H

#include "FieldReader.h"
#include "PipeSched/Description/Description.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched {

/// Reads the list `aliases`, other names of a description; empty if absent.
std::vector<std::string> readAliases(FieldReader &reader);

/// Finishes the reader of a whole file and reports its errors first; then
/// checks `sources`, an object from field paths ("memory" or
/// "memory.capacity_gb") to texts. Errors: a path that leads nowhere; if
/// sources are required, a number with a source neither at its own path nor at
/// one above.
void finishWithSources(FieldReader &reader, const llvm::json::Value &file,
                       SourceRule rule);

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_SOURCES_H
