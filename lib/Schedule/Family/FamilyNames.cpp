//===- FamilyNames.cpp - Families by name or alias ----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the family of a name, however it is spelled.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using llvm::Expected;
using llvm::StringRef;

static std::vector<FamilyAlias> collectAliases() {
  std::vector<FamilyAlias> aliases;
  for (const Family &family : families())
    for (const OtherName &other : family.otherNames)
      aliases.push_back({other.name, family.name, other.usedBy});
  return aliases;
}

llvm::ArrayRef<FamilyAlias> pipesched::familyAliases() {
  static const std::vector<FamilyAlias> aliases = collectAliases();
  return aliases;
}

/// The letters and digits of a name in lower case, without the "schedule" that
/// begins the names of PyTorch's classes.
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
  for (const FamilyAlias &alias : familyAliases())
    if (spell(alias.alias) == spelled)
      return findExact(alias.family);
  return nullptr;
}

/// Lists the families for a person who gave an unknown name, and suggests the
/// closest one. An alias is named with its family.
static std::string suggest(StringRef name) {
  llvm::SmallVector<StringRef> names;
  for (const Family &family : families())
    names.push_back(family.name);
  for (const FamilyAlias &alias : familyAliases())
    names.push_back(alias.alias);
  StringRef closest = closeName(name, names);
  if (closest.empty())
    return nameHint(name, llvm::ArrayRef(names).take_front(families().size()));
  const Family *family = findFamily(closest);
  if (family->name == closest)
    return nameHint(name, closest);
  return nameHint(name, closest) +
         llvm::formatv(", which is {0}", family->name).str();
}

Expected<const Family *> pipesched::lookUpFamily(StringRef name) {
  if (const Family *family = findFamily(name))
    return family;
  return formatError("there is no schedule family '{0}'{1}", name,
                     suggest(name));
}
