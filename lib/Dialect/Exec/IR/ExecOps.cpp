//===- ExecOps.cpp - Instructions of the exec dialect ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Syntax, result names and local checks of instructions. ProgramOps.cpp has the
// checks of whole programs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;
using pipe::parseCell;
using pipe::parseFamily;
using pipe::printFamily;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

static void printCell(OpAsmPrinter &printer, Operation *, Cell cell) {
  pipe::printCell(printer, cell);
}

static ParseResult parseCellPair(OpAsmParser &parser, Cell &cell,
                                 std::optional<Cell> &overlapped) {
  if (pipe::parseCell(parser, cell))
    return failure();
  if (failed(parser.parseOptionalPlus()))
    return success();
  return pipe::parseCell(parser, overlapped.emplace());
}

static void printCellPair(OpAsmPrinter &printer, ComputeOp, Cell cell,
                          std::optional<Cell> overlapped) {
  pipe::printCell(printer, cell);
  if (!overlapped)
    return;
  printer << '+';
  pipe::printCell(printer, *overlapped);
}

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Result names
//===----------------------------------------------------------------------===//

/// The stage of the first cell that the worker around `op` computes, or -1:
/// results of this stage are named without it. Rows start with the receives of
/// their first cell, so the search is short; it gives up where that is not so.
static int64_t homeStage(Operation *op) {
  constexpr unsigned kSearchLength = 64;
  Block *block = op->getBlock();
  if (!block)
    return -1;
  unsigned seen = 0;
  for (Operation &candidate : *block) {
    if (auto compute = dyn_cast<ComputeOp>(candidate))
      return compute.getCell().getStage();
    if (++seen == kSearchLength)
      break;
  }
  return -1;
}

/// `f0`, or `f0_4` for a stage other than the worker's first.
static void nameResult(OpAsmSetValueNameFn setName, Operation *op,
                       StringRef prefix, int64_t number, int64_t stage) {
  std::string name = (prefix + Twine(number)).str();
  if (int64_t home = homeStage(op); home != -1 && stage != home)
    name += ("_" + Twine(stage)).str();
  setName(op->getResult(0), name);
}

static void nameByPhase(OpAsmSetValueNameFn setName, Operation *op, Cell cell) {
  char letter = llvm::toLower(phaseLetter(cell.getPhase()));
  nameResult(setName, op, StringRef(&letter, 1), cell.getMicrobatch(),
             cell.getStage());
}

void ComputeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  std::optional<Cell> overlapped = getOverlapped();
  if (!overlapped)
    return nameByPhase(setName, *this, getCell());
  std::string name;
  llvm::raw_string_ostream os(name);
  for (Cell cell : {getCell(), *overlapped})
    os << (name.empty() ? "" : "_")
       << llvm::toLower(phaseLetter(cell.getPhase())) << cell.getMicrobatch();
  setName(getDone(), name);
}

void SendOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  Cell cell = getCell();
  nameResult(setName, *this, cell.is(Phase::Forward) ? "s" : "sg",
             cell.getMicrobatch(), cell.getStage());
}

/// Receives go by the stage that needs the message.
void RecvOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  Cell cell = getCell();
  if (cell.is(Phase::Forward))
    nameResult(setName, *this, "act", cell.getMicrobatch(),
               cell.getStage() + 1);
  else
    nameResult(setName, *this, "g", cell.getMicrobatch(), cell.getStage() - 1);
}

void OffloadOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameByPhase(setName, *this, getCell());
}

void ReloadOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameByPhase(setName, *this, getCell());
}

void AllReduceOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(setName, *this, "ar", getCell().getMicrobatch(),
             getCell().getStage());
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Checks that a cell has one of the phases whose letters are given.
static LogicalResult verifyPhase(Operation *op, Cell cell, StringRef letters,
                                 StringRef wanted) {
  if (!letters.contains(phaseLetter(cell.getPhase())))
    return op->emitOpError()
           << "cell " << cell.str() << " has phase "
           << phaseLetter(cell.getPhase()) << ", wanted " << wanted;
  if (cell.overlapsNext())
    return op->emitOpError()
           << "cell " << cell.str() << " has the overlap bit of a row";
  return success();
}

static LogicalResult verifyNotNegative(Operation *op, StringRef fact,
                                       std::optional<int64_t> value) {
  if (value && *value < 0)
    return op->emitOpError()
           << "has " << fact << ' ' << *value << ", wanted zero or more";
  return success();
}

static LogicalResult verifyOtherWorker(Operation *op, StringRef direction,
                                       int64_t peer) {
  if (peer == cast<WorkerOp>(op->getParentOp()).getWorker())
    return op->emitOpError() << "goes " << direction << " worker " << peer
                             << ", its own; a message needs another worker";
  return success();
}

static constexpr StringLiteral kComputePhases = "FBIWRO";
static constexpr StringLiteral kMessagePhases = "FBIW";

LogicalResult ComputeOp::verify() {
  StringRef wanted = "F, B, I, W, R or O"; // compute_c1
  if (failed(verifyPhase(*this, getCell(), kComputePhases, wanted)))
    return failure();
  if (std::optional<Cell> overlapped = getOverlapped()) {
    if (failed(verifyPhase(*this, *overlapped, kComputePhases, wanted)))
      return failure();
    if (*overlapped == getCell()) // compute_c2
      return emitOpError() << "overlaps cell " << getCell().str()
                           << " with itself";
  }
  if (failed(verifyNotNegative(*this, "flops", getFlops()))) // compute_c3
    return failure();
  return verifyNotNegative(*this, "bytes", getBytesMoved());
}

LogicalResult SendOp::verify() {
  if (failed(verifyPhase(*this, getCell(), kMessagePhases,
                         "F, B, I or W"))) // send_c1
    return failure();
  if (failed(verifyOtherWorker(*this, "to", getDestination()))) // send_c2
    return failure();
  auto computesCell = [&](Value token) {
    auto compute = token.getDefiningOp<ComputeOp>();
    return compute && (compute.getCell() == getCell() ||
                       compute.getOverlapped() == getCell());
  };
  if (llvm::none_of(getWaits(), computesCell)) // send_c3
    return emitOpError() << "does not wait for the compute of its cell "
                         << getCell().str() << "; add the token of 'compute "
                         << getCell().str() << "' of this worker to 'after'";
  return verifyNotNegative(*this, "bytes", getMessageBytes()); // send_c4
}

LogicalResult RecvOp::verify() {
  if (failed(verifyPhase(*this, getCell(), kMessagePhases,
                         "F, B, I or W"))) // recv_c1
    return failure();
  return verifyOtherWorker(*this, "from", getSource()); // recv_c2
}

LogicalResult OffloadOp::verify() {
  if (failed(verifyPhase(*this, getCell(), "D", "D"))) // offload_c1
    return failure();
  return verifyNotNegative(*this, "bytes", getBytesMoved()); // offload_c2
}

LogicalResult ReloadOp::verify() {
  if (failed(verifyPhase(*this, getCell(), "U", "U"))) // reload_c1
    return failure();
  return verifyNotNegative(*this, "bytes", getBytesMoved()); // reload_c2
}

LogicalResult AllReduceOp::verify() {
  if (failed(verifyPhase(*this, getCell(), "G", "G"))) // all_reduce_c1
    return failure();
  if (getFirstBlock() < 0 || getEndBlock() < getFirstBlock()) // all_reduce_c2
    return emitOpError() << "reduces blocks " << getFirstBlock() << " to "
                         << getEndBlock()
                         << ", wanted a range that begins at zero or more and "
                            "does not end before";
  auto addsGradient = [&](Cell cell) {
    return (cell.is(Phase::Backward) || cell.is(Phase::WeightGrad)) &&
           cell.getStage() == getCell().getStage();
  };
  auto computesGradient = [&](Value token) {
    auto compute = token.getDefiningOp<ComputeOp>();
    return compute && (addsGradient(compute.getCell()) ||
                       addsGradient(compute.getOverlapped().value_or(Cell())));
  };
  if (llvm::none_of(getWaits(), computesGradient)) // all_reduce_c3
    return emitOpError() << "of cell " << getCell().str()
                         << " waits for no weight gradient (B or W) of stage "
                         << getCell().getStage()
                         << "; add the token of the last to 'after'";
  return verifyNotNegative(*this, "bytes",
                           getMessageBytes()); // all_reduce_c4
}

LogicalResult WaitOp::verify() {
  if (getWaits().empty()) // wait_c1
    return emitOpError(
        "waits for nothing; name at least one token after 'after'");
  return success();
}
