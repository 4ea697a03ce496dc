//===- ConfigReader.h - Tolerant reading of configurations ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Objects that other tools write: a field has several names, null is as good as
// absent, and what nobody asked for is named and not refused.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_CONFIGREADER_H
#define PIPESCHED_LIB_DESCRIPTION_CONFIGREADER_H

#include "FieldReader.h"

namespace pipesched {

/// Names of one field, the usual one first; constants.
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

  /// What a field is where the file does not have it.
  void setDefault(llvm::StringRef name, llvm::json::Value value);

  /// The value under the first of the names that has one, else a default.
  /// Null: neither.
  const llvm::json::Value *find(const FieldNames &names);
  /// Whether the file itself has one.
  bool has(const FieldNames &names);

  std::optional<int64_t> integer(const FieldNames &names, int64_t least);
  /// The same; missing fields are reported together by `finish`.
  int64_t require(const FieldNames &names, int64_t least);
  bool flag(const FieldNames &names, bool otherwise);
  llvm::StringRef text(const FieldNames &names, llvm::StringRef otherwise = "");
  /// A number or nothing; not checked further.
  double number(const FieldNames &names);
  /// A list of whole numbers of at least 0, or nothing.
  std::optional<std::vector<int64_t>> integers(const FieldNames &names);
  /// An object as a reader of its own; it lives as long as the file's value.
  const llvm::json::Object *child(const FieldNames &names);

  void report(llvm::StringRef name, const llvm::Twine &message);
  FileErrors &getErrors() { return errors; }
  /// Whether this is an object inside a file.
  bool isNested() const { return !path.empty(); }

  /// Reports the fields that are required and not there, with one of another
  /// name that is close.
  void finish();
  /// Names that nobody asked for, sorted.
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
