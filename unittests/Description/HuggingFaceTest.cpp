//===- HuggingFaceTest.cpp - Configurations of published models -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters and FLOPs compared with other implementations, the form of each
// family, and files that are refused.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "PipeSched/Description/Description.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using llvm::StringRef;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
namespace json = llvm::json;

static std::string pathOf(StringRef name) {
  return (llvm::Twine(HUGGING_FACE_DIR) + "/" + name + ".json").str();
}

static ModelSummary summaryOf(const Architecture &arch) {
  return llvm::cantFail(
      summarize(llvm::cantFail(expandArchitecture(arch, {}))));
}

static llvm::Expected<Architecture> readText(StringRef text,
                                             int64_t sequence = 0) {
  return architectureFromJson(text, "config.json", SourceRule::Optional,
                              sequence);
}

static std::string errorOf(StringRef text) {
  llvm::Expected<Architecture> arch = readText(text);
  return arch ? "" : llvm::toString(arch.takeError());
}

//===----------------------------------------------------------------------===//
// Published models
//===----------------------------------------------------------------------===//

namespace {
/// A row of test/data/huggingface/published.json: a model with its number of
/// parameters, all, and active ones of a token.
struct Published {
  std::string name;
  int64_t parameters;
  int64_t active;
  /// Empty: the configuration is in a file of that name.
  std::string config;
};
} // namespace

static std::vector<Published> readPublished() {
  auto buffer = llvm::MemoryBuffer::getFile(pathOf("published"));
  json::Value file = llvm::cantFail(json::parse((*buffer)->getBuffer()));
  std::vector<Published> models;
  for (const json::Value &value : *file.getAsArray()) {
    const json::Object &row = *value.getAsObject();
    int64_t parameters = *row.getInteger("parameters");
    const json::Value *config = row.get("config");
    models.push_back({row.getString("name")->str(), parameters,
                      row.getInteger("active").value_or(parameters),
                      config ? llvm::formatv("{0}", *config).str() : ""});
  }
  return models;
}

static llvm::Expected<Architecture> readModel(const Published &model,
                                              int64_t sequence = 0) {
  return model.config.empty() ? readArchitecture(pathOf(model.name), sequence)
                              : readText(model.config, sequence);
}

static llvm::Expected<Architecture> readModel(StringRef name,
                                              int64_t sequence = 0) {
  static const std::vector<Published> models = readPublished();
  return readModel(
      *llvm::find_if(
          models, [&](const Published &model) { return model.name == name; }),
      sequence);
}

class PublishedModels : public testing::TestWithParam<Published> {};

TEST_P(PublishedModels, HaveTheirParameters) {
  const Published &model = GetParam();
  llvm::Expected<Architecture> arch = readModel(model);
  ASSERT_TRUE(bool(arch)) << llvm::toString(arch.takeError());
  ModelSummary summary = summaryOf(*arch);
  EXPECT_EQ(summary.parameters, model.parameters);
  EXPECT_EQ(summary.activeParameters, model.active);
}

TEST_P(PublishedModels, UseEveryField) {
  Architecture arch = llvm::cantFail(readModel(GetParam()));
  for (const std::string &note : arch.notes)
    EXPECT_EQ(note.find("does not use"), std::string::npos) << note;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, PublishedModels,
                         testing::ValuesIn(readPublished()),
                         [](const testing::TestParamInfo<Published> &info) {
                           std::string name = info.param.name;
                           for (char &c : name)
                             c = llvm::isAlnum(c) ? c : '_';
                           return name;
                         });

/// Small configurations of every family, compared with transformers' parameters
/// and PyTorch's FLOPs of matrix products over 16 tokens.
TEST(Variants, HaveTheirParametersAndFlops) {
  constexpr int64_t tokens = 16;
  auto buffer = llvm::MemoryBuffer::getFile(pathOf("variants"));
  ASSERT_TRUE(bool(buffer));
  json::Value file = llvm::cantFail(json::parse((*buffer)->getBuffer()));
  const json::Array &variants = *file.getAsArray();
  EXPECT_GT(variants.size(), 200u);
  for (const json::Value &value : variants) {
    const json::Object &variant = *value.getAsObject();
    std::string text = llvm::formatv("{0}", *variant.get("config"));
    llvm::Expected<Architecture> arch = readText(text, tokens);
    ASSERT_TRUE(bool(arch)) << llvm::toString(arch.takeError()) << text;
    arch->attention = Attention::Unfused;
    ModelSummary summary = summaryOf(*arch);
    EXPECT_EQ(summary.parameters, variant.getInteger("parameters")) << text;
    if (std::optional<int64_t> flops = variant.getInteger("forward_flops")) {
      EXPECT_EQ(summary.flopsPerToken, 3 * *flops / tokens) << text;
    }
  }
}

/// Four configurations of each family with recurrences, and their parameters.
TEST(Hybrids, HaveTheirParameters) {
  auto buffer = llvm::MemoryBuffer::getFile(pathOf("hybrids"));
  ASSERT_TRUE(bool(buffer));
  json::Value file = llvm::cantFail(json::parse((*buffer)->getBuffer()));
  const json::Array &hybrids = *file.getAsArray();
  EXPECT_EQ(hybrids.size(), 48u);
  for (const json::Value &value : hybrids) {
    const json::Object &hybrid = *value.getAsObject();
    std::string text = llvm::formatv("{0}", *hybrid.get("config"));
    llvm::Expected<Architecture> arch = readText(text, /*sequence=*/16);
    ASSERT_TRUE(bool(arch)) << llvm::toString(arch.takeError()) << text;
    EXPECT_EQ(summaryOf(*arch).parameters, hybrid.getInteger("parameters"))
        << text;
  }
}

//===----------------------------------------------------------------------===//
// Read fields
//===----------------------------------------------------------------------===//

TEST(HuggingFace, SequencesAreThoseOfTraining) {
  Architecture assumed = llvm::cantFail(readModel("llama-3.1-405b"));
  EXPECT_EQ(assumed.sequence, 8192);
  EXPECT_THAT(
      assumed.notes,
      ElementsAre("assumes sequences of 8192 tokens of at most 131072"));
  Architecture given = llvm::cantFail(readModel("llama-3.1-405b", 4096));
  EXPECT_EQ(given.sequence, 4096);
  EXPECT_THAT(given.notes, ElementsAre());
  // The published limit itself needs no note.
  EXPECT_THAT(llvm::cantFail(readModel("llama-3-8b")).notes, ElementsAre());
}

TEST(HuggingFace, LearnedPositionsLimitTheSequence) {
  llvm::Expected<Architecture> arch = readModel("gpt2", 2048);
  ASSERT_FALSE(bool(arch));
  EXPECT_THAT(llvm::toString(arch.takeError()),
              HasSubstr("gpt2.json: sequence: expected at most the 1024 "
                        "learned_positions, found 2048"));
}

TEST(HuggingFace, DeepSeekHasDenseLayersFirst) {
  Architecture arch = llvm::cantFail(readModel("deepseek-v3"));
  std::vector<LayerRun> runs = layerRuns(arch);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].count, 3);
  EXPECT_FALSE(runs[0].hasExperts);
  EXPECT_EQ(runs[1].count, 58);
  EXPECT_TRUE(runs[1].hasExperts);
  EXPECT_THAT(arch.notes,
              Contains("leaves out 1 multi-token prediction layer"));
}

TEST(HuggingFace, GemmaHasWindowsInTurn) {
  Architecture arch = llvm::cantFail(readModel("gemma-3-1b"));
  std::vector<LayerRun> runs = layerRuns(arch);
  ASSERT_EQ(runs.size(), 9u);
  EXPECT_TRUE(runs[0].hasWindow);
  EXPECT_EQ(runs[0].count, 5);
  EXPECT_FALSE(runs[1].hasWindow);
  EXPECT_EQ(runs[1].count, 1);
  EXPECT_EQ(runs[8].count, 2);
}

TEST(HuggingFace, TextConfigurationsHaveDefaults) {
  Architecture arch = llvm::cantFail(readModel("gemma-3-27b"));
  EXPECT_EQ(arch.vocabulary, 262208);
  EXPECT_THAT(arch.notes, Contains("reads text_config"));
  EXPECT_THAT(arch.notes,
              Contains("leaves out other parts of the model: vision_config"));
  EXPECT_THAT(
      arch.notes,
      Contains("assumes vocab_size 262208, the default of gemma3_text"));
}

/// The configuration of a Llama with more fields.
static std::string llamaAnd(StringRef fields);

TEST(HuggingFace, OtherPartsAreNamed) {
  auto notes = [](StringRef fields) {
    return llvm::cantFail(readText(llamaAnd(fields))).notes;
  };
  EXPECT_THAT(notes(R"("vision_config": {"depth": 32, "num_heads": 16},
                       "audio_config": {}, "rope_scaling": {"factor": 2})"),
              ElementsAre("leaves out other parts of the model: audio_config, "
                          "vision_config"));
  EXPECT_THAT(notes(R"("mm_vision_tower": "openai/clip-vit-large-patch14")"),
              ElementsAre("leaves out other parts of the model: "
                          "mm_vision_tower"));
  EXPECT_THAT(notes(R"("speech_encoder": "whisper", "vision_tower_list":
                       ["siglip", "clip"], "embd_layer": {"embedding_cls":
                       "audio", "image_embd_layer": {"crop_size": 448}})"),
              ElementsAre("leaves out other parts of the model: embd_layer, "
                          "speech_encoder, vision_tower_list"));
  EXPECT_THAT(notes(R"("talker": {"hidden_size": 8})"),
              ElementsAre("leaves out other parts of the model: talker"));
  EXPECT_THAT(notes(R"("vision_start_token_id": 3)"), ElementsAre());
}

/// As transformers does: the object has precedence over fields next to it.
TEST(HuggingFace, TextConfigurationsHavePrecedence) {
  Architecture arch = llvm::cantFail(readText(llamaAnd(
      R"("text_config": {"model_type": "llama", "hidden_size": 128,
      "intermediate_size": 64, "num_hidden_layers": 3,
      "num_attention_heads": 4, "vocab_size": 100,
      "max_position_embeddings": 32})")));
  EXPECT_EQ(arch.hidden, 128);
  EXPECT_EQ(arch.layers, 3);
}

TEST(HuggingFace, QwenNextHasAttentionInEveryFourthLayer) {
  Architecture arch = llvm::cantFail(readModel("qwen3-next-80b-a3b"));
  std::vector<LayerRun> runs = layerRuns(arch);
  ASSERT_EQ(runs.size(), 24u);
  EXPECT_EQ(runs[0].count, 3);
  EXPECT_TRUE(runs[0].isLinear && runs[0].hasExperts);
  EXPECT_EQ(runs[1].count, 1);
  EXPECT_TRUE(runs[1].hasAttention() && runs[1].hasExperts);
  EXPECT_TRUE(arch.attentionGate);
}

TEST(HuggingFace, NemotronHasLayersOfOnePart) {
  Architecture arch = llvm::cantFail(readModel("nemotron-h-8b"));
  int64_t recurrences = 0, attentions = 0, mlps = 0;
  for (const LayerRun &run : layerRuns(arch)) {
    EXPECT_NE(run.hasMixer, run.hasFeedforward);
    recurrences += run.isLinear ? run.count : 0;
    attentions += run.hasAttention() ? run.count : 0;
    mlps += run.hasMlp() ? run.count : 0;
  }
  EXPECT_EQ(recurrences, 24);
  EXPECT_EQ(attentions, 4);
  EXPECT_EQ(mlps, 24);
}

static constexpr const char *kLlama = R"({"model_type": "llama",
  "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
  "hidden_act": "silu", "max_position_embeddings": 32})";

/// The configuration above with one piece of text replaced.
static std::string llamaWith(StringRef from, StringRef to) {
  std::string text = kLlama;
  size_t at = text.find(from.str());
  EXPECT_NE(at, std::string::npos) << from.str();
  return text.replace(at, from.size(), to.str());
}

static std::string llamaAnd(StringRef fields) {
  return llamaWith("\"hidden_act\"", (fields + ", \"hidden_act\"").str());
}

TEST(HuggingFace, UnknownTypesAreToldByTheirFields) {
  Architecture arch =
      llvm::cantFail(readText(llamaWith("\"llama\"", "\"brand_new\"")));
  EXPECT_EQ(arch.norm, Norm::RMSNorm);
  EXPECT_EQ(arch.activation, Activation::SwiGLU);
  EXPECT_THAT(arch.notes,
              ElementsAre("does not know the model_type 'brand_new' and "
                          "assumes RMSNorm before attention and MLP, a gated "
                          "MLP, and no biases and tied embeddings but those "
                          "that fields name"));
  Architecture old = llvm::cantFail(
      readText(llamaWith("\"llama\",", "\"x\", \"layer_norm_eps\": 1e-5,")));
  EXPECT_EQ(old.norm, Norm::LayerNorm);
}

TEST(HuggingFace, UnknownFieldsAreNamed) {
  Architecture arch = llvm::cantFail(readText(llamaWith(
      "\"hidden_size\"", "\"window_of_the_day\": 3, \"hidden_size\"")));
  EXPECT_THAT(arch.notes,
              ElementsAre("does not use the field window_of_the_day"));
}

/// A field without a value has no effect, not even that there is a recurrence.
TEST(HuggingFace, NullFieldsAreAbsent) {
  Architecture arch = llvm::cantFail(
      readText(llamaWith("\"llama\",", "\"new\", \"mamba_d_state\": null, "
                                       "\"window_of_the_day\": null,")));
  EXPECT_FALSE(arch.linear);
  EXPECT_EQ(arch.notes.size(), 1u); // the model_type
}

TEST(HuggingFace, NamesComeFromFilesAndFolders) {
  auto nameFor = [](StringRef file) {
    return llvm::cantFail(
               architectureFromJson(kLlama, file, SourceRule::Optional))
        .name;
  };
  EXPECT_EQ(nameFor("x/tiny.json"), "tiny");
  EXPECT_EQ(nameFor("models/tiny/config.json"), "tiny");
  EXPECT_EQ(nameFor("config.json"), "llama");
  EXPECT_EQ(nameFor("<stdin>"), "llama");
}

//===----------------------------------------------------------------------===//
// Refused files
//===----------------------------------------------------------------------===//

TEST(BadConfigurations, MissingFieldsAreNamed) {
  EXPECT_EQ(errorOf(kLlama), "");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_size\": 64,", "")),
            "config.json: needs the field 'hidden_size'");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_size\": 64,", "\"hiden_size\": 64,")),
            "config.json: needs the field 'hidden_size', the closest is "
            "'hiden_size'");
  EXPECT_EQ(errorOf(llamaWith("\"vocab_size\": 100", "\"vocab_size\": null")),
            "config.json: needs the field 'vocab_size'");
  EXPECT_EQ(errorOf(R"({"model_type": "llama"})"),
            "config.json: needs the fields 'hidden_size', 'num_hidden_layers', "
            "'num_attention_heads', 'vocab_size', 'intermediate_size'");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_act\"",
                              "\"num_local_experts\": 4, \"hidden_act\"")),
            "config.json: needs the field 'num_experts_per_tok'");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_act\"",
                              "\"kv_lora_rank\": 4, \"hidden_act\"")),
            "config.json: needs the fields 'qk_nope_head_dim', "
            "'qk_rope_head_dim', 'v_head_dim'");
}

TEST(BadConfigurations, WrongValuesAreNamed) {
  EXPECT_EQ(errorOf(llamaWith("64", "\"64\"")),
            "config.json: hidden_size: expected a whole number from 1 to 2^63 "
            "- 1, found \"64\"");
  EXPECT_EQ(errorOf(llamaWith("64", "-64")),
            "config.json: hidden_size: expected a whole number from 1 to 2^63 "
            "- 1, found -64");
  EXPECT_EQ(errorOf(llamaWith("64", "66")),
            "config.json: hidden_size: 66 is no multiple of the 4 "
            "num_attention_heads; give head_dim");
  EXPECT_EQ(errorOf(llamaWith("\"num_key_value_heads\": 2",
                              "\"num_key_value_heads\": 3")),
            "config.json: num_key_value_heads: expected a divisor of the 4 "
            "num_attention_heads, found 3");
  EXPECT_EQ(
      errorOf(llamaWith("\"hidden_act\"", "\"mlp_bias\": 1, \"hidden_act\"")),
      "config.json: mlp_bias: expected true or false, found 1");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_act\"",
                              "\"num_experts\": 4, \"num_experts_per_tok\": "
                              "5, \"hidden_act\"")),
            "config.json: num_experts_per_tok: expected at most the 4 experts, "
            "found 5");
}

TEST(BadConfigurations, LayersOfOtherKindsAreNamed) {
  auto types = [](StringRef list) {
    return errorOf(
        llamaWith("\"hidden_act\"",
                  ("\"layer_types\": " + list + ", \"hidden_act\"").str()));
  };
  EXPECT_EQ(types(R"(["full_attention", "sliding_attention"])"), "");
  EXPECT_EQ(types(R"(["full_attention", "linear_attention"])"),
            "config.json: layer_types: expected full_attention, "
            "sliding_attention or chunked_attention, found "
            "\"linear_attention\"");
  EXPECT_EQ(types(R"(["full_attention"])"),
            "config.json: layer_types: expected one for each of the 2 layers, "
            "found 1");
}

TEST(BadConfigurations, PatternsOfLayersAreChecked) {
  auto pattern = [](StringRef letters) {
    return errorOf(("{\"model_type\": \"nemotron_h\", \"hidden_size\": 32, "
                    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
                    "\"intermediate_size\": 64, \"mamba_num_heads\": 4, "
                    "\"mamba_head_dim\": 8, \"ssm_state_size\": 8, "
                    "\"vocab_size\": 97, \"hybrid_override_pattern\": \"" +
                    letters + "\"}")
                       .str());
  };
  EXPECT_EQ(pattern("M-*"), "");
  EXPECT_EQ(pattern("M-"),
            "config.json: hybrid_override_pattern: expected one for each of "
            "the 3 layers, found 2");
  EXPECT_EQ(pattern("M-x"),
            "config.json: hybrid_override_pattern: expected M (mamba), * "
            "(attention), - (mlp) or E (moe), found x");
  EXPECT_EQ(pattern("MME"), "config.json: needs the field 'n_routed_experts'");
}

TEST(BadConfigurations, OtherKindsOfModelsAreNamed) {
  auto type = [](StringRef name) {
    return errorOf(llamaWith("\"llama\"", ("\"" + name + "\"").str()));
  };
  EXPECT_EQ(type("t5"), "config.json: model_type: 't5' has an encoder and a "
                        "decoder, a pipeline has one stack of layers");
  EXPECT_EQ(type("bert"), "config.json: model_type: 'bert' is an encoder, a "
                          "decoder with a head is wanted");
  EXPECT_EQ(type("rwkv"),
            "config.json: model_type: 'rwkv' has recurrent or "
            "linear-attention layers of a kind that has no cost model");
  EXPECT_EQ(errorOf(llamaWith("\"llama\",", "\"new\", \"mamba_d_state\": 16,")),
            "config.json: mamba_d_state: belongs to recurrent or "
            "linear-attention layers, whose cost model follows from a known "
            "model_type");
  EXPECT_EQ(errorOf(llamaWith("\"hidden_act\"",
                              "\"is_encoder_decoder\": true, \"hidden_act\"")),
            "config.json: is_encoder_decoder: a pipeline has one stack of "
            "layers, not two");
}

/// Fields that change the cost of attention, or the number of layers that a
/// token passes, are refused if they have an effect.
TEST(BadConfigurations, FieldsWithoutCostModelAreRefused) {
  auto field = [](StringRef text) { return errorOf(llamaAnd(text)); };
  constexpr StringRef sparse = ": sparse attention, in which each token reads "
                               "chosen keys, has no cost model";
  EXPECT_EQ(field(R"("index_head_dim": 128, "index_n_heads": 64,
                     "index_topk": 2048)"),
            ("config.json: index_topk" + sparse).str());
  for (StringRef name :
       {"index_head_dim", "index_n_heads", "blocksparse_block_size",
        "moba_topk", "sparse_config"})
    EXPECT_EQ(field(("\"" + name + "\": 64").str()),
              ("config.json: " + name + sparse).str());
  EXPECT_EQ(field(R"("use_cla": true)"),
            "config.json: use_cla: layers that use the keys and values of "
            "others have no cost model");
  EXPECT_EQ(field(R"("total_ut_steps": 4)"),
            "config.json: total_ut_steps: layers that a token goes through "
            "several times have no cost model");
  EXPECT_EQ(field(R"("add_cross_attention": true)"),
            "config.json: add_cross_attention: attention to another sequence "
            "has no cost model");
  EXPECT_EQ(field(R"("block_configs": [{"attention": null}])"),
            "config.json: block_configs: layers whose sizes differ have no "
            "cost model");
  EXPECT_EQ(field(R"("use_bidirectional_attention": "all")"),
            "config.json: use_bidirectional_attention: attention to later "
            "tokens has no cost model");
  EXPECT_EQ(field(R"("attention_chunk_size": 16)"),
            "config.json: attention_chunk_size: needs layer_types, which say "
            "which layers have chunks");
  EXPECT_EQ(field(R"("index_topk": null, "use_cla": false,
                     "cross_attention_layers": [], "sparse_config": null,
                     "num_kv_shared_layers": 0, "add_cross_attention": false,
                     "use_bidirectional_attention": "vision")"),
            "");
}

/// Their defaults are not in the file.
TEST(BadConfigurations, SparseModelsAreRefusedByType) {
  for (StringRef type : {"deepseek_v32", "glm_moe_dsa"})
    EXPECT_EQ(errorOf(llamaWith("\"llama\"", ("\"" + type + "\"").str())),
              ("config.json: model_type: '" + type +
               "' has sparse attention, whose indexer and chosen keys have no "
               "cost model")
                  .str());
}

/// Another name of the window of all layers.
TEST(HuggingFace, WindowsHaveTwoNames) {
  auto windowOf = [](StringRef fields) {
    return llvm::cantFail(readText(llamaAnd(fields))).window.size;
  };
  EXPECT_EQ(windowOf(R"("sliding_window_size": 16)"), 16);
  EXPECT_EQ(windowOf(R"("sliding_window": 8, "sliding_window_size": 16)"), 8);
  EXPECT_EQ(windowOf(R"("sliding_window_size": -1)"), 0);
}

TEST(BadConfigurations, ManyLayersOfSeveralKinds) {
  EXPECT_EQ(errorOf(R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 64, "num_hidden_layers": 1000000000000,
    "num_attention_heads": 4, "vocab_size": 100, "num_experts": 8,
    "num_experts_per_tok": 2, "decoder_sparse_step": 2})"),
            "config.json: num_hidden_layers: expected at most 4096 layers of "
            "several kinds, found 1000000000000");
}
