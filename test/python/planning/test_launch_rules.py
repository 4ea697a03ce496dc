"""The rules of launchers, compared with the checks of the real Megatron-Core."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pipesched
import pytest
from pipesched.planning.launch.rules import Layout, broken_rules, group_of

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    config = pytest.importorskip("megatron.core.transformer.transformer_config")

OVERLAP = "overlap_moe_expert_parallel_comm"
NAMES = {"num_virtual_stages_per_pipeline_rank": "virtual_pipeline_model_parallel_size"}
NAMES["microbatch_group_size_per_virtual_pipeline_stage"] = "microbatch_group_size_per_vp_stage"
FIELDS = ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
KNOWN = {f"{name}_parallel_size" for name in FIELDS}
KNOWN |= {*NAMES.values(), "sequence_parallel", "pipeline_model_parallel_layout", OVERLAP}
KNOWN |= {"cp_comm_type", "moe_token_dispatcher_type", "delay_wgrad_compute"}
KNOWN |= {"moe_flex_dispatcher_backend", "recompute_granularity", "recompute_method"}
KNOWN |= {"recompute_num_layers", "fp4", "fp4_recipe"}
NAMES["fp4_format"] = "fp4"


def build(values: dict[str, Any], model: dict[str, Any]) -> Any:
    """The configuration that Megatron-LM makes of arguments."""
    experts = model.get("experts", {})
    moe = {"num_moe_experts": experts["count"], "moe_ffn_hidden_size": 64} if experts else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return config.TransformerConfig(
            num_layers=model["layers"], hidden_size=model["hidden"], bf16=True,
            num_attention_heads=model["attention_heads"], pipeline_dtype=torch.bfloat16,
            num_query_groups=model.get("key_value_heads"), add_bias_linear=False,
            bias_activation_fusion=False, **moe, **values,
        )  # fmt: skip


def values_of(lines: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        flag, *given = shlex.split(line)
        name = flag.removeprefix("--").replace("-", "_")
        name = NAMES.get(name, name)
        if name in KNOWN:
            found[name] = True if not given else int(given[0]) if given[0].isdigit() else given[0]
    return found


ONE: dict[str, Any] = {"gpus": 16, "global_batch": 32, "recompute": ["none", "full"], "top": 8}
PLANS: list[tuple[str, dict[str, Any]]] = [
    ("llama3-8b", {"pp": [1, 2, 4], "schedules": ["1f1b"]}),
    ("llama3-8b", {"pp": [4], "schedules": ["VPP"], "global_batch": 40, "microbatch_size": [1]}),
    ("llama3-8b", {"pp": [2], "context": [2], "sharding": ["full", "none"]}),
    ("llama3-8b", {"pp": [2], "schedules": ["VPP"], "chunks": [3, 5], "recompute": ["selective"]}),
    ("qwen3-30b-a3b", {"pp": [1, 2], "sharding": ["full"], "expert": [4, 8]}),
    ("qwen3-30b-a3b", {"pp": [1, 2], "tensor": [2, 4], "expert": [4], "expert_tensor": 2}),
    ("qwen3-30b-a3b", {"pp": [2], "schedules": ["combined-1f1b"], "chunks": [2, 5]}),
    ("llama3-8b", {"pp": [2], "system": "dgx-b200", "precision": "nvfp4"}),
    ("deepseek-v3", {"pp": [8], "expert": [8, 64], "gpus": 512, "global_batch": 512}),
]


@pytest.mark.parametrize(("model", "limits"), PLANS)
def test_megatron_core_takes_the_lines_of_plans(model: str, limits: dict[str, Any]) -> None:
    memory = {"memory": "500GiB", "system": "dgx-h100", "launcher": "megatron"}
    made = pipesched.plan(model, **{**memory, **ONE, **limits})
    rows = [each.launchers().megatron.lines for each in made.proposals]
    assert any(rows)
    for proposal, lines in zip(made.proposals, rows):
        if lines is None:
            continue
        values = values_of(lines)
        assert values["tensor_model_parallel_size"] == proposal.shape.tensor
        found = build(values, dict(pipesched.models()[model]))
        assert (found.virtual_pipeline_model_parallel_size or 1) == proposal.candidate.chunks


REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tensor": 3}, {"tensor_model_parallel_size": 3}),
    (
        {"overlaps_experts": True, "expert": 8, "pipeline": 2},
        {OVERLAP: True, "expert_model_parallel_size": 8, "pipeline_model_parallel_size": 2},
    ),
    (
        {"overlaps_experts": True, "expert": 8, "recomputes_all": True},
        {OVERLAP: True, "expert_model_parallel_size": 8, "recompute_granularity": "full"},
    ),
    ({"overlaps_experts": True}, {OVERLAP: True}),
]


@pytest.mark.parametrize(("layout", "values"), REFUSED)
def test_rules_refuse_what_megatron_core_refuses(
    layout: dict[str, Any], values: dict[str, Any]
) -> None:
    model = dict(pipesched.models()["qwen3-30b-a3b"])
    dispatcher = {"moe_token_dispatcher_type": "alltoall"}
    recompute: dict[str, Any] = {}
    if "recompute_granularity" in values:
        recompute = {"recompute_method": "uniform", "recompute_num_layers": 1}
    with pytest.raises((AssertionError, ValueError)):
        build({**dispatcher, **recompute, **values}, model)
    known = Layout(heads=32, key_value_heads=4, experts=128, **layout)
    assert broken_rules("megatron", "0.16.1", known)


def test_heads_may_have_copies() -> None:
    """Megatron-Core copies key-value heads to several ranks; plans that name such a degree agree,
    and so do checks of recipes, by the same rule.
    """
    model = dict(pipesched.models()["llama3-8b"])
    given: dict[str, Any] = {"recompute": ["full"], "top": 1, "pp": [1], "memory": "500GiB"}
    for tensor, is_run in ((8, True), (16, True), (12, False), (64, False)):
        limits = {"gpus": 192, "global_batch": 48, "tensor": [tensor], **given}
        values = {"tensor_model_parallel_size": tensor}
        with nullcontext() if is_run else pytest.raises(ValueError):
            build(values, model)
        with nullcontext() if is_run else pytest.raises(pipesched.PipeSchedError, match="tensor"):
            (best,) = pipesched.plan("llama3-8b", "dgx-h100", **limits).fitting
            assert best.shape.tensor == tensor and best.launchers().megatron.lines


def test_groups_are_those_that_megatron_core_runs() -> None:
    """The words of the launcher's check, over all small numbers, and the group that plans print."""
    for workers in range(2, 6):
        for count in range(1, 24):
            for group in range(1, 26):
                left = count % group
                is_run = workers <= group <= count and not 0 < left < workers
                layout = Layout(pipeline=workers, chunks=2, microbatches=count, group=group)
                assert (broken_rules("megatron", "main", layout) == ()) == is_run
            usual = group_of(count, workers)
            layout = Layout(pipeline=workers, chunks=2, microbatches=count, group=usual)
            rounds = max(1, count // workers)
            if count >= workers and count % rounds == 0:
                assert broken_rules("megatron", "0.16.1", layout) == ()


def test_torchtitan_divides_experts_by_all_of_tensor_or_not() -> None:
    parts = pytest.importorskip("torchtitan.distributed.parallel_dims")
    for tensor, widths in ((4, 1), (4, 4), (4, 2)):
        given = {"dp_replicate": 1, "dp_shard": 2, "cp": 1, "tp": tensor, "pp": 1}
        layout = Layout(tensor=tensor, expert=2, experts=8, expert_tensor=widths)
        broken = broken_rules("torchtitan", "0.2.2", layout)
        if widths == 2:
            assert "by all of tensor 4 or not, not by 2" in broken[0].text
            with pytest.raises(AssertionError, match="ETP=TP or ETP=1"):
                parts.ParallelDims(**given, ep=2, etp=widths, world_size=8)
        else:
            assert not broken
            parts.ParallelDims(**given, ep=2, etp=widths, world_size=8)


def test_rules_name_their_source_and_versions() -> None:
    hybrid = Layout(recurrence="mamba2", pipeline=2, chunks=2)
    (broken,) = broken_rules("megatron", "0.16.1", hybrid)
    assert "no chunks in models with Mamba-2" in broken.text and "mamba_block" in broken.source
    (other,) = broken_rules("torchtitan", "0.3.0", hybrid)
    assert "no model with the recurrence mamba2" in other.text
    with pytest.raises(pipesched.PipeSchedError, match=r"has no rules; give 0\.2\.2 or 0\.3\.0"):
        broken_rules("torchtitan", "0.1.0", hybrid)
