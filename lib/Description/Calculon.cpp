//===- Calculon.cpp - Calculon's application and system files -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the files of github.com/calculon-ai/calculon. docs/Models.md lists
// fields without a counterpart; the notes of a model list the ones in its file.
//
//===----------------------------------------------------------------------===//

#include "FieldReader.h"
#include "Formats.h"
#include "PipeSched/Facts/Deployment.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr double kGibi = 1024.0 * 1024 * 1024;
static constexpr double kPsPerSecond = 1e12;

//===----------------------------------------------------------------------===//
// Applications
//===----------------------------------------------------------------------===//

bool pipesched::isCalculonApplication(const json::Object &file) {
  return file.get("num_blocks") || file.get("attn_heads") ||
         file.get("seq_size");
}

/// Calculon counts parameters as for GPT: biases in all layers, two LayerNorms,
/// a table of 51,200 tokens that embedding and head share, and learned
/// positions.
Architecture pipesched::readCalculonApplication(const json::Value &file,
                                                StringRef path,
                                                FileErrors &errors) {
  constexpr int64_t vocabulary = 51200;
  FieldReader reader(&file, "", errors);
  Architecture arch;
  arch.name = reader.text("name", nameOfFile(path));
  arch.source = "Calculon application";
  arch.hidden = reader.integer("hidden", 1);
  arch.feedforward = reader.integer("feedforward", 1);
  arch.sequence = reader.integer("seq_size", 1);
  arch.attentionHeads = arch.keyValueHeads = reader.integer("attn_heads", 1);
  int64_t headSize = reader.integer("attn_size", 1);
  arch.layers = reader.integer("num_blocks", 1);
  reader.finish();
  if (llvm::MulOverflow(headSize, arch.attentionHeads, arch.attentionWidth))
    errors.report("attn_size", "all heads together are wider than 2^63 - 1");
  arch.biases = {/*queryKeyValue=*/true, /*output=*/true, /*mlp=*/true};
  arch.dropout = true;
  arch.vocabulary = vocabulary;
  arch.tiedEmbeddings = true;
  arch.learnedPositions = arch.sequence;
  arch.notes.push_back("assumes Calculon's vocabulary of 51200 tokens, GELU, "
                       "LayerNorm, biases and dropout");
  return arch;
}

//===----------------------------------------------------------------------===//
// Systems
//===----------------------------------------------------------------------===//

bool pipesched::isCalculonSystem(const json::Object &file) {
  return file.get("mem1") || file.get("processing_mode");
}

/// Reads `[[size, efficiency], ...]` with descending sizes. A share is valid
/// from its size up to the next, so each jump becomes a slope with a width of
/// one unit.
static EfficiencyCurve readSteps(FieldReader &reader, StringRef name,
                                 double scale) {
  EfficiencyCurve curve;
  const json::Value *value = reader.require(name);
  if (!value)
    return curve;
  FileErrors &errors = reader.getErrors();
  std::string path = reader.pathOf(name);
  const json::Array *steps = value->getAsArray();
  if (!steps || steps->empty()) {
    errors.report(path, "expected steps [[size, efficiency], ...]");
    return curve;
  }
  int64_t above = 0; // size of the previous entry, which is larger
  for (size_t index = 0; index < steps->size(); ++index) {
    std::string stepPath = (path + "[" + Twine(index) + "]").str();
    const json::Array *step = (*steps)[index].getAsArray();
    if (!step || step->size() != 2) {
      errors.report(stepPath, "expected a step [size, efficiency]");
      return curve;
    }
    int64_t size = scaleNumber((*step)[0], scale, /*isZeroAllowed=*/true,
                               stepPath, errors);
    int64_t share = readShare((*step)[1], stepPath, errors);
    if (index > 0 && size >= above)
      errors.report(stepPath, "expected sizes that descend");
    if (index > 0 && size < above - 1)
      curve.points.push_back({above - 1, share});
    curve.points.push_back({size, share});
    above = size;
  }
  std::reverse(curve.points.begin(), curve.points.end());
  return curve;
}

/// Reads the rate of `{"float8": {...}}`; 0 if absent.
static int64_t readFp8Rate(const json::Object &types, const std::string &path,
                           FileErrors &errors,
                           std::vector<std::string> &notes) {
  const json::Value *value = types.get("float8");
  if (!value)
    return 0;
  FieldReader reader(value, path + ".float8", errors);
  int64_t flopsPerSecond = reader.scaled("tflops", kTera);
  reader.find("gflops_efficiency");
  reader.finish();
  notes.push_back("gives float8 the efficiency of the other type");
  return flopsPerSecond;
}

/// Reads `{"float16": {...}}`: a 16-bit type, or the first type by name.
static EngineFacts readCalculonEngine(FieldReader &parent, StringRef name,
                                      std::vector<std::string> &notes) {
  FileErrors &errors = parent.getErrors();
  const json::Value *value = parent.require(name);
  const json::Object *types = value ? value->getAsObject() : nullptr;
  if (!types || types->empty()) {
    if (value)
      errors.report(parent.pathOf(name),
                    "expected an object of data types, found " +
                        textOf(*value));
    return {};
  }
  llvm::SmallVector<StringRef> names;
  for (const auto &type : *types)
    names.push_back(type.first);
  llvm::sort(names);
  StringRef chosen = names.front();
  for (StringRef half : {"float16", "bfloat16"})
    if (types->get(half)) {
      chosen = half;
      break;
    }
  if (names.size() > 1)
    notes.push_back(
        ("takes " + chosen + " of the data types of '" + name + "'").str());
  FieldReader reader(types->get(chosen),
                     parent.pathOf((name + "." + chosen).str()), errors);
  EngineFacts facts;
  facts.flopsPerSecond = reader.scaled("tflops", kTera);
  facts.efficiency = readSteps(reader, "gflops_efficiency", kGiga);
  reader.finish();
  if (name == "matrix" && chosen != "float8")
    facts.fp8FlopsPerSecond =
        readFp8Rate(*types, parent.pathOf(name), errors, notes);
  return facts;
}

static LinkFacts readCalculonMemory(FieldReader &parent, StringRef name,
                                    int64_t &capacity) {
  FieldReader reader(parent.require(name), parent.pathOf(name),
                     parent.getErrors());
  LinkFacts facts;
  capacity = reader.scaled("GiB", kGibi);
  facts.bytesPerSecond = reader.scaled("GBps", kGiga);
  facts.efficiency = readSteps(reader, "MB_efficiency", kMega);
  reader.finish();
  return facts;
}

namespace {
/// A network, including properties without a counterpart in PipeSched.
struct CalculonNetwork {
  LinkFacts link;
  int64_t size = 1;
  bool usesProcessor = false;
};
} // namespace

static CalculonNetwork readNetwork(const json::Value &value, std::string path,
                                   FileErrors &errors) {
  FieldReader reader(&value, std::move(path), errors);
  CalculonNetwork network;
  network.link.bytesPerSecond = reader.scaled("bandwidth", kGiga);
  network.link.latencyPs = reader.scaled("latency", kPsPerSecond, 0);
  if (const json::Value *share = reader.require("efficiency"))
    network.link.efficiency.points = {
        {0, readShare(*share, reader.pathOf("efficiency"), errors)}};
  network.size = reader.integer("size", 1);
  if (const json::Value *usage = reader.find("processor_usage"))
    network.usesProcessor = usage->getAsNumber().value_or(0) > 0;
  reader.find("ops");
  reader.find("must_be_filled");
  reader.find("collective_minus1_scalar");
  reader.finish();
  return network;
}

/// If the sizes allow pods, connects pods by the last network and the nodes of
/// a pod by the second one. Otherwise the last network connects all nodes.
static void addPods(llvm::ArrayRef<CalculonNetwork> networks,
                    HardwareFacts &facts) {
  HardwareFacts withPods = facts;
  withPods.network = networks[1].link;
  withPods.spine = networks.back().link;
  withPods.acceleratorsPerPod = networks[1].size;
  bool fits = networks[1].size <= kMaxAcceleratorsPerPod &&
              networks[1].size < networks.back().size &&
              !mistakeInLevels(withPods);
  if (fits)
    facts = withPods;
  if (!fits || networks.size() > 3)
    facts.notes.push_back((llvm::Twine("takes the first") +
                           (fits ? ", the second" : "") + " and the last of " +
                           Twine(networks.size()) + " networks")
                              .str());
}

/// Reads networks. The first network connects the accelerators of a node, the
/// last one connects nodes; a single network does both. If there are more than
/// two, the networks in between connect the nodes of a pod.
static void readNetworks(FieldReader &reader, HardwareFacts &facts) {
  const json::Value *value = reader.require("networks");
  if (!value)
    return;
  FileErrors &errors = reader.getErrors();
  const json::Array *list = value->getAsArray();
  if (!list || list->empty()) {
    errors.report("networks", "expected a list of at least one network");
    return;
  }
  std::vector<CalculonNetwork> networks;
  networks.reserve(list->size());
  for (size_t index = 0; index < list->size(); ++index)
    networks.push_back(readNetwork(
        (*list)[index], ("networks[" + Twine(index) + "]").str(), errors));
  facts.link = networks.front().link;
  facts.network = networks.back().link;
  if (networks.size() > 1)
    facts.acceleratorsPerNode =
        std::min(networks.front().size, kMaxAcceleratorsPerNode);
  if (networks.size() > 2)
    addPods(networks, facts);
  facts.notes.push_back(
      "all-reduces are rings at the network's bandwidth, not the factors of "
      "'ops'");
  if (llvm::any_of(networks, [](const CalculonNetwork &network) {
        return network.usesProcessor;
      }))
    facts.notes.push_back("messages take nothing from the accelerators, "
                          "'processor_usage' is left out");
}

HardwareFacts pipesched::readCalculonSystem(const json::Value &file,
                                            StringRef path,
                                            FileErrors &errors) {
  FieldReader reader(&file, "", errors);
  HardwareFacts facts;
  facts.name = reader.text("name", nameOfFile(path));
  if (facts.name.empty())
    facts.name = "calculon";
  facts.source = "Calculon system";
  facts.matrix = readCalculonEngine(reader, "matrix", facts.notes);
  facts.vector = readCalculonEngine(reader, "vector", facts.notes);
  facts.memory = readCalculonMemory(reader, "mem1", facts.memoryBytes);
  int64_t hostBytes = 0;
  facts.host = readCalculonMemory(reader, "mem2", hostBytes);
  facts.overlapsMemory =
      reader.choice("processing_mode", {"roofline", "no_overlap"}) == 0;
  readNetworks(reader, facts);
  reader.finish();
  facts.notes.push_back("the host's memory has no limit, 'mem2.GiB' is left "
                        "out");
  return facts;
}

//===----------------------------------------------------------------------===//
// Options for passes
//===----------------------------------------------------------------------===//

std::string CalculonExecution::schedulePipeline() const {
  std::string text = ("pipe-create{workers=" + Twine(workers) +
                      " microbatches=" + Twine(microbatches) + "},")
                         .str();
  if (chunks == 1)
    return text + "pipe-schedule-1f1b";
  return (text + "pipe-place-interleaved{chunks=" + Twine(chunks) +
          "},pipe-schedule-interleaved-1f1b")
      .str();
}

std::string CalculonExecution::modelOptions() const {
  std::string text = ("microbatch-size=" + Twine(microbatchSize)).str();
  if (recompute != Recompute::None)
    text += " recompute=" + enumName(recompute).str();
  if (!sequenceParallel)
    text += " sequence-parallel=false";
  return text;
}

std::string CalculonExecution::systemOptions() const {
  std::string text = ("accelerators=" + Twine(accelerators)).str();
  if (replicas > 1)
    text += (" data-parallel=" + Twine(replicas)).str();
  if (shardsOptimizer)
    text += " sharding=" + enumName(Sharding::Optimizer).str();
  return text;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

static void readDegrees(FieldReader &reader, CalculonExecution &execution) {
  FileErrors &errors = reader.getErrors();
  int64_t processors = reader.integer("num_procs", 1);
  execution.accelerators = reader.integer("tensor_par", 1);
  execution.workers = reader.integer("pipeline_par", 1);
  execution.replicas = reader.integer("data_par", 1);
  execution.chunks = reader.integer("pipeline_interleaving", 1);
  if (!reader.isSound())
    return;
  int64_t pipeline = 0, product = 0;
  if (llvm::MulOverflow(execution.accelerators, execution.workers, pipeline) ||
      llvm::MulOverflow(pipeline, execution.replicas, product) ||
      product != processors)
    errors.report("num_procs",
                  "expected the product of tensor_par, pipeline_par and "
                  "data_par, found " +
                      Twine(processors));
  if (execution.workers == 1 && execution.chunks > 1)
    errors.report("pipeline_interleaving",
                  "one worker has one chunk, found " + Twine(execution.chunks));
}

static void readBatch(FieldReader &reader, CalculonExecution &execution) {
  FileErrors &errors = reader.getErrors();
  execution.globalBatch = reader.integer("batch_size", 1);
  execution.microbatchSize = reader.integer("microbatch_size", 1);
  if (!reader.isSound())
    return;
  int64_t step = 0;
  if (llvm::MulOverflow(execution.microbatchSize, execution.replicas, step) ||
      execution.globalBatch % step) {
    errors.report("batch_size",
                  "expected a multiple of microbatch_size times data_par, "
                  "found " +
                      Twine(execution.globalBatch));
    return;
  }
  execution.microbatches = execution.globalBatch / step;
}

/// Adds notes about features that a file enables and PipeSched does not model.
static void readRest(FieldReader &reader, CalculonExecution &execution) {
  auto note = [&](StringRef text) { execution.notes.push_back(text.str()); };
  auto noteFlag = [&](StringRef name, StringRef text) {
    if (reader.flag(name, false))
      note((name + ": " + text).str());
  };
  execution.shardsOptimizer = reader.flag("optimizer_sharding", false);
  noteFlag("data_par_overlap",
           "pipe-add-optimizer{all-reduce=eager} hides reductions");
  noteFlag("seq_par_ag_redo", "inputs of layers are kept, not gathered again");
  noteFlag("weight_offload", "weights stay on the accelerators");
  noteFlag("activations_offload", "pipe-add-offload places copies to the host");
  noteFlag("optimizer_offload", "optimizer state stays on the accelerators");
  if (reader.choice("attention_type", {"multihead", "multiquery"}, 0) == 1)
    note("attention_type: the number of key-value heads is the model's");
  if (reader.choice("tensor_par_overlap", {"none", "ring", "pipe"}, 0) != 0)
    note("tensor_par_overlap: all-reduces of a layer are not hidden");
  execution.sequenceParallel =
      reader.choice("tensor_par_comm_type", {"ar", "p2p_rs_ag", "rs_ag"}, 2) ==
      2;
  std::string type = reader.text("datatype", "float16");
  if (type != "float16" && type != "bfloat16")
    note("datatype: the bytes of an element are the model's, not those of " +
         type);
  // These flags have no effect: the model decides about fusion, and networks
  // have fixed roles.
  reader.flag("fused_activation", true);
  bool tensorAcross = reader.integer("tensor_par_net", 0, 0) != 0;
  bool pipelineWithin = reader.integer("pipeline_par_net", 0, 1) == 0;
  reader.integer("data_par_net", 0, 1);
  if (tensorAcross || pipelineWithin)
    note("tensor_par_net, pipeline_par_net: the accelerators of a worker use "
         "the first network, workers the last");
}

llvm::Expected<CalculonExecution> pipesched::executionFromJson(StringRef text,
                                                               StringRef file) {
  llvm::Expected<llvm::json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  FieldReader reader(&*value, "", errors);
  CalculonExecution execution;
  readDegrees(reader, execution);
  readBatch(reader, execution);
  execution.recompute = Recompute(
      reader.choice("activation_recompute", {"none", "attn_only", "full"}, 0));
  if (!reader.flag("training", true))
    errors.report("training", "inference has no backward to schedule");
  readRest(reader, execution);
  reader.finish();
  if (errors.any())
    return errors.take();
  return execution;
}
