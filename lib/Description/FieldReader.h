//===- FieldReader.h - Strict reading of JSON objects -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every field of an object is asked for by name, type and range; what nobody
// asked for is an error. The first error is kept, so that readers are straight
// code.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_FIELDREADER_H
#define PIPESCHED_LIB_DESCRIPTION_FIELDREADER_H

#include "PipeSched/Support/EnumNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <limits>
#include <string>

namespace pipesched {

/// A text that is JSON and has no object with a key twice, parsed. Errors,
/// "<file>:<line>:<column>: <message>": anything else; more than 64 values
/// inside each other.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text,
                                            llvm::StringRef file);

/// The text of a value, for messages; long ones are cut.
std::string textOf(const llvm::json::Value &value);

/// The first error of a file, "<file>: <field path>: <message>".
class FileErrors {
public:
  explicit FileErrors(llvm::StringRef file) : file(file.str()) {}

  void report(const llvm::Twine &path, const llvm::Twine &message);
  bool any() const { return !first.empty(); }
  llvm::Error take() const;

  /// Every field that a reader asked for, by its path.
  std::vector<std::string> asked;

private:
  std::string file, first;
};

/// Reads one object. After an error, values are defaults.
class FieldReader {
public:
  /// `value` may be null (a field that is not there); `path` is empty for the
  /// whole file.
  FieldReader(const llvm::json::Value *value, std::string path,
              FileErrors &errors);

  FileErrors &getErrors() { return errors; }
  /// Full path of a field.
  std::string pathOf(llvm::StringRef name) const;

  /// The value of a field or null; the field counts as known from now on.
  const llvm::json::Value *find(llvm::StringRef name);
  /// The same; null is an error, which `finish` reports after unknown fields:
  /// one of them is likely the missing field misspelt.
  const llvm::json::Value *require(llvm::StringRef name);

  /// A text; without `otherwise` it must be given.
  std::string text(llvm::StringRef name,
                   std::optional<llvm::StringRef> otherwise = std::nullopt);
  bool flag(llvm::StringRef name, bool otherwise);
  /// A whole number from `least`; without `otherwise` it must be given.
  int64_t integer(llvm::StringRef name, int64_t least,
                  std::optional<int64_t> otherwise = std::nullopt);
  /// A number above 0 (at least 0 where that is its default), times `scale`, to
  /// the nearest whole number.
  int64_t scaled(llvm::StringRef name, double scale,
                 std::optional<int64_t> otherwise = std::nullopt);
  /// A value of an enum, by its name.
  template <typename Enum>
  Enum choice(llvm::StringRef name,
              std::optional<Enum> otherwise = std::nullopt) {
    std::optional<unsigned> index;
    if (otherwise)
      index = static_cast<unsigned>(*otherwise);
    return enumValues<Enum>()[choice(name, listEnumNames<Enum>(), index)].value;
  }
  /// One of several words, by position.
  unsigned choice(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> words,
                  std::optional<unsigned> otherwise = std::nullopt);

  /// Whether all is there and right so far, so that values can be compared.
  bool isSound() const { return missing.empty() && !errors.any(); }

  /// Reports fields that nobody asked for and those that are missing. Call it
  /// last.
  void finish();
  /// The same where fields that nobody asked for are notes.
  void finishWithNotes();

private:
  void reportType(llvm::StringRef name, llvm::StringRef wanted,
                  const llvm::json::Value &found);

  const llvm::json::Object *object = nullptr;
  std::string path;
  FileErrors &errors;
  llvm::SmallVector<llvm::StringRef> known;
  llvm::StringRef missing; ///< the first field that is required and not there
};

/// A number in `wanted` units times `scale` as int64; reports at `path` what is
/// no number, not above (or at) 0, not finite, or too large.
int64_t scaleNumber(const llvm::json::Value &value, double scale,
                    bool isZeroAllowed, const llvm::Twine &path,
                    FileErrors &errors);

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_FIELDREADER_H
