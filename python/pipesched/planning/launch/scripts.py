"""Launch scripts: a proposal as a bash script that starts torchrun, for each launcher. Settings
come from the environment, with defaults or a message; arguments of the script are passed to the
launcher.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...costs.frameworks import FRAMEWORKS
from ...costs.settings import _fields_of
from ...errors import PipeSchedError
from ...support.text import gib
from ..candidate import describe
from . import launchers

if TYPE_CHECKING:
    from ..proposals import Proposal

HERE = "@HERE@"
"""A placeholder for the folder of the script in lines of launchers."""

TITAN: dict[str, tuple[str, str]] = {
    "llama3-8b": ("llama3", "llama3_8b"),
    "llama3-70b": ("llama3", "llama3_70b"),
    "llama3-405b": ("llama3", "llama3_405b"),
    "qwen3-0.6b": ("qwen3", "qwen3_0_6b"),
    "qwen3-1.7b": ("qwen3", "qwen3_1_7b"),
    "qwen3-14b": ("qwen3", "qwen3_14b"),
    "qwen3-32b": ("qwen3", "qwen3_32b"),
    "qwen3-30b-a3b": ("qwen3", "qwen3_30b_a3b"),
}
"""Modules and configurations of torchtitan 0.3.0 for models that ship."""

BRIDGE = {
    "llama3-8b": "megatron.bridge.recipes.llama:llama3_8b_pretrain_config",
    "llama3-70b": "megatron.bridge.recipes.llama:llama3_70b_pretrain_config",
    "llama3-405b": "megatron.bridge.recipes.llama:llama31_405b_pretrain_config",
    "qwen3-0.6b": "megatron.bridge.recipes.qwen:qwen3_600m_pretrain_config",
    "qwen3-1.7b": "megatron.bridge.recipes.qwen:qwen3_1p7b_pretrain_config",
    "qwen3-4b": "megatron.bridge.recipes.qwen:qwen3_4b_pretrain_config",
    "qwen3-8b": "megatron.bridge.recipes.qwen:qwen3_8b_pretrain_config",
    "qwen3-14b": "megatron.bridge.recipes.qwen:qwen3_14b_pretrain_config",
    "qwen3-32b": "megatron.bridge.recipes.qwen:qwen3_32b_pretrain_config",
    "qwen3-30b-a3b": "megatron.bridge.recipes.qwen:qwen3_30b_a3b_pretrain_config",
    "qwen3-235b-a22b": "megatron.bridge.recipes.qwen:qwen3_235b_a22b_pretrain_config",
}
"""Recipes of Megatron-Bridge 0.3.1 for models that ship."""

ROTARY: dict[str, dict[str, Any]] = {
    "llama3": {"rotary_base": 500000, "norm_epsilon": 1e-05},
    "qwen3": {"rotary_base": 1000000, "norm_epsilon": 1e-06},
    "mixtral": {"rotary_base": 1000000, "norm_epsilon": 1e-05},
}
"""The base of the rotary embedding and the epsilon of norms for families that ship, by `rope_theta`
and `rms_norm_eps` of their configurations at Hugging Face.
"""

_CONFIGURED = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "attention_heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "feedforward": "intermediate_size",
    "vocabulary": "vocab_size",
    "tied_embeddings": "tie_word_embeddings",
    "window": "sliding_window",
    "norm_epsilon": "rms_norm_eps",
}
"""Our fields by their names in configurations of Hugging Face."""

_LIKE_LLAMA: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {"query_biases": True},
    "qwen3": {"query_key_norm": "head"},
}
"""The types of models that differ from Llama only in these fields."""

_UNKNOWN_TO_ARGUMENTS = (
    "latent_attention",
    "window",
    "attention_width",
    "prediction_layers",
    "linear_attention",
    "attention_gate",
    "mixer_only",
    "feedforward_only",
    "attention_sinks",
    "embedding_norm",
    "embedding_width",
)
"""Parts of models for which `model_arguments` has none."""

_ACTIVATIONS = {"gelu": (), "squared_relu": ("--squared-relu",), "swiglu": ("--swiglu",)}

_SAID_BY_ARGUMENTS: dict[str, tuple[object, ...]] = {
    "activation": tuple(_ACTIVATIONS),
    "norm": ("layer", "rms"),
    "norms": ("before",),
    "branches": ("sequential",),
    "query_key_norm": ("none", "head"),
    "biases": (False, True),
    "final_norm": (True,),
}
"""The values of fields that `model_arguments` supports, the default first if there is one."""

_EXPERTS_UNKNOWN = ("layers", "groups", "shared_gate", "router_bias", "biases")
"""Parts of experts for which `model_arguments` has none."""


def _continued(words: Sequence[str]) -> str:
    """One command, a word or an option with its value on each line."""
    return " \\\n  ".join(words)


def _head(proposal: Proposal, title: str) -> list[str]:
    """The comment, and the places of the processes."""
    request = proposal.request
    per_node = min(request.node, request.gpus)
    memory = f", {gib(proposal.peak_bytes)} an accelerator" if request.model is not None else ""
    return [
        "#!/usr/bin/env bash",
        f"# {proposal.name} for {title}: {describe(proposal.candidate)}",
        f"# predicted: {proposal.expected_s:.4g} s a step{memory}",
        "set -euo pipefail",
        f"NNODES=${{NNODES:-{-(-request.gpus // per_node)}}}",
        f"GPUS_PER_NODE=${{GPUS_PER_NODE:-{per_node}}}",
        "NODE_RANK=${NODE_RANK:-0}",
        "MASTER_ADDR=${MASTER_ADDR:-localhost}",
        "MASTER_PORT=${MASTER_PORT:-29500}",
        f"if ((NNODES * GPUS_PER_NODE != {request.gpus})); then",
        f'  echo "the plan is for {request.gpus} accelerators, not $NNODES x $GPUS_PER_NODE" >&2',
        "  exit 2",
        "fi",
    ]


_TORCHRUN = [
    "torchrun",
    '--nnodes "$NNODES"',
    '--nproc-per-node "$GPUS_PER_NODE"',
    '--node-rank "$NODE_RANK"',
    '--master-addr "$MASTER_ADDR"',
    '--master-port "$MASTER_PORT"',
]


# torchtitan


def _name_of(proposal: Proposal) -> str:
    """The name of the model, if one that ships has it."""
    model = proposal.request.model
    name = model.get("name", "") if isinstance(model, Mapping) else str(model)
    return str(name)


def _torchtitan(proposal: Proposal, lines: Sequence[str]) -> str:
    module, config = TITAN.get(_name_of(proposal), ("", ""))
    needed = "the --{} of torchtitan for this model"
    *flags, subcommand = (line.replace(HERE, '"$here"') for line in lines)
    command = [
        *_TORCHRUN,
        "-m torchtitan.train",
        '--module "$MODULE"',
        '--config "$CONFIG"',
        *flags,
        '"$@"',
        subcommand,
    ]
    return "\n".join(
        [
            *_head(proposal, FRAMEWORKS["torchtitan"].described),
            'here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)',
            f"MODULE=${{MODULE:{'-' + module if module else '?' + needed.format('module')}}}",
            f"CONFIG=${{CONFIG:{'-' + config if config else '?' + needed.format('config')}}}",
            "export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True}",
            "",
            _continued(command),
            "",
        ]
    )


# Megatron-LM


def model_arguments(fields: Mapping[str, Any]) -> list[str] | None:
    """The arguments of Megatron-LM for a model with our fields; None if it has none for them."""
    known = ("hidden", "layers", "attention_heads", "vocabulary", "activation", "norm")
    experts = fields.get("experts", {})
    if any(name not in fields for name in known) or any(map(experts.get, _EXPERTS_UNKNOWN)):
        return None
    if any(fields.get(name) for name in _UNKNOWN_TO_ARGUMENTS):
        return None
    if any(fields.get(n, said[0]) not in said for n, said in _SAID_BY_ARGUMENTS.items()):
        return None
    if experts and fields.get("biases"):
        return None  # which need other arguments for each division of the experts
    return [*_sizes(fields), *_parts(fields), *_experts(experts)]


def _sizes(fields: Mapping[str, Any]) -> Iterator[str]:
    heads = fields["attention_heads"]
    yield f"--num-layers {fields['layers']}"
    yield f"--hidden-size {fields['hidden']}"
    width = fields.get("feedforward") or fields.get("experts", {}).get("feedforward")
    yield f"--ffn-hidden-size {width}"
    yield f"--num-attention-heads {heads}"
    if fields.get("key_value_heads", heads) != heads:
        yield "--group-query-attention"
        yield f"--num-query-groups {fields['key_value_heads']}"
    if "head_size" in fields:
        yield f"--kv-channels {fields['head_size']}"
    yield f"--vocab-size {fields['vocabulary']}"


def _parts(fields: Mapping[str, Any]) -> Iterator[str]:
    yield from _ACTIVATIONS[fields["activation"]]
    if fields["norm"] == "rms":
        yield "--normalization RMSNorm"
    if fields.get("query_key_norm", "none") != "none":
        yield "--qk-layernorm"
    learned = fields.get("learned_positions")
    yield f"--position-embedding-type {'learned_absolute' if learned else 'rope'}"
    if not fields.get("tied_embeddings"):
        yield "--untie-embeddings-and-output-weights"
    if "rotary_base" in fields:
        yield f"--rotary-base {int(fields['rotary_base'])}"
    if "rotary_factor" in fields:
        yield "--use-rope-scaling"
        yield f"--rope-scaling-factor {fields['rotary_factor']}"
    if "norm_epsilon" in fields:
        yield f"--norm-epsilon {fields['norm_epsilon']}"
    if not fields.get("biases"):
        yield "--disable-bias-linear"
    if fields.get("query_biases"):
        yield "--add-qkv-bias"
    if not fields.get("dropout"):
        yield "--attention-dropout 0"
        yield "--hidden-dropout 0"


def _experts(experts: Mapping[str, Any]) -> Iterator[str]:
    if not experts:
        return
    yield f"--num-experts {experts['count']}"
    yield f"--moe-router-topk {experts['per_token']}"
    if experts["per_token"] == 1:
        yield "--moe-router-pre-softmax"  # without it, it refuses to choose a single expert
    yield f"--moe-ffn-hidden-size {experts['feedforward']}"
    yield "--moe-grouped-gemm"
    if experts.get("shared_feedforward"):
        yield f"--moe-shared-expert-intermediate-size {experts['shared_feedforward']}"


def _connections(lines: Sequence[str]) -> str:
    """Queues of the device: one for tensor and context parallelism, more for its FSDP, 32 for
    exchanges that overlap (`validate_args` of Megatron-LM).
    """
    count = 8 if "--use-megatron-fsdp" in lines else 1
    if launchers.FLAGS[0] in lines:
        count = launchers.CONNECTIONS
    return f"export CUDA_DEVICE_MAX_CONNECTIONS={count}"


def read_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the fields of a configuration of Hugging Face for a model like Llama, else none."""
    rotary = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rotary.get("rope_type", rotary.get("type", "default"))
    is_plain = config.get("hidden_act") == "silu" and kind in ("default", "llama3")
    biases = config.get("attention_bias") or config.get("mlp_bias")
    if config.get("model_type") not in _LIKE_LLAMA or not is_plain or biases:
        return {}
    read = {name: config.get(key) for name, key in _CONFIGURED.items()}
    if not config.get("use_sliding_window", True):
        read["window"] = None
    read["rotary_base"] = config.get("rope_theta", rotary.get("rope_theta", 10000))
    read["rotary_factor"] = rotary.get("factor") if kind == "llama3" else None
    known = {name: value for name, value in read.items() if value is not None}
    return {"activation": "swiglu", "norm": "rms", **_LIKE_LLAMA[config["model_type"]], **known}


def _fields_or_none(proposal: Proposal) -> Mapping[str, Any]:
    model = proposal.request.model
    try:
        fields = _fields_of("model", model) if model is not None else {}
    except (PipeSchedError, OSError):
        return {}  # another format
    name = str(fields.get("name", "")).partition("-")[0]
    return read_config(fields) if "model_type" in fields else {**ROTARY.get(name, {}), **fields}


def _megatron(proposal: Proposal, lines: Sequence[str]) -> str:
    made = model_arguments(_fields_or_none(proposal))
    sequence = proposal.request.sizes["sequence"]
    if made is None:
        model = [": ${MODEL_ARGS:?the arguments of Megatron-LM for this model, --num-layers ...}"]
        own = ["$MODEL_ARGS"]
    else:
        model, own = [], [*made, f"--max-position-embeddings {sequence}"]
    has_mamba = proposal.request.recurrence == "mamba2"
    command = [
        *_TORCHRUN,
        f'"$MEGATRON/pretrain_{"mamba" if has_mamba else "gpt"}.py"',
        *own,
        *lines,
        '--train-iters "$TRAIN_ITERS"',
        "--lr 1e-4",
        "$DATA_ARGS",
        '"$@"',
    ]
    data = "--mock-data --tokenizer-type NullTokenizer"
    return "\n".join(
        [
            *_head(proposal, FRAMEWORKS["megatron"].described),
            ": ${MEGATRON:?the folder of Megatron-LM}",
            *model,
            "TRAIN_ITERS=${TRAIN_ITERS:-20}",
            f"DATA_ARGS=${{DATA_ARGS:-{data}}}",
            _connections(lines),
            "",
            _continued(command),
            "",
        ]
    )


# Megatron-Bridge

_ON_MODEL = (
    *("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"),
    *("expert-model-parallel-size", "expert-tensor-parallel-size", "sequence-parallel"),
    *("pipeline-model-parallel-layout", "cp-comm-type", "moe-token-dispatcher-type"),
    *("moe-flex-dispatcher-backend", "recompute-granularity", "recompute-method"),
    *("recompute-num-layers", "seq-length"),
)
"""Values that no argument of Megatron-LM sets: a recipe has its own division of accelerators, such
as Llama 3 70B with 5 stages a worker; all of it has to be replaced.
"""

_ON_OTHERS: dict[str, tuple[str, ...]] = {
    "num-virtual-stages-per-pipeline-rank": ("model.virtual_pipeline_model_parallel_size",),
    "microbatch-group-size-per-virtual-pipeline-stage": (
        "model.microbatch_group_size_per_vp_stage",
    ),
    "micro-batch-size": ("train.micro_batch_size",),
    "global-batch-size": ("train.global_batch_size",),
    "overlap-grad-reduce": ("ddp.overlap_grad_reduce",),
    "overlap-param-gather": ("ddp.overlap_param_gather",),
    "use-distributed-optimizer": (
        "ddp.use_distributed_optimizer",
        "optimizer.use_distributed_optimizer",
    ),
    "num-distributed-optimizer-instances": ("ddp.num_distributed_optimizer_instances",),
    "use-megatron-fsdp": ("ddp.use_megatron_fsdp", "dist.use_megatron_fsdp"),
    "data-parallel-sharding-strategy": ("ddp.data_parallel_sharding_strategy",),
    "ckpt-format": ("checkpoint.ckpt_format",),
    "overlap-moe-expert-parallel-comm": ("comm_overlap.overlap_moe_expert_parallel_comm",),
    "delay-wgrad-compute": ("comm_overlap.delay_wgrad_compute",),
}


_UNLESS_SAID: dict[str, Any] = {
    "model.sequence_parallel": False,
    "model.virtual_pipeline_model_parallel_size": None,
    "model.microbatch_group_size_per_vp_stage": None,
    "model.pipeline_model_parallel_layout": None,
    "model.num_layers_in_first_pipeline_stage": None,
    "model.num_layers_in_last_pipeline_stage": None,
    "model.account_for_embedding_in_pipeline_split": False,
    "model.account_for_loss_in_pipeline_split": False,
    "model.context_parallel_size": 1,
    "model.expert_model_parallel_size": 1,
    "model.expert_tensor_parallel_size": None,
    "model.recompute_granularity": None,
    "model.recompute_method": None,
    "model.recompute_num_layers": None,
    "model.recompute_modules": None,
    "model.fine_grained_activation_offloading": False,
    "ddp.use_distributed_optimizer": False,
    "ddp.num_distributed_optimizer_instances": 1,
    "ddp.overlap_grad_reduce": False,
    "ddp.overlap_param_gather": False,
    "ddp.use_megatron_fsdp": False,
    "ddp.data_parallel_sharding_strategy": "no_shard",
    "optimizer.use_distributed_optimizer": False,
    "dist.use_megatron_fsdp": False,
    "comm_overlap": None,
}
"""Settings without an argument of Megatron-LM: a recipe has its own division of the accelerators,
all of which has to be replaced. Llama 3 70B comes with 5 stages a worker.
"""


def _assignments(lines: Sequence[str]) -> list[str] | None:
    """The lines of Megatron-LM as assignments; None if one has no known counterpart."""
    found: dict[str, Any] = {}
    for line in lines:
        flag, *given = shlex.split(line)
        name = flag.removeprefix("--")
        value: Any = True if not given else int(given[0]) if given[0].isdigit() else given[0]
        fields: tuple[str, ...]
        if name == "bf16":
            fields, value = ("mixed_precision",), "bf16_mixed"
        elif name == "no-gradient-accumulation-fusion":
            fields, value = ("model.gradient_accumulation_fusion",), False
        elif name in _ON_MODEL:
            fields = (f"model.{name.replace('-', '_')}",)
        elif name in _ON_OTHERS:
            fields = _ON_OTHERS[name]
        else:
            return None
        found |= dict.fromkeys(fields, value)
        if name == "seq-length":
            found["dataset.sequence_length"] = value
    return [f"cfg.{field} = {value!r}" for field, value in {**_UNLESS_SAID, **found}.items()]


def _bridge(proposal: Proposal, lines: Sequence[str]) -> str | None:
    made = _assignments(lines)
    if made is None:
        return None
    recipe = BRIDGE.get(_name_of(proposal), "")
    needed = "?a recipe of Megatron-Bridge for this model, as module:function"
    # As Megatron-LM sets them.
    interleaves = proposal.candidate.chunks > 1
    made += [
        f"cfg.model.overlap_p2p_comm = {interleaves}",
        f"cfg.model.batch_p2p_comm = {not interleaves}",
    ]
    code = [
        "import os",
        "from importlib import import_module",
        "from megatron.bridge.training.gpt_step import forward_step",
        "from megatron.bridge.training.pretrain import pretrain",
        'module, _, function = os.environ["RECIPE"].partition(":")',
        "cfg = getattr(import_module(module), function)()",
        *made,
        'cfg.train.train_iters = int(os.environ["TRAIN_ITERS"])',
        'if __name__ == "__main__":',
        "    pretrain(cfg, forward_step)",
    ]
    command = [*_TORCHRUN, '"$code"', '"$@"']
    return "\n".join(
        [
            *_head(proposal, "Megatron-Bridge"),
            f"export RECIPE=${{RECIPE:{'-' + recipe if recipe else needed}}}",
            "export TRAIN_ITERS=${TRAIN_ITERS:-20}",
            _connections(lines),
            "code=$(mktemp --suffix=.py)",
            "trap 'rm -f \"$code\"' EXIT",
            "cat >\"$code\" <<'END'",
            *code,
            "END",
            "",
            _continued(command),
            "",
        ]
    )


# All


def scripts_of(proposal: Proposal) -> dict[str, str]:
    """The scripts by launcher, without launchers that cannot run it or do not suit it."""
    made = proposal.launchers(HERE)
    wanted = proposal.request.launcher
    found: dict[str, str | None] = {}
    if made.torchtitan.lines and wanted in (None, "torchtitan"):
        found["torchtitan"] = _torchtitan(proposal, made.torchtitan.lines)
    if made.megatron.lines and wanted in (None, "megatron"):
        found["megatron"] = _megatron(proposal, made.megatron.lines)
        found["bridge"] = _bridge(proposal, made.megatron.lines)
    return {name: text for name, text in found.items() if text is not None}
