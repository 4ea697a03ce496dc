//===- TorchMessages.cpp - Partners of sends and receives -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sorting brings the parts of one message together:
//
//   line 1    0F2 (produce)    0SEND_F2
//   line 2    1RECV_F2         1F2 (consume)
//
// A stage is on only one line, so its fields are in the order of their numbers.
// Then the channels from one line to another are checked: PyTorch's messages
// have no tags, so the k-th RECV of a channel gets the tensor of its k-th SEND.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "TorchToken.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <optional>
#include <tuple>
#include <vector>

using namespace pipesched;
using llvm::Error;
using llvm::formatv;
using llvm::StringRef;

namespace {
enum Role : uint8_t { Produce, SendIt, AwaitIt, ReceiveIt, Consume };
constexpr unsigned kNumRoles = 5;

/// One part of a message. Direction and sending cell identify the message.
struct Event {
  uint64_t message = 0;
  Role role = Produce;
  TorchFieldRef at;

  friend bool operator<(const Event &a, const Event &b) {
    return std::tie(a.message, a.role, a.at.line, a.at.field) <
           std::tie(b.message, b.role, b.at.line, b.at.field);
  }
};

/// The parts of one message; null if missing.
struct Message {
  Cell sender, receiver; ///< with phase F or B
  const Event *parts[kNumRoles] = {};

  std::string sendName() const {
    return nameOfMessage(TorchToken::Send, sender);
  }
  std::string receiveName() const {
    return nameOfMessage(TorchToken::Receive, receiver);
  }
  std::string waitName() const {
    return nameOfMessage(TorchToken::WaitSend, sender);
  }
  /// The action that is a part. A cell occurs once as a part.
  std::string nameOf(Role role) const {
    return role == SendIt    ? sendName()
           : role == AwaitIt ? waitName()
                             : receiveName();
  }
};

class MessageChecker {
public:
  explicit MessageChecker(const TorchFile &file) : file(file) {}

  Error run();

private:
  Error addEvents(TorchFieldRef at, const TorchToken &token);
  void addCellEvents(TorchFieldRef at, Cell cell);
  Error addMessageEvent(TorchFieldRef at, const TorchToken &token);
  void add(Role role, Cell sender, TorchFieldRef at);

  Error check(llvm::ArrayRef<Event> events) const;
  Error checkChannels() const;
  Error checkPartners(const Message &message) const;
  Error checkOrder(const Message &message) const;
  Error errorAt(const Event *event, std::string text) const {
    return errorAtField(file.lines, event->at, std::move(text));
  }

  bool isFirst(int64_t stage) const { return stage % file.stagesPerPath == 0; }
  bool isLast(int64_t stage) const { return isFirst(stage + 1); }
  int64_t lineNumberOf(Cell cell) const {
    return file.lineOfStage[cell.getStage()] + 1;
  }

  const TorchFile &file;
  std::vector<Event> events;
};
} // namespace

/// Returns the cell that uses an activation or gradient; senderOf is the
/// inverse.
static Cell receiverOf(Cell sender) {
  int64_t step = sender.is(Phase::Forward) ? 1 : -1;
  return Cell(sender.getStage() + step, sender.getPhase(), sender.getUnit());
}
static Cell senderOf(Cell receiver) {
  int64_t step = receiver.is(Phase::Forward) ? -1 : 1;
  return Cell(receiver.getStage() + step, receiver.getPhase(),
              receiver.getUnit());
}

void MessageChecker::add(Role role, Cell sender, TorchFieldRef at) {
  events.push_back({sender.getRaw(), role, at});
}

void MessageChecker::addCellEvents(TorchFieldRef at, Cell cell) {
  if (cell.is(Phase::WeightGrad))
    return;
  bool isForward = cell.is(Phase::Forward);
  Cell message(cell.getStage(), isForward ? Phase::Forward : Phase::Backward,
               cell.getUnit());
  bool first = isFirst(cell.getStage()), last = isLast(cell.getStage());
  if (isForward ? !last : !first)
    add(Produce, message, at);
  if (isForward ? !first : !last)
    add(Consume, senderOf(message), at);
}

Error MessageChecker::addMessageEvent(TorchFieldRef at,
                                      const TorchToken &token) {
  Cell cell = token.cell;
  bool isSend = token.kind != TorchToken::Receive;
  bool isForward = cell.is(Phase::Forward);
  bool isDown = isSend == isForward;
  if (isDown ? isLast(cell.getStage()) : isFirst(cell.getStage()))
    return errorAtField(
        file.lines, at,
        formatv("{0} has no partner: stage {1} is the {2} of its path",
                nameOfMessage(token.kind, cell), cell.getStage(),
                isDown ? "last" : "first"));
  Role role = token.kind == TorchToken::Send       ? SendIt
              : token.kind == TorchToken::WaitSend ? AwaitIt
                                                   : ReceiveIt;
  add(role, isSend ? cell : senderOf(cell), at);
  return Error::success();
}

Error MessageChecker::addEvents(TorchFieldRef at, const TorchToken &token) {
  if (token.isMessage())
    return addMessageEvent(at, token);
  if (token.getNumCells() > 0)
    addCellEvents(at, token.cell);
  if (token.getNumCells() > 1)
    addCellEvents(at, token.second);
  return Error::success();
}

/// Send and receive must both be present if the message crosses lines.
Error MessageChecker::checkPartners(const Message &message) const {
  const Event *send = message.parts[SendIt],
              *receive = message.parts[ReceiveIt];
  const Event *consume = message.parts[Consume];
  int64_t sendLine = lineNumberOf(message.sender);
  int64_t receiveLine = lineNumberOf(message.receiver);
  if (send && !receive)
    return errorAt(send, formatv("{0} has no partner: wanted {1} on line {2}",
                                 message.sendName(), message.receiveName(),
                                 receiveLine));
  if (receive && !send)
    return errorAt(receive, formatv("{0} has no partner: wanted {1} on line "
                                    "{2}",
                                    message.receiveName(), message.sendName(),
                                    sendLine));
  if (send && sendLine == receiveLine)
    return errorAt(send, formatv("{0} goes to its own line, where no message "
                                 "is needed",
                                 message.sendName()));
  if (!send && consume && message.parts[Produce] && sendLine != receiveLine)
    return errorAt(
        consume, formatv("wanted {0} before this cell, and {1} on line {2}: "
                         "the file has other messages",
                         message.receiveName(), message.sendName(), sendLine));
  return Error::success();
}

/// Checks that a cell comes before its send, a send before the actions that
/// wait for it, and a receive before its cell.
Error MessageChecker::checkOrder(const Message &message) const {
  const Event *send = message.parts[SendIt],
              *receive = message.parts[ReceiveIt];
  const Event *produce = message.parts[Produce];
  const Event *consume = message.parts[Consume];
  const Event *await = message.parts[AwaitIt];
  bool isForward = message.sender.is(Phase::Forward);
  if (send && (!produce || produce->at.field > send->at.field))
    return errorAt(send, formatv("{0} sends what no cell before it makes: "
                                 "wanted {1}{2}",
                                 message.sendName(), message.sender,
                                 isForward ? "" : " or its I"));
  if (await && (!send || send->at.field > await->at.field))
    return errorAt(await, formatv("{0} has no partner: wanted {1} before it",
                                  message.waitName(), message.sendName()));
  if (receive && (!consume || consume->at.field < receive->at.field))
    return errorAt(receive, formatv("{0} receives what no cell after it needs: "
                                    "wanted {1}{2}",
                                    message.receiveName(), message.receiver,
                                    isForward ? "" : " or its I"));
  return Error::success();
}

Error MessageChecker::check(llvm::ArrayRef<Event> events) const {
  Message message;
  message.sender = Cell::fromRaw(events.front().message);
  message.receiver = receiverOf(message.sender);
  for (const Event &event : events) {
    const Event *&part = message.parts[event.role];
    if (part)
      return errorAt(&event,
                     formatv("{0} occurs twice", message.nameOf(event.role)));
    part = &event;
  }
  if (Error error = checkPartners(message))
    return error;
  return checkOrder(message);
}

namespace {
/// A SEND or a RECV. After sorting, the passages of one channel are adjacent.
struct Passage {
  uint32_t fromLine = 0, toLine = 0;
  uint32_t field = 0; ///< on the sender's line or the receiver's
  uint64_t message = 0;

  friend bool operator<(const Passage &a, const Passage &b) {
    return std::tie(a.fromLine, a.toLine, a.field) <
           std::tie(b.fromLine, b.toLine, b.field);
  }
};
} // namespace

/// Checks channels. All messages have both parts, so the n-th SEND and the n-th
/// RECV in the order of channels belong to one channel.
Error MessageChecker::checkChannels() const {
  std::vector<Passage> sends, receives;
  for (const Event &event : events) {
    if (event.role != SendIt && event.role != ReceiveIt)
      continue;
    Cell sender = Cell::fromRaw(event.message);
    (event.role == SendIt ? sends : receives)
        .push_back({uint32_t(lineNumberOf(sender) - 1),
                    uint32_t(lineNumberOf(receiverOf(sender)) - 1),
                    event.at.field, event.message});
  }
  llvm::sort(sends);
  llvm::sort(receives);
  for (auto [send, receive] : llvm::zip_equal(sends, receives)) {
    if (send.message == receive.message)
      continue;
    Cell sent = Cell::fromRaw(send.message);
    Cell wanted = Cell::fromRaw(receive.message);
    TorchFieldRef at{receive.toLine, receive.field};
    return errorAtField(
        file.lines, at,
        formatv("found {0}, but the message that arrives here is {1} of line "
                "{2}, column {3}: messages carry no tags, and PyTorch would "
                "compute with the wrong one; wanted {4}",
                nameOfMessage(TorchToken::Receive, receiverOf(wanted)),
                nameOfMessage(TorchToken::Send, sent), send.fromLine + 1,
                columnOfField(file.lines, {send.fromLine, send.field}),
                nameOfMessage(TorchToken::Receive, receiverOf(sent))));
  }
  return Error::success();
}

Error MessageChecker::run() {
  for (uint32_t line = 0; line < file.lines.size(); ++line)
    if (Error error = forEachTorchField(
            file.lines[line], [&](StringRef field, uint32_t number) {
              return addEvents({line, number},
                               llvm::cantFail(parseTorchToken(field)));
            }))
      return error;
  llvm::sort(events);
  for (size_t begin = 0, end; begin < events.size(); begin = end) {
    for (end = begin + 1; end < events.size(); ++end)
      if (events[end].message != events[begin].message)
        break;
    if (Error error = check(llvm::ArrayRef(events).slice(begin, end - begin)))
      return error;
  }
  return checkChannels();
}

Error pipesched::checkTorchMessages(const TorchFile &file) {
  return MessageChecker(file).run();
}

namespace {
/// The state of a stage after the actions so far.
struct StageState {
  /// The open UNSHARD, without a RESHARD.
  std::optional<TorchFieldRef> unsharded;
  std::optional<TorchFieldRef> gradient; ///< the last B or W
  std::optional<TorchFieldRef> sharded;  ///< the first cell without an UNSHARD
  bool hasRun = false;                   ///< since the UNSHARD
  bool isReduced = false;
};

class ParameterChecker {
public:
  explicit ParameterChecker(const TorchFile &file)
      : file(file), states(file.lineOfStage.size()) {}

  Error run();

private:
  Error visit(TorchFieldRef at, const TorchToken &token);
  Error visitCell(TorchFieldRef at, Cell cell);
  Error visitUnshard(TorchFieldRef at, int64_t stage);
  Error visitReshard(TorchFieldRef at, int64_t stage);
  Error visitReduce(TorchFieldRef at, int64_t stage);
  Error errorAt(TorchFieldRef at, std::string text) const {
    return errorAtField(file.lines, at, std::move(text));
  }

  Error checkEnd(size_t stage) const;

  const TorchFile &file;
  std::vector<StageState> states;
  bool isSharded = false, hasReduction = false; ///< for any stage
};
} // namespace

/// A file without UNSHARD and RESHARD may have cells anywhere.
Error ParameterChecker::visitCell(TorchFieldRef at, Cell cell) {
  StageState &state = states[cell.getStage()];
  state.hasRun = true;
  if (!state.unsharded && !state.sharded)
    state.sharded = at;
  if (!cell.isIn(kGradientPhases))
    return Error::success();
  state.gradient = at;
  if (state.isReduced)
    return errorAt(at, formatv("{0} comes after {1}REDUCE_GRAD, which needs it",
                               cell, cell.getStage()));
  return Error::success();
}

Error ParameterChecker::visitUnshard(TorchFieldRef at, int64_t stage) {
  StageState &state = states[stage];
  if (state.unsharded)
    return errorAt(at, formatv("{0}UNSHARD finds the stage unsharded: wanted "
                               "{0}RESHARD before it",
                               stage));
  state.unsharded = at;
  state.hasRun = false;
  isSharded = true;
  return Error::success();
}

Error ParameterChecker::visitReshard(TorchFieldRef at, int64_t stage) {
  StageState &state = states[stage];
  if (!state.unsharded)
    return errorAt(at, formatv("{0}RESHARD has no partner: wanted {0}UNSHARD "
                               "before it",
                               stage));
  if (!state.hasRun)
    return errorAt(at,
                   formatv("{0}RESHARD comes right after {0}UNSHARD: wanted "
                           "a cell of stage {0} between them",
                           stage));
  state.unsharded.reset();
  return Error::success();
}

Error ParameterChecker::visitReduce(TorchFieldRef at, int64_t stage) {
  StageState &state = states[stage];
  if (state.isReduced)
    return errorAt(at, formatv("{0}REDUCE_GRAD occurs twice", stage));
  if (!state.gradient)
    return errorAt(at, formatv("{0}REDUCE_GRAD has no partner: wanted a B or W "
                               "of stage {0} before it",
                               stage));
  state.isReduced = hasReduction = true;
  return Error::success();
}

Error ParameterChecker::visit(TorchFieldRef at, const TorchToken &token) {
  switch (token.kind) {
  case TorchToken::Compute:
    return visitCell(at, token.cell);
  case TorchToken::Overlapped:
    if (Error error = visitCell(at, token.cell))
      return error;
    return visitCell(at, token.second);
  case TorchToken::Unshard:
    return visitUnshard(at, token.cell.getStage());
  case TorchToken::Reshard:
    return visitReshard(at, token.cell.getStage());
  case TorchToken::ReduceGrad:
    return visitReduce(at, token.cell.getStage());
  default:
    return Error::success();
  }
}

Error ParameterChecker::checkEnd(size_t stage) const {
  const StageState &state = states[stage];
  if (state.unsharded && !state.hasRun)
    return errorAt(
        *state.unsharded,
        formatv("no cell of stage {0} comes after {0}UNSHARD", stage));
  if (isSharded && state.sharded)
    return errorAt(
        *state.sharded,
        formatv("this cell runs while stage {0} is resharded: wanted "
                "{0}UNSHARD before it",
                stage));
  if (hasReduction && !state.isReduced && state.gradient)
    return errorAt(*state.gradient,
                   formatv("stage {0} has no REDUCE_GRAD, other stages have: "
                           "wanted {0}REDUCE_GRAD after this cell",
                           stage));
  return Error::success();
}

Error ParameterChecker::run() {
  for (uint32_t line = 0; line < file.lines.size(); ++line)
    if (Error error = forEachTorchField(file.lines[line], [&](StringRef field,
                                                              uint32_t number) {
          return visit({line, number}, llvm::cantFail(parseTorchToken(field)));
        }))
      return error;
  for (size_t stage = 0; stage < states.size(); ++stage)
    if (Error error = checkEnd(stage))
      return error;
  return Error::success();
}

Error pipesched::checkTorchParameters(const TorchFile &file) {
  return ParameterChecker(file).run();
}
