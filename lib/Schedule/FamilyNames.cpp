//===- FamilyNames.cpp - Families by name or alias ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which family a name means, however it is spelled.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Families.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using llvm::Expected;
using llvm::StringRef;

static constexpr FamilyAlias kAliases[] = {
    {"fill-drain", "gpipe", "the literature"},
    {"AFAB", "gpipe", "torchtitan and others: all forwards, all backwards"},
    {"FThenB", "gpipe", "PaddlePaddle"},
    {"PipeDream-Flush", "1f1b", "Narayanan et al. 2021"},
    {"DAPPLE", "1f1b", "Fan et al. 2021"},
    {"Std1F1B", "1f1b", "JaxPP"},
    {"one-forward-one-backward", "1f1b", "the literature"},
    {"ZeroBubbleH1", "zb-h1", "the literature"},
    {"ZeroBubbleH2", "zb-h2", "the literature"},
    {"BFS", "looped-bfs", "the literature"},
    {"breadth-first", "looped-bfs", "Lamy-Poirier 2023"},
    {"circular", "mpmd-circular", "MaxText, Shardy"},
    {"VPP", "interleaved-1f1b", "Megatron-LM, PaddlePaddle"},
    {"virtual-pipeline", "interleaved-1f1b", "Megatron-LM"},
    {"interleaved", "interleaved-1f1b", "Megatron-LM"},
    {"1F1B-I", "interleaved-1f1b", "Qi et al. 2024"},
    {"1F1B-interleaved", "interleaved-1f1b", "the literature"},
    {"InterleavedZeroBubble", "interleaved-zb", "PyTorch"},
    {"ZBVZeroBubble", "zb-v", "PyTorch"},
    {"V-ZB", "zb-v", "Qi et al. 2024, controllable memory"},
    {"ZeroBubbleV", "zb-v", "the literature"},
    {"V-Auto", "zb-auto", "the zero-bubble repository"},
    {"ZB-V-Auto", "zb-auto", "the zero-bubble repository"},
    {"wave", "hanayo", "Liu et al. 2023"},
};

llvm::ArrayRef<FamilyAlias> pipesched::familyAliases() { return kAliases; }

/// Letters and digits in lower case, without the "schedule" of PyTorch's
/// classes.
static std::string spell(StringRef name) {
  std::string spelled;
  for (char character : name)
    if (llvm::isAlnum(character))
      spelled += llvm::toLower(character);
  StringRef kept = spelled;
  if (kept.consume_front("schedule") && !kept.empty())
    return kept.str();
  return spelled;
}

static const Family *findExact(StringRef name) {
  for (const Family &family : families())
    if (family.name == name)
      return &family;
  return nullptr;
}

const Family *pipesched::findFamily(StringRef name) {
  if (const Family *family = findExact(name))
    return family;
  std::string spelled = spell(name);
  for (const Family &family : families())
    if (spell(family.name) == spelled)
      return &family;
  for (const FamilyAlias &alias : kAliases)
    if (spell(alias.alias) == spelled)
      return findExact(alias.family);
  return nullptr;
}

/// "; did you mean 'interleaved-1f1b'?" where a name is close.
static std::string suggest(StringRef name) {
  llvm::SmallVector<StringRef> names;
  for (const Family &family : families())
    names.push_back(family.name);
  for (const FamilyAlias &alias : kAliases)
    names.push_back(alias.alias);
  StringRef closest = closestName(name, names);
  if (closest.edit_distance_insensitive(name) > 1 + name.size() / 4)
    return "";
  const Family *family = findFamily(closest);
  if (family->name == closest)
    return llvm::formatv("; did you mean '{0}'?", closest);
  return llvm::formatv("; did you mean '{0}', which is {1}?", closest,
                       family->name);
}

Expected<const Family *> pipesched::lookUpFamily(StringRef name) {
  if (const Family *family = findFamily(name))
    return family;
  llvm::SmallVector<StringRef> names;
  for (const Family &family : families())
    names.push_back(family.name);
  return formatError("there is no schedule family '{0}' (known: {1}){2}", name,
                     llvm::join(names, ", "), suggest(name));
}
