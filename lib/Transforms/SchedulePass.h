//===- SchedulePass.h - Passes on pipe.schedule -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common base of the passes that change schedules one by one. Such a pass runs
// on a pipe.schedule, or on a module for all schedules in it:
//
//   pipe.schedule(pipe-split-backward,pipe-compact)
//   pipe-split-backward,pipe-compact
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_SCHEDULEPASS_H
#define PIPESCHED_LIB_TRANSFORMS_SCHEDULEPASS_H

#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Transforms/SelectSchedules.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace pipesched::pipe {

/// The schedules that a pass processes if its option `schedule` is empty. A
/// schedule named by the option must be one of these.
enum class Treats {
  All,
  Problems,  ///< schedules without rows
  Solutions, ///< schedules with rows
};

/// Returns the schedules of `root`, a module or a pipe.schedule, that a pass
/// processes: all that `treats` includes, or only the one called `name`.
/// Errors, for a module: it has no schedule; none has that name; the pass needs
/// problems, but all schedules have rows. For both: the pass does not process
/// the named schedule.
mlir::FailureOr<llvm::SmallVector<ScheduleOp>>
selectTreated(mlir::Operation *root, llvm::StringRef name, Treats treats);

/// Runs `treat` on each schedule, in parallel if the context has threads. An
/// error in one schedule does not stop the others, so the errors do not depend
/// on the number of threads. Errors: as for `treat`.
mlir::LogicalResult
treatEach(llvm::ArrayRef<ScheduleOp> schedules,
          llvm::function_ref<mlir::LogicalResult(ScheduleOp)> treat);

/// Whether passes on schedules can run on ops of this name.
bool holdsSchedules(mlir::RegisteredOperationName name);

/// The base class of the pass `Derived`; `GeneratedBase` is the class that
/// TableGen generates for it. `Derived` has a method `LogicalResult
/// treat(ScheduleOp) const`, which changes only that schedule and may run on
/// several threads at once. It may also have a method `LogicalResult
/// prepare()`, which reads options before the first schedule.
template <typename Derived, template <typename> class GeneratedBase,
          Treats treats = Treats::Solutions>
struct SchedulePass : GeneratedBase<Derived> {
  using Base = SchedulePass;
  using Generated = GeneratedBase<Derived>;
  using Generated::Generated;

  bool canScheduleOn(mlir::RegisteredOperationName name) const final {
    return holdsSchedules(name);
  }

  mlir::LogicalResult prepare() { return mlir::success(); }

  void runOnOperation() override {
    auto &derived = static_cast<Derived &>(*this);
    mlir::FailureOr<llvm::SmallVector<ScheduleOp>> schedules =
        selectTreated(this->getOperation(), this->schedule, treats);
    mlir::LogicalResult prepared = derived.prepare();
    if (failed(schedules) || failed(prepared))
      return this->signalPassFailure();
    auto treat = [&](ScheduleOp op) {
      return std::as_const(derived).treat(op);
    };
    if (failed(treatEach(*schedules, treat)))
      this->signalPassFailure();
  }
};

/// Replaces the paths of a schedule by the result of `place`. Errors: the
/// schedule has rows; errors of `place`.
mlir::LogicalResult
placeSchedule(ScheduleOp schedule,
              llvm::function_ref<llvm::Expected<std::vector<Path>>()> place);

/// The same for a `place` that returns the only path.
mlir::LogicalResult
placeOnOnePath(ScheduleOp schedule,
               llvm::function_ref<llvm::Expected<Path>()> place);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_SCHEDULEPASS_H
