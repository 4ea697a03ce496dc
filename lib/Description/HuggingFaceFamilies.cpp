//===- HuggingFaceFamilies.cpp - Tables of model types --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables only. The parameter counts in test/data/huggingface check them against
// the published models.
//
//===----------------------------------------------------------------------===//

#include "HuggingFaceFamilies.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

static constexpr unsigned kGpt = kTied | kAllBiases | kLearnedPositions;
static constexpr unsigned kOneNorm = kParallel | kSharedNorm;
static constexpr Norm kRms = Norm::RMSNorm, kLayer = Norm::LayerNorm,
                      kGain = Norm::GainNorm, kPlain = Norm::PlainNorm;
static constexpr QueryKeyNorm kPerHead = QueryKeyNorm::Head;
static constexpr QueryKeyNorm kPerWidth = QueryKeyNorm::Width;

static constexpr ModelFamily kFamilies[] = {
    {"apertus", kRms, 0, kPerHead},
    {"arcee", kRms, 0},
    {"baichuan", kRms, kGated},
    {"bamba", kRms, kGated},
    {"bloom", kLayer, kTied | kAllBiases | kEmbeddingNorm | kFourfold},
    {"chatglm", kRms, kGated},
    {"codegen", kLayer, kMlpBias | kHeadBias | kOneNorm | kFourfold},
    {"cohere", kGain, kGated | kTied | kOneNorm | kQkNormOff, kPerWidth, kGain},
    {"cohere2", kGain, kGated | kTied | kOneNorm},
    {"dbrx", kGain, kGated},
    {"deepseek", kRms, kGated},
    {"deepseek_v2", kRms, kGated},
    {"deepseek_v3", kRms, kGated},
    {"dots1", kRms, kGated, kPerHead},
    {"ernie4_5", kRms, kGated | kTied},
    {"ernie4_5_moe", kRms, kGated | kTied | kRouterBias},
    {"exaone4", kRms, kGated | kNormsAfter, kPerHead},
    {"falcon", kLayer, kTied | kOneNorm | kFourfold},
    {"falcon_mamba", kRms, kGated | kTied},
    {"gemma", kRms, kGated | kTied},
    {"gemma2", kRms, kGated | kTied | kNormsAround},
    {"gemma3", kRms, kGated | kTied | kNormsAround, kPerHead},
    {"gemma3_text", kRms, kGated | kTied | kNormsAround, kPerHead},
    {"glm", kRms, kGated | kQkvBias | kNarrowBias},
    {"glm4", kRms, kGated | kQkvBias | kNarrowBias | kNormsAround},
    {"glm4_moe", kRms, kGated | kNarrowBias | kQkNormOff, kPerHead},
    {"gpt2", kLayer, kGpt | kFourfold},
    {"gpt_bigcode", kLayer, kGpt | kFourfold},
    {"gpt_neo", kLayer,
     kTied | kOutputBias | kMlpBias | kLearnedPositions | kFourfold},
    {"gpt_neox", kLayer, kAllBiases | kParallel},
    {"gpt_oss", kRms,
     kGated | kQkvBias | kOutputBias | kSinks | kExpertBiases | kRouterBias},
    {"gptj", kLayer, kMlpBias | kHeadBias | kOneNorm | kFourfold},
    {"granite", kRms, kGated},
    {"granitemoe", kRms, kGated},
    {"granitemoeshared", kRms, kGated},
    {"granitemoehybrid", kRms, kGated},
    {"helium", kRms, kGated},
    {"hunyuan_v1_dense", kRms, kGated, kPerHead},
    {"hunyuan_v1_moe", kRms, kGated, kPerHead},
    {"internlm", kRms, kGated | kQkvBias | kOutputBias},
    {"internlm2", kRms, kGated},
    {"internlm3", kRms, kGated},
    {"jamba", kRms, kGated},
    {"kimi_k2", kRms, kGated},
    {"lfm2", kRms, kGated | kTied, kPerHead},
    {"lfm2_moe", kRms, kGated | kTied, kPerHead},
    {"llama", kRms, kGated},
    {"llama4_text", kRms, kGated | kSharedExpert, kPerHead, kPlain},
    {"mamba", kRms, kGated | kTied},
    {"mamba2", kRms, kGated},
    {"minicpm", kRms, kGated | kTied},
    {"minicpm3", kRms, kGated | kTied},
    {"minimax_m2", kRms, kGated, kPerWidth},
    {"ministral", kRms, kGated},
    {"ministral3", kRms, kGated},
    {"mistral", kRms, kGated},
    {"mixtral", kRms, kGated},
    {"mpt", kGain, kTied | kFourfold},
    {"nemotron", kLayer, 0},
    {"nemotron_h", kRms, 0},
    {"olmo", kPlain, kGated},
    {"olmo2", kRms, kGated | kNormsAfter, kPerWidth},
    {"olmo3", kRms, kGated | kNormsAfter, kPerWidth},
    {"olmoe", kRms, kGated, kPerWidth},
    {"opt", kLayer, kGpt},
    {"persimmon", kLayer, kAllBiases, kPerHead, kLayer},
    {"phi", kLayer, kAllBiases | kHeadBias | kOneNorm | kQkNormOff, kPerHead,
     kLayer},
    {"phi3", kRms, kGated},
    {"phimoe", kLayer, kGated},
    {"qwen", kRms, kGated | kQkvBias},
    {"qwen2", kRms, kGated | kQkvBias},
    {"qwen2_moe", kRms, kGated | kQkvBias | kSharedGate},
    {"qwen3", kRms, kGated, kPerHead},
    {"qwen3_5_moe_text", kRms, kGated | kSharedGate, kPerHead},
    {"qwen3_5_text", kRms, kGated, kPerHead},
    {"qwen3_moe", kRms, kGated, kPerHead},
    {"qwen3_next", kRms, kGated | kSharedGate, kPerHead},
    {"seed_oss", kRms, kGated | kQkvBias | kNarrowBias},
    {"smollm3", kRms, kGated | kTied},
    {"stablelm", kLayer, kGated | kSharedNorm | kQkNormOff, kPerWidth, kGain},
    {"starcoder2", kLayer, kTied | kAllBiases},
    {"xglm", kLayer, kTied | kAllBiases},
};

namespace {
/// Another name of a family.
struct ModelAlias {
  llvm::StringLiteral name, type;
};
} // namespace

static constexpr ModelAlias kAliases[] = {
    {"RefinedWeb", "falcon"},
    {"RefinedWebModel", "falcon"},
    {"gpt-sw3", "gpt2"},
    {"kimi_k25", "deepseek_v3"},
    {"llama4", "llama4_text"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen2_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_vl_moe_text", "qwen3_moe"},
    {"qwen3_vl_text", "qwen3"},
    {"yi", "llama"},
    {"Yi", "llama"},
};

const ModelFamily *pipesched::findModelFamily(StringRef modelType) {
  for (const ModelAlias &alias : kAliases)
    if (alias.name == modelType)
      modelType = alias.type;
  const ModelFamily *family =
      llvm::find_if(kFamilies, [&](const ModelFamily &family) {
        return family.type == modelType;
      });
  return family == std::end(kFamilies) ? nullptr : family;
}

//===----------------------------------------------------------------------===//
// Unsupported models
//===----------------------------------------------------------------------===//

static constexpr StringRef kTwoStacks[] = {"bart",       "blenderbot",
                                           "fsmt",       "led",
                                           "longt5",     "m2m_100",
                                           "marian",     "mbart",
                                           "mt5",        "nllb",
                                           "nllb_moe",   "pegasus",
                                           "prophetnet", "switch_transformers",
                                           "t5",         "t5gemma",
                                           "umt5",       "whisper"};
static constexpr StringRef kEncoders[] = {
    "albert",     "bert",    "camembert", "deberta",    "deberta-v2",
    "distilbert", "electra", "esm",       "longformer", "modernbert",
    "mpnet",      "roberta", "vit",       "xlm-roberta"};
static constexpr StringRef kRecurrent[] = {
    "bailing_hybrid",  "falcon_h1", "kimi_linear", "minimax", "olmo_hybrid",
    "recurrent_gemma", "rwkv",      "xlstm",       "zamba",   "zamba2"};
static constexpr StringRef kVaried[] = {
    "gemma3n",      "gemma3n_text", "gemma4",
    "gemma4_text",  "deepseek_v4",  "longcat_flash",
    "nemotron-nas", "mllama",       "mllama_text_model"};
static constexpr StringRef kSparse[] = {"deepseek_v32", "glm_moe_dsa"};

StringRef pipesched::reasonUnsupported(StringRef modelType) {
  if (llvm::is_contained(kTwoStacks, modelType))
    return "has an encoder and a decoder, a pipeline has one stack of layers";
  if (llvm::is_contained(kEncoders, modelType))
    return "is an encoder, a decoder with a head is wanted";
  if (llvm::is_contained(kRecurrent, modelType))
    return "has recurrent or linear-attention layers of a kind that has no "
           "cost "
           "model";
  if (llvm::is_contained(kVaried, modelType))
    return "has layers of its own kind, which have no cost model";
  if (llvm::is_contained(kSparse, modelType))
    return "has sparse attention, whose indexer and chosen keys have no cost "
           "model";
  return "";
}

static constexpr llvm::StringLiteral kSparseWhy =
    "sparse attention, in which each token reads chosen keys, has no cost "
    "model";
static constexpr llvm::StringLiteral kSharedKeysWhy =
    "layers that use the keys and values of others have no cost model";
static constexpr llvm::StringLiteral kRepeatedWhy =
    "layers that a token goes through several times have no cost model";
static constexpr llvm::StringLiteral kCrossWhy =
    "attention to another sequence has no cost model";
static constexpr llvm::StringLiteral kEachLayerWhy =
    "layers whose sizes differ have no cost model";

static constexpr UnmodelledField kUnmodelled[] = {
    {"index_topk", kSparseWhy},
    {"index_head_dim", kSparseWhy},
    {"index_n_heads", kSparseWhy},
    {"blocksparse_block_size", kSparseWhy},
    {"compress_ratios", kSparseWhy},
    {"moba_topk", kSparseWhy},
    {"sparse_attention_config", kSparseWhy},
    {"sparse_config", kSparseWhy},
    {"num_kv_shared_layers", kSharedKeysWhy},
    {"use_cla", kSharedKeysWhy},
    {"mean_recurrence", kRepeatedWhy},
    {"total_ut_steps", kRepeatedWhy},
    {"add_cross_attention", kCrossWhy},
    {"cross_attention_layers", kCrossWhy},
    {"block_configs", kEachLayerWhy},
    {"num_key_value_heads_per_layer", kEachLayerWhy},
    {"use_bidirectional_attention",
     "attention to later tokens has no cost model"},
    {"hidden_size_per_layer_input",
     "embeddings that each layer adds have no cost model"},
    {"moe_latent_size", "experts on narrower rows have no cost model"},
    {"zero_expert_num", "experts without work have no cost model"},
};

llvm::ArrayRef<UnmodelledField> pipesched::unmodelledFields() {
  return kUnmodelled;
}

//===----------------------------------------------------------------------===//
// Defaults
//===----------------------------------------------------------------------===//

static constexpr ModelDefault kDefaults[] = {
    {"cohere2", "sliding_window_pattern", 4, false},
    {"ernie4_5", "head_dim", 128, false},
    {"gemma", "head_dim", 256, false},
    {"gemma2", "head_dim", 256, false},
    {"gemma3_text", "head_dim", 256, false},
    {"gemma3_text", "max_position_embeddings", 131072, true},
    {"gemma3_text", "num_attention_heads", 8, true},
    {"gemma3_text", "num_key_value_heads", 4, true},
    {"gemma3_text", "sliding_window_pattern", 6, false},
    {"gemma3_text", "vocab_size", 262208, true},
    {"glm", "head_dim", 128, false},
    {"glm4", "head_dim", 128, false},
    {"helium", "head_dim", 128, false},
    {"llama", "hidden_size", 4096, true},
    {"llama", "intermediate_size", 11008, true},
    {"llama", "max_position_embeddings", 2048, true},
    {"llama", "num_attention_heads", 32, true},
    {"llama", "num_hidden_layers", 32, true},
    {"llama", "vocab_size", 32000, true},
    {"mistral", "hidden_size", 4096, true},
    {"mistral", "intermediate_size", 14336, true},
    {"mistral", "max_position_embeddings", 131072, true},
    {"mistral", "num_attention_heads", 32, true},
    {"mistral", "num_hidden_layers", 32, true},
    {"mistral", "num_key_value_heads", 8, false},
    {"mistral", "vocab_size", 32000, true},
    {"mixtral", "num_key_value_heads", 8, false},
    {"qwen2", "vocab_size", 151936, true},
    {"qwen3", "head_dim", 128, false},
    {"nemotron_h", "head_dim", 128, false},
    {"qwen3_5_moe_text", "head_dim", 256, false},
    {"qwen3_5_text", "head_dim", 256, false},
    {"qwen3_next", "head_dim", 256, false},
    {"seed_oss", "head_dim", 128, false},
};

llvm::ArrayRef<ModelDefault> pipesched::modelDefaults() { return kDefaults; }

//===----------------------------------------------------------------------===//
// Ignored fields
//===----------------------------------------------------------------------===//

// Fields with these prefixes or suffixes concern generation, training, files or
// positions without parameters. The list is separated by spaces.
static constexpr llvm::StringLiteral kIgnoredPrefixes =
    "_ attn_implementation auto_map aux_loss beam bad_words begin_suppress "
    "decoder_start diversity encoder_no exponential_decay forced_ id2label "
    "init label logit mup_ norm_topk output_ partial_rotary problem_type "
    "prune quantization remove_invalid repetition return_dict rope rotary "
    "router_ scale_ scoring summary_ suppress task_specific time_step_ tf_ "
    "tokenizer top_ torch transformers typical use_bfloat use_cache use_flash "
    "z_loss";
static constexpr llvm::StringLiteral kIgnoredSuffixes =
    "_coef _coeff _dropout _eps _epsilon _factor _id _ids _init _loss "
    "_multiplier _norm_min _pdrop _penalty _range _scale _scaling _softcap "
    "_softcapping _std _theta _token _token_index _token_num";
static constexpr llvm::StringLiteral kIgnoredFields =
    "activation_dropout alibi apply_residual_connection_post_layernorm "
    "architectures attention_probs_dropout_prob attention_softmax_in_fp32 "
    "attn_scale attn_temperature_tuning bf16 bias_dropout_fusion "
    "cache_implementation chunk_size_feed_forward clip_qkv conv_dim "
    "conv_dim_out conv_use_xavier_init cross_attention_hidden_size "
    "dim_model_base do_sample dropout dtype early_stopping emb_pdrop "
    "embd_pdrop embedding_fraction ep_size expert_parallel finetuning_task "
    "floor_scale for_llm_class fp16 fp32 gradient_checkpointing "
    "hidden_dropout_prob inference_runner input_jitter_noise "
    "interpolate_factor is_decoder is_encoder_decoder kv_channels language "
    "layer_norm_bias layerdrop layers_block_type learned_pos_emb length "
    "mamba_hidden_act mamba_ssm_cache_dtype mamba_ssm_dtype "
    "masked_softmax_fusion max_batch_size max_length min_length mlp_type "
    "moe_shared_expert_overlap mtp_hybrid_override_pattern "
    "mtp_layers_block_type n_positions name_or_path no_repeat_ngram_size "
    "no_rope_layer_interval no_rope_layers norm_before_gate norm_type "
    "num_beam_groups num_beams num_logits_to_keep num_return_sequences "
    "offset_alibi onnx_safe original_max_position_embeddings "
    "original_rope_scaling pad_key_length position_embedding_type "
    "pre_allocate_kv_cache prefix pretraining_tp query_pre_attn_scalar "
    "rescale_every rescale_prenorm_residual residual_in_fp32 rms_norm "
    "routed_scaling score_func seq_aux seq_length skip_bias_add "
    "skip_bias_add_qkv slow_but_exact softmax_in_fp32 swiglu_limit "
    "temperature tie_encoder_decoder unk_token use_associative_scan "
    "use_dynamic_ntk use_expert_bias use_falcon_mambapy use_logn_attn "
    "use_mamba_kernels use_mambapy use_mrope use_pos_emb use_rope "
    "use_sliding_window validate_runner_input verbose";

bool pipesched::isIgnoredField(StringRef name) {
  auto starts = [&](StringRef prefix) { return name.starts_with(prefix); };
  auto ends = [&](StringRef suffix) { return name.ends_with(suffix); };
  return llvm::any_of(llvm::split(kIgnoredPrefixes, ' '), starts) ||
         llvm::any_of(llvm::split(kIgnoredSuffixes, ' '), ends) ||
         llvm::is_contained(llvm::split(kIgnoredFields, ' '), name);
}
