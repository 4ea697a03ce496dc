//===- IRPasses.cpp - Pass managers and passes written in Python ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A pass of Python is an external pass of MLIR's C API: MLIR is compiled
// without run-time type information, so no class here can derive from Pass.
//
//===----------------------------------------------------------------------===//

#include "IR.h"
#include "Module.h"
#include "mlir-c/Pass.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;
using namespace pipesched::python;
using namespace pipesched::python::ir;
namespace ir = pipesched::python::ir;

//===----------------------------------------------------------------------===//
// Pass managers
//===----------------------------------------------------------------------===//

namespace {
/// A run of a pass manager.
struct Run {
  OpRef root;
  std::exception_ptr raised;
};

struct Passes {
  ContextRef context;
  std::unique_ptr<mlir::PassManager> manager;
  /// The run that goes on, for the passes of Python.
  std::shared_ptr<std::optional<Run>> run =
      std::make_shared<std::optional<Run>>();

  void checkIsIdle() const {
    if (*run)
      throw std::runtime_error("the PassManager is running");
  }
};

/// The pass that runs, for Python.
struct RunningPass {
  MlirExternalPass pass;
  void signalFailure() const {
    if (!pass.ptr)
      throw std::runtime_error("the pass has ended");
    mlirExternalPassSignalFailure(pass);
  }
};

/// The data of a pass of Python.
struct Callback {
  ContextRef context;
  nb::object run;
  std::shared_ptr<std::optional<Run>> current;
};
} // namespace

/// Parses passes; ValueError with the reason.
static mlir::OpPassManager parsePipeline(std::string_view pipeline) {
  std::string error;
  llvm::raw_string_ostream stream(error);
  mlir::FailureOr<mlir::OpPassManager> parsed =
      mlir::parsePassPipeline(pipeline, stream);
  if (failed(parsed))
    throw nb::value_error((error.empty()
                               ? std::string("Unable to parse pass pipeline")
                               : toValid(errorOf(error)))
                              .c_str());
  return std::move(*parsed);
}

static Passes createPasses(std::string_view anchor, ContextRef given) {
  ContextRef context = contextOr(std::move(given));
  return {context, std::make_unique<mlir::PassManager>(
                       &context->context, llvm::StringRef(anchor))};
}

static Passes parsePasses(std::string_view pipeline, ContextRef given) {
  ContextRef context = contextOr(std::move(given));
  ErrorCapture errors(context);
  mlir::OpPassManager parsed = parsePipeline(pipeline);
  Passes passes = createPasses(parsed.getOpAnchorName(), context);
  static_cast<mlir::OpPassManager &>(*passes.manager) = std::move(parsed);
  return passes;
}

/// Adds elements of a pipeline, such as `pipe-verify,cse`.
static void addPipeline(Passes &passes, std::string_view pipeline) {
  passes.checkIsIdle();
  ErrorCapture errors(passes.context);
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (failed(mlir::parsePassPipeline(pipeline, *passes.manager, stream)))
    throw nb::value_error(toValid(errorOf(error)).c_str());
}

/// What passes may replace is forgotten. Passes trust their input, so it is
/// verified first.
static void runOn(Passes &passes, const OpBase &base) {
  OpRef op = base.ref();
  checkContext(passes.context, op->context());
  passes.checkIsIdle();
  checkMayChangeInside(*op);
  ir::verify(*op, "Verification failed before the pass pipeline");
  op->forgetNested();
  ErrorCapture errors(passes.context);
  passes.run->emplace(Run{op, nullptr});
  bool hasFailed = failed(passes.manager->run(op->get()));
  Run run = std::move(**passes.run);
  passes.run->reset();
  if (run.raised)
    std::rethrow_exception(run.raised);
  if (hasFailed)
    errors.raise("Failure while executing pass pipeline");
}

//===----------------------------------------------------------------------===//
// Passes written in Python
//===----------------------------------------------------------------------===//

/// Runs the function. Later passes may replace what it has seen, so all of it
/// is forgotten.
static void runCallback(MlirOperation operation, MlirExternalPass pass,
                        void *data) {
  auto &callback = *static_cast<Callback *>(data);
  Run &run = **callback.current;
  auto running = std::make_shared<RunningPass>(RunningPass{pass});
  callback.context->inPasses.push_back(unwrap(operation));
  try {
    OpRef op = Op::of(*callback.context, unwrap(operation));
    callback.run(op, running);
    ir::verify(*op, "Verification failed after a pass written in Python");
  } catch (...) {
    run.raised = std::current_exception();
    running->signalFailure();
  }
  running->pass.ptr = nullptr;
  callback.context->inPasses.pop_back();
  run.root->forgetNested();
}

static void addCallback(Passes &passes, nb::callable function,
                        std::optional<std::string> name,
                        std::optional<std::string> argument,
                        std::optional<std::string> description,
                        std::optional<std::string> opName) {
  passes.checkIsIdle();
  if (!name)
    name = nb::cast<std::string>(
        nb::str(nb::getattr(function, "__name__", nb::repr(function))));
  static const int64_t id = 0;
  MlirExternalPassCallbacks callbacks = {};
  callbacks.destruct = [](void *data) { delete static_cast<Callback *>(data); };
  callbacks.clone = [](void *data) -> void * {
    return new Callback(*static_cast<Callback *>(data));
  };
  callbacks.run = runCallback;
  // MLIR copies no name of an op: the context keeps them all.
  auto text = [&](const std::optional<std::string> &text) {
    return wrap(
        mlir::StringAttr::get(&passes.context->context, text.value_or(""))
            .getValue());
  };
  MlirPass pass = mlirCreateExternalPass(
      mlirTypeIDCreate(&id), text(name), text(argument), text(description),
      text(opName), 0, nullptr, callbacks,
      new Callback{passes.context, std::move(function), passes.run});
  mlir::OpPassManager &manager = *passes.manager;
  mlir::OpPassManager::Nesting nesting = manager.getNesting();
  manager.setNesting(mlir::OpPassManager::Nesting::Implicit);
  manager.addPass(std::unique_ptr<mlir::Pass>(unwrap(pass)));
  manager.setNesting(nesting);
}

void ir::bindPasses(nb::module_ &m) {
  nb::class_<RunningPass>(m, "ExternalPass")
      .def("signal_pass_failure", &RunningPass::signalFailure);
  nb::class_<Passes>(m, "PassManager")
      .def(nb::new_([](std::string_view anchor, ContextRef context) {
             return createPasses(anchor, std::move(context));
           }),
           nb::arg("anchor_op") = "any", none("context"))
      .def_static("parse", parsePasses, nb::arg("pipeline"), none("context"))
      .def("add", addPipeline, nb::arg("pipeline"))
      .def("add", addCallback, nb::arg("run"), none("name"),
           nb::arg("argument").none() = "", nb::arg("description").none() = "",
           nb::arg("op_name").none() = "",
           nb::sig("def add(self, run: typing.Callable[[Operation, "
                   "ExternalPass], object], name: str | None = None, "
                   "argument: str | None = '', "
                   "description: str | None = '', "
                   "op_name: str | None = '') -> None"))
      .def(
          "enable_verifier",
          [](Passes &self, bool enable) {
            self.manager->enableVerifier(enable);
          },
          nb::arg("enable"))
      .def("run", runOn, nb::arg("operation"))
      .def("__str__", [](Passes &self) {
        return collect([&](llvm::raw_ostream &os) {
          self.manager->printAsTextualPipeline(os);
        });
      });
}
