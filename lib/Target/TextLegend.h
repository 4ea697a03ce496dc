//===- TextLegend.h - What the letters stand for ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last lines of a page of pictures in letters.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_TEXTLEGEND_H
#define PIPESCHED_LIB_TARGET_TEXTLEGEND_H

#include "Picture.h"
#include "PipeSched/Target/TextPicture.h"

namespace pipesched {

/// Writes what the letters and signs of the pictures are, item by item.
/// `withStage`: cells are named with their stage.
void writeTextLegend(llvm::raw_ostream &os, llvm::ArrayRef<Picture> pictures,
                     const TextPictureOptions &options, bool withStage);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_TEXTLEGEND_H
