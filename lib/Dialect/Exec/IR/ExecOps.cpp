//===- ExecOps.cpp - Instructions of the exec dialect ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax, result names and local checks of instructions. ProgramOps.cpp has the
// checks of whole programs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;
using pipe::nameCell;
using pipe::parseCell;
using pipe::parseFamily;
using pipe::printCell;
using pipe::printFamily;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

/// Reads the slices of a program; files before BytecodeVersion::kProgramSlices
/// have 1.
static LogicalResult readSlices(DialectBytecodeReader &reader,
                                int64_t &slices) {
  return readSince<ExecDialect>(reader, BytecodeVersion::kProgramSlices, 1,
                                slices);
}

static ParseResult parseWorkers(OpAsmParser &parser, Region &body,
                                int64_t slices) {
  return pipe::parseSlicedRegion(parser, ProgramOp::getOperationName(), body,
                                 slices);
}

static void printWorkers(OpAsmPrinter &printer, ProgramOp, Region &body,
                         int64_t) {
  printer.printRegion(body, /*printEntryBlockArgs=*/true,
                      /*printBlockTerminators=*/false);
}

static ParseResult parseCellPair(OpAsmParser &parser, Cell &cell,
                                 CompactOptional<Cell> &overlapped) {
  if (pipe::parseCell(parser, cell))
    return failure();
  if (failed(parser.parseOptionalPlus()))
    return success();
  Cell second;
  if (pipe::parseCell(parser, second))
    return failure();
  overlapped = second;
  return success();
}

static void printCellPair(OpAsmPrinter &printer, ComputeOp op, Cell cell,
                          std::optional<Cell> overlapped) {
  pipe::printCell(printer, op, cell);
  if (!overlapped)
    return;
  printer << '+';
  pipe::printCell(printer, op, *overlapped);
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// Refuses the number that represents an absent fact.
template <typename T, typename EmitError>
static LogicalResult verifyFact(T fact, EmitError emitError) {
  if (fact != AbsentFact<T>::value())
    return success();
  return emitError() << "number " << fact << " is too low, wanted " << fact + 1
                     << " or more";
}

template <typename T>
static OptionalParseResult parseFact(AsmParser &parser, T &fact) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult result = parser.parseOptionalInteger(fact);
  if (!result.has_value() || failed(*result))
    return result;
  return ParseResult(verifyFact(fact, [&] { return parser.emitError(loc); }));
}

template <typename T>
static LogicalResult factFromAttribute(T &fact, Attribute attribute,
                                       pipe::EmitErrorFn emitError) {
  return success(succeeded(convertFromAttribute(fact, attribute, emitError)) &&
                 succeeded(verifyFact(fact, emitError)));
}

template <typename T>
static LogicalResult readFact(DialectBytecodeReader &reader, T &fact) {
  uint64_t bits;
  if (failed(reader.readVarInt(bits)))
    return failure();
  fact = static_cast<T>(bits);
  return verifyFact(fact, [&] { return reader.emitError(); });
}

static void nameByTraits(OpAsmSetValueNameFn setName, Operation *op, Cell cell,
                         InstructionKind kind);

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Result names
//===----------------------------------------------------------------------===//

/// Returns the stage of the first cell that the worker around `op` computes, or
/// -1. Names of results omit this stage. Rows start with the receives of their
/// first cell, so a search of bounded length nearly always finds it.
static int64_t homeStage(Operation *op) {
  constexpr unsigned kSearchLength = 64;
  Block *block = op->getBlock();
  if (!block)
    return -1;
  unsigned seen = 0;
  for (Operation &candidate : *block) {
    auto instruction = dyn_cast<InstructionOpInterface>(candidate);
    if (instruction &&
        instruction.getInstructionKind() == InstructionKind::Compute)
      return instruction.getInstructionCell()->getStage();
    if (++seen == kSearchLength)
      break;
  }
  return -1;
}

/// Returns the number of a cell for the name of a result: `4`, or `4_1` for a
/// slice.
static std::string numberOf(Operation *op, Cell cell) {
  CellName name = nameCell(op, cell);
  if (!name.hasSlice())
    return std::to_string(cell.getNumber());
  return (Twine(cell.getUnit() / name.numSlices) + "_" +
          Twine(cell.getUnit() % name.numSlices))
      .str();
}

/// Names a result `f0`, or `f0_4` if its stage is not the worker's first.
static void nameResult(OpAsmSetValueNameFn setName, Operation *op,
                       StringRef prefix, Cell cell, int64_t stage) {
  std::string name = prefix.str() + numberOf(op, cell);
  if (int64_t home = homeStage(op); home != -1 && stage != home)
    name += ("_" + Twine(stage)).str();
  setName(op->getResult(0), name);
}

static void nameByPhase(OpAsmSetValueNameFn setName, Operation *op, Cell cell) {
  char letter = llvm::toLower(phaseLetter(cell.getPhase()));
  nameResult(setName, op, StringRef(&letter, 1), cell, cell.getStage());
}

void ComputeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  std::optional<Cell> overlapped = getOverlapped();
  if (!overlapped)
    return nameByPhase(setName, *this, getCell());
  std::string name;
  llvm::raw_string_ostream os(name);
  for (Cell cell : {getCell(), *overlapped})
    os << (name.empty() ? "" : "_")
       << llvm::toLower(phaseLetter(cell.getPhase())) << numberOf(*this, cell);
  setName(getDone(), name);
}

void SendOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  Cell cell = getCell();
  nameResult(setName, *this, cell.is(Phase::Forward) ? "s" : "sg", cell,
             cell.getStage());
}

/// Names a receive after the stage that needs the message.
void RecvOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  Cell cell = getCell();
  if (cell.is(Phase::Forward))
    nameResult(setName, *this, "act", cell, cell.getStage() + 1);
  else
    nameResult(setName, *this, "g", cell, cell.getStage() - 1);
}

/// Names a result by the table of instructions.
static void nameByTraits(OpAsmSetValueNameFn setName, Operation *op, Cell cell,
                         InstructionKind kind) {
  StringRef prefix = traitsOf(kind).resultName;
  if (prefix.empty())
    return nameByPhase(setName, op, cell);
  nameResult(setName, op, prefix, cell, cell.getStage());
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Returns the phases that the cell of an instruction may have; for messages,
/// the phases that make messages between stages.
static PhaseSet phasesOf(InstructionKind kind) {
  if (traitsOf(kind).role == InstructionRole::Message)
    return phasesWith([](const PhaseTraits &traits) {
      return traits.flows.makes.has_value();
    });
  return phasesOfKind(kind) - kJoinPhases;
}

/// compute_c1, send_c1, recv_c1, offload_c1, reload_c1, all_reduce_c1, and ids
/// of other collectives
static LogicalResult verifyPhase(InstructionOpInterface op, Cell cell) {
  PhaseSet wanted = phasesOf(op.getInstructionKind());
  if (!cell.isIn(wanted))
    return op->emitOpError() << "cell " << nameCell(op, cell).str()
                             << " has phase " << phaseLetter(cell.getPhase())
                             << ", wanted " << describePhases(wanted, " or ");
  if (cell.overlapsNext())
    return op->emitOpError() << "cell " << nameCell(op, cell).str()
                             << " has the overlap bit of a row";
  return success();
}

/// compute_c2
static LogicalResult verifyCells(InstructionOpInterface op) {
  std::optional<Cell> cell = op.getInstructionCell();
  if (!cell)
    return op.getInstructionKind() == InstructionKind::Wait
               ? success()
               : op->emitOpError() << "names no cell";
  if (failed(verifyPhase(op, *cell)))
    return failure();
  std::optional<Cell> overlapped = op.getOverlappedCell();
  if (!overlapped)
    return success();
  if (failed(verifyPhase(op, *overlapped)))
    return failure();
  if (*overlapped == *cell)
    return op->emitOpError()
           << "overlaps cell " << nameCell(op, *cell).str() << " with itself";
  return success();
}

/// Whether a token is the result of a compute with a cell that `wanted`
/// accepts.
static bool isOfCompute(Value token, llvm::function_ref<bool(Cell)> wanted) {
  auto op = token.getDefiningOp<InstructionOpInterface>();
  if (!op || op.getInstructionKind() != InstructionKind::Compute)
    return false;
  std::optional<Cell> second = op.getOverlappedCell();
  return wanted(*op.getInstructionCell()) || (second && wanted(*second));
}

static bool waitsForCompute(InstructionOpInterface op, Cell cell) {
  return llvm::any_of(op.getWaits(), [&](Value token) {
    return isOfCompute(token, [&](Cell other) { return other == cell; });
  });
}

/// send_c2, send_c3, recv_c2
static LogicalResult verifyMessageEnd(InstructionOpInterface op) {
  bool isSend = op.getInstructionKind() == InstructionKind::Send;
  if (op.getPeer() == cast<WorkerOp>(op->getParentOp()).getWorker())
    return op->emitOpError()
           << "goes " << (isSend ? "to" : "from") << " worker " << op.getPeer()
           << ", its own; a message needs another worker";
  Cell cell = *op.getInstructionCell();
  if (isSend && !waitsForCompute(op, cell))
    return op->emitOpError()
           << "does not wait for the compute of its cell "
           << nameCell(op, cell).str() << "; add the token of 'compute "
           << nameCell(op, cell).str() << "' of this worker to 'after'";
  return success();
}

/// all_reduce_c2, all_reduce_c3
static LogicalResult verifyBlockMember(InstructionOpInterface op) {
  BlockSpan blocks = op.getGroupBlocks();
  if (blocks.begin < 0 || blocks.end < blocks.begin)
    return op->emitOpError()
           << "reduces blocks " << blocks.begin << " to " << blocks.end
           << ", wanted a range that begins at zero or more "
              "and does not end before";
  Cell cell = *op.getInstructionCell();
  auto computesGradient = [&](Value token) {
    return isOfCompute(token, [&](Cell other) {
      return other.isIn(kGradientPhases) && other.getStage() == cell.getStage();
    });
  };
  if (llvm::none_of(op.getWaits(), computesGradient))
    return op->emitOpError()
           << "of cell " << nameCell(op, cell).str()
           << " waits for no weight gradient (B or W) of stage "
           << cell.getStage() << "; add the token of the last to 'after'";
  return success();
}

/// Checks that a collective of a microbatch waits for the cells that its phase
/// needs.
static LogicalResult verifyUnitMember(InstructionOpInterface op) {
  Cell cell = *op.getInstructionCell();
  LogicalResult result = success();
  PhaseSet needs = traitsOf(cell.getPhase()).order.needs;
  (needs & phasesOfKind(InstructionKind::Compute)).forEach([&](Phase phase) {
    Cell need = cell.withPhase(phase);
    if (succeeded(result) && !waitsForCompute(op, need))
      result = op->emitOpError()
               << "of cell " << nameCell(op, cell).str()
               << " does not wait for " << nameCell(op, need).str()
               << "; add the token of 'compute " << nameCell(op, need).str()
               << "' of this worker to 'after'";
  });
  // Of the phases that it uses, a table has either B, or I and W.
  PhaseSet uses = traitsOf(cell.getPhase()).order.uses;
  bool waits = uses.isEmpty();
  uses.forEach([&](Phase phase) {
    waits |= waitsForCompute(op, cell.withPhase(phase));
  });
  if (succeeded(result) && !waits)
    result = op->emitOpError()
             << "of cell " << nameCell(op, cell).str() << " waits for no "
             << describePhases(uses, " or ") << " of its microbatch; add the "
             << "token of 'compute "
             << nameCell(op, cell.withPhase(uses.first())).str()
             << "' or of its split to 'after'";
  return result;
}

static LogicalResult verifyCollective(InstructionOpInterface op) {
  switch (traitsOf(op.getInstructionKind()).grouping) {
  case Grouping::None:
    return success();
  case Grouping::Blocks:
    return verifyBlockMember(op);
  case Grouping::Unit:
    return verifyUnitMember(op);
  }
  llvm_unreachable("covered switch");
}

/// wait_c1
static LogicalResult verifyJoin(InstructionOpInterface op) {
  if (op.getWaits().empty())
    return op->emitOpError(
        "waits for nothing; name at least one token after 'after'");
  return success();
}

static LogicalResult verifyNotNegative(Operation *op, StringRef fact,
                                       std::optional<int64_t> value) {
  if (value && *value < 0)
    return op->emitOpError()
           << "has " << fact << ' ' << *value << ", wanted zero or more";
  return success();
}

/// compute_c3, send_c4, offload_c2, reload_c2, all_reduce_c4, and ids of other
/// collectives
static LogicalResult verifyWork(Operation *op) {
  auto work = dyn_cast<WorkOpInterface>(op);
  if (!work)
    return success();
  return success(
      succeeded(verifyNotNegative(op, "flops", work.getFlops())) &&
      succeeded(verifyNotNegative(op, "bytes", work.getBytesMoved())) &&
      succeeded(verifyNotNegative(op, "bytes", work.getMessageBytes())));
}

LogicalResult
exec::detail::verifyInstruction(InstructionOpInterface instruction) {
  if (!isa_and_nonnull<WorkerOp>(instruction->getParentOp())) // worker_c2
    return instruction->emitOpError()
           << "is an instruction and must stand directly in an 'exec.worker'";
  if (failed(verifyCells(instruction)) || failed(verifyWork(instruction)))
    return failure();
  switch (traitsOf(instruction.getInstructionKind()).role) {
  case InstructionRole::Message:
    return verifyMessageEnd(instruction);
  case InstructionRole::Collective:
    return verifyCollective(instruction);
  case InstructionRole::Join:
    return verifyJoin(instruction);
  case InstructionRole::Compute:
  case InstructionRole::Copy:
    return success();
  }
  llvm_unreachable("covered switch");
}
