//===- CostOwners.cpp - Ops that costs attach to --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects ops by name, finds equal models, and checks that exactly one of two
// options is given.
//
//===----------------------------------------------------------------------===//

#include "CostOwners.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

FailureOr<SmallVector<PlacementOwnerOpInterface>>
pipe::selectCostOwners(ModuleOp module, StringRef name) {
  auto owners = llvm::to_vector(module.getOps<PlacementOwnerOpInterface>());
  if (owners.empty())
    return emitError(module.getLoc(),
                     "the module has no pipe.schedule and no exec.program");
  if (name.empty())
    return owners;
  SmallVector<StringRef> names;
  for (PlacementOwnerOpInterface owner : owners) {
    names.push_back(SymbolTable::getSymbolName(owner));
    if (names.back() == name)
      return SmallVector<PlacementOwnerOpInterface>{owner};
  }
  return emitError(module.getLoc()) << "no schedule or program is called @"
                                    << name << nameHint(name, names);
}

/// Calls `set` with the op cast to its own type.
template <typename Fn>
static void withOwner(PlacementOwnerOpInterface owner, Fn set) {
  llvm::TypeSwitch<Operation *>(owner).Case<ScheduleOp, exec::ProgramOp>(set);
}

/// Makes a symbol name that needs no quotes: llama3-70b becomes @llama3_70b.
static std::string symbolOf(StringRef name) {
  std::string symbol = name.str();
  for (char &c : symbol)
    if (!llvm::isAlnum(c))
      c = '_';
  if (symbol.empty() || llvm::isDigit(symbol.front()))
    symbol.insert(0, "model_");
  return symbol;
}

ModelOp pipe::getOrCreateModel(ModuleOp module, SymbolTable &symbols,
                               Operation *owner, ModelFacts facts) {
  std::string symbol = symbolOf(facts.name);
  for (ModelOp model : module.getOps<ModelOp>()) {
    facts.name = model.getSymName().str();
    if (model.toFacts() == facts)
      return model;
  }
  facts.name = symbol;
  OpBuilder builder(owner);
  auto model = ModelOp::create(builder, owner->getLoc(), facts);
  symbols.insert(model);
  return model;
}

void pipe::setModel(PlacementOwnerOpInterface owner, StringRef symbol) {
  auto reference = FlatSymbolRefAttr::get(owner.getContext(), symbol);
  withOwner(owner, [&](auto op) { op.setModelAttr(reference); });
}

void pipe::setProfile(PlacementOwnerOpInterface owner, ProfileAttr profile) {
  withOwner(owner, [&](auto op) { op.setProfileAttr(profile); });
}

FailureOr<OneOf> pipe::expectOne(ModuleOp module, StringRef pass,
                                 StringRef firstName, StringRef first,
                                 StringRef secondName, StringRef second) {
  if (first.empty() == second.empty())
    return emitError(module.getLoc())
           << pass << " needs one of '" << firstName << "' and '" << secondName
           << "', " << (first.empty() ? "neither" : "both") << " given";
  return second.empty() ? OneOf::First : OneOf::Second;
}
