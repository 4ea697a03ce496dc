//===- TorchParameters.cpp - Partners of parameter actions ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sweeps once over the lines with a state per stage.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "TorchComms.h"
#include "llvm/Support/FormatVariadic.h"
#include <optional>
#include <vector>

using namespace pipesched;
using llvm::Error;
using llvm::formatv;
using llvm::StringRef;

namespace {
/// What has been seen of a stage so far.
struct StageState {
  std::optional<TorchFieldRef> unsharded; ///< UNSHARD without RESHARD so far
  std::optional<TorchFieldRef> gradient;  ///< the last B or W
  std::optional<TorchFieldRef> sharded;   ///< the first cell without an UNSHARD
  bool hasRun = false;                    ///< since the UNSHARD
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
  bool isSharded = false, hasReduction = false; ///< any stage
};
} // namespace

/// A file without UNSHARD and RESHARD may compute anywhere.
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
