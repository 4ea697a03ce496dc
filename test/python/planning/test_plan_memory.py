"""The memory of plans against independent formulas of the memory of each framework.

Parameters are counted here from the sizes of published models, weights, gradients and optimizer
state as the frameworks document them, and activations as the tensors that a fused layer keeps for
its backward. Only the sizes of the plan come from the package.

- Megatron-LM: `megatron/training/theoretical_memory_usage.py` counts the first stage, 6 + 12 / d
  bytes for each parameter with the distributed optimizer and 18 without, and as many microbatches
  as there are stages (Korthikanti et al., arXiv 2205.05198, section 4). Its formula for
  activations, s b h (18 + 4 f / h), is for GPT with dropout; `kept_bytes` counts the tensors of
  other layers in the same way.
- torchtitan: FSDP2 holds parameters and Adam's moments in 4 bytes each, sharded over d; in a
  pipeline it keeps the gathered weights in 2 bytes and whole sums of gradients in 4 (PyTorch's
  `_fully_shard/_fsdp_param.py`, `to_accumulated_grad_if_needed`). Without a pipeline it wraps each
  layer, the embedding, and the head with its norm, and reduces the gradients of each by itself;
  `fsdp_bytes` walks backwards through them.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched import Proposal, plan
from pipesched.planning import Request
from pipesched.support.units import PARTS, reserve_of
from test_command import Capture, text_of

PLANNING = (ROOT / "docs" / "Planning.md").read_text()

ELEMENT = 2
"""Bytes of an activation in bfloat16."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model, from its paper or its `config.json`."""

    hidden: int
    layers: int
    vocabulary: int
    sequence: int
    query: int
    """Width of all query heads."""
    key: int
    """Width of all key heads."""
    heads: int
    feedforward: int
    """Width in a dense layer."""
    is_normed: bool = False
    """Whether queries and keys are normalized, each head by itself."""
    experts: int = 0
    per_token: int = 0
    expert: int = 0
    """Width of an expert."""
    shared: int = 0
    dense: int = 0
    """Layers at the beginning that have no experts."""
    ranks: tuple[int, int] = (0, 0)
    """Size of the latent vectors of queries and of keys and values."""
    rope: int = 0
    """Elements of a head with positions, shared by all keys."""
    value: int = 0
    """Width of all value heads, if they differ from key heads."""


MODELS = {
    "llama3-70b": Sizes(8192, 80, 128256, 8192, 8192, 1024, 64, 28672),
    "qwen3-32b": Sizes(5120, 64, 151936, 4096, 8192, 1024, 64, 25600, is_normed=True),
    "qwen3-235b-a22b": Sizes(
        4096, 94, 151936, 4096, 8192, 512, 64, 0, True, experts=128, per_token=8, expert=1536
    ),
    "mixtral-8x7b": Sizes(
        4096, 32, 32000, 8192, 4096, 1024, 32, 0, experts=8, per_token=2, expert=14336
    ),
    "deepseek-v3": Sizes(
        7168,
        61,
        129280,
        4096,
        128 * 192,
        128 * 192,
        128,
        18432,
        experts=256,
        per_token=8,
        expert=2048,
        shared=2048,
        dense=3,
        ranks=(1536, 512),
        rope=64,
        value=128 * 128,
    ),
}


def attention_parameters(m: Sizes) -> int:
    """The matrices of attention and their norms."""
    if not m.rope:
        norms = 2 * (m.query // m.heads) if m.is_normed else 0
        return 2 * m.hidden * (m.query + m.key) + norms
    query, latent = m.ranks
    up = m.key - m.heads * m.rope + m.value
    down = m.hidden * (query + latent + m.rope)
    return down + query * m.query + latent * up + query + latent + m.value * m.hidden


def layer_parameters(m: Sizes, layer: int) -> tuple[int, int]:
    """Parameters of a layer, and of its experts."""
    dense = attention_parameters(m) + 2 * m.hidden
    if not m.experts or layer < m.dense:
        return dense + 3 * m.hidden * m.feedforward, 0
    dense += m.experts * m.hidden + 3 * m.hidden * m.shared
    return dense, 3 * m.experts * m.hidden * m.expert


def mlp_kept(m: Sizes, layer: int) -> int:
    """The bytes that a token keeps of an MLP: its input, gate and value before they are multiplied,
    and their product. Experts do so for each row; the router keeps probabilities, and weights and
    numbers.
    """
    if not m.experts or layer < m.dense:
        return ELEMENT * (m.hidden + 3 * m.feedforward)
    rows = m.per_token * ELEMENT * (m.hidden + 3 * m.expert)
    router = ELEMENT * m.experts + (ELEMENT + 4) * m.per_token
    return ELEMENT * (m.hidden + 3 * m.shared) + rows + router


def attention_kept(m: Sizes) -> int:
    """The bytes that a token keeps of attention: its input; queries, keys, values and the result;
    one number of 4 bytes for each head; inputs of norms; latent vectors before and after theirs.
    """
    value = m.value or m.key
    result = m.value or m.query
    kept = m.hidden + m.query + m.key + value + result
    if m.is_normed:
        kept += m.query + m.key
    return ELEMENT * (kept + 2 * sum(m.ranks)) + 4 * m.heads


def kept_bytes(m: Sizes, layer: int) -> int:
    """The bytes of a token that a layer keeps for its backward, with the inputs of both norms."""
    return attention_kept(m) + mlp_kept(m, layer) + 2 * ELEMENT * m.hidden


def held_bytes(launcher: str, shared: int, replicas: int) -> float:
    """Bytes that each of `shared` accelerators holds of a parameter, whose state is sharded over
    their `replicas` as well.
    """
    if launcher == "megatron":
        return (6 + 12 / replicas) / shared
    gathered, sums, sharded = 2, 4, 4 + 4 + 4
    return (gathered + sums + sharded / replicas) / shared


def formula_bytes(proposal: Proposal) -> float:
    """The memory of the fullest accelerator under 1F1B: the first stage, which has the embedding
    and a microbatch for each stage, or another with more layers. Layers are shared by the
    tensor-parallel accelerators, experts by the accelerators of the expert degree; activations by
    the accelerators of a worker.
    """
    m, shape = MODELS[str(proposal.request.model)], proposal.shape
    (layers,) = proposal.candidate.layers
    tokens = shape.microbatch_size * m.sequence
    experts = shape.tensor if shape.expert == 1 else shape.expert
    found: list[float] = []
    first = 0
    for stage, count in enumerate(layers):
        held = range(first, first + count)
        counted = [layer_parameters(m, layer) for layer in held]
        dense, expert = (sum(part) for part in zip(*counted, strict=True))
        if stage == 0:
            dense += m.vocabulary * m.hidden
        if stage == len(layers) - 1:
            dense += (m.vocabulary + 1) * m.hidden
        flying = min(shape.pipeline - stage, shape.microbatches)
        state = sum(
            parameters * held_bytes(proposal.request.framework.name, shared, shape.stage // shared)
            for parameters, shared in ((dense, shape.tensor), (expert, experts))
        )
        kept = flying * tokens * sum(kept_bytes(m, layer) for layer in held)
        found.append(state + kept / shape.worker)
        first += count
    return max(found)


CASES: dict[str, dict[str, Any]] = {
    "llama3-70b": {"gpus": 128, "tensor": [8], "pp": [4]},
    "qwen3-32b": {"gpus": 64, "tensor": [4], "pp": [4]},
    "qwen3-235b-a22b": {"gpus": 256, "tensor": [4], "pp": [16]},
    "mixtral-8x7b": {"gpus": 64, "tensor": [4], "pp": [4]},
    "deepseek-v3": {"gpus": 1024, "tensor": [8], "pp": [32]},
}


DIVIDED: dict[str, dict[str, Any]] = {
    "qwen3-235b-a22b": {"gpus": 256, "tensor": [2], "pp": [16], "expert": [8]},
    "mixtral-8x7b": {"gpus": 64, "tensor": [2], "pp": [4], "expert": [8], "context": [2]},
    "deepseek-v3": {"gpus": 2048, "tensor": [1], "pp": [16], "expert": [64]},
    "llama3-70b": {"gpus": 128, "tensor": [8], "pp": [4], "context": [2]},
}
"""Experts and sequences divided."""


def only(model: str, **given: Any) -> Proposal:
    """The best plan for microbatches of one sequence, with any memory."""
    alone: dict[str, Any] = {"microbatch_size": [1], "recompute": ["none"], "top": 1}
    made = plan(model, "dgx-h100", global_batch=256, memory="1TiB", reserve=0, **alone, **given)
    (found,) = made.fitting
    return found


@pytest.mark.parametrize("launcher", ["megatron", "torchtitan"])
@pytest.mark.parametrize(
    ("model", "given"),
    [*CASES.items(), *DIVIDED.items()],
    ids=[*CASES, *(f"divided-{name}" for name in DIVIDED)],
)
def test_memory_is_what_the_framework_holds(
    model: str, given: dict[str, Any], launcher: Any
) -> None:
    limits: dict[str, Any] = {"expert": [1] if MODELS[model].experts else None, **given}
    found = only(model, launcher=launcher, schedules=["1f1b"], **limits)
    assert found.shape.data > 1
    assert found.peak_bytes == pytest.approx(formula_bytes(found), rel=0.03)
    assert getattr(found.launchers(), launcher).lines


# Without a pipeline


def wrapped(m: Sizes) -> list[tuple[int, int]]:
    """The parts that torchtitan wraps by itself: parameters, and the bytes that a token keeps until
    its backward. The loss keeps the logits in 4 bytes.
    """
    layers = [(sum(layer_parameters(m, n)), kept_bytes(m, n)) for n in range(m.layers)]
    head = (m.vocabulary + 1) * m.hidden, 2 * ELEMENT * m.hidden + 4 * m.vocabulary
    return [(m.vocabulary * m.hidden, 0), *layers, head]


def fsdp_bytes(proposal: Proposal) -> float:
    """The most that an accelerator holds during a backward. For each parameter, 12 / d bytes
    (weight and moments) and 4 / d (sum of gradients) stay. When unit i runs, units up to i still
    have their activations. Weights in 2 bytes are gathered for i and for i - 1, which is fetched
    ahead (`_backward_prefetch`), or for all up to i if they stay. Gradients of i in 2 bytes are
    copied into the input of a reduce-scatter in 4 (`foreach_reduce`).
    """
    m, shape = MODELS[str(proposal.request.model)], proposal.shape
    units = wrapped(m)
    tokens = shape.microbatch_size * m.sequence
    found = []
    for last, (own, _) in enumerate(units):
        first = 0 if shape.sharding == "gradients" else max(0, last - 1)
        gathered = sum(parameters for parameters, _ in units[first : last + 1])
        kept = sum(kept for _, kept in units[: last + 1])
        found.append(2 * gathered + (2 + 4) * own + tokens * kept)
    sharded = (12 + 4) * sum(parameters for parameters, _ in units) / shape.data
    return (sharded + max(found)) / shape.tensor


@pytest.mark.parametrize("sharding", ["gradients", "full"])
@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("llama3-70b", {"gpus": 128, "tensor": [8]}),
        ("llama3-70b", {"gpus": 32, "tensor": [8]}),
        ("qwen3-32b", {"gpus": 64, "tensor": [4]}),
        ("mixtral-8x7b", {"gpus": 64, "tensor": [4], "expert": [1]}),
    ],
)
def test_memory_without_a_pipeline(model: str, given: dict[str, Any], sharding: Any) -> None:
    found = only(model, launcher="torchtitan", pp=[1], sharding=[sharding], **given)
    assert found.shape.pipeline == 1 and found.shape.data > 1
    assert found.peak_bytes == pytest.approx(fsdp_bytes(found), rel=0.03)
    policy = {"gradients": "never", "full": "always"}[sharding]
    lines = found.launchers().torchtitan.lines or ()
    assert f"--parallelism.fsdp_reshard_after_forward {policy}" in lines


# The reserve


@pytest.mark.parametrize(
    ("given", "whole", "found"),
    [(0, 100, 0), ("0", 100, 0), ("15%", 1000, 150), ("1KiB+10%", 1000, 1124), ("1KB", 5, 1000)],
)
def test_reserves(given: int | str, whole: int, found: int) -> None:
    assert reserve_of(given, whole) == found


def test_the_reserve_is_the_sum_of_its_parts() -> None:
    """0.95 + 0.2 GiB, 7 or 9.5 GB and 2.4 %, but at most 15 %; the page has both sums."""
    gib, whole = 2**30, 192 * 10**9
    fixed = round(0.95 * gib) + round(0.2 * gib) + round(0.024 * whole)
    assert reserve_of("parts", whole) == fixed + 7 * 10**9
    assert reserve_of("parts", whole, has_experts=True) == fixed + 95 * 10**8
    assert reserve_of("parts", 80 * 10**9, has_experts=True) == 12 * 10**9
    assert f"{reserve_of('parts', 80 * 10**9) / gib:.1f} GiB instead of" in PLANNING
    assert all(f"| {name} | " in PLANNING for name in PARTS)


def test_plans_of_experts_keep_more() -> None:
    given: Any = {"gpus": 8, "global_batch": 8, "system": "b200-sxm"}
    dense = Request(model="qwen3-8b", **given)
    experts = Request(model="qwen3-30b-a3b", **given)
    assert experts.reserve_bytes - dense.reserve_bytes == 25 * 10**8
    assert Request(model="qwen3-8b", reserve="15%", **given).reserve_bytes == 0.15 * 191.5e9


def test_a_reserve_is_numbers_of_bytes() -> None:
    for wrong in ("", "+", "1GiB+", "a lot", "-1"):
        with pytest.raises(pipesched.PipeSchedError, match="reserve is a number of bytes"):
            reserve_of(wrong, 10**9)


def test_no_reserve() -> None:
    given: Any = {"gpus": 16, "global_batch": 32, "pp": [4], "schedules": ["1f1b"], "top": 1}
    kept = plan("llama3-8b", "dgx-h100", **given).fitting[0].request
    none = plan("llama3-8b", "dgx-h100", reserve="0", **given).fitting[0].request
    assert none.usable_bytes == none.capacity_bytes
    assert kept.usable_bytes == kept.capacity_bytes - kept.reserve_bytes
    assert kept.reserve_bytes == reserve_of("parts", kept.capacity_bytes)


# Lines and memory say the same


def lines_of(launcher: Any, **given: Any) -> tuple[Proposal, list[str]]:
    limits: Any = {"memory": "1TiB", "schedules": ["1f1b"], "recompute": ["none"], "top": 1}
    limits |= given
    sizes: Any = {"gpus": 16, "global_batch": 64, "microbatch_size": [1]}
    found = plan("llama3-8b", "dgx-h100", **sizes, launcher=launcher, **limits).fitting[0]
    return found, list(getattr(found.launchers(), launcher).lines)


@pytest.mark.parametrize(
    ("launcher", "given", "sharding", "line"),
    [
        ("megatron", {"pp": [2]}, "optimizer", "--use-distributed-optimizer"),
        ("megatron", {"pp": [2], "sharding": ["none"]}, "none", "--overlap-grad-reduce"),
        (
            "megatron",
            {"pp": [1], "sharding": ["gradients"]},
            "gradients",
            "--data-parallel-sharding-strategy optim_grads",
        ),
        (
            "megatron",
            {"pp": [1], "sharding": ["full"]},
            "full",
            "--data-parallel-sharding-strategy optim_grads_params",
        ),
        (
            "torchtitan",
            {"pp": [2], "tensor": [2]},
            "full-kept",
            "--parallelism.fsdp_reshard_after_forward never",
        ),
        (
            "torchtitan",
            {"pp": [1], "sharding": ["gradients"]},
            "gradients",
            "--parallelism.fsdp_reshard_after_forward never",
        ),
        (
            "torchtitan",
            {"pp": [1], "sharding": ["full"]},
            "full",
            "--parallelism.fsdp_reshard_after_forward always",
        ),
        (
            "torchtitan",
            {"pp": [2], "sharding": ["none"]},
            "none",
            "--parallelism.data_parallel_shard_degree 1",
        ),
    ],
)
def test_lines_shard_what_is_counted(
    launcher: Any, given: dict[str, Any], sharding: str, line: str
) -> None:
    found, lines = lines_of(launcher, **given)
    assert found.shape.sharding == sharding
    assert line in lines
    state = 10 if (launcher, sharding) == ("torchtitan", "full") else 12
    assert found.to_dict()["parameter_bytes"] == {"weight": 2, "gradient": 4, "optimizer": state}
    assert found.to_dict()["for"] == launcher


def test_weights_of_fp8() -> None:
    found, lines = lines_of("megatron", precision="fp8", pp=[2])
    assert "--fp8-param-gather" in lines
    assert found.to_dict()["parameter_bytes"]["weight"] == 2
    alone, lines = lines_of("megatron", precision="fp8", pp=[2], context=[1], sharding=["none"])
    assert "--fp8-param-gather" not in lines
    assert alone.to_dict()["parameter_bytes"]["weight"] == 4
    assert alone.peak_bytes > found.peak_bytes
    other = alone.launchers().torchtitan
    assert other.lines is None
    assert "torchtitan holds 2 + 4 + 12 bytes for a parameter, the plan counts 4 + 4" in (
        other.reason or ""
    )


def test_what_a_framework_cannot_is_left_out() -> None:
    sizes: Any = {"gpus": 16, "global_batch": 64}
    for launcher, sharding, said in (
        ("megatron", "full-kept", "Megatron-LM has no sharding like full-kept"),
        ("torchtitan", "full", "torchtitan has no sharding like full"),
    ):
        limits: Any = {"launcher": launcher, "sharding": [sharding], "pp": [2], "tensor": [1]}
        with pytest.raises(pipesched.PipeSchedError, match=said):
            plan("llama3-8b", "dgx-h100", **sizes, **limits)
    with pytest.raises(pipesched.PipeSchedError, match="1F1B and interleaved 1F1B, not zb-h1"):
        plan("llama3-8b", "dgx-h100", **sizes, launcher="megatron", schedules=["zb-h1"], pp=[4])
    with pytest.raises(pipesched.PipeSchedError, match="launcher is one of megatron, torchtitan"):
        wrong: Any = "deepspeed"
        plan("llama3-8b", "dgx-h100", **sizes, launcher=wrong)


# Facts that a model file states itself


@pytest.mark.parametrize(
    ("stated", "held"),
    [
        ({"gradient_bytes_per_parameter": 0, "optimizer_bytes_per_parameter": 0}, (2, 0, 0)),
        ({"weight_bytes_per_parameter": 1}, (1, 2, 12)),
        ({"gradient_bytes_per_parameter": 4}, (2, 4, 12)),
        ({"gradient_bytes_per_parameter": 2}, (2, 2, 12)),
    ],
)
def test_bytes_of_a_model_file_hold_in_plans(stated: dict[str, int], held: tuple[int, ...]) -> None:
    """In every division, as `compare` counts them."""
    fields = {**pipesched.models()["llama3-8b"], **stated}
    given: dict[str, Any] = {"gpus": 8, "global_batch": 16, "schedules": ["1f1b"], "pp": [2]}
    made = pipesched.plan(fields, "dgx-h100", **given, sharding=["none", "optimizer", "full"])
    for each in made.proposals:
        assert tuple(each.to_dict()["parameter_bytes"].values()) == held
        assert each.configuration is not None and each.configuration.costs is not None
        own = replace(each.configuration.costs, parameter_bytes=None)
        report = replace(each.configuration, costs=own).simulate()
        assert report.memory is not None
        assert each.peak_bytes == -(-int(report.memory.peak_bytes.max()) // each.shape.worker)
        reason, lines = each.launchers().megatron.reason, each.launchers().megatron.lines or ()
        text = " + ".join(map(str, held))
        assert (reason is None) == (held in ((2, 4, 12), (2, 2, 12)))
        assert ("--grad-reduce-in-bf16" in lines) == (held == (2, 2, 12))
        assert reason is None or reason.endswith(f"the model says {text} bytes")
    assert {each.fits for each in made.fitting} == {True}


def test_settings_give_bytes_that_no_file_states(capsys: Capture) -> None:
    """Gradients in 2 bytes: half of the gradients in 4, on the same division."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "8", "--pp", "2"]
    line += ["--tp", "2", "--sharding", "optimizer", "--schedules", "1f1b", "--recompute", "full"]
    line += ["--global-batch", "16", "--microbatch-size", "1", "--top", "1", "--format", "json"]
    found = []
    for changed in ([], ["--set", "model.gradient_bytes_per_parameter=2"]):
        found += json.loads(text_of(capsys, *line, *changed))
    whole, half = (each["parameter_bytes"]["gradient"] for each in found)
    assert (whole, half) == (4, 2)
    parameters = pipesched.Costs(model="llama3-8b").model_summary()["parameters"]
    saved = found[0]["peak_bytes_per_gpu"] - found[1]["peak_bytes_per_gpu"]
    assert saved == pytest.approx(2 * parameters / (2 * 2), rel=0.1)  # the ends are unequal


def test_plans_without_sequence_parallelism(capsys: Capture) -> None:
    """Each of two accelerators holds the whole stream; the launcher does not divide it."""
    given: dict[str, Any] = {"tensor": [2], "pp": [2], "gpus": 8, "schedules": ["1f1b"]}
    divided = only("llama3-8b", launcher="megatron", **given)
    whole = only("llama3-8b", launcher="megatron", sequence_parallel=False, **given)
    # For each layer the inputs of its two norms and their results, 2 bytes each, half of them; the
    # first worker, which is the fullest, holds two microbatches.
    stream = 4 * 2 * 8192 * 4096 // 2
    layers = divided.candidate.layers[0][0]
    assert whole.peak_bytes - divided.peak_bytes == layers * 2 * stream
    for found, is_divided in ((divided, True), (whole, False)):
        lines = found.launchers().megatron.lines or ()
        assert ("--sequence-parallel" in lines) == is_divided
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "8"]
    line += ["--tp", "2", "--pp", "2", "--global-batch", "16", "--top", "1"]
    assert "sequence parallelism off" in text_of(capsys, *line, "--set", "sequence-parallel=false")
    for model, launcher, said in (
        ("mixtral-8x7b", "megatron", "experts and tensors need sequence parallelism"),
        ("llama3-8b", "torchtitan", "torchtitan always has sequence parallelism"),
    ):
        with pytest.raises(pipesched.PipeSchedError, match=said):
            only(model, launcher=launcher, sequence_parallel=False, **given)


def test_bytes_of_a_model_file_are_no_assumption(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "frozen.json"
    fields = {**pipesched.models()["llama3-8b"], "name": "frozen"}
    fields |= {"aliases": [], "gradient_bytes_per_parameter": 0}
    file.write_text(json.dumps(fields))
    line = ["plan", "--model", str(file), "--system", "dgx-h100", "--gpus", "8", "--pp", "2"]
    line += ["--global-batch", "16", "--schedules", "1f1b", "--top", "1"]
    printed = text_of(capsys, *line)
    assert "gradients 0.0 GiB" in printed and "memory as in" not in printed
    assert "parameter-bytes" not in text_of(capsys, *line, "--show-passes")
