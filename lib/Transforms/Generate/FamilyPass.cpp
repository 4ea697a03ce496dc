//===- FamilyPass.cpp - The pass of each family ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One class implements the pass pipe-schedule-<family> for every family. The
// name, description and options of each pass come from the family in
// Schedule/Families.h.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "FillSchedule.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// The help text of an option, such as "Mirrored pairs of paths; 0: as the
/// paths say, or one".
static std::string helpOf(const FamilyOptionInfo &info) {
  std::string help = info.summary.str();
  help[0] = llvm::toUpper(help[0]);
  if (!info.notGiven.empty())
    help += "; 0: " + info.notGiven.str();
  return help;
}

namespace {
class FamilyPassOption {
public:
  virtual ~FamilyPassOption() = default;
  virtual void set(FamilyOptions &options) const = 0;
};

template <typename T>
class TypedOption final : public FamilyPassOption {
public:
  template <typename... Modifiers>
  TypedOption(Pass &pass, const FamilyOptionInfo &info,
              std::optional<T> FamilyOptions::*field, Modifiers &&...modifiers)
      : help(helpOf(info)), option(pass, info.name, llvm::cl::desc(help),
                                   std::forward<Modifiers>(modifiers)...),
        field(field) {}

  /// 0 means the default of the generator.
  void set(FamilyOptions &options) const override {
    if (std::is_same_v<T, int64_t> && option.getValue() == T())
      return;
    options.*field = option.getValue();
  }

private:
  std::string help; ///< the option refers to it
  Pass::Option<T> option;
  std::optional<T> FamilyOptions::*field;
};

/// Makes a pass option of the same type as the family's option.
struct MakeOption {
  Pass &pass;
  const Family &family;
  const FamilyOptionInfo &info;

  using Result = std::unique_ptr<FamilyPassOption>;
  Result operator()(std::optional<int64_t> FamilyOptions::*field) const {
    return std::make_unique<TypedOption<int64_t>>(pass, info, field,
                                                  llvm::cl::init(0));
  }
  Result operator()(std::optional<bool> FamilyOptions::*field) const {
    return std::make_unique<TypedOption<bool>>(
        pass, info, field,
        llvm::cl::init(info.option == FamilyOption::SplitBackward &&
                       *family.splitsBackward));
  }
  Result operator()(std::optional<GradientAfter> FamilyOptions::*field) const {
    return std::make_unique<TypedOption<GradientAfter>>(
        pass, info, field, llvm::cl::init(GradientAfter::WeightGrad),
        enumOptionValues<GradientAfter>());
  }
  Result
  operator()(std::optional<ChimeraConstruction> FamilyOptions::*field) const {
    using C = ChimeraConstruction;
    return std::make_unique<TypedOption<C>>(
        pass, info, field, llvm::cl::init(C::Concat), enumOptionValues<C>());
  }
  Result
  operator()(std::optional<VocabularyAlgorithm> FamilyOptions::*field) const {
    using V = VocabularyAlgorithm;
    return std::make_unique<TypedOption<V>>(
        pass, info, field, llvm::cl::init(V::Vocab1), enumOptionValues<V>());
  }
};

/// The options `slots` and `slot`, as in pipe-align-slots.
struct SlotPassOptions {
  Pass::Option<SlotMeasure> slots;
  Pass::Option<std::string> slot;

  explicit SlotPassOptions(Pass &pass)
      : slots(pass, "slots", llvm::cl::desc("What a slot measures"),
              llvm::cl::init(SlotMeasure::Unit),
              enumOptionValues<SlotMeasure>()),
        slot(pass, "slot",
             llvm::cl::desc("Time of one slot (10us) of slots=durations; "
                            "without it the longest that divides all "
                            "durations"),
             llvm::cl::init("")) {}
};

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Replaces the generated base class of other passes, for the passes of
/// families.
template <typename Derived>
class FamilyPassBase : public OperationPass<> {
public:
  explicit FamilyPassBase(const Family &family)
      : OperationPass<>(TypeID::get<Derived>()), family(family),
        argument(("pipe-schedule-" + family.name).str()),
        description(
            ("Fill schedules with " + family.name + ": " + family.summary)
                .str()) {
    for (const FamilyOptionInfo &info : familyOptions())
      if (family.takes(info.option))
        options.push_back(
            std::visit(MakeOption{*this, family, info}, info.field));
    if (family.measuresSlots)
      slotOptions = std::make_unique<SlotPassOptions>(*this);
  }
  /// Options are not copied here, because Pass::clone() copies their values.
  FamilyPassBase(const FamilyPassBase &other) : FamilyPassBase(other.family) {}

  StringRef getName() const override { return "PipeScheduleFamilyPass"; }
  StringRef getArgument() const override { return argument; }
  StringRef getDescription() const override { return description; }
  std::unique_ptr<Pass> clonePass() const override {
    return std::make_unique<Derived>(static_cast<const Derived &>(*this));
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<PipeDialect>();
  }

protected:
  const Family &family;
  std::vector<std::unique_ptr<FamilyPassOption>> options;
  std::unique_ptr<SlotPassOptions> slotOptions; ///< null: no such options
  Option<std::string> schedule{
      *this, "schedule",
      llvm::cl::desc("Name of the schedule to treat; all where there is none"),
      llvm::cl::init("")};

private:
  std::string argument, description;
};

class FamilyPass final
    : public SchedulePass<FamilyPass, FamilyPassBase, Treats::Problems> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FamilyPass)
  using Base::Base;

  LogicalResult prepare() {
    given = {};
    for (const std::unique_ptr<FamilyPassOption> &option : options)
      option->set(given);
    if (!slotOptions)
      return success();
    FailureOr<SlotOptions> read = readSlotOptions(
        getOperation(), getArgument(), slotOptions->slots, slotOptions->slot);
    if (failed(read))
      return failure();
    slots = *read;
    return success();
  }

  LogicalResult treat(ScheduleOp problem) const {
    return fillSchedule(problem, family, given, slots);
  }

private:
  FamilyOptions given;
  SlotOptions slots;
};
} // namespace

void pipe::registerFamilyPasses() {
  for (const Family &family : families())
    registerPass([&family] { return std::make_unique<FamilyPass>(family); });
}
