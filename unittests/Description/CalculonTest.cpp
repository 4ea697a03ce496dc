//===- CalculonTest.cpp - Applications, systems and executions ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading of Calculon's fields, notes, and refusals.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "PipeSched/Description/Description.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using llvm::StringRef;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

static std::string textOf(StringRef name) {
  std::string path = (llvm::Twine(CALCULON_DIR) + "/" + name + ".json").str();
  auto buffer = llvm::MemoryBuffer::getFile(path);
  EXPECT_TRUE(bool(buffer)) << path;
  return (*buffer)->getBuffer().str();
}

/// A file with one piece of text replaced.
static std::string with(StringRef name, StringRef from, StringRef to) {
  std::string text = textOf(name);
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

static llvm::Expected<HardwareFacts> readSystemText(StringRef text) {
  return systemFromJson(text, "x.json", SourceRule::Optional);
}

static llvm::Expected<Architecture> readModelText(StringRef text) {
  return architectureFromJson(text, "x.json", SourceRule::Optional);
}

//===----------------------------------------------------------------------===//
// Applications
//===----------------------------------------------------------------------===//

/// Calculon's own count, from equation 2 of Megatron (arXiv 2104.04473), leaves
/// out the last norm: l (12 h^2 + 13 h) + (51200 + s) h.
TEST(CalculonApplication, HasItsParameters) {
  Architecture arch = llvm::cantFail(readModelText(textOf("application")));
  EXPECT_EQ(arch.name, "x");
  ModelSummary summary =
      llvm::cantFail(summarize(llvm::cantFail(expandArchitecture(arch, {}))));
  int64_t h = 6144;
  EXPECT_EQ(summary.parameters,
            48 * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
  EXPECT_THAT(arch.notes,
              ElementsAre("assumes Calculon's vocabulary of 51200 tokens, "
                          "GELU, LayerNorm, biases and dropout"));
}

TEST(CalculonApplication, BadFieldsAreNamed) {
  EXPECT_EQ(
      errorOf(readModelText(with("application", "\"hidden\": 6144,", ""))),
      "x.json: needs the field 'hidden'");
  EXPECT_EQ(
      errorOf(readModelText(with("application", "attn_size", "attn_siz"))),
      "x.json: unknown field 'attn_siz', the closest is 'attn_size'");
  EXPECT_EQ(errorOf(readModelText(with("application", ": 48", ": 0"))),
            "x.json: num_blocks: expected a whole number from 1 to 2^63 - 1, "
            "found 0");
}

//===----------------------------------------------------------------------===//
// Systems
//===----------------------------------------------------------------------===//

TEST(CalculonSystem, UnitsAndRoles) {
  HardwareFacts system = llvm::cantFail(readSystemText(textOf("system")));
  EXPECT_EQ(system.matrix.flopsPerSecond, 312000000000000);
  EXPECT_EQ(system.vector.flopsPerSecond, 78000000000000);
  EXPECT_EQ(system.memoryBytes, int64_t(80) << 30);
  EXPECT_EQ(system.memory.bytesPerSecond, 2048000000000);
  EXPECT_EQ(system.host.bytesPerSecond, 32000000000);
  EXPECT_FALSE(system.overlapsMemory);
  EXPECT_EQ(system.link.bytesPerSecond, 300000000000);
  EXPECT_EQ(system.link.latencyPs, 10000000);
  EXPECT_EQ(system.link.efficiency.at(1), 0.65);
  EXPECT_EQ(system.network.bytesPerSecond, 25000000000);
  EXPECT_EQ(system.network.latencyPs, 20000000);
  EXPECT_EQ(system.accelerators, 1);
}

/// The efficiency of a size applies up to the next larger size.
TEST(CalculonSystem, EfficienciesAreSteps) {
  HardwareFacts system = llvm::cantFail(readSystemText(textOf("system")));
  const EfficiencyCurve &curve = system.matrix.efficiency;
  EXPECT_DOUBLE_EQ(curve.at(0), 0.1);
  EXPECT_DOUBLE_EQ(curve.at(0.999999999e9), 0.1);
  EXPECT_DOUBLE_EQ(curve.at(1e9), 0.6);
  EXPECT_DOUBLE_EQ(curve.at(16e9 - 1), 0.6);
  EXPECT_DOUBLE_EQ(curve.at(16e9), 0.9);
  EXPECT_DOUBLE_EQ(curve.at(128e9), 0.99);
  EXPECT_DOUBLE_EQ(curve.at(1e15), 0.99);
}

TEST(CalculonSystem, DataTypesAreChosen) {
  HardwareFacts system = llvm::cantFail(readSystemText(
      with("system", "\"float16\": {\n      \"tflops\": 312",
           "\"float8\": {\"tflops\": 624, \"gflops_efficiency\": [[0, 1]]},\n"
           "\"float16\": {\n      \"tflops\": 312")));
  EXPECT_EQ(system.matrix.flopsPerSecond, 312000000000000);
  EXPECT_EQ(system.notes.front(),
            "takes float16 of the data types of 'matrix'");
}

TEST(CalculonSystem, BadFieldsAreNamed) {
  auto error = [](StringRef from, StringRef to) {
    return errorOf(readSystemText(with("system", from, to)));
  };
  EXPECT_EQ(error("\"GBps\": 2048", "\"GBp\": 2048"),
            "x.json: mem1: unknown field 'GBp', the closest is 'GBps'");
  EXPECT_EQ(error("no_overlap", "overlap"),
            "x.json: processing_mode: expected one of roofline, no_overlap, "
            "found \"overlap\"");
  EXPECT_EQ(error("[128, 0.99], [16", "[16, 0.99], [128"),
            "x.json: matrix.float16.gflops_efficiency[1]: expected sizes that "
            "descend");
  EXPECT_EQ(error("0.99", "1.99"),
            "x.json: matrix.float16.gflops_efficiency[0]: expected an "
            "efficiency of at most 1, found 1.99");
  EXPECT_EQ(error("\"bandwidth\": 25,", ""),
            "x.json: networks[1]: needs the field 'bandwidth'");
  EXPECT_EQ(error("\"tflops\": 312,", ""),
            "x.json: matrix.float16: needs the field 'tflops'");
}

TEST(CalculonSystem, NodesAndNarrowRatesAreRead) {
  EXPECT_EQ(
      llvm::cantFail(readSystemText(textOf("system"))).acceleratorsPerNode, 8);
  std::string text = with("system", "\"matrix\": {",
                          "\"matrix\": {\"float8\": {\"tflops\": 624, "
                          "\"gflops_efficiency\": [[0, 0.9]]},");
  HardwareFacts system = llvm::cantFail(readSystemText(text));
  EXPECT_EQ(system.matrix.flopsPerSecond, 312000000000000);
  EXPECT_EQ(system.matrix.fp8FlopsPerSecond, 624000000000000);
}

/// Three networks: within a node, within a pod and between all.
TEST(CalculonSystem, NetworksInBetweenJoinPods) {
  auto withNext = [](const std::string &next) {
    return llvm::cantFail(readSystemText(
        with("system", "\"networks\": [",
             "\"networks\": [{\"bandwidth\": 300, \"efficiency\": 0.65, "
             "\"size\": 4, \"latency\": 0, \"ops\": {}}" +
                 next + ",")));
  };
  // The shipped file continues with 8 and 65,536 accelerators.
  HardwareFacts pods = withNext("");
  EXPECT_EQ(pods.acceleratorsPerNode, 4);
  EXPECT_EQ(pods.acceleratorsPerPod, 8);
  EXPECT_EQ(pods.network.bytesPerSecond, 300000000000);
  EXPECT_EQ(pods.spine.bytesPerSecond, 25000000000);
  EXPECT_THAT(pods.notes, Not(Contains(HasSubstr("takes the first"))));

  std::string next = ", {\"bandwidth\": 100, \"efficiency\": 0.65, "
                     "\"latency\": 0, \"ops\": {}, \"size\": ";
  HardwareFacts four = withNext(next + "4}");
  EXPECT_EQ(four.acceleratorsPerPod, 4);
  EXPECT_EQ(four.network.bytesPerSecond, 100000000000);
  EXPECT_THAT(four.notes, Contains("takes the first, the second and the last "
                                   "of 4 networks"));

  HardwareFacts parts = withNext(next + "6}");
  EXPECT_EQ(parts.acceleratorsPerPod, 0);
  EXPECT_EQ(parts.network.bytesPerSecond, 25000000000);
  EXPECT_EQ(parts.spine.bytesPerSecond, 0);
  EXPECT_THAT(parts.notes,
              Contains("takes the first and the last of 4 networks"));
}

//===----------------------------------------------------------------------===//
// Executions
//===----------------------------------------------------------------------===//

static std::string executionError(StringRef from, StringRef to) {
  return errorOf(executionFromJson(with("execution", from, to), "x.json"));
}

TEST(CalculonExecution, BecomesOptions) {
  CalculonExecution execution =
      llvm::cantFail(executionFromJson(textOf("execution"), "x.json"));
  EXPECT_EQ(execution.workers, 8);
  EXPECT_EQ(execution.accelerators, 8);
  EXPECT_EQ(execution.replicas, 2);
  EXPECT_EQ(execution.microbatches, 64);
  EXPECT_EQ(execution.schedulePipeline(),
            "pipe-create{workers=8 microbatches=64},"
            "pipe-place-interleaved{chunks=3},"
            "pipe-schedule-interleaved-1f1b");
  EXPECT_EQ(execution.modelOptions(), "microbatch-size=1 recompute=selective");
  EXPECT_EQ(execution.systemOptions(),
            "accelerators=8 data-parallel=2 sharding=optimizer");
  EXPECT_THAT(execution.notes, ElementsAre());
  CalculonExecution plain = llvm::cantFail(
      executionFromJson(with("execution", "\"pipeline_interleaving\": 3",
                             "\"pipeline_interleaving\": 1"),
                        "x.json"));
  EXPECT_EQ(plain.schedulePipeline(),
            "pipe-create{workers=8 microbatches=64},pipe-schedule-1f1b");
  for (const char *type : {"\"ar\"", "\"p2p_rs_ag\""}) {
    CalculonExecution whole = llvm::cantFail(
        executionFromJson(with("execution", "\"rs_ag\"", type), "x.json"));
    EXPECT_EQ(whole.modelOptions(), "microbatch-size=1 recompute=selective "
                                    "sequence-parallel=false");
  }
}

TEST(CalculonExecution, NotesNameWhatIsTurnedOn) {
  std::string text = textOf("execution");
  for (const auto &[from, to] :
       {std::pair<std::string, std::string>{"offload\": false",
                                            "offload\": true"},
        {"redo\": false", "redo\": true"},
        {"overlap\": false", "overlap\": true"},
        {"overlap\": \"none\"", "overlap\": \"ring\""},
        {"multihead", "multiquery"},
        {"float16", "float8"},
        {"pipeline_par_net\": 1", "pipeline_par_net\": 0"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;)
      text.replace(at, from.size(), to);
  CalculonExecution execution =
      llvm::cantFail(executionFromJson(text, "x.json"));
  EXPECT_EQ(execution.notes.size(), 9u);
}

TEST(CalculonExecution, BadFieldsAreNamed) {
  EXPECT_EQ(executionError("\"num_procs\": 128", "\"num_procs\": 64"),
            "x.json: num_procs: expected the product of tensor_par, "
            "pipeline_par and data_par, found 64");
  EXPECT_EQ(executionError("\"batch_size\": 128", "\"batch_size\": 127"),
            "x.json: batch_size: expected a multiple of microbatch_size times "
            "data_par, found 127");
  EXPECT_EQ(executionError("\"training\": true", "\"training\": false"),
            "x.json: training: inference has no backward to schedule");
  EXPECT_EQ(executionError("attn_only", "some"),
            "x.json: activation_recompute: expected one of none, attn_only, "
            "full, found \"some\"");
  EXPECT_EQ(executionError("\"tensor_par\": 8,", ""),
            "x.json: needs the field 'tensor_par'");
  EXPECT_EQ(executionError("tensor_par_net", "tensor_par_nett"),
            "x.json: unknown field 'tensor_par_nett', the closest is "
            "'tensor_par_net'");
  EXPECT_EQ(executionError("\"microbatch_size\": 1",
                           "\"microbatch_size\": 9223372036854775807"),
            "x.json: batch_size: expected a multiple of microbatch_size times "
            "data_par, found 128");
}
