//===- Sources.h - What all description files have --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Aliases, and where each number comes from.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_SOURCES_H
#define PIPESCHED_LIB_DESCRIPTION_SOURCES_H

#include "FieldReader.h"
#include "PipeSched/Description/Description.h"
#include "llvm/Support/FormatVariadic.h"

namespace pipesched {

/// The list `aliases`, other names of a description; empty where it is not
/// there.
std::vector<std::string> readAliases(FieldReader &reader);

/// Finishes the reader of a whole file, whose errors go first, and checks
/// `sources`, an object from field paths ("memory" or
/// "memory.capacity_gb") to texts. Errors: a path that leads nowhere; where
/// sources are required, a number for which neither its own path nor one above
/// it is there.
void finishWithSources(FieldReader &reader, const llvm::json::Value &file,
                       SourceRule rule);

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_SOURCES_H
