//===- DescriptionTest.cpp - Files that ship and files that are wrong -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every shipped description can be read; the error for every kind of mistake
// names its field.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/Description.h"
#include "../Support/ErrorText.h"
#include "PipeSched/CostModel/CostModel.h"
#include "gtest/gtest.h"
#include <thread>

using namespace pipesched;
using llvm::StringRef;

static std::string systemError(StringRef text) {
  return errorOrNothing(systemFromJson(text, "x.json", SourceRule::Optional));
}

static std::string modelError(StringRef text) {
  return errorOrNothing(
      architectureFromJson(text, "x.json", SourceRule::Optional));
}

/// A system with one piece of text replaced by another.
static std::string systemWith(StringRef from, StringRef to) {
  std::string text = R"({"name": "s", "description": "d",
    "matrix": {"tflops": 2}, "vector": {"tflops": 1},
    "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 3},
    "network": {"bandwidth_gb_per_s": 4, "latency_us": 0.5}})";
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

static std::string modelWith(StringRef from, StringRef to) {
  std::string text = R"({"name": "m", "description": "d", "hidden": 8,
    "feedforward": 32, "sequence": 4, "layers": 2, "attention_heads": 2,
    "activation": "gelu", "norm": "layer"})";
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

//===----------------------------------------------------------------------===//
// Shipped descriptions
//===----------------------------------------------------------------------===//

TEST(Shipped, SystemsAreCompleteAndSourced) {
  for (const EmbeddedFile &file : embeddedSystems()) {
    llvm::Expected<HardwareFacts> system =
        systemFromJson(file.text, file.name, SourceRule::Required);
    ASSERT_TRUE(bool(system)) << llvm::toString(system.takeError());
    EXPECT_EQ(system->name, file.name.str());
    EXPECT_EQ(*system, llvm::cantFail(findSystem(file.name)));
  }
}

TEST(Shipped, ModelsAreCompleteAndExpand) {
  for (const EmbeddedFile &file : embeddedModels()) {
    llvm::Expected<Architecture> arch =
        architectureFromJson(file.text, file.name, SourceRule::Required);
    ASSERT_TRUE(bool(arch)) << llvm::toString(arch.takeError());
    EXPECT_EQ(arch->name, file.name.str());
    ExpansionOptions options;
    llvm::Expected<ModelFacts> model = expandArchitecture(*arch, options);
    ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
    EXPECT_EQ(model->getNumLayers(), arch->layers);
  }
}

/// Facts that were read once are kept by file and sequence; there may be more
/// than are kept, and several threads ask at once.
TEST(Shipped, KeptFactsAreThoseOfTheText) {
  constexpr int64_t kSequences = 70;
  auto check = [](const EmbeddedFile &file) {
    for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
      int64_t tokens = 16 * sequence;
      Architecture read = llvm::cantFail(architectureFromJson(
          file.text, file.name, SourceRule::Required, tokens));
      for (int time = 0; time < 2; ++time) {
        Architecture found =
            llvm::cantFail(findArchitecture(file.name, tokens));
        EXPECT_EQ(found.name, read.name);
        EXPECT_EQ(found.sequence, read.sequence);
        EXPECT_TRUE(llvm::cantFail(expandArchitecture(found, {})) ==
                    llvm::cantFail(expandArchitecture(read, {})));
      }
    }
  };
  std::vector<std::thread> threads;
  for (const EmbeddedFile &file : embeddedModels().take_front(3))
    threads.emplace_back(check, file);
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Shipped, PaperSystemsScaleByTen) {
  for (auto [network, networkScale] :
       {std::pair{"fast", 10.0}, {"mid", 1.0}, {"slow", 0.1}})
    for (auto [compute, computeScale] :
         {std::pair{"fast", 10.0}, {"mid", 1.0}, {"slow", 0.1}}) {
      std::string name = std::string(network) + "_nw_" + compute + "_cp";
      HardwareFacts system = llvm::cantFail(findSystem(name));
      EXPECT_EQ(system.network.bytesPerSecond, int64_t(50e9 * networkScale));
      EXPECT_EQ(system.matrix.flopsPerSecond, int64_t(1e15 * computeScale));
      EXPECT_EQ(system.vector.flopsPerSecond, system.matrix.flopsPerSecond);
      EXPECT_EQ(system.memory.bytesPerSecond, 34000000000000);
      EXPECT_EQ(system.memory.latencyPs, 50000);
      EXPECT_EQ(system.network.latencyPs, 500000);
    }
  EXPECT_EQ(llvm::cantFail(findSystem("mid_nw_mid_cp")),
            llvm::cantFail(findSystem("baseline")));
  EXPECT_EQ(llvm::cantFail(findSystem("DGX-H100")),
            llvm::cantFail(findSystem("h100-DGX")));
}

TEST(Shipped, DecimalsBecomeWholeNumbers) {
  HardwareFacts system = llvm::cantFail(findSystem("h100", Rates::DataSheet));
  EXPECT_EQ(system.name, "h100-sxm");
  EXPECT_EQ(system.matrix.flopsPerSecond, 989400000000000);
  EXPECT_EQ(system.memoryBytes, 84900000000);
  EXPECT_EQ(system.link.latencyPs, 10000000);
  EXPECT_EQ(system.link.efficiency.points[0].partsPerMillion, 650000);
}

TEST(Shipped, RatesAreThoseUnderLoadUnlessAsked) {
  HardwareFacts load = llvm::cantFail(findSystem("h100"));
  HardwareFacts sheet = llvm::cantFail(findSystem("h100", Rates::DataSheet));
  EXPECT_EQ(load, llvm::cantFail(findSystem("h100-load", Rates::Load)));
  EXPECT_EQ(load.peakSharePpm, 800000);
  EXPECT_EQ(load.matrix.flopsPerSecond, 791520000000000);
  EXPECT_EQ(load.link.efficiency.points[0].partsPerMillion, 800000);
  EXPECT_GT(load.operationPs, load.launchPs);
  EXPECT_EQ(sheet.peakSharePpm, 1000000);
  EXPECT_EQ(sheet.launchPs, 0);
  EXPECT_EQ(load.network, sheet.network);
}

TEST(Shipped, RatesUnderLoadHaveToExist) {
  llvm::cantFail(findSystem("toy", Rates::DataSheet));
  EXPECT_EQ(errorOrNothing(findSystem("toy", Rates::Load)),
            "toy: load: this system has no rates under load; ask for those of "
            "the data sheet, or add them to its file");
}

static int64_t countParameters(StringRef name) {
  ModelFacts model = llvm::cantFail(
      expandArchitecture(llvm::cantFail(findArchitecture(name)), {}));
  int64_t parameters = 0;
  for (const BlockFacts &block : model.blocks)
    parameters += block.count * (block.parameters - block.tiedParameters);
  return parameters;
}

/// Parameters as the publications count them, in units of 100 million.
TEST(Shipped, ModelsHaveTheirParameters) {
  auto count = [](StringRef name) {
    return (countParameters(name) + 50000000) / 100000000;
  };
  EXPECT_EQ(count("llama3-70b"), 706);
  EXPECT_EQ(count("gpt3-175b"), 1746); // embedding and head share a table
  EXPECT_EQ(count("paper-gpt"), 258);
  EXPECT_EQ(count("llama3-8b"), 80);
  EXPECT_EQ(count("llama3-405b"), 4059);
  EXPECT_EQ(count("mistral-7b"), 72);
  EXPECT_EQ(count("mixtral-8x7b"), 467);
  EXPECT_EQ(count("deepseek-v3"), 6710);
  EXPECT_EQ(count("qwen3-30b-a3b"), 305);
  EXPECT_EQ(count("qwen3-235b-a22b"), 2351);
}

/// Qwen3 Technical Report, arXiv 2505.09388: 8B, 14B, 32B; all digits equal the
/// weights that Qwen publishes.
TEST(Shipped, DenseQwen3ModelsHaveAllTheirParameters) {
  EXPECT_EQ(countParameters("qwen3-0.6b"), 596049920); // 0.6B, tied
  EXPECT_EQ(countParameters("qwen3-1.7b"), 1720574976);
  EXPECT_EQ(countParameters("qwen3-4b"), 4022468096);
  EXPECT_EQ(countParameters("qwen3-8b"), 8190735360);
  EXPECT_EQ(countParameters("qwen3-14b"), 14768307200);
  EXPECT_EQ(countParameters("qwen3-32b"), 32762123264);
}

/// One layer of the 22B model on 8 A100 (Korthikanti et al., 2205.05198, table
/// 4, ms: F 7.7, B 11.9, B with full recompute 19.5). Their Megatron fuses some
/// of the pointwise kernels, so the measurement must be between our two
/// variants.
TEST(Shipped, MeasuredLayerIsBetweenFusedAndUnfused) {
  HardwareFacts system =
      llvm::cantFail(findSystem("a100-sxm-80gb", Rates::DataSheet));
  system.accelerators = 8;
  Architecture arch;
  arch.hidden = arch.attentionWidth = 6144;
  arch.feedforward = 4 * arch.hidden;
  arch.sequence = 2048;
  arch.layers = 1;
  arch.attentionHeads = arch.keyValueHeads = 64;
  arch.dropout = true;
  arch.biases = {/*queryKeyValue=*/true, /*output=*/true, /*mlp=*/true};
  ExpansionOptions options;
  options.microbatchSize = 4;
  auto milliseconds = [&](Attention attention, Phase phase) {
    arch.attention = attention;
    ModelFacts model = llvm::cantFail(expandArchitecture(arch, options));
    return rooflinePs(model.blocks[0], phase, system) * 1e-9;
  };
  auto expectBetween = [&](Phase phase, double measured) {
    EXPECT_LT(milliseconds(Attention::Fused, phase), measured);
    EXPECT_GT(milliseconds(Attention::Unfused, phase), measured);
  };
  expectBetween(Phase::Forward, 7.7);
  expectBetween(Phase::Backward, 11.9);
  EXPECT_NEAR(milliseconds(Attention::Unfused, Phase::Recompute) +
                  milliseconds(Attention::Unfused, Phase::Backward),
              19.5, 1.5);
}

TEST(Shipped, UnknownNamesSuggest) {
  EXPECT_EQ(errorOrNothing(findArchitecture("lama3-70b")),
            "unknown model 'lama3-70b', the closest is 'llama3-70b'");
  EXPECT_EQ(errorOrNothing(findArchitecture("nope")),
            "unknown model 'nope' (known: deepseek-v3, gpt3-175b, llama3-405b, "
            "llama3-70b, llama3-8b, mistral-7b, mixtral-8x7b, nemotron-h-8b, "
            "paper-gpt, qwen3-0.6b, qwen3-1.7b, qwen3-14b, qwen3-235b-a22b, "
            "qwen3-30b-a3b, qwen3-32b, qwen3-4b, qwen3-8b, "
            "qwen3-next-80b-a3b, toy)");
  std::string error = errorOrNothing(findSystem("basline"));
  EXPECT_EQ(error, "unknown system 'basline', the closest is 'baseline'");
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

TEST(Mistakes, NothingIsWrongWithTheTemplates) {
  EXPECT_EQ(systemError(systemWith("", "")), "");
  EXPECT_EQ(modelError(modelWith("", "")), "");
}

TEST(Mistakes, RangesOfNumbers) {
  auto bandwidth = [](StringRef value) {
    return systemError(systemWith("\"bandwidth_gb_per_s\": 4",
                                  ("\"bandwidth_gb_per_s\": " + value).str()));
  };
  std::string field = "x.json: network.bandwidth_gb_per_s: ";
  EXPECT_EQ(bandwidth("-1"), field + "expected a number above 0, found -1");
  EXPECT_EQ(bandwidth("0"), field + "expected a number above 0, found 0");
  EXPECT_EQ(bandwidth("\"4\""),
            field + "expected a number above 0, found \"4\"");
  EXPECT_EQ(bandwidth("1e30"),
            field + "expected a number that is not too large, found 1e+30");
  EXPECT_EQ(bandwidth("1e-300"),
            field + "expected a number that is not too small, found 1e-300");
  EXPECT_NE(bandwidth("1e999"), "");
  EXPECT_NE(bandwidth("NaN"), "");
  EXPECT_EQ(
      systemError(systemWith("0.5", "-0.5")),
      "x.json: network.latency_us: expected a number of at least 0, found "
      "-0.5");
}

TEST(Mistakes, NamesOfFields) {
  EXPECT_EQ(systemError(systemWith("bandwidth_gb_per_s\": 4", "bandwith\": 4")),
            "x.json: network: unknown field 'bandwith', the closest is "
            "'bandwidth_gb_per_s'");
  EXPECT_EQ(systemError(systemWith("\"bandwidth_gb_per_s\": 4, ", "")),
            "x.json: network: needs the field 'bandwidth_gb_per_s'");
  EXPECT_EQ(systemError(systemWith("{\"tflops\": 2}", "7")),
            "x.json: matrix: expected an object, found 7");
  EXPECT_EQ(systemError(systemWith("\"latency_us\": 0.5",
                                   "\"latency_us\": 0.5, \"latency_us\": 1")),
            "x.json:4:61: field \"latency_us\" is given twice");
  EXPECT_EQ(systemError("[]"), "x.json: expected an object, found []");
}

TEST(Mistakes, FieldsUnderLoad) {
  auto mistake = [](StringRef load) {
    return systemError(systemWith(
        "\"name\": \"s\"", ("\"name\": \"s\", \"load\": " + load).str()));
  };
  std::string wanted = "expected 'sustained', 'host_time', or efficiencies in "
                       "'matrix', 'link' or 'network', which the system has";
  EXPECT_EQ(mistake("{\"sustained\": 0.8, \"network\": {\"efficiency\": 0.5}}"),
            "");
  EXPECT_EQ(mistake("7"), "x.json: load: expected an object of fields");
  EXPECT_EQ(mistake("{\"vector\": {}}"), "x.json: load.vector: " + wanted);
  EXPECT_EQ(mistake("{\"link\": {\"efficiency\": 1}}"),
            "x.json: load.link: " + wanted);
  EXPECT_EQ(mistake("{\"matrix\": {\"tflops\": 3}}"),
            "x.json: load.matrix.tflops: expected an efficiency");
  EXPECT_EQ(mistake("{\"sustained\": 2}"),
            "x.json: sustained: expected an efficiency of at most 1, found 2");
}

TEST(Mistakes, NodesPodsAndEngines) {
  auto mistake = [](StringRef fields) {
    return systemError(
        systemWith("\"name\": \"s\"", ("\"name\": \"s\", " + fields).str()));
  };
  StringRef link = "\"link\": {\"bandwidth_gb_per_s\": 1}, ";
  StringRef spine = "\"spine\": {\"bandwidth_gb_per_s\": 1}";
  EXPECT_EQ(mistake("\"accelerators_per_node\": 8"),
            "x.json: accelerators of a node need the field 'link'");
  EXPECT_EQ(mistake("\"accelerators_per_node\": 65537"),
            "x.json: accelerators_per_node: expected a whole number of at most "
            "65536, found 65537");
  EXPECT_EQ(mistake("\"accelerators_per_pod\": 8"),
            "x.json: accelerators of a pod need the field 'spine', which joins "
            "pods");
  EXPECT_EQ(mistake(spine),
            "x.json: the field 'spine' needs 'accelerators_per_pod', the "
            "number that 'network' joins");
  EXPECT_EQ(mistake(("\"accelerators_per_node\": 8, "
                     "\"accelerators_per_pod\": 12, " +
                     link + spine)
                        .str()),
            "x.json: expected accelerators_per_pod to be a multiple of "
            "accelerators_per_node, 8, found 12");
  EXPECT_EQ(mistake("\"multiprocessors\": {\"count\": 16, "
                    "\"communication\": 16}"),
            "x.json: multiprocessors.communication: expected fewer than the 16 "
            "multiprocessors, found 16");
  EXPECT_EQ(systemError(systemWith("\"vector\": {\"tflops\": 1}",
                                   "\"vector\": {\"tflops\": 1, "
                                   "\"fp8_tflops\": 2}")),
            "x.json: vector: unknown field 'fp8_tflops', the closest is "
            "'tflops'");
  EXPECT_EQ(systemError(systemWith("\"tflops\": 2",
                                   "\"tflops\": 2, \"fp8_efficiency\": 0.5")),
            "x.json: matrix.fp8_tflops: an efficiency in FP8 needs this rate");
}

/// A system with two groups, and one piece of text replaced by another.
static llvm::Expected<HardwareFacts> groupsWith(StringRef from, StringRef to) {
  std::string text = R"({"name": "g", "description": "d", "groups": [
    {"system": "h200-sxm", "accelerators": 24},
    {"system": "a100-sxm-80gb", "accelerators": 16}],
    "spine": {"bandwidth_gb_per_s": 4}})";
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return systemFromJson(text.replace(at, from.size(), to.str()), "x.json",
                        SourceRule::Optional);
}

/// The first group represents all, except that the least memory counts.
TEST(System, GroupsOfNodes) {
  HardwareFacts system = llvm::cantFail(groupsWith("", ""));
  HardwareFacts first = llvm::cantFail(findSystem("h200-sxm"));
  HardwareFacts second = llvm::cantFail(findSystem("a100-sxm-80gb"));
  EXPECT_EQ(system.name, "g");
  EXPECT_EQ(system.matrix, first.matrix);
  EXPECT_EQ(system.memoryBytes, second.memoryBytes);
  EXPECT_EQ(system.groupEnds, (std::vector<int64_t>{24, 40}));
  EXPECT_EQ(system.acceleratorsPerPod, 8);
  EXPECT_EQ(system.groups[1].matrix, second.matrix);
  EXPECT_EQ(system.groups[1].spine.bytesPerSecond, 4000000000);
  llvm::cantFail(setAccelerators(system, 2));
  EXPECT_EQ(system.groups[1].accelerators, 2);
  EXPECT_EQ(peakFlopsPerSecond(system, Engine::Matrix),
            2 *
                (24 * peakFlopsPerSecond(first, Engine::Matrix) +
                 16 * peakFlopsPerSecond(second, Engine::Matrix)) /
                40);
}

TEST(Mistakes, Groups) {
  auto mistake = [](StringRef from, StringRef to) {
    return errorOrNothing(groupsWith(from, to));
  };
  EXPECT_EQ(mistake("24", "20"),
            "x.json: groups[0].accelerators: expected whole nodes of 8 "
            "accelerators, at most 1048576 in all, found 20");
  EXPECT_EQ(mistake("a100-sxm-80gb", "b200-sxm"),
            "x.json: groups[1].system: expected the fastest group first, found "
            "'b200-sxm' behind 'h200-sxm'");
  EXPECT_EQ(mistake("a100-sxm-80gb", "dgx-a100"),
            "x.json: groups[1].system: expected nodes of 8 accelerators and "
            "workers of 1, as in the group before, found 8 and 8");
  EXPECT_EQ(mistake("a100-sxm-80gb", "a100-sxm-80g"),
            "x.json: groups[1].system: unknown system 'a100-sxm-80g', the "
            "closest is 'a100-sxm-80gb'");
  EXPECT_EQ(mistake("\"a100-sxm-80gb\"", "{\"name\": \"s\"}"),
            "x.json: groups[1].system: needs the field 'description'");
  EXPECT_EQ(
      mistake("\"accelerators\": 16", "\"gpus\": 16"),
      "x.json: groups[1]: unknown field 'gpus' (known: system, accelerators)");
  EXPECT_EQ(mistake("\"spine\"", "\"network\""),
            "x.json: unknown field 'network' (known: $schema, name, "
            "description, spine, groups, aliases, sources)");
  EXPECT_EQ(mistake("[", "[], \"aliases\": ["),
            "x.json: groups: expected a list of at least two groups of nodes");
}

TEST(Mistakes, TextThatIsNoJson) {
  EXPECT_EQ(StringRef(systemError("{")).take_front(12), "x.json:1:1: ");
  EXPECT_EQ(systemError("{\n  \"name\": nul\n}"),
            "x.json:2:14: Invalid JSON value (null?)");
  EXPECT_EQ(modelError("\xEF\xBB\xBF" + modelWith("", "")), "");
  std::string deep(1000000, '[');
  EXPECT_EQ(modelError(deep),
            "x.json:1:65: more than 64 values are inside each other");
  EXPECT_EQ(modelError("[\"\\\"[\"" + deep),
            "x.json:1:70: more than 64 values are inside each other");
  EXPECT_EQ(modelError("{\"a\": 1,}"), "x.json:1:9: Expected object key");
  EXPECT_EQ(modelError("[1] x"), "x.json:1:5: Text after end of document");
  EXPECT_EQ(modelError("\n"), "x.json:2:1: Unexpected EOF");
  EXPECT_EQ(modelError("{\"a\": \"\xFF\"}"),
            "x.json:1:8: Invalid UTF-8 sequence");
  EXPECT_NE(modelError("\"\\"), "");
}

TEST(Mistakes, Efficiencies) {
  auto efficiency = [](StringRef text) {
    return systemError(
        systemWith("\"tflops\": 2", ("\"tflops\": 2, " + text).str()));
  };
  EXPECT_EQ(efficiency("\"efficiency\": 0.5"), "");
  EXPECT_EQ(efficiency("\"efficiency\": 1.5"),
            "x.json: matrix.efficiency: expected an efficiency of at most 1, "
            "found 1.5");
  EXPECT_EQ(efficiency("\"efficiency\": 0"),
            "x.json: matrix.efficiency: expected a number above 0, found 0");
  EXPECT_EQ(efficiency("\"efficiency_by_gflop\": [[0, 0.1], [2, 0.5]]"), "");
  EXPECT_EQ(
      efficiency("\"efficiency_by_gflop\": [[2, 0.1], [2, 0.5]]"),
      "x.json: matrix.efficiency_by_gflop[1]: expected sizes that ascend");
  EXPECT_EQ(efficiency("\"efficiency_by_gflop\": [[2]]"),
            "x.json: matrix.efficiency_by_gflop[0]: expected a point [size, "
            "efficiency]");
  EXPECT_EQ(efficiency("\"efficiency_by_gflop\": []"),
            "x.json: matrix.efficiency_by_gflop: expected points [[size, "
            "efficiency], ...]");
  EXPECT_EQ(efficiency("\"efficiency\": 1, \"efficiency_by_gflop\": [[0, 1]]"),
            "x.json: matrix.efficiency: expected either this or "
            "efficiency_by_gflop");
}

/// A system with one attention kernel, some of whose fields are replaced.
static std::string withAttention(StringRef from, StringRef to) {
  std::string kernel = R"({"kernel": "flash-2", "head_size": 64,
      "forward_tflops_by_tokens": [[512, 4], [1024, 8]],
      "backward_tflops_by_tokens": [[512, 2]]})";
  if (!from.empty())
    kernel.replace(kernel.find(from.str()), from.size(), to.str());
  return systemWith("\"name\": \"s\"",
                    "\"name\": \"s\", \"attention\": [" + kernel + "]");
}

TEST(System, AttentionHasSharesOfItsFastestRate) {
  HardwareFacts system = llvm::cantFail(
      systemFromJson(withAttention("", ""), "x.json", SourceRule::Optional));
  ASSERT_EQ(system.attention.size(), 1u);
  EXPECT_EQ(system.attention.front(),
            (AttentionRates{FlashKernel::Flash2,
                            64,
                            8000000000000,
                            {{{512, 500000}, {1024, 1000000}}},
                            {{{512, 250000}}}}));
}

/// Multiprocessors that communicate compute no attention either.
TEST(System, AttentionRunsOnTheOtherMultiprocessors) {
  std::string text = withAttention("", "");
  text.replace(text.find("\"attention\""), 0,
               "\"multiprocessors\": {\"count\": 4, \"communication\": 1}, ");
  EXPECT_EQ(llvm::cantFail(systemFromJson(text, "x.json", SourceRule::Optional))
                .attention.front()
                .flopsPerSecond,
            6000000000000);
}

TEST(Mistakes, Attention) {
  auto mistake = [](StringRef from, StringRef to) {
    return systemError(withAttention(from, to));
  };
  EXPECT_EQ(mistake("", ""), "");
  EXPECT_EQ(mistake("flash-2", "flash-4"),
            "x.json: attention[0].kernel: expected one of flash-2, flash-3, "
            "cudnn, found \"flash-4\"");
  EXPECT_EQ(mistake("\"head_size\": 64,", ""),
            "x.json: attention[0]: needs the field 'head_size'");
  EXPECT_EQ(mistake("[[512, 2]]", "[[512]]"),
            "x.json: attention[0].backward_tflops_by_tokens[0]: expected a "
            "point [tokens, TFLOP/s]");
  EXPECT_EQ(mistake("[[512, 2]]", "[]"),
            "x.json: attention[0].backward_tflops_by_tokens: expected points "
            "[[tokens, TFLOP/s], ...]");
  EXPECT_EQ(mistake("[1024, 8]", "[512, 8]"),
            "x.json: attention[0].forward_tflops_by_tokens[1]: expected tokens "
            "that ascend");
  EXPECT_EQ(mistake("[512, 2]", "[512, 0]"),
            "x.json: attention[0].backward_tflops_by_tokens[0]: expected a "
            "number above 0, found 0");
  EXPECT_EQ(mistake("[[512, 2]]}", R"([[512, 2]]}, {"kernel": "flash-2",
      "head_size": 64, "forward_tflops_by_tokens": [[1, 1]],
      "backward_tflops_by_tokens": [[1, 1]]})"),
            "x.json: attention[1]: flash-2 with heads of 64 is given twice");
  EXPECT_EQ(systemError(systemWith("\"name\": \"s\"",
                                   "\"name\": \"s\", \"attention\": {}")),
            "x.json: attention: expected a list of kernels with their rates");
}

TEST(Mistakes, Sources) {
  auto sources = [](StringRef text) {
    return systemWith("\"name\": \"s\"",
                      ("\"name\": \"s\", \"sources\": " + text).str());
  };
  EXPECT_EQ(systemError(sources("{\"matrix\": \"made up\"}")), "");
  EXPECT_EQ(systemError(sources("{\"matrix.tflop\": \"made up\"}")),
            "x.json: sources: 'matrix.tflop' is no field of this file");
  EXPECT_EQ(systemError(sources("{\"matrix\": 3}")),
            "x.json: sources: expected a text for 'matrix'");
  EXPECT_EQ(errorOrNothing(systemFromJson(sources("{\"matrix\": \"made up\"}"),
                                          "x.json", SourceRule::Required)),
            "x.json: memory.bandwidth_gb_per_s: has no source in 'sources'");
  EXPECT_EQ(errorOrNothing(systemFromJson(systemWith("", ""), "x.json",
                                          SourceRule::Required)),
            "x.json: needs the field 'sources'");
}

TEST(Mistakes, Models) {
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8", "\"hiden\": 8")),
            "x.json: unknown field 'hiden', the closest is 'hidden'");
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8", "\"hidden\": 8.5")),
            "x.json: hidden: expected a whole number from 1 to 2^63 - 1, found "
            "8.5");
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8", "\"hidden\": -8")),
            "x.json: hidden: expected a whole number from 1 to 2^63 - 1, found "
            "-8");
  EXPECT_EQ(
      modelError(modelWith("gelu", "tanh")),
      "x.json: activation: expected one of gelu, relu, squared_relu, silu, "
      "geglu, reglu, swiglu, found \"tanh\"");
  EXPECT_EQ(
      modelError(modelWith("\"hidden\": 8", "\"hidden\": 8, \"dropout\": 1")),
      "x.json: dropout: expected true or false, found 1");
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8", "\"hidden\": 8, "
                                                  "\"head_size\": 2, "
                                                  "\"attention_width\": 4")),
            "x.json: attention_width: expected either this or head_size");
  EXPECT_EQ(
      modelError(modelWith("\"hidden\": 8", "\"hidden\": 8, "
                                            "\"learned_positions\": true")),
      "x.json: learned_positions: stand in the embedding, which needs the "
      "field 'vocabulary'");
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8",
                                 "\"hidden\": 8, \"parallel_loss\": true")),
            "x.json: parallel_loss: needs separate_loss, whose operations it "
            "divides");
  EXPECT_EQ(modelError(modelWith("\"hidden\": 8",
                                 "\"hidden\": 8, \"gathered_loss\": true")),
            "x.json: gathered_loss: needs separate_loss, whose operations run "
            "on all logits, and no parallel_loss");
}

TEST(Mistakes, HeadSizesMakeTheWidth) {
  Architecture arch = llvm::cantFail(architectureFromJson(
      modelWith("\"hidden\": 8", "\"hidden\": 8, \"head_size\": 3"), "x.json",
      SourceRule::Optional));
  EXPECT_EQ(arch.attentionWidth, 6);
}

TEST(Mistakes, Profiles) {
  auto error = [](StringRef text) {
    return errorOrNothing(profileFromJson(text, "p.json"));
  };
  EXPECT_EQ(error(R"({"F": "1ms", "I": ["2ms", "3ms"]})"), "");
  EXPECT_EQ(error(R"({"F": 1})"),
            "p.json: F: expected a time in quotes such as \"1.5ms\", found 1");
  EXPECT_EQ(error(R"({"F": "1m"})"),
            "p.json: F: expected a unit (ps, ns, us, ms or s) after '1', found "
            "'m'");
  EXPECT_EQ(error(R"({"F": []})"), "p.json: F: expected at least one time");
  EXPECT_EQ(error(R"({"F": ["1ms", "2ms", "-3ms"]})"),
            "p.json: F[2]: expected a time of at least 0, found '-3ms'");
  EXPECT_EQ(error(R"({"coms": "1ms"})"),
            "p.json: unknown field 'coms', the closest is 'comm'");
  EXPECT_EQ(error("{}"),
            "p.json: expected times such as {\"F\": \"1ms\"}, found none");
}

TEST(Files, MustBeReadable) {
  EXPECT_EQ(StringRef(errorOrNothing(readSystem("no/such/file.json")))
                .split(':')
                .first,
            "cannot read 'no/such/file.json'");
  EXPECT_NE(errorOrNothing(readArchitecture("/")), "");
  EXPECT_NE(errorOrNothing(readProfile("no/such/file.json")), "");
}
