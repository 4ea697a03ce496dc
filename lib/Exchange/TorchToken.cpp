//===- TorchToken.cpp - One cell of a PyTorch schedule file ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recursive-descent parser with three levels: field, action, number.
//
//===----------------------------------------------------------------------===//

#include "TorchToken.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

char TorchCsvError::ID = 0;

void TorchCsvError::log(llvm::raw_ostream &os) const {
  if (line != 0)
    os << "line " << line << ", column " << column << ": ";
  os << text;
  for (const std::string &note : notes)
    os << "\nnote: " << note;
}

std::error_code TorchCsvError::convertToErrorCode() const {
  return std::make_error_code(std::errc::invalid_argument);
}

int64_t pipesched::columnOfField(llvm::ArrayRef<StringRef> lines,
                                 TorchFieldRef at) {
  StringRef line = lines[at.line], rest = line;
  for (uint32_t field = 0; field < at.field; ++field)
    rest = rest.drop_front(rest.find(',') + 1);
  StringRef token = rest.take_until([](char c) { return c == ','; }).ltrim();
  return token.data() - line.data() + 1;
}

Error pipesched::errorAtField(llvm::ArrayRef<StringRef> lines, TorchFieldRef at,
                              std::string text,
                              std::vector<std::string> notes) {
  return llvm::make_error<TorchCsvError>(at.line + 1, columnOfField(lines, at),
                                         std::move(text), std::move(notes));
}

/// Returns the text for a message: quoted, printable and of limited length.
static std::string quote(StringRef text) {
  constexpr size_t kMostShown = 40;
  std::string quoted = "'";
  llvm::raw_string_ostream os(quoted);
  llvm::printEscapedString(text.take_front(kMostShown), os);
  os << (text.size() > kMostShown ? "...'" : "'");
  return quoted;
}

/// Removes a number from the front of `rest`. Errors: a number not below `end`;
/// no digit. They state what the number is (`what`) and the whole token.
static Expected<int64_t> takeNumber(StringRef &rest, const char *what,
                                    int64_t end, StringRef token) {
  StringRef digits = rest.take_while(llvm::isDigit);
  if (digits.empty())
    return formatError("found {0}, wanted a {1} {2}", quote(token), what,
                       rest.data() == token.data() ? "first" : "last");
  rest = rest.drop_front(digits.size());
  uint64_t value;
  if (digits.getAsInteger(10, value) || value >= uint64_t(end))
    return formatError("{0}: {1} {2} is out of range: 0 to {3}", quote(token),
                       what, quote(digits), end - 1);
  return int64_t(value);
}

namespace {
struct Action {
  TorchToken::Kind kind = TorchToken::Empty;
  Phase phase = Phase::Forward;
};
} // namespace

/// Returns the action for a name between stage and microbatch; Empty if it is
/// unknown.
static Action actionOf(StringRef name) {
  return llvm::StringSwitch<Action>(name)
      .Case("F", {TorchToken::Compute, Phase::Forward})
      .Case("B", {TorchToken::Compute, Phase::Backward})
      .Case("I", {TorchToken::Compute, Phase::InputGrad})
      .Case("W", {TorchToken::Compute, Phase::WeightGrad})
      .Case("SEND_F", {TorchToken::Send, Phase::Forward})
      .Case("SEND_B", {TorchToken::Send, Phase::Backward})
      .Case("RECV_F", {TorchToken::Receive, Phase::Forward})
      .Case("RECV_B", {TorchToken::Receive, Phase::Backward})
      .Case("WAIT_SEND_F", {TorchToken::WaitSend, Phase::Forward})
      .Case("WAIT_SEND_B", {TorchToken::WaitSend, Phase::Backward})
      .Case("UNSHARD", {TorchToken::Unshard, Phase::Forward})
      .Case("RESHARD", {TorchToken::Reshard, Phase::Forward})
      .Case("REDUCE_GRAD", {TorchToken::ReduceGrad, Phase::Forward})
      .Default({});
}

/// Reads `<stage><action><microbatch>`; actions on a whole stage have no
/// microbatch.
static Expected<TorchToken> parseAction(StringRef text) {
  StringRef rest = text;
  Expected<int64_t> stage = takeNumber(rest, "stage", Cell::kMaxStages, text);
  if (!stage)
    return stage.takeError();
  StringRef name =
      rest.take_until([](char c) { return llvm::isDigit(c) || c == '-'; });
  rest = rest.drop_front(name.size());
  Action action = actionOf(name);
  if (action.kind == TorchToken::Empty)
    return formatError("found {0}, wanted a stage, then F, B, I, W, SEND_F, "
                       "RECV_F, WAIT_SEND_F, SEND_B, RECV_B or WAIT_SEND_B and "
                       "a microbatch, or UNSHARD, RESHARD or REDUCE_GRAD",
                       quote(text));
  int64_t microbatch = 0;
  if (action.kind < TorchToken::Unshard) {
    // The number of microbatches, which is the highest + 1, must be
    // representable.
    Expected<int64_t> number =
        takeNumber(rest, "microbatch", Cell::kMaxMicrobatches, text);
    if (!number)
      return number.takeError();
    microbatch = *number;
  }
  if (!rest.empty())
    return formatError("found {0}, wanted nothing after {1}", quote(text),
                       quote(text.drop_back(rest.size())));
  TorchToken token;
  token.kind = action.kind;
  token.cell = Cell(*stage, action.phase, microbatch);
  return token;
}

/// Reads `(2F0;5B1)OVERLAP_F_B`: a forward, then a whole backward.
static Expected<TorchToken> parseOverlapped(StringRef text) {
  StringRef rest = text.drop_front();
  auto [inside, after] = rest.split(')');
  if (inside.size() == rest.size() || after.trim() != "OVERLAP_F_B")
    return formatError("found {0}, wanted an overlapped pair such as "
                       "(2F0;5B1)OVERLAP_F_B",
                       quote(text));
  auto [firstText, secondText] = inside.split(';');
  Expected<TorchToken> first = parseAction(firstText.trim());
  if (!first)
    return first.takeError();
  Expected<TorchToken> second = parseAction(secondText.trim());
  if (!second)
    return second.takeError();
  if (first->kind != TorchToken::Compute || !first->cell.is(Phase::Forward) ||
      second->kind != TorchToken::Compute || !second->cell.is(Phase::Backward))
    return formatError("found {0}, wanted a forward and a whole backward in an "
                       "overlapped pair",
                       quote(text));
  first->kind = TorchToken::Overlapped;
  first->cell = first->cell.withOverlap(true);
  first->second = second->cell;
  return *first;
}

Expected<TorchToken> pipesched::parseTorchToken(StringRef field) {
  field = field.trim();
  if (field.empty())
    return TorchToken();
  return field.front() == '(' ? parseOverlapped(field) : parseAction(field);
}

void pipesched::printMessage(llvm::raw_ostream &os, TorchToken::Kind kind,
                             Cell cell) {
  os << cell.getStage() << (kind == TorchToken::WaitSend ? "WAIT_" : "")
     << (kind == TorchToken::Receive ? "RECV_" : "SEND_")
     << phaseLetter(cell.getPhase()) << cell.getUnit();
}

std::string pipesched::nameOfMessage(TorchToken::Kind kind, Cell cell) {
  std::string name;
  llvm::raw_string_ostream os(name);
  printMessage(os, kind, cell);
  return name;
}

StringRef pipesched::nameOfParameterAction(TorchToken::Kind kind) {
  switch (kind) {
  case TorchToken::Unshard:
    return "UNSHARD";
  case TorchToken::Reshard:
    return "RESHARD";
  default:
    return "REDUCE_GRAD";
  }
}
