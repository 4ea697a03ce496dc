//===- PipeToExec.cpp - From a schedule to its program --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowering.h decides which instructions a cell becomes. This file turns them
// into ops and replaces schedules by programs.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/PipeToExec.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include <unordered_map>

namespace pipesched {
#define GEN_PASS_DEF_CONVERTPIPETOEXECPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Schedule to instructions
//===----------------------------------------------------------------------===//

FailureOr<Program> pipesched::lowerSchedule(pipe::ScheduleOp schedule,
                                            ReceivePlacement placement) {
  if (schedule.isProblem())
    return pipe::emitTableError(schedule)
           << "has no rows; run a pipe-schedule-* pass first";
  pipe::ScheduleTable table(schedule);
  TableView view = table.view();
  if (std::optional<Violation> violation = verifyTable(view))
    return pipe::emitViolation(schedule, *violation);
  FailureOr<CostInputs> costs = loadCosts(schedule);
  if (failed(costs))
    return failure();
  TimingOptions timing;
  timing.receivePlacement = placement;
  llvm::Expected<Program> program = lowerTable(view, *costs, timing);
  if (!program)
    return pipe::emitTableError(schedule)
           << llvm::toString(program.takeError());
  return std::move(*program);
}

//===----------------------------------------------------------------------===//
// Instructions to ops
//===----------------------------------------------------------------------===//

namespace {
/// The locations of the cells of a schedule. A large one has none: locations
/// take 200 bytes each, and nobody reads them one by one.
class CellLocations {
public:
  static constexpr size_t kMostCells = 65536;

  explicit CellLocations(pipe::ScheduleOp schedule) {
    size_t numCells = 0;
    for (pipe::WorkerOp row : schedule.getRows())
      numCells += row.getCells().size();
    if (numCells > kMostCells)
      return;
    for (pipe::WorkerOp row : schedule.getRows())
      add(row, schedule.getSlices());
  }

  Location find(Cell cell, Location otherwise) const {
    auto found = byCell.find(cell.withOverlap(false).getRaw());
    return found == byCell.end() ? otherwise : found->second;
  }

private:
  void add(pipe::WorkerOp row, int64_t numSlices) {
    for (auto [cell, location] : llvm::zip_equal(
             row.getCells(), pipe::locationsOfCells(row, numSlices)))
      if (location != row.getLoc())
        byCell.try_emplace(cell.withOverlap(false).getRaw(), location);
  }

  std::unordered_map<uint64_t, Location> byCell;
};

/// Creates the ops of one program; looks up op names and the token type once.
class ProgramEmitter {
public:
  ProgramEmitter(MLIRContext *context, const Program &program,
                 const CellLocations &locations)
      : program(program), locations(locations),
        token(exec::TokenType::get(context)),
        attributes(DictionaryAttr::get(context)),
        names(llvm::map_to_vector(
            EnumNames<InstructionKind>::values, [&](const auto &kind) {
              return OperationName(("exec." + kind.name).str(), context);
            })) {}

  void emitRow(exec::WorkerOp worker, int64_t row);

private:
  Operation *emitOp(Location loc, uint32_t instruction);
  Operation *emitCompute(Location loc, uint32_t instruction);
  Operation *emitMessage(Location loc, uint32_t instruction);
  Operation *emitCopy(Location loc, uint32_t instruction);
  Operation *emitCollective(Location loc, uint32_t instruction);
  Operation *create(Location loc, InstructionKind kind,
                    OpaqueProperties properties, bool hasToken = true) {
    return Operation::create(loc, names[static_cast<unsigned>(kind)],
                             hasToken ? TypeRange(token) : TypeRange(),
                             operands, attributes, properties,
                             /*successors=*/{}, /*numRegions=*/0);
  }
  bool isPair(uint32_t instruction) const {
    return program.instructions[instruction].kind == InstructionKind::Compute &&
           program.instructions[instruction].cell.overlapsNext();
  }
  void gatherOperands(uint32_t instruction);

  const Program &program;
  const CellLocations &locations;
  Type token;
  DictionaryAttr attributes;        ///< empty
  SmallVector<OperationName> names; ///< by kind

  // The current row: its first instruction, the tokens of the instructions
  // before the current one, and the operands of the current one.
  uint32_t begin = 0;
  std::vector<Value> tokens;
  SmallVector<Value> operands;
};
} // namespace

/// The halves of a pair become one op. If both wait for the same token, the op
/// lists it once.
void ProgramEmitter::gatherOperands(uint32_t instruction) {
  operands.clear();
  for (uint32_t operand : program.operandsOf(instruction))
    operands.push_back(tokens[operand - begin]);
  if (!isPair(instruction))
    return;
  for (uint32_t operand : program.operandsOf(instruction + 1))
    if (Value value = tokens[operand - begin];
        !llvm::is_contained(operands, value))
      operands.push_back(value);
}

Operation *ProgramEmitter::emitCompute(Location loc, uint32_t instruction) {
  exec::ComputeOp::Properties properties;
  properties.cell = program.instructions[instruction].cell.withOverlap(false);
  if (isPair(instruction))
    properties.overlapped = program.instructions[instruction + 1].cell;
  return create(loc, InstructionKind::Compute, &properties);
}

Operation *ProgramEmitter::emitMessage(Location loc, uint32_t instruction) {
  auto [cell, peer, kind] = program.instructions[instruction];
  if (kind == InstructionKind::Send) {
    exec::SendOp::Properties properties;
    properties.cell = cell;
    properties.destination = peer;
    return create(loc, kind, &properties);
  }
  exec::RecvOp::Properties properties;
  properties.cell = cell;
  properties.source = peer;
  return create(loc, kind, &properties);
}

Operation *ProgramEmitter::emitCopy(Location loc, uint32_t instruction) {
  auto [cell, peer, kind] = program.instructions[instruction];
  if (kind == InstructionKind::Offload) {
    exec::OffloadOp::Properties properties;
    properties.cell = cell;
    return create(loc, kind, &properties);
  }
  exec::ReloadOp::Properties properties;
  properties.cell = cell;
  return create(loc, kind, &properties);
}

Operation *ProgramEmitter::emitCollective(Location loc, uint32_t instruction) {
  auto [cell, group, kind] = program.instructions[instruction];
  Operation *op = create(loc, kind, nullptr);
  auto collective = cast<exec::CollectiveOpInterface>(op);
  collective.setCell(cell);
  collective.setGroupBlocks(program.groups[group].blocks);
  return op;
}

Operation *ProgramEmitter::emitOp(Location loc, uint32_t instruction) {
  gatherOperands(instruction);
  switch (traitsOf(program.instructions[instruction].kind).role) {
  case InstructionRole::Compute:
    return emitCompute(loc, instruction);
  case InstructionRole::Message:
    return emitMessage(loc, instruction);
  case InstructionRole::Copy:
    return emitCopy(loc, instruction);
  case InstructionRole::Join:
    return create(loc, InstructionKind::Wait, nullptr, /*hasToken=*/false);
  case InstructionRole::Collective:
    return emitCollective(loc, instruction);
  }
  llvm_unreachable("covered switch");
}

/// Emits the ops of one row and records the token of each instruction:
///
///   instructions   0F0   0F2+   0B1   send 0F2     + overlaps the next
///   ops            f0    f2_b1        s2
///   tokens         f0    f2_b1  f2_b1 s2
void ProgramEmitter::emitRow(exec::WorkerOp worker, int64_t row) {
  begin = program.rowBegins[row];
  uint32_t end = program.rowBegins[row + 1];
  tokens.clear();
  tokens.reserve(end - begin);
  Block *body = worker.getBody();
  for (uint32_t instruction = begin; instruction != end;) {
    Location location =
        locations.find(program.instructions[instruction].cell, worker.getLoc());
    Operation *op = emitOp(location, instruction);
    body->push_back(op);
    Value done = op->getNumResults() ? op->getResult(0) : Value();
    unsigned numInstructions = isPair(instruction) ? 2 : 1;
    tokens.insert(tokens.end(), numInstructions, done);
    instruction += numInstructions;
  }
}

/// Copies everything except the rows.
static void copyHeader(pipe::ScheduleOp schedule, exec::ProgramOp program) {
  program.setWorkers(schedule.getWorkers());
  program.setMicrobatches(schedule.getMicrobatches());
  program.setSlices(schedule.getSlices());
  program.setFamilyAttr(schedule.getFamilyAttr());
  program.setFamilyOptionsAttr(schedule.getFamilyOptionsAttr());
  program.setGradientAfter(schedule.getGradientAfter());
  program.setRecomputeAttr(schedule.getRecomputeAttr());
  program.setModelAttr(schedule.getModelAttr());
  program.setProfileAttr(schedule.getProfileAttr());
  program->setDiscardableAttrs(schedule->getDiscardableAttrDictionary());
}

OwningOpRef<exec::ProgramOp> pipesched::createProgram(pipe::ScheduleOp schedule,
                                                      const Program &program) {
  OpBuilder builder(schedule.getContext());
  OwningOpRef<exec::ProgramOp> op = exec::ProgramOp::create(
      builder, schedule.getLoc(), schedule.getSymName());
  copyHeader(schedule, *op);
  builder.setInsertionPointToStart(op->getBody());
  for (Operation &op : *schedule.getBody())
    if (pipe::isHeaderOp(op))
      builder.clone(op);
  SmallVector<Location> rows(program.getNumWorkers(), schedule.getLoc());
  for (pipe::WorkerOp row : schedule.getRows())
    rows[row.getWorker()] = row.getLoc();
  CellLocations cells(schedule);
  ProgramEmitter emitter(schedule.getContext(), program, cells);
  for (auto [worker, loc] : llvm::enumerate(rows))
    emitter.emitRow(exec::WorkerOp::create(builder, loc, worker), worker);
  return op;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertPipeToExecPass final
    : pipesched::impl::ConvertPipeToExecPassBase<ConvertPipeToExecPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<SmallVector<pipe::ScheduleOp>> schedules =
        pipe::selectSchedules(getOperation(), schedule);
    if (failed(schedules))
      return signalPassFailure();
    SmallVector<OwningOpRef<exec::ProgramOp>> programs;
    for (pipe::ScheduleOp op : *schedules) {
      FailureOr<Program> program = lowerSchedule(op, receivePlacement);
      if (failed(program))
        return signalPassFailure();
      programs.push_back(createProgram(op, *program));
    }
    SymbolTable symbols(getOperation());
    for (auto [op, program] : llvm::zip_equal(*schedules, programs))
      insert(symbols, op, program.release());
  }

private:
  void insert(SymbolTable &symbols, pipe::ScheduleOp op,
              exec::ProgramOp program) {
    auto position = std::next(Block::iterator(op));
    if (keepSchedule)
      program.setSymName((op.getSymName() + "_exec").str());
    else
      symbols.erase(op);
    symbols.insert(program, position);
  }
};
} // namespace
