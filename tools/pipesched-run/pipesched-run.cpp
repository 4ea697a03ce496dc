//===- pipesched-run.cpp - Trains with compiled schedules -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a schedule with the functions of its stages, runs it, and compares
// the run with the unpipelined model and with the prediction (docs/Run.md).
//
//===----------------------------------------------------------------------===//

#include "Backend.h"
#include "PipeSched-rt/Runtime.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Run/Check.h"
#include "PipeSched/Run/Measurement.h"
#include "PipeSched/Run/ReferenceModel.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/OutputErrors.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableErrors.h"
#include "PipeSched/Support/PrintableText.h"
#include "PipeSched/Support/StandardStreams.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "Prepare.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;

static constexpr int kFailed = 1;

static int fail(llvm::Error error) {
  llvm::WithColor::error() << printableLines(llvm::toString(std::move(error)))
                           << "\n";
  return kFailed;
}

//===----------------------------------------------------------------------===//
// The start of the training
//===----------------------------------------------------------------------===//

/// Fills the parameters of the model, and prints their source.
static llvm::Error fillParameters(const PreparedProgram &program,
                                  const ReferenceModel &reference,
                                  Memory &model, const Options &options) {
  const PersistentLayout &layout = reference.getLayout();
  if (!options.parameters.empty()) {
    llvm::outs() << "parameters: from " << printableText(options.parameters)
                 << "\n";
    return readParameters(options.parameters, layout, model);
  }
  if (llvm::Error error = reference.init(model))
    return error;
  int64_t numRandom = 0;
  for (const PersistentTensor &tensor : layout.tensors) {
    const Stage &stage = program.functions.stages[tensor.stage];
    if (tensor.kind != PersistentKind::Param ||
        stage.get(pipe::StageFunctionKind::Init))
      continue;
    ++numRandom;
    fillRandom(tensor, model, options.seed);
  }
  llvm::outs() << "parameters: by the init functions of the stages";
  if (numRandom > 0)
    llvm::outs() << "; " << numRandom
                 << " of stages without one are random (--seed=" << options.seed
                 << ")";
  llvm::outs() << "\n";
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The inputs of the prediction, and their origin; the origin is empty if only
/// the run can provide them.
struct KnownCosts {
  CostInputs inputs;
  std::string origin;
};

static llvm::Expected<KnownCosts> findCosts(const PreparedProgram &program,
                                            const Options &options) {
  mlir::Operation *op = program.getOp();
  mlir::FailureOr<CostInputs> costs = loadCosts(op);
  if (mlir::failed(costs))
    return makeError("the costs of the file cannot be read");
  if (!options.profile.empty()) {
    llvm::Expected<Profile> profile = readProfile(options.profile);
    if (!profile)
      return profile.takeError();
    costs->profile = std::move(*profile);
    return KnownCosts{std::move(*costs), options.profile};
  }
  bool isKnown = costs->profile || (costs->model && costs->system);
  return KnownCosts{std::move(*costs), isKnown ? "the file" : ""};
}

/// The files that a run writes. They are opened before the run, so that no run
/// happens whose result cannot be written.
struct ResultFiles {
  std::unique_ptr<OutputFile> trace, profile, measurement;

  static llvm::Expected<ResultFiles> open(const Options &options) {
    ResultFiles files;
    for (auto [name, file] :
         {std::pair(&options.trace, &files.trace),
          std::pair(&options.writeProfile, &files.profile),
          std::pair(&options.writeMeasurement, &files.measurement)}) {
      if (name->empty())
        continue;
      llvm::Expected<std::unique_ptr<OutputFile>> opened =
          OutputFile::open(*name);
      if (!opened)
        return opened.takeError();
      *file = std::move(*opened);
    }
    return std::move(files);
  }
};

static llvm::Error keep(OutputFile *file, StringRef contents) {
  if (!file)
    return llvm::Error::success();
  if (llvm::Error error = file->write(contents))
    return error;
  return file->keep();
}

static std::string traceOf(const NamedEvaluation &predicted,
                           const NamedEvaluation &measured) {
  NamedEvaluation both[] = {predicted, measured};
  both[0].name += ", predicted";
  both[1].name += ", measured";
  std::string text;
  llvm::raw_string_ostream os(text);
  writeChromeTrace(os, llvm::ArrayRef<NamedEvaluation>(both),
                   TraceOrder::Workers);
  return text;
}

/// Prints the table of phases, and writes the trace and the profile.
/// `predicted` is empty if the prediction must be made from the times of the
/// run.
static llvm::Error reportTimes(const PreparedProgram &program,
                               const RunResult &result, KnownCosts costs,
                               std::optional<NamedEvaluation> predicted,
                               ResultFiles files) {
  llvm::Expected<Measurement> made = Measurement::make(program, result);
  if (!made)
    return made.takeError();
  const Measurement &measurement = *made;
  llvm::Expected<Profile> profile = measurement.profile();
  if (!profile)
    return profile.takeError();
  if (!predicted) {
    costs.inputs.profile = *profile;
    costs.origin = "the times of this run";
    mlir::FailureOr<NamedEvaluation> made = predict(program, costs.inputs);
    if (mlir::failed(made))
      return makeError("the step cannot be predicted");
    predicted = std::move(*made);
  }
  std::vector<NamedEvaluation> steps;
  for (int64_t step : measurement.getSteps()) {
    llvm::Expected<NamedEvaluation> found =
        measured(*predicted, measurement, step);
    if (!found)
      return found.takeError();
    steps.push_back(std::move(*found));
  }
  llvm::outs() << "predicted from " << printableText(costs.origin)
               << "; measured in " << steps.size()
               << (steps.size() == 1 ? " step\n" : " steps\n");
  writeTable(llvm::outs(), *predicted, measurement, steps);
  const NamedEvaluation &median =
      steps[measurement.getStep() - measurement.getSteps().front()];
  if (files.trace)
    if (llvm::Error error =
            keep(files.trace.get(), traceOf(*predicted, median)))
      return error;
  if (files.measurement)
    if (llvm::Error error = keep(files.measurement.get(), measurement.toJson()))
      return error;
  return keep(files.profile.get(), profileToJson(*profile));
}

/// Runs the reference from the same start.
static llvm::Error check(const PreparedProgram &program,
                         const RunResult &result,
                         const ReferenceModel &reference, Memory &model,
                         const Options &options, bool &holds) {
  for (int64_t step = 0; step < options.steps; ++step)
    if (llvm::Error error = reference.run(model, step))
      return error;
  holds = checkRun(program, result.blocks, reference.getLayout(), model,
                   options.tolerance, options.steps, llvm::outs());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// All
//===----------------------------------------------------------------------===//

/// Returns the object of a program. Linked code calls it through its entries,
/// which also contain the training.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compile(const PreparedProgram &program, mlir::ModuleOp lowered,
        const Training &training, bool isLinked) {
  if (!isLinked)
    return compileObject(lowered);
  NativeEntries entries = entriesOf(program, training);
  return compileObject(lowered, &entries);
}

/// Writes outputs that need no start.
static llvm::Error emitCode(mlir::ModuleOp lowered, const Options &options) {
  if (options.emit == Emit::Llvm) {
    llvm::Expected<std::string> text = emitLLVM(lowered);
    return text ? writeWholeFile(options.output, *text) : text.takeError();
  }
  auto object = compileObject(lowered);
  return object ? writeWholeFile(options.output, (*object)->getBuffer())
                : object.takeError();
}

namespace {
/// The parameters before the first step, and their model.
struct Start {
  ReferenceModel reference;
  Memory model;

  static llvm::Expected<Start> make(const PreparedProgram &program,
                                    const Options &options) {
    bool runs = options.checks && options.emit == Emit::Nothing;
    mlir::FailureOr<ReferenceModel> reference = ReferenceModel::compile(
        program.getOwner(), runs, program.updates, program.libraries);
    if (mlir::failed(reference))
      return makeError("there is no model to start from");
    Memory model(reference->getLayout().bytes);
    if (llvm::Error error = fillParameters(program, *reference, model, options))
      return std::move(error);
    return Start{std::move(*reference), std::move(model)};
  }
};
} // namespace

static Training trainingOf(const PreparedProgram &program, const Start &start,
                           llvm::ArrayRef<std::vector<int64_t>> paces,
                           const Options &options) {
  return {options.steps, start.reference.getLayout(), start.model,
          program.layouts, paces};
}

/// Copies the parameters of the workers to the block of the model.
static void gather(const PreparedProgram &program, const RunResult &result,
                   const PersistentLayout &layout, const Memory &model) {
  for (const PersistentTensor &tensor : layout.tensors)
    for (auto [held, block] : llvm::zip(program.layouts, result.blocks))
      if (const PersistentTensor *from =
              held.find(tensor.kind, tensor.stage, tensor.index))
        if (tensor.kind == PersistentKind::Param)
          llvm::copy(block.bytesOf(*from), model.bytesOf(tensor).begin());
}

namespace {
/// All data that is known before a run.
struct Plan {
  KnownCosts costs;
  std::optional<NamedEvaluation> predicted;
  ResultFiles files;

  static llvm::Expected<Plan> make(const PreparedProgram &program,
                                   const Options &options) {
    llvm::Expected<KnownCosts> costs = findCosts(program, options);
    if (!costs)
      return costs.takeError();
    Plan plan{std::move(*costs), std::nullopt, {}};
    if (!plan.costs.origin.empty()) {
      mlir::FailureOr<NamedEvaluation> made =
          predict(program, plan.costs.inputs);
      if (mlir::failed(made))
        return makeError("the step cannot be predicted from " +
                         plan.costs.origin);
      plan.predicted = std::move(*made);
    }
    llvm::Expected<ResultFiles> files = ResultFiles::open(options);
    if (!files)
      return files.takeError();
    plan.files = std::move(*files);
    if (llvm::Error error = checkParameterFolder(options.saveParameters))
      return std::move(error);
    if (options.pace && !plan.predicted)
      return makeError("--pace needs times to keep: give a profile by "
                       "--profile=<file> or in the schedule");
    return std::move(plan);
  }

  std::vector<std::vector<int64_t>> paces(const PreparedProgram &program,
                                          const Options &options) const {
    if (!options.pace)
      return {};
    return pacesOf(program, *predicted);
  }
};
} // namespace

static CodeOptions codeOf(const Options &options) {
  return {options.form, options.stagePipeline.getValue()};
}

/// Writes a program that trains like a run by this tool.
static llvm::Error emitExecutable(PreparedProgram &program,
                                  const Options &options) {
  std::vector<std::vector<int64_t>> paces;
  if (options.pace) {
    llvm::Expected<Plan> plan = Plan::make(program, options);
    if (!plan)
      return plan.takeError();
    paces = plan->paces(program, options);
  }
  llvm::Expected<Start> start = Start::make(program, options);
  if (!start)
    return start.takeError();
  auto lowered = lowerToLLVM(program, codeOf(options));
  if (mlir::failed(lowered))
    return makeError("the schedule is not compiled");
  auto object =
      compile(program, **lowered, trainingOf(program, *start, paces, options),
              /*isLinked=*/true);
  return object ? linkExecutable(**object, program, options, options.output)
                : object.takeError();
}

static llvm::Error saveParameters(const PreparedProgram &program,
                                  const RunResult &result,
                                  const PersistentLayout &layout,
                                  const Options &options) {
  if (options.saveParameters.empty())
    return llvm::Error::success();
  Memory trained(layout.bytes);
  gather(program, result, layout, trained);
  return writeParameters(options.saveParameters, layout, trained);
}

/// Verifies blocking sends. Loopback detects deadlocks as they happen, but MPI
/// would hang. Sends for which MPI may copy the message may also wait for their
/// receives; by default MPI decides.
static llvm::Error verifyBlocking(const PreparedProgram &program,
                                  const Options &options) {
  if (options.backend != Backend::Mpi || !options.blocking ||
      options.messages == Messages::Buffered)
    return llvm::Error::success();
  llvm::Error error =
      verifyPosted(program.loaded.program, SendMode::Rendezvous, true);
  if (!error)
    return error;
  (void)emitAnalysisError(program.op, program.loaded, std::move(error),
                          "--blocking, if sends wait for their receives,");
  bool isSure = options.messages == Messages::Rendezvous;
  return makeError(
      llvm::Twine("--blocking: MPI ") +
      (isSure ? "would hang" : "may hang, by the size of messages") +
      "; leave it out, or take --messages=buffered; "
      "--backend=loopback shows where the workers stop");
}

static llvm::Error train(const PreparedProgram &program, mlir::ModuleOp lowered,
                         const Options &options, bool &holds) {
  if (llvm::Error error = verifyBlocking(program, options))
    return error;
  llvm::Expected<Plan> plan = Plan::make(program, options);
  if (!plan)
    return plan.takeError();
  llvm::Expected<Start> start = Start::make(program, options);
  if (!start)
    return start.takeError();
  auto paces = plan->paces(program, options);
  Training training = trainingOf(program, *start, paces, options);
  bool isMpi = options.backend == Backend::Mpi;
  auto object = compile(program, lowered, training, /*isLinked=*/isMpi);
  if (!object)
    return object.takeError();
  llvm::Expected<RunResult> result =
      isMpi ? runMpi(program, **object, options)
            : runLoopback(program, **object, training, options);
  if (!result)
    return result.takeError();
  if (llvm::Error error =
          reportTimes(program, *result, std::move(plan->costs),
                      std::move(plan->predicted), std::move(plan->files)))
    return error;
  if (llvm::Error error =
          saveParameters(program, *result, training.model, options))
    return error;
  holds = true;
  return options.checks ? check(program, *result, start->reference,
                                start->model, options, holds)
                        : llvm::Error::success();
}

/// Ranks of MPI also read the library from the environment.
static llvm::Error loadBlas(const Options &options) {
  if (!options.blas.empty())
    setenv("PIPESCHED_BLAS", options.blas.c_str(), /*overwrite=*/1);
  const char *error = pipesched_rt_load_blas();
  return error ? makeError(error) : llvm::Error::success();
}

static int runAll(const Options &options) {
  if (llvm::Error error = options.check())
    return fail(std::move(error));
  if (llvm::Error error = loadBlas(options))
    return fail(std::move(error));
  mlir::DialectRegistry registry;
  registerAll(registry);
  if (llvm::Error error = loadPlugins(options, registry))
    return fail(std::move(error));
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  makeDiagnosticsPrintable(context);
  makeLinesPrintable(sources);
  mlir::FailureOr<PreparedProgram> program = prepare(options, context);
  if (mlir::failed(program))
    return kFailed;
  if (options.emit == Emit::Executable) {
    llvm::Error error = emitExecutable(*program, options);
    return error ? fail(std::move(error)) : 0;
  }
  auto lowered = lowerToLLVM(*program, codeOf(options));
  if (mlir::failed(lowered))
    return kFailed;
  bool holds = true;
  llvm::Error error = options.emit == Emit::Nothing
                          ? train(*program, **lowered, options, holds)
                          : emitCode(**lowered, options);
  if (error)
    return fail(std::move(error));
  return holds ? 0 : kFailed;
}

/// Keeps freed memory for reuse: tables of long steps are copied from one form
/// to the next, and fresh pages would take longer than the copies.
static void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kBytes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

int main(int argc, char **argv) {
  openStandardStreams();
  static OutputErrors outputErrors;
  static PrintableErrors errors(argc, argv);
  keepFreedMemory();
  llvm::InitLLVM init(argc, argv);
  initializeNative();
  registerAllPasses();
  registerUpstreamPasses();
  cl::ResetCommandLineParser();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::SetVersionPrinter(printVersion);
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles pipeline schedules and trains by them\n");
  return runAll(options);
}
