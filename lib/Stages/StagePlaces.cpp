//===- StagePlaces.cpp - The stage and phase of each op -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An op without attributes runs in the first phase that reads its results, if
// all that read them are in one stage. Results of the function read a value in
// the phase that their role implies. Gradients need the stage of their
// parameter, which is known only once other ops have their places, so the ops
// are visited twice, from the last one to the first.
//
//===----------------------------------------------------------------------===//

#include "StagePlaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

bool Place::isBackward() const {
  return kind == Kind::Backward || kind == Kind::InputGradient ||
         kind == Kind::WeightGradient;
}

std::string pipesched::describe(Place place) {
  if (place.kind == Kind::Loss)
    return "the loss";
  return (enumName(place.kind) + " of stage " + Twine(place.stage)).str();
}

std::string pipesched::describe(const NamedRole &role) {
  std::string text = ("pipe." + enumName(role.role)).str();
  return role.name.empty() ? text : text + " \"" + role.name + "\"";
}

SmallVector<Value> pipesched::valuesReadBy(Operation *op) {
  llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), values);
  return values.takeVector();
}

FailureOr<StagePlaces> StagePlaces::read(func::FuncOp function) {
  StagePlaces places;
  places.function = function;
  if (!llvm::hasSingleElement(function.getBody()))
    return emitTableError(function)
           << "has " << function.getBody().getBlocks().size()
           << " blocks; a function that is cut into stages has one";
  if (failed(places.readSignature()) || failed(places.readAttributes()))
    return failure();
  places.findRepeated();
  places.derive();
  if (failed(places.verifyAllKnown()))
    return failure();
  return places;
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// The only role of an argument or result; nothing if there is none or several.
static std::optional<NamedRole> readRole(DictionaryAttr attributes) {
  std::optional<NamedRole> found;
  for (NamedAttribute attribute :
       attributes ? attributes.getValue() : ArrayRef<NamedAttribute>()) {
    StringRef name = attribute.getName().strref();
    if (!name.consume_front("pipe.") || attribute.getName() == kTiedAttrName)
      continue;
    if (found)
      return std::nullopt;
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    // The dialect has verified the name of the role.
    found = NamedRole{*enumFromName<Role>(name), text ? text.str() : ""};
  }
  return found;
}

/// Gives each value of a role that has names its position if it has no name.
static LogicalResult setNames(func::FuncOp function, StringRef what,
                              MutableArrayRef<NamedRole> roles) {
  int64_t counts[kNumEnumValues<Role>] = {};
  std::set<std::pair<Role, StringRef>> seen;
  for (NamedRole &role : roles) {
    int64_t number = counts[static_cast<unsigned>(role.role)]++;
    if (isNamedRole(role.role) && role.name.empty())
      role.name = std::to_string(number);
    if (!seen.insert({role.role, role.name}).second)
      return emitTableError(function) << "has a second " << what << " with "
                                      << describe(role) << "; expected one";
  }
  return success();
}

LogicalResult StagePlaces::readSignature() {
  auto read = [&](StringRef what, unsigned count, auto attributesOf,
                  SmallVector<NamedRole> &roles) -> LogicalResult {
    for (unsigned i = 0; i < count; ++i) {
      std::optional<NamedRole> role = readRole(attributesOf(i));
      if (!role)
        return emitTableError(function)
               << "is cut into stages, but its " << what << " " << i
               << " does not have exactly one role, such as pipe.param";
      roles.push_back(std::move(*role));
    }
    return setNames(function, what, roles);
  };
  auto ofArgument = [&](unsigned i) { return function.getArgAttrDict(i); };
  auto ofResult = [&](unsigned i) { return function.getResultAttrDict(i); };
  if (failed(read("argument", function.getNumArguments(), ofArgument,
                  arguments)) ||
      failed(read("result", function.getNumResults(), ofResult, results)))
    return failure();
  stages.assign(arguments.size(), -1);
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult StagePlaces::readAttributes() {
  std::set<int64_t> numbers;
  SmallVector<Operation *> losses;
  for (Operation &op : getBody().without_terminator()) {
    auto stage = op.getAttrOfType<IntegerAttr>(kStageAttrName);
    auto phase = op.getAttrOfType<StringAttr>(kPhaseAttrName);
    if (!stage && !phase)
      continue;
    bool isLoss = phase && phase.getValue() == enumName(Kind::Loss);
    if (!phase || (!stage && !isLoss))
      return op.emitOpError()
             << "has " << (phase ? "pipe.phase" : "pipe.stage") << " and no "
             << (phase ? "pipe.stage" : "pipe.phase");
    // The dialect has verified both attributes.
    int64_t number = -1;
    if (stage)
      numbers.insert(number = stage.getValue().getZExtValue());
    Kind kind = *enumFromName<Kind>(phase.getValue());
    places[&op] = {number, kind};
    if (kind == Kind::InputGradient || kind == Kind::WeightGradient)
      splitStages.insert(number);
    if (isLoss)
      losses.push_back(&op);
  }
  if (numbers.empty())
    return emitTableError(function) << "has no op with pipe.stage";
  numStages = *numbers.rbegin() + 1;
  int64_t wanted = 0;
  for (int64_t number : numbers)
    if (number != wanted++)
      return emitTableError(function) << "has ops of stage " << number
                                      << " and none of stage " << wanted - 1;
  for (Operation *op : losses) {
    Place &place = places[op];
    if (place.stage != -1 && place.stage != numStages - 1)
      return op->emitOpError()
             << "is in the loss of stage " << place.stage
             << "; the loss belongs to the last stage, " << numStages - 1;
    place.stage = numStages - 1;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops without attributes
//===----------------------------------------------------------------------===//

void StagePlaces::findRepeated() {
  llvm::DenseSet<Operation *> constant;
  auto readsOnly = [&](Operation *op, auto isAllowed) {
    // Ops of other projects are assumed to have no effects: functions of stages
    // have none.
    return (!op->isRegistered() || isMemoryEffectFree(op)) &&
           llvm::all_of(valuesReadBy(op), isAllowed);
  };
  for (Operation &op : getBody().without_terminator()) {
    if (readsOnly(&op, [&](Value value) {
          return constant.contains(value.getDefiningOp());
        })) {
      constant.insert(&op);
      repeated.insert(&op);
      places.erase(&op);
    } else if (!places.contains(&op) && readsOnly(&op, [&](Value value) {
                 if (Operation *source = value.getDefiningOp())
                   return repeated.contains(source);
                 Role role = ofArgument(value).role;
                 return role == Role::Param || role == Role::Microbatch ||
                        role == Role::Slice || role == Role::Step;
               })) {
      repeated.insert(&op);
    }
  }
}

/// The order of the phases of one microbatch.
bool StagePlaces::isEarlier(Place left, Place right) const {
  auto rank = [&](Place place) -> std::pair<int64_t, int64_t> {
    switch (place.kind) {
    case Kind::Forward:
      return {place.stage, 0};
    case Kind::Loss:
      return {numStages, 0};
    case Kind::WeightGradient:
      return {2 * numStages - place.stage, 1};
    case Kind::Update:
      return {2 * numStages - place.stage, 2};
    default:
      return {2 * numStages - place.stage, 0};
    }
  };
  return rank(left) < rank(right);
}

void StagePlaces::findStagesOfArguments() {
  llvm::DenseSet<Value> seen;
  for (Operation &op : getBody().without_terminator()) {
    auto place = places.find(&op);
    if (place == places.end())
      continue;
    SmallVector<Value> stack = valuesReadBy(&op);
    while (!stack.empty()) {
      Value value = stack.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(value))
        stages[argument.getArgNumber()] = place->second.stage;
      else if (isRepeated(value.getDefiningOp()))
        llvm::append_range(stack, valuesReadBy(value.getDefiningOp()));
    }
  }
}

std::optional<Place> StagePlaces::ofResult(unsigned index) const {
  const NamedRole &role = results[index];
  switch (role.role) {
  case Role::Output:
    return Place{numStages - 1, Kind::Forward};
  case Role::Loss:
    return Place{numStages - 1, Kind::Loss};
  case Role::InputGradient:
  case Role::Gradient:
  case Role::Param:
  case Role::State:
    break;
  default:
    return std::nullopt;
  }
  int64_t stage = role.role == Role::InputGradient ? 0 : -1;
  Role owner = role.role == Role::State ? Role::State : Role::Param;
  for (auto [argument, first] : llvm::zip(arguments, stages))
    if (stage == -1 && argument.role == owner && argument.name == role.name)
      stage = first;
  if (stage == -1)
    return std::nullopt;
  if (role.role == Role::Param || role.role == Role::State)
    return Place{stage, Kind::Update};
  if (splitStages.count(stage) == 0)
    return Place{stage, Kind::Backward};
  return Place{stage, role.role == Role::Gradient ? Kind::WeightGradient
                                                  : Kind::InputGradient};
}

std::optional<Place> StagePlaces::deriveFromUsers(Operation *op) const {
  std::optional<Place> first;
  for (OpOperand &use : op->getUses()) {
    Operation *user = getBody().findAncestorOpInBlock(*use.getOwner());
    bool isReturn = user == getBody().getTerminator();
    auto place = isReturn ? ofResult(use.getOperandNumber()) : of(user);
    if (!place)
      continue;
    if (first && first->stage != place->stage)
      return std::nullopt;
    if (!first || isEarlier(*place, *first))
      first = place;
  }
  return first;
}

void StagePlaces::derive() {
  llvm::DenseMap<Operation *, Place> stated = places;
  for (int visit = 0; visit < 2; ++visit) {
    for (Operation &op : llvm::reverse(getBody().without_terminator())) {
      if (stated.contains(&op) || isRepeated(&op))
        continue;
      places.erase(&op);
      if (std::optional<Place> place = deriveFromUsers(&op))
        places[&op] = *place;
    }
    findStagesOfArguments();
  }
}

LogicalResult StagePlaces::verifyAllKnown() const {
  llvm::DenseSet<Operation *> dead;
  for (Operation &op : llvm::reverse(getBody().without_terminator())) {
    if (isRepeated(&op) || places.contains(&op))
      continue;
    bool isDead = llvm::all_of(op.getUsers(), [&](Operation *user) {
      return dead.contains(getBody().findAncestorOpInBlock(*user));
    });
    if (isDead) {
      dead.insert(&op);
      continue;
    }
    InFlightDiagnostic diagnostic =
        op.emitOpError()
        << "has no pipe.stage and pipe.phase, and its results do not say to "
           "which stage it belongs; expected readers in one stage, or the "
           "attributes";
    for (Operation *user : op.getUsers()) {
      Operation *reader = getBody().findAncestorOpInBlock(*user);
      if (std::optional<Place> place = of(reader))
        diagnostic.attachNote(reader->getLoc())
            << "read here, in " << describe(*place);
    }
    return diagnostic;
  }
  return success();
}

std::optional<Place> StagePlaces::of(Operation *op) const {
  auto found = places.find(op);
  if (found == places.end())
    return std::nullopt;
  return found->second;
}

void StagePlaces::splitBackward(const llvm::DenseSet<Operation *> &needed) {
  for (int64_t stage = 0; stage < numStages; ++stage)
    splitStages.insert(stage);
  for (auto &[op, place] : places)
    if (place.kind == Kind::Backward)
      place.kind =
          needed.contains(op) ? Kind::InputGradient : Kind::WeightGradient;
}
