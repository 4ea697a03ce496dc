//===- GeneratorPasses.h - Passes around generators -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of generator passes as those of generators, and the run itself: a
// pass called pipe-schedule-x fills problems with family "x".
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_GENERATORPASSES_H
#define PIPESCHED_LIB_TRANSFORMS_GENERATORPASSES_H

#include "Schedules.h"

namespace pipesched::pipe {

/// Numbers that can be left to the generator are 0 then.
inline std::optional<int64_t> givenOf(int64_t option) {
  return option == 0 ? std::nullopt : std::optional(option);
}

/// `gradientAfter` is about split backwards only.
template <typename Options>
Options readBackward(bool splitBackward, GradientAfter gradientAfter) {
  Options options;
  options.splitBackward = splitBackward;
  options.gradientAfter =
      splitBackward ? gradientAfter : GradientAfter::InputGrad;
  return options;
}

/// What the family says beside its name: the options that change rows and can
/// be read off neither paths nor the gradient rule, where they are not the
/// default.
using FamilyAttributes = llvm::SmallVector<mlir::NamedAttribute>;
FamilyAttributes describe(mlir::Builder builder,
                          const GeneratorOptions &options);
FamilyAttributes describe(mlir::Builder builder,
                          const InterleavedOptions &options);
FamilyAttributes describe(mlir::Builder builder, const ChimeraOptions &options);
FamilyAttributes describe(mlir::Builder builder, const ZBAutoOptions &options);
FamilyAttributes describe(mlir::Builder builder, const GreedyOptions &options);

/// What the pass `argument` does: fills the problems of a module, or the one
/// called `schedule`, and writes the family that the argument ends in.
template <typename Options>
mlir::LogicalResult runGenerator(
    mlir::ModuleOp module, llvm::StringRef argument, llvm::StringRef schedule,
    llvm::Expected<Table> (&generate)(const Placement &, const Options &),
    const Options &options) {
  [[maybe_unused]] bool isGenerator = argument.consume_front("pipe-schedule-");
  assert(isGenerator && "a generator pass is called by its family");
  return fillSchedules(
      module, schedule, argument,
      describe(mlir::Builder(module.getContext()), options),
      [&](const Placement &placement) { return generate(placement, options); });
}

/// The pass of a family without options, on the class that TableGen makes for
/// it. Instantiated once per family.
template <template <typename> class PassBase, auto &generate>
struct PlainGeneratorPass final
    : PassBase<PlainGeneratorPass<PassBase, generate>> {
  using Generated = PassBase<PlainGeneratorPass>;
  using Generated::Generated;

  void runOnOperation() override {
    if (mlir::failed(runGenerator(this->getOperation(), this->getArgument(),
                                  this->schedule, generate, {})))
      this->signalPassFailure();
  }
};

/// The same where the backward may be split.
template <template <typename> class PassBase, auto &generate>
struct SplittableGeneratorPass final
    : PassBase<SplittableGeneratorPass<PassBase, generate>> {
  using Generated = PassBase<SplittableGeneratorPass>;
  using Generated::Generated;

  void runOnOperation() override {
    auto options = readBackward<GeneratorOptions>(this->splitBackward,
                                                  this->gradientAfter);
    if (mlir::failed(runGenerator(this->getOperation(), this->getArgument(),
                                  this->schedule, generate, options)))
      this->signalPassFailure();
  }
};

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_GENERATORPASSES_H
