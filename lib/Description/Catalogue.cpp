//===- Catalogue.cpp - Descriptions by name and from files ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shipped descriptions are embedded, so that an installed tool needs no
// data folder.
//
//===----------------------------------------------------------------------===//

#include "FieldReader.h"
#include "Formats.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <mutex>

using namespace pipesched;
using llvm::StringRef;

static constexpr EmbeddedFile kSystems[] = {
#include "Systems.inc"
};
static constexpr EmbeddedFile kModels[] = {
#include "Models.inc"
};

llvm::ArrayRef<EmbeddedFile> pipesched::embeddedSystems() { return kSystems; }

llvm::ArrayRef<EmbeddedFile> pipesched::embeddedModels() { return kModels; }

//===----------------------------------------------------------------------===//
// By name
//===----------------------------------------------------------------------===//

/// Returns the aliases of a shipped description, which must be valid.
static std::vector<std::string> readAliasesOf(const EmbeddedFile &file) {
  llvm::json::Value value = llvm::cantFail(parseJson(file.text, file.name));
  FileErrors errors(file.name);
  FieldReader reader(&value, "", errors);
  return readAliases(reader);
}

namespace {
/// The shipped descriptions of one kind with their aliases, which are read when
/// a name is first looked up.
class Shelf {
public:
  explicit Shelf(llvm::ArrayRef<EmbeddedFile> files) : files(files) {}

  llvm::ArrayRef<EmbeddedFile> getFiles() const { return files; }
  /// In the order of the files. Thread-safe.
  llvm::ArrayRef<std::vector<std::string>> getAliases() {
    std::call_once(isRead, [&] {
      for (const EmbeddedFile &file : files)
        aliases.push_back(readAliasesOf(file));
    });
    return aliases;
  }

private:
  llvm::ArrayRef<EmbeddedFile> files;
  std::once_flag isRead;
  std::vector<std::vector<std::string>> aliases;
};
} // namespace

static llvm::Error unknownName(Shelf &shelf, StringRef what, StringRef name) {
  llvm::SmallVector<StringRef> names, all;
  for (const EmbeddedFile &file : shelf.getFiles())
    names.push_back(file.name);
  all = names;
  for (const std::vector<std::string> &aliases : shelf.getAliases())
    llvm::append_range(all, aliases);
  bool isClose = !closeName(name, all).empty();
  return makeError("unknown " + what + " '" + name + "'" +
                   nameHint(name, isClose ? all : names));
}

/// Finds a description by its name or an alias, ignoring case.
static llvm::Expected<const EmbeddedFile *>
findFile(Shelf &shelf, StringRef what, StringRef name) {
  for (const EmbeddedFile &file : shelf.getFiles())
    if (name.equals_insensitive(file.name))
      return &file;
  for (auto [file, aliases] :
       llvm::zip_equal(shelf.getFiles(), shelf.getAliases()))
    if (llvm::any_of(aliases, [&](StringRef alias) {
          return name.equals_insensitive(alias);
        }))
      return &file;
  return unknownName(shelf, what, name);
}

namespace {
/// A cache of shipped descriptions, which all threads share. They never change,
/// and reading one takes longer than many computations with it.
template <typename Facts>
class ShippedFacts {
public:
  /// Returns a copy of the result of `read` for a file and an `argument` (0:
  /// none). Errors: as for `read`, each time.
  llvm::Expected<Facts> get(const EmbeddedFile &file, int64_t argument,
                            llvm::function_ref<llvm::Expected<Facts>()> read) {
    std::pair key(&file, argument);
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (auto found = known.find(key); found != known.end())
        return found->second;
    }
    llvm::Expected<Facts> facts = read();
    if (!facts)
      return facts;
    std::lock_guard<std::mutex> lock(mutex);
    if (known.size() == kMost)
      known.clear();
    known.try_emplace(key, *facts);
    return facts;
  }

private:
  static constexpr size_t kMost = 64;
  std::mutex mutex; ///< guards the next member
  std::map<std::pair<const EmbeddedFile *, int64_t>, Facts> known;
};
} // namespace

llvm::Expected<HardwareFacts> pipesched::findSystem(StringRef name,
                                                    Rates rates) {
  static ShippedFacts<HardwareFacts> shipped;
  static Shelf shelf(kSystems);
  llvm::Expected<const EmbeddedFile *> file = findFile(shelf, "system", name);
  if (!file)
    return file.takeError();
  return shipped.get(**file, int64_t(rates), [&] {
    return systemFromJson((*file)->text, (*file)->name, SourceRule::Optional,
                          rates);
  });
}

llvm::Expected<Architecture> pipesched::findArchitecture(StringRef name,
                                                         int64_t sequence) {
  static ShippedFacts<Architecture> shipped;
  static Shelf shelf(kModels);
  llvm::Expected<const EmbeddedFile *> file = findFile(shelf, "model", name);
  if (!file)
    return file.takeError();
  return shipped.get(**file, sequence, [&] {
    return architectureFromJson((*file)->text, (*file)->name,
                                SourceRule::Optional, sequence);
  });
}

//===----------------------------------------------------------------------===//
// From files
//===----------------------------------------------------------------------===//

llvm::Expected<HardwareFacts> pipesched::readSystem(StringRef path,
                                                    Rates rates) {
  auto buffer = readWholeFile(path);
  if (!buffer)
    return buffer.takeError();
  return systemFromJson((*buffer)->getBuffer(), path, SourceRule::Optional,
                        rates);
}

llvm::Expected<Architecture> pipesched::readArchitecture(StringRef path,
                                                         int64_t sequence) {
  auto buffer = readWholeFile(path);
  if (!buffer)
    return buffer.takeError();
  return architectureFromJson((*buffer)->getBuffer(), path,
                              SourceRule::Optional, sequence);
}

llvm::Expected<Profile> pipesched::readProfile(StringRef path) {
  auto buffer = readWholeFile(path);
  if (!buffer)
    return buffer.takeError();
  return profileFromJson((*buffer)->getBuffer(), path);
}
