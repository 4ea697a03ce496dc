//===- DescriptionTranslation.cpp - Models and executions for the tool ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exports descriptions as PipeSched's JSON. Writes nothing after an error.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Target/ModelSummaryJson.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;
namespace json = llvm::json;

namespace {

struct DescriptionOptions {
  llvm::cl::opt<int64_t> sequence{
      "model-sequence",
      llvm::cl::desc("Tokens of a sequence, for --describe-model; 0: those of "
                     "the file"),
      llvm::cl::init(0)};
  llvm::cl::opt<int64_t> microbatchSize{
      "model-microbatch-size",
      llvm::cl::desc("Sequences of a microbatch, for --describe-model"),
      llvm::cl::init(1)};
};

} // namespace

/// Created at the first registration, because LLVM requires options to outlive
/// parsing.
static DescriptionOptions &descriptionOptions() {
  static DescriptionOptions instance;
  return instance;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static const llvm::MemoryBuffer &
mainBuffer(const std::shared_ptr<llvm::SourceMgr> &sources) {
  return *sources->getMemoryBuffer(sources->getMainFileID());
}

static LogicalResult fail(MLIRContext *context, llvm::Error error) {
  return emitError(UnknownLoc::get(context))
         << llvm::toString(std::move(error));
}

static LogicalResult
describeModel(const std::shared_ptr<llvm::SourceMgr> &sources, raw_ostream &os,
              MLIRContext *context) {
  if (descriptionOptions().sequence < 0)
    return emitError(UnknownLoc::get(context))
           << "--model-sequence: expected at least 0, found "
           << int64_t(descriptionOptions().sequence);
  const llvm::MemoryBuffer &buffer = mainBuffer(sources);
  llvm::Expected<Architecture> architecture =
      architectureFromJson(buffer.getBuffer(), buffer.getBufferIdentifier(),
                           SourceRule::Optional, descriptionOptions().sequence);
  if (!architecture)
    return fail(context, architecture.takeError());
  ExpansionOptions expansion;
  expansion.microbatchSize = descriptionOptions().microbatchSize;
  llvm::Expected<ModelFacts> facts =
      expandArchitecture(*architecture, expansion);
  if (!facts)
    return fail(context, facts.takeError());
  llvm::Expected<ModelSummary> summary = summarize(*facts);
  if (!summary)
    return fail(context, summary.takeError());
  json::OStream stream(os, /*IndentSize=*/2);
  writeModelSummary(stream, *summary, architecture->notes,
                    architecture->attention);
  stream.flush();
  os << '\n';
  return success();
}

static void writeCalculonExecution(json::OStream &json,
                                   const CalculonExecution &execution) {
  json.object([&] {
    json.attribute("workers", execution.workers);
    json.attribute("accelerators_per_worker", execution.accelerators);
    json.attribute("replicas", execution.replicas);
    json.attribute("chunks", execution.chunks);
    json.attribute("global_batch", execution.globalBatch);
    json.attribute("microbatch_size", execution.microbatchSize);
    json.attribute("microbatches", execution.microbatches);
    json.attribute("recompute", enumName(execution.recompute));
    json.attribute("schedule_pipeline", execution.schedulePipeline());
    json.attribute("model_options", execution.modelOptions());
    json.attribute("system_options", execution.systemOptions());
    json.attributeArray("notes", [&] {
      for (const std::string &note : execution.notes)
        json.value(note);
    });
  });
}

static LogicalResult
describeExecution(const std::shared_ptr<llvm::SourceMgr> &sources,
                  raw_ostream &os, MLIRContext *context) {
  const llvm::MemoryBuffer &buffer = mainBuffer(sources);
  llvm::Expected<CalculonExecution> execution =
      executionFromJson(buffer.getBuffer(), buffer.getBufferIdentifier());
  if (!execution)
    return fail(context, execution.takeError());
  json::OStream stream(os, /*IndentSize=*/2);
  writeCalculonExecution(stream, *execution);
  stream.flush();
  os << '\n';
  return success();
}

//===----------------------------------------------------------------------===//
// Models in the IR
//===----------------------------------------------------------------------===//

static LogicalResult exportModels(Operation *root, raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream json(stream, /*IndentSize=*/2);
  json.arrayBegin();
  WalkResult result = root->walk<WalkOrder::PreOrder>([&](pipe::ModelOp model) {
    llvm::Expected<ModelSummary> summary = summarize(model.toFacts());
    if (!summary) {
      model->emitError(llvm::toString(summary.takeError()));
      return WalkResult::interrupt();
    }
    writeModelSummary(json, *summary, /*notes=*/{}, /*attention=*/{});
    return WalkResult::skip();
  });
  json.arrayEnd();
  json.flush();
  if (result.wasInterrupted())
    return failure();
  os << text << '\n';
  return success();
}

void pipesched::registerDescriptionTranslations() {
  descriptionOptions();
  TranslateRegistration(
      "describe-model",
      "a model file, ours, Hugging Face's or Calculon's, in a few numbers",
      describeModel);
  TranslateRegistration("describe-execution",
                        "an execution file of Calculon, as options of passes",
                        describeExecution);
  registerExport("export-models", "models of the module in a few numbers",
                 exportModels);
}
