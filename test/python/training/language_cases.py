"""Causal language models of transformers train as without a pipeline, in real processes: see
case_runs.py.

A case returns the largest difference of losses, gradients and parameters, relative to the largest
value of a tensor, over several steps in float64.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from beside import STEPS, line, off, sgd
from case_runs import case
from pipesched import Schedule
from pipesched.torch import Arguments, PipelineRuntime, from_hugging_face
from runtime_cases import COUNT
from torch import Tensor, nn

os.environ["HF_HUB_OFFLINE"] = "1"
WORDS, LENGTH, ROWS = 40, 6, 2
SMALL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "gpt2": {
        "n_embd": 16,
        "n_layer": 4,
        "n_head": 4,
        "n_positions": 32,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    },
    "gemma3_text": {
        "sliding_window": 3,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 8, "dropout": 0.0},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    },
    "qwen3_next": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 4,
        "linear_value_head_dim": 4,
    },
}


def language_model(kind: str, **options: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    quiet: Any = logging
    quiet.set_verbosity_error()
    torch.manual_seed(3)
    config = AutoConfig.for_model(kind, **{**SMALL, **KINDS.get(kind, {}), **options})
    config._experts_implementation = "eager"  # Grouped products know no float64.
    maker: Any = AutoModelForCausalLM
    model = maker.from_config(config).double()
    model.train()
    return model


def words(seed: int, rows: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(1, WORDS, (rows, LENGTH), generator=chance)


def next_word(output: Any, target: Tensor) -> Tensor:
    logits = output.logits[:, :-1].flatten(0, 1)
    return nn.functional.cross_entropy(logits, target[:, 1:].flatten())


def own_loss(output: Any, target: Tensor) -> Tensor:
    result: Tensor = output.loss
    return result


Batch = Callable[[int], list[tuple[Any, Tensor]]]


def plain(seed: int) -> list[tuple[Any, Tensor]]:
    both = [words(COUNT * seed + number, ROWS) for number in range(COUNT)]
    return [(each, each) for each in both]


def masked(seed: int) -> list[tuple[Any, Tensor]]:
    found = []
    for tokens, target in plain(seed):
        mask = torch.ones_like(tokens)
        mask[0, :2] = 0
        given = Arguments(input_ids=tokens, attention_mask=mask, labels=tokens)
        found.append((given, target))
    return found


def called(model: nn.Module, given: Any) -> Any:
    return model(*given.args, **given.kwargs) if isinstance(given, Arguments) else model(given)


def train(
    schedule: Schedule,
    build: Callable[[], nn.Module],
    split: Callable[[nn.Module, Schedule], Any],
    batch: Batch = plain,
    loss: Any = next_word,
    **options: Any,
) -> float:
    model, reference = build(), build()
    stages = split(model, schedule)
    runtime = PipelineRuntime(schedule, stages, loss, **options)
    like = dict(reference.named_parameters(remove_duplicate=False))
    optimizers = [sgd(reference.parameters())]
    if not runtime.optimizers:
        optimizers.append(sgd(runtime.parameters()))
    worst = 0.0
    for seed in range(STEPS):
        batches = batch(seed)
        mean = runtime.step([given for given, _ in batches], [target for _, target in batches])
        wanted = [loss(called(reference, given), target) / COUNT for given, target in batches]
        torch.autograd.backward(wanted)
        if mean is not None and len(schedule.paths) == 1:
            worst = max(worst, off(mean.detach(), torch.stack(wanted).sum().detach()))
        own = {name: p for name, p in runtime._state._own().items() if name in like}
        assert own
        if not runtime.optimizers:
            worst = max([worst, *(off(p.grad, like[name].grad) for name, p in own.items())])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        runtime.zero_grad()
        worst = max([worst, *(off(p.detach(), like[n].detach()) for n, p in own.items())])
    runtime.close()
    return worst


def schedules() -> Iterator[tuple[str, Schedule]]:
    for family in ("1f1b", "zb-v", "chimera"):
        yield family, line(family=family)


@case(2)
def language_models(rank: int) -> dict[str, float]:
    found = {}
    for kind in KINDS:
        for family, schedule in schedules():
            if family != "zb-v" and kind not in ("gpt2", "gpt_oss"):
                continue
            found[f"{kind} {family}"] = train(
                schedule, partial(language_model, kind), from_hugging_face
            )
    return found


@case(2)
def language_models_by_name(rank: int) -> dict[str, float]:
    """With masks, positions and labels, unequal blocks, steps of optimizers, recomputation."""
    found = {}
    for sizes in ([1, 3], [4, 0], [0, 4], [0, 0, 4, 0], [1, 0, 3, 0]):
        found[str(sizes)] = train(
            line(family="1f1b" if len(sizes) == 2 else "zb-v"),
            partial(language_model, "gemma3_text"),
            partial(from_hugging_face, sizes=sizes),
            masked,
            own_loss,
        )
    for steps in ("pipe-add-optimizer{all-reduce=eager}", "pipe-add-recompute"):
        options = {"optimizer": sgd} if "optimizer" in steps else {}
        found[steps] = train(
            line(family="zb-v", transform=steps),
            lambda: language_model("gpt2"),
            from_hugging_face,
            masked,
            own_loss,
            **options,
        )
    return found
