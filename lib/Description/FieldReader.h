//===- FieldReader.h - Strict reading of JSON objects -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads each field of an object by name, type and range; fields that were never
// read are errors. Only the first error is kept, so readers need not check for
// errors after each field.
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

/// Parses JSON text without repeated keys. Errors, "<file>:<line>:<column>:
/// <message>": any other text; more than 64 nested values.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text,
                                            llvm::StringRef file);

/// Returns the text of a value for messages; a long text is cut.
std::string textOf(const llvm::json::Value &value);

/// The first error of a file, "<file>: <field path>: <message>".
class FileErrors {
public:
  explicit FileErrors(llvm::StringRef file) : file(file.str()) {}

  void report(const llvm::Twine &path, const llvm::Twine &message);
  bool any() const { return !first.empty(); }
  llvm::Error take() const;

  /// Every field that a reader looked up, by its path.
  std::vector<std::string> asked;

private:
  std::string file, first;
};

/// Reads one object. After an error, values are defaults.
class FieldReader {
public:
  /// `value` may be null (an absent field); `path` is empty for the whole file.
  FieldReader(const llvm::json::Value *value, std::string path,
              FileErrors &errors);

  FileErrors &getErrors() { return errors; }
  /// Returns the full path of a field.
  std::string pathOf(llvm::StringRef name) const;

  /// Returns the value of a field, or null; from now on the field counts as
  /// known.
  const llvm::json::Value *find(llvm::StringRef name);
  /// The same for a required field. `finish` reports missing fields after
  /// unknown ones, because an unknown field is probably a misspelling of a
  /// missing one.
  const llvm::json::Value *require(llvm::StringRef name);

  /// Reads a text; required if `otherwise` is absent.
  std::string text(llvm::StringRef name,
                   std::optional<llvm::StringRef> otherwise = std::nullopt);
  bool flag(llvm::StringRef name, bool otherwise);
  /// Reads a whole number of at least `least`; required if `otherwise` is
  /// absent.
  int64_t integer(llvm::StringRef name, int64_t least,
                  std::optional<int64_t> otherwise = std::nullopt);
  /// Reads a number above 0 (or at least 0 if 0 is its default), times `scale`,
  /// rounded to the nearest whole number.
  int64_t scaled(llvm::StringRef name, double scale,
                 std::optional<int64_t> otherwise = std::nullopt);
  /// Reads a value of an enum by its name.
  template <typename Enum>
  Enum choice(llvm::StringRef name,
              std::optional<Enum> otherwise = std::nullopt) {
    std::optional<unsigned> index;
    if (otherwise)
      index = static_cast<unsigned>(*otherwise);
    return enumValues<Enum>()[choice(name, listEnumNames<Enum>(), index)].value;
  }
  /// Reads one of several words as its index.
  unsigned choice(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> words,
                  std::optional<unsigned> otherwise = std::nullopt);

  /// Whether there was no error so far, so that values can be compared.
  bool isSound() const { return missing.empty() && !errors.any(); }

  /// Reports fields that were never read, and missing required fields. Must be
  /// called last.
  void finish();
  /// The same, but allows fields that were never read.
  void finishWithNotes();

private:
  void reportType(llvm::StringRef name, llvm::StringRef wanted,
                  const llvm::json::Value &found);

  const llvm::json::Object *object = nullptr;
  std::string path;
  FileErrors &errors;
  llvm::SmallVector<llvm::StringRef> known;
  llvm::StringRef missing; ///< the first required field that is absent
};

/// Returns a number times `scale` as int64. Reports at `path` a value that is
/// not a number, not above 0 (or at least 0), not finite, or too large.
int64_t scaleNumber(const llvm::json::Value &value, double scale,
                    bool isZeroAllowed, const llvm::Twine &path,
                    FileErrors &errors);

/// Alternative names of one field, the usual one first. They must be constants.
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

  /// Sets the value of a field if the file does not have it.
  void setDefault(llvm::StringRef name, llvm::json::Value value);

  /// Returns the value of the first name that has one, else a default, else
  /// null.
  const llvm::json::Value *find(const FieldNames &names);
  /// Whether the file itself has the field.
  bool has(const FieldNames &names);

  std::optional<int64_t> integer(const FieldNames &names, int64_t least);
  /// The same for a required field; `finish` reports all missing fields
  /// together.
  int64_t require(const FieldNames &names, int64_t least);
  bool flag(const FieldNames &names, bool otherwise);
  llvm::StringRef text(const FieldNames &names, llvm::StringRef otherwise = "");
  /// A number, or 0; the type is not checked.
  double number(const FieldNames &names);
  /// A list of whole numbers of at least 0, or nothing.
  std::optional<std::vector<int64_t>> integers(const FieldNames &names);
  /// Returns a nested object, for a separate reader; the value of the file owns
  /// it.
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

#endif // PIPESCHED_LIB_DESCRIPTION_FIELDREADER_H
