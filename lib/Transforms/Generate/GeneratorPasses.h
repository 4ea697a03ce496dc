//===- GeneratorPasses.h - Passes around generators -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of generator passes as those of families, and the run itself: a
// pass called pipe-schedule-x fills problems with family "x".
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_GENERATE_GENERATORPASSES_H
#define PIPESCHED_LIB_TRANSFORMS_GENERATE_GENERATORPASSES_H

#include "../Schedules.h"
#include "PipeSched/Schedule/Families.h"

namespace pipesched::pipe {

/// Numbers that can be left to the generator are 0 then.
inline std::optional<int64_t> givenOf(int64_t option) {
  return option == 0 ? std::nullopt : std::optional(option);
}

inline FamilyOptions readBackward(bool splitBackward,
                                  GradientAfter gradientAfter) {
  FamilyOptions options;
  options.splitBackward = splitBackward;
  options.gradientAfter = gradientAfter;
  return options;
}

/// The table of a family. Errors, emitted at the problem: those of generate().
mlir::FailureOr<Table> generateFor(ScheduleOp problem, const Family &family,
                                   const Placement &placement,
                                   const FamilyOptions &options);

/// Fills the problems of a module, or the one called `name`. Errors: no
/// problem; a named schedule with rows; those that `generate` emits.
mlir::LogicalResult fillSchedules(
    mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef family,
    llvm::ArrayRef<mlir::NamedAttribute> options,
    llvm::function_ref<mlir::FailureOr<Table>(ScheduleOp, const Placement &)>
        generate);

/// The same with the tables of a family.
mlir::LogicalResult fillWithFamily(mlir::ModuleOp module,
                                   llvm::StringRef schedule,
                                   const Family &family,
                                   const FamilyOptions &options);

/// What the pass `argument` does: fills with the family that it ends in.
mlir::LogicalResult runGenerator(mlir::ModuleOp module,
                                 llvm::StringRef argument,
                                 llvm::StringRef schedule,
                                 const FamilyOptions &options = {});

/// The pass of a family without options, on the class that TableGen makes for
/// it. Instantiated once per family.
template <template <typename> class PassBase>
struct PlainGeneratorPass final : PassBase<PlainGeneratorPass<PassBase>> {
  using Generated = PassBase<PlainGeneratorPass>;
  using Generated::Generated;

  void runOnOperation() override {
    if (mlir::failed(runGenerator(this->getOperation(), this->getArgument(),
                                  this->schedule)))
      this->signalPassFailure();
  }
};

/// The same where the backward may be split.
template <template <typename> class PassBase>
struct SplittableGeneratorPass final
    : PassBase<SplittableGeneratorPass<PassBase>> {
  using Generated = PassBase<SplittableGeneratorPass>;
  using Generated::Generated;

  void runOnOperation() override {
    if (mlir::failed(runGenerator(
            this->getOperation(), this->getArgument(), this->schedule,
            readBackward(this->splitBackward, this->gradientAfter))))
      this->signalPassFailure();
  }
};

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_GENERATE_GENERATORPASSES_H
