//===- Module.h - A module with a context of its own ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Modules share no data, so threads with different modules never wait for each
// other.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_MODULE_H
#define PIPESCHED_PYTHON_SRC_MODULE_H

#include "Diagnostics.h"
#include "PipeSched-c/Module.h"
#include <functional>
#include <memory>
#include <mutex>

namespace pipesched::python {

/// A module, its context, and the lock that guards both. The module is
/// immutable once it is created.
class Module {
public:
  /// Makes a module in a context; null after an error.
  using Make = std::function<MlirModule(MlirContext)>;

  /// Calls `make` without the GIL. Raises the diagnostics that it emits.
  static std::shared_ptr<Module> create(const Make &make);
  ~Module();
  Module(const Module &) = delete;

  MlirModule get() const { return module; }
  MlirOperation getOperation() const { return mlirModuleGetOperation(module); }
  /// A schedule or program of the module.
  MlirOperation getSchedule(intptr_t index) const {
    return pipeschedModuleGetSchedule(module, index);
  }

  /// Lets errors about a copy in another context point at cells of the text.
  void copyCellPlaces(MlirContext to) const {
    pipeschedCellPlacesCopy(context, to);
  }
  void copyCellPlaces(const Module &to) const { copyCellPlaces(to.context); }

  /// Calls `work` with the lock and without the GIL, and returns its result. If
  /// `work` throws a Failure, raises the diagnostics that it emitted.
  template <typename Work>
  auto run(Work work) const {
    Diagnostics emitted;
    try {
      auto result = runLocked(work, emitted);
      warn(emitted);
      return result;
    } catch (Failure) {
      raise(emitted);
    }
  }

private:
  Module();

  template <typename Work>
  auto runLocked(Work &work, Diagnostics &emitted) const {
    nanobind::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(mutex);
    DiagnosticScope scope(context, emitted);
    return work();
  }

  MlirContext context;
  MlirModule module = {nullptr};
  mutable std::mutex mutex;
};

/// The module in bytecode.
std::string writeBytecode(const Module &module);

/// A copy of the module with a change. `change` takes the MlirModule and says
/// whether all went well.
template <typename Change>
std::shared_ptr<Module> changeCopy(const Module &module, Change change) {
  std::string copy = writeBytecode(module);
  return Module::create([&](MlirContext context) {
    MlirModule changed =
        pipeschedModuleParseTrusted(context, toRef(copy), toRef(""));
    module.copyCellPlaces(context);
    if (mlirModuleIsNull(changed) ||
        mlirLogicalResultIsSuccess(change(changed)))
      return changed;
    mlirModuleDestroy(changed);
    return MlirModule{nullptr};
  });
}

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_MODULE_H
