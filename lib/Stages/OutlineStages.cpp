//===- OutlineStages.cpp - A function cut into stages ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// First finds the messages, one tensor between neighbours in each direction;
// then gives each value that a function reads from elsewhere its role; then
// makes the functions.
//
//   forward s    -> forward s + 1, also its backward       a message: the
//   output forward last -> loss                                   the output
//   loss         -> backward last                          its gradient
//   backward s   -> backward s - 1                         a message: a
//   gradient forward s    -> backward s,  input_gradient s -> weight_gradient s
//   residual backward s   -> update s                               a
//   parameter's gradient
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/OutlineStages.h"
#include "PipeSched/Stages/PersistentLayout.h"
#include "StagePlaces.h"
#include "VerifyStages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include <map>
#include <set>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

namespace {
enum class Crossing { Output, OutputGradient, Residual, Gradient };

struct PieceValue {
  NamedRole role;
  Value value;
};

/// One function to make.
struct Piece {
  llvm::SetVector<Operation *> ops;           ///< also the repeated ones
  SmallVector<PieceValue> arguments, results; ///< in the order of their roles
  llvm::DenseSet<Value> seen; ///< of its arguments, and read by repeated ops

  void addArgument(NamedRole role, Value value) {
    insert(arguments, {std::move(role), value});
  }
  void addResult(NamedRole role, Value value) {
    for (const PieceValue &known : results)
      if (known.role.role == role.role && known.role.name == role.name)
        return;
    insert(results, {std::move(role), value});
  }

private:
  static void insert(SmallVector<PieceValue> &values, PieceValue value) {
    auto place = llvm::upper_bound(
        values, value, [](const PieceValue &left, const PieceValue &right) {
          return left.role.role < right.role.role;
        });
    values.insert(place, std::move(value));
  }
};

class Outliner {
public:
  Outliner(func::FuncOp function, StagePlaces places)
      : function(function), places(std::move(places)) {
    outputs.resize(this->places.getNumStages());
    outputGradients.resize(this->places.getNumStages());
  }

  FailureOr<OutlinedStages> run(bool splitBackward);

private:
  using Reader = llvm::function_ref<LogicalResult(Place, Value, Operation *)>;
  LogicalResult forEachRead(Reader read);

  std::string describeSources(Place reader) const;
  LogicalResult verifyBackwards();
  LogicalResult findMessages();
  LogicalResult noteMessage(Place reader, Value value, Operation *user);
  void splitBackward();

  LogicalResult makePieces();
  LogicalResult addResults();
  void completeSplits();
  LogicalResult addMessages();
  LogicalResult take(Place reader, Value read, Operation *user);
  LogicalResult takeFrom(Place from, Place reader, Value value,
                         Operation *user);
  LogicalResult takeArgument(Place reader, BlockArgument value,
                             Operation *user);
  FailureOr<NamedRole> readerRole(Place from, Place reader, Value value,
                                  Operation *user);
  NamedRole producerRole(Place from, Place reader, Value value,
                         const NamedRole &read);
  NamedRole residualOf(Value value, int64_t stage);
  LogicalResult verifyShapes();

  func::FuncOp makeFunction(Place place, Piece &piece, OpBuilder &builder);

  int64_t last() const { return places.getNumStages() - 1; }

  func::FuncOp function;
  StagePlaces places;
  /// By stage: its output, and the gradient of it. Null if nothing reads it.
  std::vector<Value> outputs, outputGradients;
  std::map<Place, Piece> pieces;
  llvm::DenseMap<Value, std::string> residuals;
  std::map<int64_t, int64_t> numResiduals; ///< by stage
  /// The stage that has an argument, and its first op that reads it.
  llvm::DenseMap<Value, std::pair<int64_t, Operation *>> owners;
};
} // namespace

//===----------------------------------------------------------------------===//
// Crossings
//===----------------------------------------------------------------------===//

/// How a value can get from one function to another; nothing if it cannot.
static std::optional<Crossing> crossingOf(Place from, Place to) {
  bool isSame = from.stage == to.stage;
  switch (from.kind) {
  case Kind::Forward:
    if (to.kind == Kind::Loss)
      return isSame ? std::optional(Crossing::Output) : std::nullopt;
    if (to.kind != Kind::Update && to.stage == from.stage + 1)
      return Crossing::Output;
    return isSame && to.isBackward() ? std::optional(Crossing::Residual)
                                     : std::nullopt;
  case Kind::Loss:
    return isSame && to.isBackward() ? std::optional(Crossing::OutputGradient)
                                     : std::nullopt;
  case Kind::Backward:
  case Kind::InputGradient:
    if (to.isBackward() && to.stage + 1 == from.stage)
      return Crossing::OutputGradient;
    if (isSame && from.kind == Kind::InputGradient &&
        to.kind == Kind::WeightGradient)
      return Crossing::Residual;
    [[fallthrough]];
  case Kind::WeightGradient:
    if (isSame && to.kind == Kind::Update && from.kind != Kind::InputGradient)
      return Crossing::Gradient;
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

/// "forward of stage 1, forward of stage 2": of which an op can read values.
std::string Outliner::describeSources(Place reader) const {
  std::set<Place> sources{reader};
  for (Operation &op : places.getBody().without_terminator())
    if (std::optional<Place> from = places.of(&op);
        from && crossingOf(*from, reader))
      sources.insert(*from);
  return llvm::join(
      llvm::map_range(sources, [](Place place) { return describe(place); }),
      ", ");
}

/// Calls `read` for each value that an op or a result takes, op by op.
LogicalResult Outliner::forEachRead(Reader read) {
  for (Operation &op : places.getBody().without_terminator())
    if (std::optional<Place> place = places.of(&op))
      for (Value value : valuesReadBy(&op))
        if (failed(read(*place, value, &op)))
          return failure();
  Operation *end = places.getBody().getTerminator();
  for (OpOperand &operand : end->getOpOperands())
    if (auto place = places.ofResult(operand.getOperandNumber()))
      if (failed(read(*place, operand.get(), end)))
        return failure();
  return success();
}

LogicalResult Outliner::verifyBackwards() {
  std::map<int64_t, Kind> kinds;
  for (Operation &op : places.getBody().without_terminator()) {
    std::optional<Place> place = places.of(&op);
    if (!place || !place->isBackward())
      continue;
    Kind first = kinds.try_emplace(place->stage, place->kind).first->second;
    if ((first == Kind::Backward) != (place->kind == Kind::Backward))
      return op.emitOpError()
             << "is in " << describe(*place) << ", which has "
             << "ops in " << enumName(first)
             << "; expected either a backward, or an input_gradient and a "
                "weight_gradient";
  }
  return success();
}

/// Every value but an argument or a value of a repeated op has a place.
LogicalResult Outliner::noteMessage(Place reader, Value value,
                                    Operation *user) {
  Operation *source = value.getDefiningOp();
  if (!source || places.isRepeated(source))
    return success();
  Place from = *places.of(source);
  if (from == reader)
    return success();
  std::optional<Crossing> crossing = crossingOf(from, reader);
  if (!crossing) {
    InFlightDiagnostic diagnostic =
        user->emitOpError()
        << "takes, in " << describe(reader) << ", a value of " << describe(from)
        << "; expected one of " << describeSources(reader);
    diagnostic.attachNote(source->getLoc()) << "the value";
    return diagnostic;
  }
  if (*crossing != Crossing::Output && *crossing != Crossing::OutputGradient)
    return success();
  bool isBetweenStages =
      from.kind == Kind::Backward || from.kind == Kind::InputGradient;
  Value &known = *crossing == Crossing::Output
                     ? outputs[from.stage]
                     : outputGradients[from.stage - isBetweenStages];
  if (!known)
    known = value;
  if (known == value)
    return success();
  InFlightDiagnostic diagnostic =
      user->emitOpError() << "takes, in " << describe(reader)
                          << ", a second value of " << describe(from)
                          << "; expected one, as a message carries one tensor";
  diagnostic.attachNote(known.getLoc()) << "the first value";
  diagnostic.attachNote(source->getLoc()) << "the second value";
  return diagnostic;
}

LogicalResult Outliner::findMessages() {
  for (auto [index, role] : llvm::enumerate(places.getResults()))
    if (role.role == Role::Output)
      outputs[last()] = places.getBody().getTerminator()->getOperand(index);
  return forEachRead([&](Place reader, Value value, Operation *user) {
    return noteMessage(reader, value, user);
  });
}

/// Makes the ops of each backward that its message needs an input_gradient.
void Outliner::splitBackward() {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> stack(outputGradients.begin(), outputGradients.end());
  for (auto [index, role] : llvm::enumerate(places.getResults()))
    if (role.role == Role::InputGradient)
      stack.push_back(places.getBody().getTerminator()->getOperand(index));
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    Operation *source = value ? value.getDefiningOp() : nullptr;
    if (source && places.of(source) && places.of(source)->isBackward() &&
        needed.insert(source).second)
      llvm::append_range(stack, valuesReadBy(source));
  }
  places.splitBackward(needed);
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

NamedRole Outliner::residualOf(Value value, int64_t stage) {
  auto [entry, isNew] = residuals.try_emplace(value);
  if (isNew)
    entry->second = std::to_string(numResiduals[stage]++);
  return {Role::Residual, entry->second};
}

FailureOr<NamedRole> Outliner::readerRole(Place from, Place reader, Value value,
                                          Operation *user) {
  switch (*crossingOf(from, reader)) {
  case Crossing::Output:
    return NamedRole{reader.kind == Kind::Loss ? Role::Output : Role::Input,
                     ""};
  case Crossing::OutputGradient:
    return NamedRole{Role::OutputGradient, ""};
  case Crossing::Residual:
    if (value == outputs[from.stage])
      return NamedRole{Role::Output, ""};
    return residualOf(value, from.stage);
  case Crossing::Gradient:
    break;
  }
  Operation *end = places.getBody().getTerminator();
  for (auto [index, role] : llvm::enumerate(places.getResults()))
    if (role.role == Role::Gradient && end->getOperand(index) == value)
      return role;
  InFlightDiagnostic diagnostic =
      user->emitOpError() << "takes, in " << describe(reader)
                          << ", a gradient without a name; expected the "
                             "function to return it with pipe.gradient";
  diagnostic.attachNote(value.getLoc()) << "the value";
  return diagnostic;
}

NamedRole Outliner::producerRole(Place from, Place reader, Value value,
                                 const NamedRole &read) {
  switch (*crossingOf(from, reader)) {
  case Crossing::Output:
    return {Role::Output, ""};
  case Crossing::OutputGradient:
    return {from.kind == Kind::Loss ? Role::OutputGradient
                                    : Role::InputGradient,
            ""};
  case Crossing::Residual:
  case Crossing::Gradient:
    return read;
  }
  llvm_unreachable("covered switch");
}

/// Whether all functions that read it belong to one stage.
static bool isOfOneStage(Role role) {
  return role == Role::Param || role == Role::State || role == Role::Gradient;
}

LogicalResult Outliner::takeArgument(Place reader, BlockArgument value,
                                     Operation *user) {
  const NamedRole &role = places.ofArgument(value);
  auto fail = [&]() -> InFlightDiagnostic {
    return user->emitOpError() << "takes, in " << describe(reader)
                               << ", the argument with " << describe(role);
  };
  if (!mayHaveRole(reader.kind, role.role, RolePlace::Argument))
    return fail() << ", which is no argument of this phase";
  if ((role.role == Role::Input && reader.stage != 0) ||
      (role.role == Role::OutputGradient && reader.stage != last()))
    return fail() << "; expected it in stage "
                  << (role.role == Role::Input ? 0 : last());
  if (role.role == Role::Output || role.role == Role::Residual)
    return fail() << "; expected the op that computes it";
  if (role.role == Role::OutputGradient)
    outputGradients[last()] = value;
  if (isOfOneStage(role.role)) {
    auto [entry, isNew] =
        owners.try_emplace(value, std::pair(reader.stage, user));
    if (entry->second.first != reader.stage) {
      InFlightDiagnostic diagnostic = fail();
      diagnostic << ", which stage " << entry->second.first
                 << " has; expected an argument for each stage, with the same "
                 << kTiedAttrName << " if they are one";
      diagnostic.attachNote(entry->second.second->getLoc()) << "taken here";
      return diagnostic;
    }
  }
  pieces[reader].addArgument(role, value);
  return success();
}

/// Takes a value of another function.
LogicalResult Outliner::takeFrom(Place from, Place reader, Value value,
                                 Operation *user) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getEncoding())
    return value.getDefiningOp()->emitOpError()
           << "gives " << describe(reader) << " a value of type "
           << value.getType()
           << "; expected a tensor whose sizes are all known";
  FailureOr<NamedRole> role = readerRole(from, reader, value, user);
  if (failed(role))
    return failure();
  pieces[from].addResult(producerRole(from, reader, value, *role), value);
  pieces[reader].addArgument(std::move(*role), value);
  return success();
}

LogicalResult Outliner::take(Place reader, Value read, Operation *user) {
  Piece &piece = pieces[reader];
  SmallVector<Value> stack{read};
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    if (!piece.seen.insert(value).second)
      continue;
    Operation *source = value.getDefiningOp();
    if (!source) {
      if (failed(takeArgument(reader, cast<BlockArgument>(value), user)))
        return failure();
    } else if (places.isRepeated(source)) {
      piece.ops.insert(source);
      llvm::append_range(stack, valuesReadBy(source));
    } else if (Place from = *places.of(source); !(from == reader)) {
      if (failed(takeFrom(from, reader, value, user)))
        return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

LogicalResult Outliner::addResults() {
  Operation *end = places.getBody().getTerminator();
  for (auto [index, role] : llvm::enumerate(places.getResults())) {
    std::optional<Place> place = places.ofResult(index);
    if (!place)
      return emitTableError(function)
             << "returns " << describe(role)
             << (isOfOneStage(role.role)
                     ? ", and no op takes the argument of this name"
                     : ", which is no result of a function that is cut");
    pieces[*place].addResult(role, end->getOperand(index));
  }
  return success();
}

/// A stage whose backward is split has both parts, if only one has ops.
void Outliner::completeSplits() {
  for (int64_t stage = 0; stage <= last(); ++stage)
    for (auto [kind, other] :
         {std::pair(Kind::InputGradient, Kind::WeightGradient),
          std::pair(Kind::WeightGradient, Kind::InputGradient)})
      if (pieces.count({stage, kind}))
        pieces.try_emplace({stage, other});
}

/// Adds the input of each stage and the output of the last one, also if the
/// ops do not read them.
LogicalResult Outliner::addMessages() {
  for (int64_t stage = 0; stage <= last(); ++stage) {
    Value input = stage == 0 ? Value() : outputs[stage - 1];
    if (stage == 0)
      for (BlockArgument argument : places.getBody().getArguments())
        if (places.ofArgument(argument).role == Role::Input)
          input = argument;
    if (!input && stage == 0)
      return emitTableError(function) << "has no argument with pipe.input";
    if (!input)
      return emitTableError(function)
             << "has no op of stage " << stage
             << " that takes a value of forward of stage " << stage - 1;
    Piece &forward = pieces[{stage, Kind::Forward}];
    if (forward.seen.insert(input).second)
      forward.addArgument({Role::Input, ""}, input);
  }
  if (!outputs[last()])
    return emitTableError(function)
           << "has neither a result with pipe.output nor a loss that takes a "
              "value of forward of stage "
           << last();
  return success();
}

/// Gradients have the shapes of their values.
LogicalResult Outliner::verifyShapes() {
  auto verify = [&](Value gradient, Value of, const Twine &what) {
    auto found = dyn_cast<RankedTensorType>(gradient.getType());
    auto wanted = dyn_cast<RankedTensorType>(of.getType());
    // pipe-verify-stages refuses other types.
    if (!found || !wanted || found.getShape() == wanted.getShape())
      return LogicalResult(success());
    return LogicalResult(
        emitTableError(gradient.getDefiningOp() ? gradient.getDefiningOp()
                                                : function.getOperation())
        << "gives " << found << " as the gradient of " << what << ", which is "
        << wanted << "; expected the same shape");
  };
  for (int64_t stage = 0; stage <= last(); ++stage)
    if (outputGradients[stage] &&
        failed(verify(outputGradients[stage], outputs[stage],
                      "the output of stage " + Twine(stage))))
      return failure();
  Operation *end = places.getBody().getTerminator();
  for (auto [index, role] : llvm::enumerate(places.getResults()))
    for (BlockArgument argument : places.getBody().getArguments())
      if (const NamedRole &of = places.ofArgument(argument);
          role.role == Role::Gradient && of.role == Role::Param &&
          of.name == role.name)
        if (failed(verify(end->getOperand(index), argument, describe(of))))
          return failure();
  return success();
}

LogicalResult Outliner::makePieces() {
  for (Operation &op : places.getBody().without_terminator())
    if (std::optional<Place> place = places.of(&op))
      pieces[*place].ops.insert(&op);
  for (int64_t stage = 0; stage <= last(); ++stage)
    if (!pieces.count({stage, Kind::Forward}))
      return emitTableError(function)
             << "has no op in forward of stage " << stage;
  auto takeValue = [&](Place reader, Value value, Operation *user) {
    return take(reader, value, user);
  };
  if (failed(forEachRead(takeValue)) || failed(addResults()) ||
      failed(addMessages()) || failed(verifyShapes()))
    return failure();
  completeSplits();
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The type of a value between functions. Truth values become bytes there.
static Type betweenFunctions(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getElementType().isInteger(1))
    return type;
  return tensor.clone(IntegerType::get(type.getContext(), 8));
}

static DictionaryAttr attributesOf(const PieceValue &value,
                                   func::FuncOp function, Builder &builder) {
  const NamedRole &role = value.role;
  NamedAttrList attributes;
  attributes.set(("pipe." + enumName(role.role)).str(),
                 role.name.empty()
                     ? Attribute(builder.getUnitAttr())
                     : Attribute(builder.getStringAttr(role.name)));
  if (auto argument = dyn_cast_if_present<BlockArgument>(value.value))
    if (Attribute tied =
            function.getArgAttr(argument.getArgNumber(), kTiedAttrName))
      attributes.set(kTiedAttrName, tied);
  return attributes.getDictionary(builder.getContext());
}

func::FuncOp Outliner::makeFunction(Place place, Piece &piece,
                                    OpBuilder &builder) {
  SmallVector<Type> inputs, results;
  SmallVector<DictionaryAttr> inputAttributes, resultAttributes;
  for (const PieceValue &argument : piece.arguments) {
    inputs.push_back(betweenFunctions(argument.value.getType()));
    inputAttributes.push_back(attributesOf(argument, function, builder));
  }
  for (const PieceValue &result : piece.results) {
    results.push_back(betweenFunctions(result.value.getType()));
    PieceValue untied{result.role, Value()};
    resultAttributes.push_back(attributesOf(untied, function, builder));
  }
  Location loc = function.getLoc();
  std::string name = function.getName().str();
  if (place.kind != Kind::Loss)
    name += "_stage" + std::to_string(place.stage);
  name += ("_" + enumName(place.kind)).str();
  auto made = func::FuncOp::create(builder, loc, name,
                                   builder.getFunctionType(inputs, results));
  made.setPrivate();
  made.setAllArgAttrs(inputAttributes);
  made.setAllResultAttrs(resultAttributes);

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(made.addEntryBlock());
  IRMapping copies;
  for (auto [argument, taken] :
       llvm::zip(piece.arguments, made.getArguments())) {
    Type type = argument.value.getType();
    copies.map(argument.value,
               type == taken.getType()
                   ? Value(taken)
                   : arith::TruncIOp::create(builder, loc, type, taken));
  }
  SmallVector<Operation *> ops = piece.ops.takeVector();
  llvm::sort(ops, [](Operation *left, Operation *right) {
    return left->isBeforeInBlock(right);
  });
  for (Operation *op : ops) {
    Operation *made = builder.clone(*op, copies);
    made->removeAttr(kStageAttrName);
    made->removeAttr(kPhaseAttrName);
  }
  SmallVector<Value> returned;
  for (auto [result, type] : llvm::zip(piece.results, results)) {
    Value value = copies.lookup(result.value);
    returned.push_back(type == value.getType()
                           ? value
                           : arith::ExtUIOp::create(builder, loc, type, value));
  }
  func::ReturnOp::create(builder, loc, returned);
  return made;
}

FailureOr<OutlinedStages> Outliner::run(bool isSplit) {
  if (failed(verifyBackwards()) || failed(findMessages()))
    return failure();
  if (isSplit)
    splitBackward();
  if (failed(makePieces()))
    return failure();
  OutlinedStages made;
  made.stages.resize(places.getNumStages());
  OpBuilder builder(function);
  SymbolTable symbols(function->getParentOp());
  for (auto &[place, piece] : pieces) {
    func::FuncOp outlined = makeFunction(place, piece, builder);
    symbols.insert(outlined);
    made.stages[place.stage].functions[static_cast<unsigned>(place.kind)] =
        outlined;
  }
  return made;
}

bool pipesched::namesStages(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        bool isNamed = op->hasAttr(kStageAttrName) ||
                       op->hasAttr(kPhaseAttrName) ||
                       op->getName().getStringRef() == "mpmd.fragment";
        return isNamed ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

FailureOr<OutlinedStages> pipesched::outlineStages(func::FuncOp function,
                                                   bool splitBackward) {
  FailureOr<StagePlaces> places = StagePlaces::read(function);
  if (failed(places))
    return failure();
  return Outliner(function, std::move(*places)).run(splitBackward);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

LogicalResult pipesched::addStageClauses(ScheduleOp schedule,
                                         const OutlinedStages &outlined) {
  auto owner = cast<PlacementOwnerOpInterface>(*schedule);
  Block &body = schedule->getRegion(0).front();
  func::FuncOp loss = outlined.stages.back().get(Kind::Loss);
  for (Operation &op : body)
    if (isa<StageOp>(op) || (loss && isa<LossOp>(op)))
      return emitTableError(&op) << "names a function already; expected a "
                                    "schedule without such clauses";
  FailureOr<int64_t> numStages = countStages(owner);
  if (failed(numStages))
    return failure();
  if (*numStages != static_cast<int64_t>(outlined.stages.size()))
    return emitTableError(schedule)
           << "has " << *numStages << " stages; the function has ops of "
           << outlined.stages.size();
  auto first = llvm::find_if_not(
      body, [](Operation &op) { return isa<PathOp, NodeOp, EdgeOp>(op); });
  OpBuilder builder(&body, first);
  for (int64_t number = 0; number < *numStages; ++number) {
    auto nameOf = [&](Kind kind) {
      func::FuncOp function = outlined.stages[number].get(kind);
      return function ? FlatSymbolRefAttr::get(function.getNameAttr())
                      : FlatSymbolRefAttr();
    };
    StageOp::create(builder, schedule.getLoc(), number, nameOf(Kind::Init),
                    nameOf(Kind::Forward), nameOf(Kind::Recompute),
                    nameOf(Kind::Backward), nameOf(Kind::InputGradient),
                    nameOf(Kind::WeightGradient), nameOf(Kind::Update),
                    nameOf(Kind::Shard), nameOf(Kind::ShardBackward));
  }
  if (loss)
    LossOp::create(builder, schedule.getLoc(),
                   FlatSymbolRefAttr::get(loss.getNameAttr()));
  return success();
}

/// The type of the result of this role of a stage, or null.
static RankedTensorType findResult(const OutlinedStage &stage, Role role) {
  std::string name = ("pipe." + enumName(role)).str();
  for (func::FuncOp function : stage.functions)
    for (unsigned i = 0; function && i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, name))
        return cast<RankedTensorType>(function.getResultTypes()[i]);
  return {};
}

void pipesched::reportMessages(const OutlinedStages &outlined) {
  for (size_t next = 1; next < outlined.stages.size(); ++next) {
    const OutlinedStage &stage = outlined.stages[next - 1];
    RankedTensorType output = findResult(stage, Role::Output);
    InFlightDiagnostic remark = emitRemark(stage.get(Kind::Forward).getLoc())
                                << "stage " << next - 1 << " sends " << output
                                << ", " << bytesOf(output)
                                << " bytes, to stage " << next;
    if (RankedTensorType gradient =
            findResult(outlined.stages[next], Role::InputGradient))
      remark << ", which sends back " << gradient << ", " << bytesOf(gradient)
             << " bytes";
  }
}
