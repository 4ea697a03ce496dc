//===- Requests.cpp - Requests about rows -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stream that replaces the standard input. Each read of it returns a message.
//
//===----------------------------------------------------------------------===//

#include "Requests.h"
#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/Nesting.h"
#include "RowHelp.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/LSP/Protocol.h"
#include "llvm/Support/LSP/Transport.h"
#include <cstdio>
#include <cstring>
#include <memory>

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;
namespace lsp = llvm::lsp;

//===----------------------------------------------------------------------===//
// Open files
//===----------------------------------------------------------------------===//

namespace {
/// The texts of open files, by their addresses. All their lines end with \n.
class OpenFiles {
public:
  void follow(StringRef method, const json::Object &params);
  /// Returns null if the file is not open.
  const std::string *find(const json::Object &params) const;

private:
  static void change(std::string &text, const json::Object &change);

  llvm::StringMap<std::string> texts;
};
} // namespace

/// Returns the text with \n instead of other line ends: MLIR's server reads
/// beyond the text at a carriage return in an open string.
static std::string withPlainLines(StringRef text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r')
      plain += text[i];
    else if (!text.substr(i + 1).starts_with("\n"))
      plain += '\n';
  return plain;
}

static StringRef addressOf(const json::Object &params) {
  const json::Object *document = params.getObject("textDocument");
  return document ? document->getString("uri").value_or("") : "";
}

/// Returns the offset of a `Position`, or nothing if it is not one.
static std::optional<size_t> placeIn(StringRef text,
                                     const json::Object *position) {
  if (!position)
    return std::nullopt;
  std::optional<int64_t> line = position->getInteger("line");
  std::optional<int64_t> character = position->getInteger("character");
  if (!line || !character || *line < 0 || *character < 0)
    return std::nullopt;
  return offsetOf(text, *line, *character);
}

const std::string *OpenFiles::find(const json::Object &params) const {
  auto it = texts.find(addressOf(params));
  return it == texts.end() ? nullptr : &it->second;
}

void OpenFiles::change(std::string &text, const json::Object &change) {
  std::string replacement =
      withPlainLines(change.getString("text").value_or(""));
  const json::Object *range = change.getObject("range");
  if (!range) {
    text = std::move(replacement);
    return;
  }
  std::optional<size_t> begin = placeIn(text, range->getObject("start"));
  std::optional<size_t> end = placeIn(text, range->getObject("end"));
  if (begin && end && *begin <= *end)
    text.replace(*begin, *end - *begin, replacement);
}

void OpenFiles::follow(StringRef method, const json::Object &params) {
  StringRef address = addressOf(params);
  if (method == "textDocument/didOpen") {
    const json::Object *document = params.getObject("textDocument");
    texts[address] = withPlainLines(
        document ? document->getString("text").value_or("") : "");
  } else if (method == "textDocument/didClose") {
    texts.erase(address);
  } else if (method == "textDocument/didChange") {
    auto it = texts.find(address);
    const json::Array *changes = params.getArray("contentChanges");
    if (it == texts.end() || !changes)
      return;
    for (const json::Value &entry : *changes)
      if (const json::Object *object = entry.getAsObject())
        change(it->second, *object);
  }
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

static json::Value toRange(StringRef text, TextSpan span) {
  auto position = [&](size_t offset) {
    auto [line, character] = placeOf(text, offset);
    return json::Object{{"line", line}, {"character", character}};
  };
  return json::Object{{"start", position(span.begin)},
                      {"end", position(span.end)}};
}

/// Returns the span of a word in the file that contains its chunk.
static TextSpan inFile(const RowText &row, TextSpan span) {
  return {row.chunkBegin + span.begin, row.chunkBegin + span.end};
}

static std::optional<json::Value>
answerHover(StringRef text, size_t place,
            const mlir::DialectRegistry &dialects) {
  std::optional<RowText> row = findRow(text, place);
  if (!row)
    return std::nullopt;
  std::optional<std::string> story = describeCell(*row, dialects);
  if (!story)
    return std::nullopt;
  return json::Object{
      {"contents", json::Object{{"kind", "markdown"}, {"value", *story}}},
      {"range", toRange(text, inFile(*row, row->words[*row->word]))}};
}

/// Returns a list of offers that replace a span, in order.
static json::Value toList(llvm::ArrayRef<CellOffer> offers, json::Value range,
                          lsp::CompletionItemKind kind) {
  json::Array items;
  for (auto [i, offer] : llvm::enumerate(offers))
    items.push_back(json::Object{
        {"label", offer.name},
        {"kind", static_cast<int>(kind)},
        {"detail", offer.detail},
        {"sortText",
         llvm::formatv("{0:4}",
                       llvm::fmt_align(i, llvm::AlignStyle::Right, 4, '0'))
             .str()},
        {"textEdit", json::Object{{"range", range}, {"newText", offer.name}}}});
  return json::Object{{"isIncomplete", false}, {"items", std::move(items)}};
}

static std::vector<CellOffer> offerFamilies(StringRef typed) {
  std::vector<CellOffer> offers;
  for (const Family &family : families())
    if (family.name.starts_with(typed))
      offers.push_back({family.name.str(), family.summary.str()});
  return offers;
}

static std::optional<json::Value>
answerCompletion(StringRef text, size_t place,
                 const mlir::DialectRegistry &dialects) {
  if (std::optional<TextSpan> family = findFamily(text, place))
    return toList(offerFamilies(text.slice(family->begin, place)),
                  toRange(text, *family), lsp::CompletionItemKind::Value);
  std::optional<RowText> row = findRow(text, place);
  if (!row)
    return std::nullopt;
  std::optional<std::vector<CellOffer>> offers = offerCells(*row, dialects);
  if (!offers)
    return std::nullopt;
  TextSpan word = {row->place, row->place};
  if (row->word)
    word = row->words[*row->word];
  StringRef typed = row->textOf({word.begin, row->place});
  llvm::erase_if(*offers, [&](const CellOffer &offer) {
    return !StringRef(offer.name).starts_with(typed);
  });
  return toList(*offers, toRange(text, inFile(*row, word)),
                lsp::CompletionItemKind::EnumMember);
}

//===----------------------------------------------------------------------===//
// The stream
//===----------------------------------------------------------------------===//

namespace {
class Filter {
public:
  Filter(std::FILE *in, const mlir::DialectRegistry &dialects)
      : in(in), dialects(dialects) {}

  /// Writes the next input of MLIR's server to `buffer`; returns 0 at the end.
  size_t read(char *buffer, size_t size);

private:
  void open();
  /// Answers a message and returns true, or passes it to MLIR's server in a
  /// form that it can read.
  bool answer(std::string &message);
  bool answerAtPlace(StringRef method, const json::Value &id,
                     const json::Object &params);
  bool refuseBytecode(const json::Value &id, const json::Object &params);
  void guardText(StringRef method, json::Object &params);
  void publishFindings();

  std::FILE *in;
  const mlir::DialectRegistry &dialects;
  OpenFiles files;
  /// Published after MLIR's server has published its own.
  std::vector<json::Value> findings;
  lsp::JSONStreamStyle style = lsp::Standard;
  std::unique_ptr<lsp::JSONTransportInput> input;
  std::unique_ptr<lsp::JSONTransport> output;
  std::string ready; ///< for MLIR's server, from `begin` on
  size_t begin = 0;
};
} // namespace

/// Messages of tests are delimited by lines, all other messages have headers.
void Filter::open() {
  int first = std::getc(in);
  std::ungetc(first, in);
  bool isTest = first == '{' || first == '/';
  style = isTest ? lsp::Delimited : lsp::Standard;
  input = std::make_unique<lsp::JSONTransportInputOverFile>(in, style);
  output = std::make_unique<lsp::JSONTransport>(in, llvm::outs(), style,
                                                /*PrettyOutput=*/isTest);
}

/// Passes the whole text to MLIR's server after each change, or an empty text
/// if it is nested too deeply for its parser.
void Filter::guardText(StringRef method, json::Object &params) {
  const std::string *text = files.find(params);
  json::Object *document = params.getObject("textDocument");
  if (!text || !document)
    return;
  std::optional<DeepPlace> deep = findDeepIR(*text);
  StringRef given = deep ? StringRef() : StringRef(*text);
  if (method == "textDocument/didOpen" && document->getString("text"))
    (*document)["text"] = given;
  else if (method == "textDocument/didChange")
    params["contentChanges"] = json::Array{json::Object{{"text", given}}};
  if (deep)
    findings.push_back(json::Object{
        {"uri", addressOf(params).str()},
        {"diagnostics",
         json::Array{json::Object{
             {"range", toRange(*text, {deep->offset, deep->offset + 1})},
             {"severity", 1},
             {"source", "pipesched"},
             {"message", deep->message}}}}});
}

void Filter::publishFindings() {
  for (json::Value &finding : findings)
    output->notify("textDocument/publishDiagnostics", std::move(finding));
  findings.clear();
}

/// Refuses the file of `mlir/convertFromBytecode` if MLIR's server cannot read
/// it.
bool Filter::refuseBytecode(const json::Value &id, const json::Object &params) {
  llvm::Expected<lsp::URIForFile> file =
      lsp::URIForFile::fromURI(params.getString("uri").value_or(""));
  if (!file) {
    llvm::consumeError(file.takeError()); // MLIR's server reports it
    return false;
  }
  auto read = readWholeFile(file->file());
  llvm::Error error = read.takeError();
  if (!error)
    error = guardIR((*read)->getMemBufferRef(), dialects).takeError();
  if (!error)
    return false;
  output->reply(
      id, llvm::make_error<lsp::LSPError>(llvm::toString(std::move(error)),
                                          lsp::ErrorCode::RequestFailed));
  return true;
}

bool Filter::answerAtPlace(StringRef method, const json::Value &id,
                           const json::Object &params) {
  const std::string *text = files.find(params);
  if (!text || findDeepIR(*text))
    return false;
  std::optional<size_t> place = placeIn(*text, params.getObject("position"));
  if (!place)
    return false;
  std::optional<json::Value> result =
      method == "textDocument/hover"
          ? answerHover(*text, *place, dialects)
          : answerCompletion(*text, *place, dialects);
  if (!result)
    return false;
  output->reply(id, std::move(*result));
  return true;
}

bool Filter::answer(std::string &message) {
  if (std::optional<DeepPlace> deep = findDeepJson(message)) {
    output->reply(nullptr, llvm::make_error<lsp::LSPError>(
                               deep->message, lsp::ErrorCode::ParseError));
    return true;
  }
  llvm::Expected<json::Value> value = json::parse(message);
  if (!value) {
    llvm::consumeError(value.takeError()); // MLIR's server reports it
    return false;
  }
  json::Object *object = value->getAsObject();
  json::Object *params = object ? object->getObject("params") : nullptr;
  if (!params)
    return false;
  std::string method = object->getString("method").value_or("").str();
  files.follow(method, *params);
  if (method == "textDocument/didOpen" || method == "textDocument/didChange") {
    guardText(method, *params);
    message = llvm::formatv("{0}", *value).str();
    return false;
  }
  const json::Value *id = object->get("id");
  if (!id)
    return false;
  if (method == "mlir/convertFromBytecode")
    return refuseBytecode(*id, *params);
  bool isAtPlace =
      method == "textDocument/hover" || method == "textDocument/completion";
  return isAtPlace && answerAtPlace(method, *id, *params);
}

size_t Filter::read(char *buffer, size_t size) {
  if (!input)
    open();
  while (begin == ready.size()) {
    publishFindings();
    std::string message;
    if (failed(input->readMessage(message))) {
      if (input->hasError() || input->isEndOfInput())
        return 0;
      continue;
    }
    if (answer(message))
      continue;
    begin = 0;
    ready = style == lsp::Delimited
                ? message + "\n// -----\n"
                : llvm::formatv("Content-Length: {0}\r\n\r\n{1}",
                                message.size(), message)
                      .str();
  }
  size_t count = std::min(size, ready.size() - begin);
  std::memcpy(buffer, ready.data() + begin, count);
  begin += count;
  return count;
}

bool pipesched::filterStandardInput(const mlir::DialectRegistry &dialects) {
  // It lives as long as the process, because the stream is never closed.
  static std::unique_ptr<Filter> filter;
  filter = std::make_unique<Filter>(stdin, dialects);
  cookie_io_functions_t functions = {};
  functions.read = [](void *cookie, char *buffer, size_t size) -> ssize_t {
    return static_cast<ssize_t>(
        static_cast<Filter *>(cookie)->read(buffer, size));
  };
  std::FILE *stream = fopencookie(filter.get(), "r", functions);
  if (!stream)
    return false;
  stdin = stream;
  return true;
}
