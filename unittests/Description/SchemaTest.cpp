//===- SchemaTest.cpp - The schemas match the readers ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/schemas compared with the readers: the same fields, the same required
// fields, the same words, and the same verdict on damaged files.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "gtest/gtest.h"
#include <set>

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// The part of JSON Schema that the schemas use
//===----------------------------------------------------------------------===//

static bool isValid(const json::Object &schema, const json::Value &value);

static bool hasType(StringRef type, const json::Value &value) {
  if (type == "integer")
    return value.getAsInteger().has_value();
  if (type == "number")
    return value.getAsNumber().has_value();
  if (type == "string")
    return value.getAsString().has_value();
  if (type == "boolean")
    return value.getAsBoolean().has_value();
  return type == "array" ? value.getAsArray() != nullptr
                         : value.getAsObject() != nullptr;
}

static bool isInRange(const json::Object &schema, double number) {
  std::optional<double> least = schema.getNumber("minimum");
  std::optional<double> above = schema.getNumber("exclusiveMinimum");
  std::optional<double> most = schema.getNumber("maximum");
  return (!least || number >= *least) && (!above || number > *above) &&
         (!most || number <= *most);
}

static bool isValidList(const json::Object &schema, const json::Array &list) {
  int64_t size = list.size();
  if (size < schema.getInteger("minItems").value_or(0) ||
      size > schema.getInteger("maxItems").value_or(size))
    return false;
  const json::Object *items = schema.getObject("items");
  return !items || llvm::all_of(list, [&](const json::Value &item) {
    return isValid(*items, item);
  });
}

static bool isValidObject(const json::Object &schema,
                          const json::Object &object) {
  if (const json::Array *required = schema.getArray("required"))
    for (const json::Value &name : *required)
      if (!object.get(*name.getAsString()))
        return false;
  if (int64_t(object.size()) < schema.getInteger("minProperties").value_or(0))
    return false;
  const json::Object *properties = schema.getObject("properties");
  const json::Object *others = schema.getObject("additionalProperties");
  for (const auto &[name, value] : object) {
    const json::Object *property =
        properties ? properties->getObject(name) : nullptr;
    if (!property)
      property = others;
    if (!property || !isValid(*property, value))
      return false;
  }
  return true;
}

static bool isValid(const json::Object &schema, const json::Value &value) {
  if (const json::Array *choices = schema.getArray("oneOf"))
    return 1 == llvm::count_if(*choices, [&](const json::Value &choice) {
             return isValid(*choice.getAsObject(), value);
           });
  if (const json::Array *words = schema.getArray("enum"))
    return llvm::is_contained(*words, value);
  if (std::optional<StringRef> type = schema.getString("type"))
    if (!hasType(*type, value))
      return false;
  if (std::optional<StringRef> pattern = schema.getString("pattern"))
    if (std::optional<StringRef> text = value.getAsString())
      return llvm::Regex(*pattern).match(*text);
  if (std::optional<double> number = value.getAsNumber())
    return isInRange(schema, *number);
  if (const json::Array *list = value.getAsArray())
    return isValidList(schema, *list);
  const json::Object *object = value.getAsObject();
  return !object || isValidObject(schema, *object);
}

//===----------------------------------------------------------------------===//
// Schemas and readers
//===----------------------------------------------------------------------===//

namespace {
/// A kind of file: its schema, its reader and the files that ship.
struct Kind {
  const char *name;
  void (*read)(const json::Value &, FileErrors &);
  llvm::ArrayRef<EmbeddedFile> (*shipped)();
};
} // namespace

static const Kind kKinds[] = {
    {"model",
     [](const json::Value &file, FileErrors &errors) {
       readModelFields(file, SourceRule::Optional, errors);
     },
     embeddedModels},
    {"system",
     [](const json::Value &file, FileErrors &errors) {
       readSystemFields(file, Rates::Auto, SourceRule::Optional, errors);
     },
     embeddedSystems},
    {"groups",
     [](const json::Value &file, FileErrors &errors) {
       readSystemFields(file, Rates::Auto, SourceRule::Optional, errors);
     },
     [] { return llvm::ArrayRef<EmbeddedFile>(); }},
    {"times",
     [](const json::Value &file, FileErrors &errors) {
       readTimesFields(file, errors);
     },
     [] { return llvm::ArrayRef<EmbeddedFile>(); }}};

/// Puts definitions in the place of references to them.
static json::Value resolve(const json::Value &value,
                           const json::Object &definitions) {
  if (const json::Array *list = value.getAsArray()) {
    json::Array made;
    for (const json::Value &each : *list)
      made.push_back(resolve(each, definitions));
    return made;
  }
  const json::Object *object = value.getAsObject();
  if (!object)
    return value;
  json::Object made;
  if (std::optional<StringRef> name = object->getString("$ref")) {
    name->consume_front("#/$defs/");
    json::Value definition = resolve(*definitions.get(*name), definitions);
    made = *definition.getAsObject();
  }
  for (const auto &[key, each] : *object)
    if (key != "$ref")
      made[key] = resolve(each, definitions);
  return made;
}

static json::Value readSchema(StringRef kind) {
  std::string path =
      (llvm::Twine(SCHEMA_DIR) + "/" + kind + ".schema.json").str();
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    llvm::report_fatal_error(llvm::Twine("no file ") + path);
  json::Value schema = llvm::cantFail(parseJson((*buffer)->getBuffer(), path));
  return resolve(schema, *schema.getAsObject()->getObject("$defs"));
}

/// The reader's error, or empty text if it accepts the file.
static std::string readerError(const Kind &kind, const json::Value &file) {
  FileErrors errors("x.json");
  kind.read(file, errors);
  return errors.any() ? llvm::toString(errors.take()) : "";
}

/// Properties of a schema by their paths; a list of objects has the paths of
/// its first one, as examples do, and other lists have no separate paths.
static void collectPaths(const json::Object &schema, const std::string &prefix,
                         std::set<std::string> &paths) {
  if (const json::Array *choices = schema.getArray("oneOf"))
    for (const json::Value &choice : *choices)
      collectPaths(*choice.getAsObject(), prefix, paths);
  const json::Object *properties = schema.getObject("properties");
  if (!properties)
    return;
  for (const auto &[name, property] : *properties) {
    std::string path = prefix + StringRef(name).str();
    paths.insert(path);
    collectPaths(*property.getAsObject(), path + ".", paths);
    if (const json::Object *items = property.getAsObject()->getObject("items"))
      collectPaths(*items, path + "[0].", paths);
  }
}

class Schemas : public testing::TestWithParam<Kind> {
protected:
  const Kind &kind = GetParam();
  json::Value file = readSchema(kind.name);
  const json::Object &schema = *file.getAsObject();
  const json::Array &examples = *schema.getArray("examples");

  /// Damages every property of an example in turn, and passes on the schema of
  /// the property with the object that contains it.
  void forEachProperty(
      llvm::function_ref<void(const json::Value &example,
                              const json::Object &owner, json::Object &object,
                              const json::Value &whole, StringRef name)>
          visit) {
    for (const json::Value &example : examples) {
      json::Value copy = example;
      visitObject(example, schema, *copy.getAsObject(), copy, visit);
    }
  }

private:
  template <typename Visit>
  void visitObject(const json::Value &example, const json::Object &owner,
                   json::Object &object, const json::Value &whole,
                   Visit visit) {
    std::vector<std::string> names;
    for (const auto &field : object)
      names.push_back(StringRef(field.first).str());
    for (const std::string &name : names) {
      const json::Object *property =
          owner.getObject("properties")->getObject(name);
      visit(example, owner, object, whole, name);
      if (property && property->getObject("properties"))
        visitObject(example, *property, *object.getObject(name), whole, visit);
      const json::Object *items =
          property ? property->getObject("items") : nullptr;
      if (items && items->getObject("properties"))
        for (json::Value &item : *object.getArray(name))
          visitObject(example, *items, *item.getAsObject(), whole, visit);
    }
  }
};

TEST_P(Schemas, ShippedFilesAreValid) {
  for (const EmbeddedFile &shipped : kind.shipped())
    EXPECT_TRUE(
        isValid(schema, llvm::cantFail(parseJson(shipped.text, shipped.name))))
        << shipped.name.str();
}

TEST_P(Schemas, ExamplesAreReadable) {
  for (const json::Value &example : examples) {
    EXPECT_TRUE(isValid(schema, example));
    EXPECT_EQ(readerError(kind, example), "");
  }
}

/// The examples together have every field that the reader knows.
TEST_P(Schemas, HaveTheReadersFields) {
  std::set<std::string> asked, known;
  for (const json::Value &example : examples) {
    FileErrors errors("x.json");
    kind.read(example, errors);
    for (StringRef path : errors.asked)
      if (!path.contains("[1]")) // as the first entry of the list
        asked.insert(path.str());
  }
  collectPaths(schema, "", known);
  // A load has fields of the system again, which no example repeats.
  for (auto path = known.lower_bound("load");
       path != known.end() && StringRef(*path).starts_with("load");) {
    StringRef again = *path;
    again.consume_front("load");
    again.consume_front(".");
    EXPECT_TRUE(again.empty() || asked.count(again.str())) << *path;
    path = known.erase(path);
  }
  // A module has fields of the model again, which the schema does not repeat.
  for (auto path = asked.lower_bound("modules[0].");
       path != asked.end() && StringRef(*path).starts_with("modules[0].");
       path = asked.erase(path))
    EXPECT_TRUE(known.count(StringRef(*path).split('.').second.str())) << *path;
  EXPECT_EQ(llvm::join(asked, "\n"), llvm::join(known, "\n"));
}

TEST_P(Schemas, AgreeOnWhatIsRequired) {
  forEachProperty([&](const json::Value &example, const json::Object &owner,
                      json::Object &object, const json::Value &whole,
                      StringRef name) {
    json::Value kept = *object.get(name);
    object.erase(name);
    const json::Array *required = owner.getArray("required");
    bool isRequired = required && llvm::is_contained(*required, name);
    EXPECT_EQ(isValid(schema, whole), !isRequired) << name.str();
    std::string needs = ("needs the field '" + name + "'").str();
    bool isMissed = StringRef(readerError(kind, whole)).contains(needs);
    // Fields that only some forms need. Without groups a system has other
    // fields.
    bool depends = name == "feedforward" || name == "link" ||
                   name == "vocabulary" || name == "groups";
    EXPECT_TRUE(isMissed == isRequired || depends)
        << name.str() << ": " << readerError(kind, whole);
    object.try_emplace(json::ObjectKey(name.str()), std::move(kept));
  });
}

TEST_P(Schemas, AgreeOnWrongTypes) {
  forEachProperty([&](const json::Value &, const json::Object &,
                      json::Object &object, const json::Value &whole,
                      StringRef name) {
    json::Value &value = *object.get(name);
    json::Value kept = value;
    json::Value wrongs[] = {json::Object{{"wrong", 1}},
                            json::Array{"wrong"},
                            "wrong",
                            7.5,
                            -1,
                            nullptr};
    for (json::Value &wrong : wrongs) {
      if (name == "system" && wrong.getAsString())
        continue; // any text may be a name
      value = wrong;
      EXPECT_EQ(isValid(schema, whole), readerError(kind, whole).empty())
          << name.str() << " " << textOf(wrong) << ": "
          << readerError(kind, whole);
    }
    value = std::move(kept);
  });
}

TEST_P(Schemas, AgreeOnWords) {
  forEachProperty([&](const json::Value &, const json::Object &owner,
                      json::Object &object, const json::Value &whole,
                      StringRef name) {
    const json::Object &property =
        *owner.getObject("properties")->getObject(name);
    const json::Array *words = property.getArray("enum");
    if (!words)
      return;
    json::Value &value = *object.get(name);
    json::Value kept = value;
    for (const json::Value &word : *words) {
      value = word;
      EXPECT_EQ(readerError(kind, whole), "");
    }
    value = "no such word";
    std::string error = readerError(kind, whole);
    for (const json::Value &word : *words)
      EXPECT_NE(error.find(word.getAsString()->str()), std::string::npos)
          << error;
    value = std::move(kept);
  });
}

TEST_P(Schemas, UnknownFieldsAreNot) {
  json::Value whole = examples.front();
  whole.getAsObject()->try_emplace("no_such_field", 1);
  EXPECT_FALSE(isValid(schema, whole));
  EXPECT_NE(readerError(kind, whole), "");
}

TEST_P(Schemas, NothingIsNot) {
  json::Value nothing = json::Object{};
  EXPECT_FALSE(isValid(schema, nothing));
  EXPECT_NE(readerError(kind, nothing), "");
}

INSTANTIATE_TEST_SUITE_P(Description, Schemas, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind> &info) {
                           return std::string(info.param.name);
                         });
