//===- PipeOps.cpp - Schedules, paths, workers ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers and syntax of the table. The verifier of the schedule checks its
// rows, so that the placement is built only once. Ids such as schedule_c4 refer
// to the constraints in the op's description.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Editing.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

InFlightDiagnostic pipe::emitTableError(Operation *op) {
  return emitError(op->getLoc()) << "'" << op->getName() << "' op ";
}

CellName pipe::nameCell(Operation *op, Cell cell) {
  auto owner = op->getParentOfType<PlacementOwnerOpInterface>();
  return {cell, owner ? owner.getNumSlices() : 1};
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// Emits an error about one path at its op, and all other errors at the owner.
static LogicalResult emitPlacementError(Operation *owner,
                                        ArrayRef<PathOp> paths,
                                        llvm::Error error) {
  llvm::handleAllErrors(
      std::move(error),
      [&](const PathError &found) {
        emitTableError(paths[found.getPath()]) << found.getMessage();
      },
      [&](const llvm::ErrorInfoBase &other) {
        emitTableError(owner) << other.message();
      });
  return failure();
}

FailureOr<Placement> pipe::loadPlacement(PlacementOwnerOpInterface owner) {
  std::vector<Path> paths;
  SmallVector<PathOp> ops;
  Block &body = owner->getRegion(0).front();
  for (PathOp op : body.getOps<PathOp>()) {
    paths.push_back(op.toPath());
    ops.push_back(op);
  }
  AddedStages added;
  for (NodeOp op : body.getOps<NodeOp>())
    added.nodes.push_back(op.toNode());
  for (EdgeOp op : body.getOps<EdgeOp>())
    added.edges.push_back(op.toEdge());
  llvm::Expected<Placement> placement = Placement::create(
      owner.getNumWorkers(), owner.getNumMicrobatches(), std::move(paths),
      owner.getNumSlices(), std::move(added));
  if (placement)
    return std::move(*placement);
  return emitPlacementError(owner, ops, placement.takeError());
}

//===----------------------------------------------------------------------===//
// ScheduleOp
//===----------------------------------------------------------------------===//

void ScheduleOp::build(OpBuilder &, OperationState &state, StringRef name,
                       int64_t workers, int64_t microbatches) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.sym_name = StringAttr::get(state.getContext(), name);
  properties.workers = workers;
  properties.microbatches = microbatches;
  state.addRegion()->emplaceBlock();
}

StringRef ScheduleOp::getDefaultDialect() {
  return PipeDialect::getDialectNamespace();
}

int64_t ScheduleOp::getNumWorkers() { return getWorkers(); }

int64_t ScheduleOp::getNumMicrobatches() { return getMicrobatches(); }

int64_t ScheduleOp::getNumSlices() { return getSlices(); }

/// Parses the body of a schedule. Its cells name slices if microbatches have
/// several.
static ParseResult parseRows(OpAsmParser &parser, Region &body,
                             int64_t slices) {
  return parseSlicedRegion(parser, ScheduleOp::getOperationName(), body,
                           slices);
}

static void printRows(OpAsmPrinter &printer, ScheduleOp, Region &body,
                      int64_t) {
  printer.printRegion(body, /*printEntryBlockArgs=*/true,
                      /*printBlockTerminators=*/false);
}

void ScheduleOp::setFamily(StringRef name, ArrayRef<NamedAttribute> options) {
  setFamilyAttr(StringAttr::get(getContext(), name));
  setFamilyOptionsAttr(
      options.empty() ? nullptr : DictionaryAttr::get(getContext(), options));
}

void ScheduleOp::dropFamily() {
  removeFamilyAttr();
  removeFamilyOptionsAttr();
}

/// schedule_c6, schedule_c9.
LogicalResult ScheduleOp::verify() {
  if (getRecompute() == RecomputeKind::None) // schedule_c9
    return emitTableError(*this)
           << "has R cells that recompute 'none', expected selective or full";
  return verifyFamilyClause(*this, getFamilyAttr(), getFamilyOptionsAttr());
}

/// schedule_c5.
LogicalResult ScheduleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr name = getModelAttr();
  if (name && !symbols.lookupNearestSymbolFrom<ModelOp>(*this, name))
    return emitTableError(*this)
           << "names " << name << ", which is not a pipe.model";
  return success();
}

/// schedule_c4.
static LogicalResult verifyOneRowPerWorker(ScheduleOp schedule) {
  int64_t numWorkers = schedule.getWorkers();
  llvm::BitVector seen(numWorkers);
  for (WorkerOp row : schedule.getRows()) {
    int64_t worker = row.getWorker();
    if (worker < 0 || worker >= numWorkers) // worker_c1
      return emitTableError(row)
             << "is worker " << worker << ", which is not one of the "
             << numWorkers << " workers (0 to " << numWorkers - 1 << ")";
    if (seen.test(worker))
      return emitTableError(row) << "is a second row of worker " << worker;
    seen.set(worker);
  }
  if (int missing = seen.find_first_unset(); missing >= 0)
    return emitTableError(schedule)
           << "has " << seen.count() << " rows for " << numWorkers
           << " workers; worker " << missing << " has none";
  return success();
}

/// schedule_c7.
static FailureOr<std::vector<StageSlots>>
loadSlots(ScheduleOp schedule, const Placement &placement) {
  SlotsAttr slots = schedule.getSlotsAttr();
  if (!slots)
    return std::vector<StageSlots>();
  llvm::Expected<std::vector<StageSlots>> stages = slots.toStages(placement);
  if (!stages)
    return emitTableError(schedule) << llvm::toString(stages.takeError());
  return std::move(*stages);
}

/// schedule_c8. The rows must have been verified.
static LogicalResult verifySlots(ScheduleOp schedule,
                                 const Placement &placement,
                                 std::vector<StageSlots> slots) {
  TableView table;
  table.placement = &placement;
  table.slots = std::move(slots);
  table.rows.resize(schedule.getWorkers());
  for (WorkerOp row : schedule.getRows())
    table.rows[row.getWorker()] = row.getCells();
  if (std::optional<Violation> violation = verifySlotLengths(table))
    return emitViolation(schedule, *violation);
  return success();
}

/// schedule_c1 to schedule_c4, schedule_c7 and schedule_c8, and the constraints
/// of the rows.
LogicalResult ScheduleOp::verifyRegions() {
  for (Operation &op : *getBody())
    if (!isHeaderOp(op) && !isa<WorkerOp>(op)) // schedule_c2
      return op.emitOpError("cannot stand in a pipe.schedule, which holds "
                            "pipe.path, pipe.node, pipe.edge and pipe.worker "
                            "ops, and clauses of functions");
  if (failed(verifyClauses(*this)))
    return failure();
  FailureOr<Placement> placement = loadPlacement(*this);
  if (failed(placement))
    return failure();
  FailureOr<std::vector<StageSlots>> slots = loadSlots(*this, *placement);
  if (failed(slots))
    return failure();
  if (isProblem())
    return success();
  if (failed(verifyOneRowPerWorker(*this)))
    return failure();
  if (!placement->isAssigned()) // schedule_c3
    return emitTableError(*this)
           << "has rows and several paths, which must say with 'takes' which "
              "microbatches they take";
  for (WorkerOp row : getRows())
    if (std::optional<Violation> violation =
            verifyRow(*placement, row.getWorker(), row.getCells()))
      return emitViolation(*this, *violation);
  if (failed(verifySlots(*this, *placement, std::move(*slots))))
    return failure();
  const auto *checks = getContext()
                           ->getLoadedDialect<PipeDialect>()
                           ->getRegisteredInterface<ScheduleChecks>();
  return checks ? checks->verify(*this) : success();
}

//===----------------------------------------------------------------------===//
// PathOp
//===----------------------------------------------------------------------===//

/// Ranges are stored as triples: `begin`, `end`, `step`.
static SmallVector<MicrobatchRange> toRanges(ArrayRef<int64_t> triples) {
  SmallVector<MicrobatchRange> ranges;
  for (size_t i = 0; i + 2 < triples.size(); i += 3)
    ranges.push_back({triples[i], triples[i + 1], triples[i + 2]});
  return ranges;
}

/// Parses `5`, `0:4` or `0:8:2`.
static ParseResult parseRange(AsmParser &parser, MicrobatchRange &range) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(range.begin))
    return failure();
  if (failed(parser.parseOptionalColon())) {
    if (range.begin > Cell::kMaxMicrobatches)
      return parser.emitError(loc) << "microbatch " << range.begin
                                   << " is above " << Cell::kMaxMicrobatches;
    range.end = range.begin + 1;
    return success();
  }
  if (parser.parseInteger(range.end))
    return failure();
  if (succeeded(parser.parseOptionalColon()))
    return parser.parseInteger(range.step);
  return success();
}

static ParseResult parseRanges(AsmParser &parser, DenseI64ArrayAttr &takes) {
  SmallVector<int64_t> triples;
  auto parseOne = [&]() -> ParseResult {
    MicrobatchRange range;
    if (parseRange(parser, range))
      return failure();
    triples.append({range.begin, range.end, range.step});
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  takes = parser.getBuilder().getDenseI64ArrayAttr(triples);
  return success();
}

static void printRanges(AsmPrinter &printer, Operation *,
                        DenseI64ArrayAttr takes) {
  printer << '[';
  llvm::interleaveComma(toRanges(takes.asArrayRef()), printer,
                        [&](MicrobatchRange range) {
                          printer << range.begin;
                          if (range.step == 1 && range.end == range.begin + 1)
                            return;
                          printer << ':' << range.end;
                          if (range.step != 1)
                            printer << ':' << range.step;
                        });
  printer << ']';
}

/// The ranges as triples.
static DenseI64ArrayAttr storeRanges(Builder &builder,
                                     ArrayRef<MicrobatchRange> takes) {
  SmallVector<int64_t> triples;
  for (const MicrobatchRange &range : takes)
    triples.append({range.begin, range.end, range.step});
  return builder.getDenseI64ArrayAttr(triples);
}

void PathOp::build(OpBuilder &builder, OperationState &state,
                   const Path &path) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.workers = builder.getDenseI32ArrayAttr(path.workers);
  properties.backward = path.backward;
  if (!path.blocks.empty())
    properties.blocks = builder.getDenseI64ArrayAttr(path.blocks);
  if (!path.weights.empty())
    properties.weights = builder.getDenseI64ArrayAttr(path.weights);
  if (!path.takes.empty())
    properties.takes = storeRanges(builder, path.takes);
}

Path PathOp::toPath() {
  Path path;
  path.workers = getWorkers();
  path.backward = getBackward();
  if (std::optional<ArrayRef<int64_t>> triples = getTakes()) {
    SmallVector<MicrobatchRange> ranges = toRanges(*triples);
    path.takes.assign(ranges.begin(), ranges.end());
  }
  if (std::optional<ArrayRef<int64_t>> blocks = getBlocks())
    path.blocks = *blocks;
  if (std::optional<ArrayRef<int64_t>> weights = getWeights())
    path.weights = *weights;
  return path;
}

/// path_c1, node_c1, edge_c1. The verifier of the owner checks ranges, because
/// they depend on the owner (loadPlacement).
static LogicalResult verifyPlacementOwner(Operation *op) {
  if (isa_and_nonnull<PlacementOwnerOpInterface>(op->getParentOp()))
    return success();
  return op->emitOpError("must stand in a pipe.schedule or an exec.program");
}

LogicalResult PathOp::verify() {
  if (failed(verifyPlacementOwner(*this)))
    return failure();
  std::optional<ArrayRef<int64_t>> takes = getTakes();
  if (takes && (takes->empty() || takes->size() % 3 != 0)) // path_c3
    return emitOpError() << "must take ranges of begin, end and step, got "
                         << takes->size() << " numbers";
  if (getBlocks() && getBlocks()->empty()) // path_c4
    return emitOpError("has blocks of no stage");
  if (getWeights() && getWeights()->empty()) // path_c5
    return emitOpError("has weights of no stage");
  return success();
}

//===----------------------------------------------------------------------===//
// NodeOp, EdgeOp
//===----------------------------------------------------------------------===//

/// Parses `"patches", "layer" x 24`; without a number it is one.
static ParseResult parseHeldBlocks(AsmParser &parser, ArrayAttr &blocks,
                                   DenseI64ArrayAttr &counts) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> numbers;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    numbers.push_back(1);
    return failed(parser.parseOptionalKeyword("x"))
               ? success()
               : parser.parseInteger(numbers.back());
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  blocks = parser.getBuilder().getArrayAttr(names);
  counts = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

static void printHeldBlocks(AsmPrinter &printer, NodeOp node, ArrayAttr,
                            DenseI64ArrayAttr) {
  llvm::interleaveComma(node.toNode().holds, printer,
                        [&](const HeldBlocks &held) {
                          printer.printString(held.name);
                          if (held.count != 1)
                            printer << " x " << held.count;
                        });
}

void NodeOp::build(OpBuilder &builder, OperationState &state,
                   const StageNode &node) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.number = node.number;
  properties.workers = builder.getDenseI32ArrayAttr(node.worker);
  if (node.kind == StageKind::Frozen)
    properties.frozen = builder.getUnitAttr();
  if (node.kind == StageKind::NoBackward)
    properties.none = builder.getUnitAttr();
  if (node.takes)
    properties.takes = storeRanges(builder, *node.takes);
  if (node.holds.empty())
    return;
  SmallVector<StringRef> names;
  SmallVector<int64_t> counts;
  for (const HeldBlocks &held : node.holds) {
    names.push_back(held.name);
    counts.push_back(held.count);
  }
  properties.blocks = builder.getStrArrayAttr(names);
  properties.block_counts = builder.getDenseI64ArrayAttr(counts);
}

StageNode NodeOp::toNode() {
  StageNode node = {getNumber(),
                    getWorkers().empty() ? -1 : getWorkers().front(),
                    getNone()     ? StageKind::NoBackward
                    : getFrozen() ? StageKind::Frozen
                                  : StageKind::Trained};
  if (std::optional<ArrayRef<int64_t>> triples = getTakes()) {
    SmallVector<MicrobatchRange> ranges = toRanges(*triples);
    node.takes.emplace(ranges.begin(), ranges.end());
  }
  if (getBlocks())
    for (auto [name, count] :
         llvm::zip(getBlocksAttr().getAsRange<StringAttr>(), *getBlockCounts()))
      node.holds.push_back({name.str(), count});
  return node;
}

LogicalResult NodeOp::verify() {
  if (getWorkers().size() != 1) // node_c2
    return emitOpError() << "is on " << getWorkers().size()
                         << " workers: a node is on one";
  if (getTakes() && getTakes()->size() % 3 != 0) // node_c5
    return emitOpError() << "must take ranges of begin, end and step, got "
                         << getTakes()->size() << " numbers";
  size_t numBlocks = getBlocks() ? getBlocksAttr().size() : 0;
  size_t numCounts = getBlockCounts() ? getBlockCounts()->size() : 0;
  if (numBlocks != numCounts) // node_c6
    return emitOpError() << "holds " << numBlocks << " kinds of blocks and "
                         << numCounts << " numbers of them";
  return verifyPlacementOwner(*this);
}

void EdgeOp::build(OpBuilder &builder, OperationState &state,
                   const AddedEdge &edge) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.from = edge.from;
  properties.to = edge.to;
  if (!edge.tensor.empty())
    properties.tensor = builder.getStringAttr(edge.tensor);
  if (edge.bytes)
    properties.bytes = builder.getI64IntegerAttr(*edge.bytes);
  if (!edge.mayCarryGradient)
    properties.noGradient = builder.getUnitAttr();
}

AddedEdge EdgeOp::toEdge() {
  AddedEdge edge = {getFrom(), getTo(), !getNoGradient(),
                    getTensor().value_or("").str()};
  if (std::optional<uint64_t> bytes = getBytes())
    edge.bytes = *bytes;
  return edge;
}

LogicalResult EdgeOp::verify() { return verifyPlacementOwner(*this); }

//===----------------------------------------------------------------------===//
// WorkerOp
//===----------------------------------------------------------------------===//

static ParseResult parseRow(AsmParser &parser, std::vector<Cell> &cells) {
  SMLoc bracket = parser.getCurrentLocation();
  if (parseCells(parser, cells))
    return failure();
  const auto *places = parser.getContext()
                           ->getLoadedDialect<PipeDialect>()
                           ->getRegisteredInterface<CellPlaces>();
  auto start = dyn_cast<FileLineColLoc>(parser.getEncodedSourceLoc(bracket));
  if (places && start)
    places->keep(parser.getEncodedSourceLoc(parser.getNameLoc()), cells,
                 bracket.getPointer(), start);
  return success();
}

static void printRow(AsmPrinter &printer, WorkerOp row, ArrayRef<Cell> cells) {
  auto schedule = dyn_cast_or_null<ScheduleOp>(row->getParentOp());
  printCells(printer, cells, schedule ? schedule.getSlices() : 1);
}

void WorkerOp::build(OpBuilder &, OperationState &state, int64_t worker,
                     std::vector<Cell> &&cells) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.worker = worker;
  properties.cells = std::move(cells);
}

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Pipe/IR/PipeOps.cpp.inc"
