//===- CreateSchedule.cpp - From tables to ops ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves rows into ops without copies. Converts the options of a family to
// attributes and back.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/CreateSchedule.h"
#include <algorithm>

using namespace mlir;
using namespace pipesched;

static std::string attributeName(const FamilyOptionInfo &info) {
  std::string name = info.name.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

namespace {
/// Returns the attribute of an option, or null if the option has its default.
struct WriteOption {
  Builder &builder;
  const Family &family;
  const FamilyOptionInfo &info;

  Attribute operator()(int64_t number) {
    return builder.getI64IntegerAttr(number);
  }
  Attribute operator()(bool value) {
    bool isSplit = info.option == FamilyOption::SplitBackward;
    return value == (isSplit ? family.splitsBackward : false)
               ? Attribute()
               : builder.getBoolAttr(value);
  }
  Attribute operator()(ChimeraConstruction construction) {
    return construction == ChimeraConstruction::Concat
               ? Attribute()
               : builder.getStringAttr(enumName(construction));
  }
  Attribute operator()(VocabularyAlgorithm algorithm) {
    return algorithm == VocabularyAlgorithm::Vocab1
               ? Attribute()
               : builder.getStringAttr(enumName(algorithm));
  }
  Attribute operator()(GradientAfter) {
    llvm_unreachable("the schedule itself has the gradient rule");
  }
};

/// Reads an option from its attribute. An attribute of another type leaves the
/// option unset.
struct ReadOption {
  Attribute written;

  void operator()(std::optional<int64_t> &number) {
    if (auto integer = dyn_cast<IntegerAttr>(written))
      number = integer.getInt();
  }
  void operator()(std::optional<bool> &value) {
    if (auto boolean = dyn_cast<BoolAttr>(written))
      value = boolean.getValue();
  }
  void operator()(std::optional<ChimeraConstruction> &construction) {
    if (auto name = dyn_cast<StringAttr>(written))
      construction = enumFromName<ChimeraConstruction>(name.getValue());
  }
  void operator()(std::optional<VocabularyAlgorithm> &algorithm) {
    if (auto name = dyn_cast<StringAttr>(written))
      algorithm = enumFromName<VocabularyAlgorithm>(name.getValue());
  }
  void operator()(std::optional<GradientAfter> &) {
    llvm_unreachable("the schedule itself has the gradient rule");
  }
};
} // namespace

SmallVector<NamedAttribute>
pipesched::describeFamily(Builder builder, const Family &family,
                          const FamilyOptions &options) {
  SmallVector<NamedAttribute> written;
  for (const FamilyOptionInfo &info : familyOptions()) {
    if (!info.isWritten || !info.isGiven(options))
      continue;
    Attribute value = std::visit(
        [&](auto field) {
          return WriteOption{builder, family, info}(*(options.*field));
        },
        info.field);
    if (value)
      written.push_back(builder.getNamedAttr(attributeName(info), value));
  }
  return written;
}

FamilyOptions pipesched::loadFamilyOptions(pipe::ScheduleOp schedule) {
  FamilyOptions options;
  const Family *family = findFamily(schedule.getFamily().value_or(""));
  if (!family)
    return options;
  if (DictionaryAttr written = schedule.getFamilyOptionsAttr())
    for (const FamilyOptionInfo &info : familyOptions())
      if (Attribute value = written.get(attributeName(info));
          value && info.isWritten)
        std::visit([&](auto field) { ReadOption{value}(options.*field); },
                   info.field);
  if (family->takes(FamilyOption::Slices))
    options.slices = schedule.getSlices();
  bool isSplit = family->splitsBackward.value_or(false);
  if (options.splitBackward.value_or(isSplit))
    options.gradientAfter = schedule.getGradientAfter();
  return options;
}

std::optional<Violation> pipesched::verifyFamily(pipe::ScheduleOp schedule,
                                                 const TableView &table) {
  const Family *family = findFamily(schedule.getFamily().value_or(""));
  if (!family)
    return std::nullopt;
  FamilyOptions options = loadFamilyOptions(schedule);
  DictionaryAttr written = schedule.getFamilyOptionsAttr();
  if (written && written.contains(kSlotsOption))
    options.slots = table.slots;
  return verifyFamily(table, *family, options);
}

pipe::ScheduleOp pipesched::createProblem(OpBuilder &builder, Location location,
                                          StringRef name,
                                          const Placement &placement) {
  auto schedule = pipe::ScheduleOp::create(builder, location, name,
                                           placement.getNumWorkers(),
                                           placement.getNumMicrobatches());
  schedule.setSlices(placement.getNumSlices());
  pipe::storePaths(schedule, placement.getPaths());
  return schedule;
}

pipe::ScheduleOp pipesched::createSchedule(OpBuilder &builder,
                                           Location location, StringRef name,
                                           Table &&table) {
  pipe::ScheduleOp schedule =
      createProblem(builder, location, name, table.placement);
  pipe::storeRows(schedule, std::move(table.rows));
  schedule.setGradientAfter(table.gradientAfter);
  schedule.setAligned(table.aligned);
  pipe::storeSlots(schedule, table.placement, table.slots);
  return schedule;
}
