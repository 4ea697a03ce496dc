//===- Facts.cpp - What is known of model and system ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Look-ups in facts: layers of a model, efficiency of a size.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/Facts.h"

using namespace pipesched;

int64_t ModelFacts::getNumLayers() const {
  int64_t layers = 0;
  for (const BlockFacts &block : blocks)
    if (block.position == BlockPosition::Layer)
      layers += block.count;
  return layers;
}

double EfficiencyCurve::at(double size) const {
  if (points.empty())
    return 1;
  const Point *right = llvm::partition_point(points, [size](Point point) {
                         return double(point.size) < size;
                       }).base();
  if (right == points.data())
    return double(points.front().partsPerMillion) * 1e-6;
  if (right == points.data() + points.size())
    return double(points.back().partsPerMillion) * 1e-6;
  const Point *left = right - 1;
  double share = (size - double(left->size)) / double(right->size - left->size);
  double rise = double(right->partsPerMillion - left->partsPerMillion);
  return (double(left->partsPerMillion) + share * rise) * 1e-6;
}
