//===- ConfigReader.h - Tolerant reading of configurations ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads objects that other tools write: a field has several names, null counts
// as absent, and unknown fields are listed instead of rejected.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_CONFIGREADER_H
#define PIPESCHED_LIB_DESCRIPTION_CONFIGREADER_H

#include "FieldReader.h"

namespace pipesched {

/// Names of one field, the usual one first. They must be constants.
class FieldNames {
public:
  FieldNames(const char *name) : one(name) {}
  FieldNames(llvm::StringRef name) : one(name) {}
  FieldNames(llvm::ArrayRef<llvm::StringRef> names) : many(names) {}
  template <size_t n>
  FieldNames(const llvm::StringRef (&names)[n]) : many(names) {}

  const llvm::StringRef *begin() const {
    return many.empty() ? &one : many.begin();
  }
  const llvm::StringRef *end() const {
    return many.empty() ? &one + 1 : many.end();
  }
  llvm::StringRef front() const { return *begin(); }

private:
  llvm::StringRef one;
  llvm::ArrayRef<llvm::StringRef> many;
};

class ConfigReader {
public:
  /// `path` is empty for the whole file.
  ConfigReader(const llvm::json::Object &object, llvm::StringRef path,
               FileErrors &errors)
      : object(object), path(path.str()), errors(errors) {}

  /// Sets the value of a field for files that do not have it.
  void setDefault(llvm::StringRef name, llvm::json::Value value);

  /// The value under the first of the names that has one, else a default, else
  /// null.
  const llvm::json::Value *find(const FieldNames &names);
  /// Whether the file itself has the field.
  bool has(const FieldNames &names);

  std::optional<int64_t> integer(const FieldNames &names, int64_t least);
  /// The same, but required; `finish` reports all missing fields together.
  int64_t require(const FieldNames &names, int64_t least);
  bool flag(const FieldNames &names, bool otherwise);
  llvm::StringRef text(const FieldNames &names, llvm::StringRef otherwise = "");
  /// A number, or 0; the type is not checked.
  double number(const FieldNames &names);
  /// A list of whole numbers of at least 0, or nothing.
  std::optional<std::vector<int64_t>> integers(const FieldNames &names);
  /// A nested object, to be read by its own reader; owned by the file's value.
  const llvm::json::Object *child(const FieldNames &names);

  void report(llvm::StringRef name, const llvm::Twine &message);
  FileErrors &getErrors() { return errors; }
  /// Whether this is an object within a file.
  bool isNested() const { return !path.empty(); }

  /// Reports required fields that are missing, with the closest unknown field.
  void finish();
  /// Names of fields that were never read, sorted.
  std::vector<std::string> unusedNames() const;

private:
  std::string pathOf(llvm::StringRef name) const;

  const llvm::json::Object &object;
  std::string path;
  FileErrors &errors;
  llvm::json::Object defaults;
  llvm::SmallVector<llvm::StringRef> known, missing;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_CONFIGREADER_H
