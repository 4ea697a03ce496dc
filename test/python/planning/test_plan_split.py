"""Plans over expert and context parallelism: degrees, lines for launchers, and omissions."""

from collections import Counter
from typing import Any

import pipesched
import pytest
from pipesched import Proposal, plan
from pipesched.command import main
from pipesched.costs.passes import attach_system
from pipesched.planning import Request, Shape
from pipesched.planning.request import divisors
from pipesched.planning.space.divisions import Divisions
from pipesched.planning.space.space import Space
from test_command import Capture, failure_of, rows_of
from test_plan import check, flags


def divisions(model: str, **given: Any) -> tuple[list[Shape], Counter[str]]:
    limits = {"system": "dgx-h100", "gpus": 64, "global_batch": 64, **given}
    left_out: Counter[str] = Counter()
    return list(Divisions(Request(model=model, **limits), left_out).shapes()), left_out


# Degrees


def test_experts_are_divided_by_degrees_that_divide() -> None:
    shapes, _ = divisions("qwen3-235b-a22b", gpus=256, global_batch=256)
    assert {shape.expert for shape in shapes} == set(divisors(128))
    for shape in shapes:
        assert 128 % shape.expert == 0 and shape.stage % shape.expert == 0
        assert shape.gpus == 256
    few, _ = divisions("mixtral-8x7b")
    assert {shape.expert for shape in few} == {1, 2, 4, 8}
    none, _ = divisions("llama3-8b")
    assert {shape.expert for shape in none} == {1}


@pytest.mark.parametrize(
    ("sequence", "degrees"),
    [(8192, {1, 2, 4, 8, 16, 32, 64}), (24, {1, 2, 4}), (1000, {1, 2, 4}), (7, {1})],
)
def test_sequences_are_divided_as_launchers_can(sequence: int, degrees: set[int]) -> None:
    shapes, _ = divisions("llama3-8b", sequence=sequence)
    assert {shape.context for shape in shapes} == degrees
    for shape in shapes:
        assert shape.gpus == 64
        assert shape.tensor * shape.context == shape.worker
        assert shape.data * shape.microbatch_size * shape.microbatches == 64
    exchanges = {shape.exchange for shape in shapes if shape.context > 1}
    assert exchanges == ({"ring", "gather"} if degrees != {1} else set())
    torch, _ = divisions("llama3-8b", sequence=sequence, launcher="torchtitan")
    assert {shape.exchange for shape in torch if shape.context > 1} <= {"gather"}


def test_given_degrees_are_kept() -> None:
    shapes, _ = divisions("qwen3-30b-a3b", context=[2], expert=[4, 16], tensor=[2], pp=[4])
    assert {(s.tensor, s.context, s.pipeline, s.data) for s in shapes} == {(2, 2, 4, 4)}
    assert {s.expert for s in shapes} == {4, 16}


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("llama3-8b", {"expert": [2]}, "expert 2: the model has no experts"),
        ("mixtral-8x7b", {"expert": [16]}, "expert 16 is more than the 8 experts"),
        ("mixtral-8x7b", {"expert": [3]}, "expert 3 does not divide 8 experts; 2 and 4 do"),
        (
            "qwen3-30b-a3b",
            {"expert": [32], "pp": [16]},
            "expert 32 does not divide the 4 accelerators of a stage; 4 do",
        ),
        (
            "qwen3-30b-a3b",
            {"expert": [32], "expert_tensor": 2, "pp": [2]},
            "expert 32 by expert-tensor 2 does not divide the 32 accelerators of a stage; 32 do",
        ),
        (
            "llama3-8b",
            {"shard_groups": 3, "pp": [1], "tensor": [8], "context": [1]},
            "shard-groups 3 does not divide 8 replicas",
        ),
        ("llama3-8b", {"context": [3]}, "tensor 1 and context 3 do not divide 64 accelerators"),
        (
            "llama3-8b",
            {"context": [8], "sequence": 1000, "tensor": [1]},
            "context 8 divides sequences into 16 pieces, which 1000 tokens do not give; 992 do",
        ),
        ("llama3-8b", {"context": [8], "tensor": [8], "pp": [2]}, "pp 2 and workers of 64"),
    ],
)
def test_what_does_not_divide_is_left_out(model: str, given: dict[str, Any], said: str) -> None:
    shapes, left_out = divisions(model, **given)
    assert any(reason.startswith(said) for reason in left_out), left_out
    if not shapes:
        limits = {"gpus": 64, "global_batch": 64, **given}
        with pytest.raises(pipesched.PipeSchedError, match="there is nothing to plan"):
            plan(model, "dgx-h100", **limits)


def test_ranks_divide_what_recurrences_share() -> None:
    """Tensor parallelism divides the common sizes of both kinds of layers: 8 heads, 2 groups."""
    fields = dict(pipesched.models()["nemotron-h-8b"])
    fields["linear_attention"] = {**fields["linear_attention"], "key_heads": 2}
    given: dict[str, Any] = {"gpus": 8, "global_batch": 8, "pp": [1], "top": 1}
    given["recompute"] = ["full"]
    assert plan(fields, "dgx-h100", tp=[2], **given).proposals
    with pytest.raises(pipesched.PipeSchedError, match="4 only if it divides the 2 key-value"):
        plan(fields, "dgx-h100", tp=[4], **given)


# Plans


def planned(model: str = "qwen3-30b-a3b", **given: Any) -> Proposal:
    limits: dict[str, Any] = {
        **{"gpus": 64, "global_batch": 64, "tensor": [2], "context": [2], "pp": [4]},
        **{"expert": [8], "microbatch_size": [1], "schedules": ["1f1b"], "memory": "1TiB"},
        **{"recompute": ["none"], "top": 1},
        **given,
    }
    if model == "llama3-8b":
        limits.pop("expert")
    return plan(model, "dgx-h100", **limits).fitting[0]


def test_plans_are_consistent() -> None:
    for given in ({}, {"launcher": "torchtitan"}, {"launcher": "megatron"}):
        found = planned(**given)
        check(found)
        row = found.to_dict()
        assert (row["context"], row["expert"], row["tensor"], row["data"]) == (2, 8, 2, 4)
        assert row["gpus"] == 64
        assert "context 2" in found.why()[0] and "expert 8" in found.why()[0]


def test_lines_of_megatron() -> None:
    given: dict[str, Any] = {"launcher": "megatron", "context_exchange": "ring"}
    every_row = planned(**given, expert_dispatch="all-to-all")
    found = flags(every_row.launchers().megatron.lines or ())
    assert found["--context-parallel-size"] == "2"
    assert found["--cp-comm-type"] == "p2p"
    assert found["--expert-model-parallel-size"] == "8"
    assert found["--expert-tensor-parallel-size"] == "1"
    assert found["--moe-token-dispatcher-type"] == "alltoall"
    given |= {"context_exchange": "gather"}
    for dispatch in ({}, {"expert_dispatch": "per-node"}):
        found = flags(planned(**given, **dispatch).launchers().megatron.lines or ())
        assert found["--cp-comm-type"] == "all_gather"
        assert found["--moe-token-dispatcher-type"] == "flex"
        assert found["--moe-flex-dispatcher-backend"] == "deepep"
    dense = flags(planned("llama3-8b", context=[1]).launchers().megatron.lines or ())
    assert not [flag for flag in dense if "expert" in flag or "context" in flag or "cp-" in flag]


def test_lines_state_groups_and_divided_experts() -> None:
    """Groups of replicas hold twice the state, and widths are divided as degrees of experts are."""
    given: dict[str, Any] = {"sharding": ["optimizer"], "launcher": "megatron"}
    whole = planned(**given)
    for name, value, flag in (
        ("expert_tensor", 2, "--expert-tensor-parallel-size"),
        ("shard_groups", 2, "--num-distributed-optimizer-instances"),
    ):
        more: dict[str, Any] = {**given, name: value}
        found = planned(**more)
        assert flags(found.launchers().megatron.lines or ())[flag] == "2"
        assert found.peak_bytes != whole.peak_bytes and found.step_s != whole.step_s
    torch = planned(launcher="torchtitan", shard_groups=2)
    lines = flags(torch.launchers().torchtitan.lines or ())
    degrees = (lines[f"--parallelism.data_parallel_{n}_degree"] for n in ("replicate", "shard"))
    assert [*degrees] == ["2", "2"]
    reason = planned(launcher="torchtitan", expert_tensor=2).launchers().torchtitan.reason
    assert "has no --parallelism.expert_tensor_parallel_degree" in (reason or "")
    with pytest.raises(pipesched.PipeSchedError, match="Megatron-FSDP cannot divide experts where"):
        planned(launcher="megatron", shard_groups=2, sharding=["full"])


def test_plans_in_four_bits() -> None:
    """Each format is faster than the wider one, and Megatron-LM and Blackwell have all of them."""
    given: dict[str, Any] = {"gpus": 64, "global_batch": 64, "pp": [4], "tp": [4], "cp": [1]}
    given |= {"schedules": ["1f1b"], "recompute": ["none"], "microbatch_size": [1], "top": 1}
    found = {
        name: plan("llama3-70b", "gb200-nvl72", precision=name, launcher="megatron", **given)
        for name in ("bf16", "fp8", "nvfp4")
    }
    steps = [made.fitting[0].step_s for made in found.values()]
    assert steps == sorted(steps, reverse=True) and len({*steps}) == 3
    lines = flags(found["nvfp4"].fitting[0].launchers().megatron.lines or ())
    assert lines["--fp4-format"] == "e2m1" and "--fp8-format" not in lines
    assert "no NVFP4" in (found["nvfp4"].fitting[0].launchers().torchtitan.reason or "")
    with pytest.raises(pipesched.PipeSchedError, match="torchtitan has no NVFP4; plan for mega"):
        plan("llama3-70b", "gb200-nvl72", precision="nvfp4", launcher="torchtitan", **given)
    with pytest.raises(pipesched.PipeSchedError, match="is in NVFP4, for which the system 'dgx-h"):
        plan("llama3-70b", "dgx-h100", precision="nvfp4", **given)


def test_lines_of_torchtitan() -> None:
    best = planned(launcher="torchtitan")
    assert best.shape.exchange == "gather"
    found = flags(best.launchers().torchtitan.lines or ())
    names = [f"--parallelism.{n}_parallel_degree" for n in ("context", "expert", "tensor")]
    assert [found[name] for name in names] == ["2", "8", "2"]
    assert found["--parallelism.data_parallel_shard_degree"] == "4"
    assert "--training.disable_cuda_graphs" in found
    ring = planned(context_exchange="ring").launchers().torchtitan
    assert ring.lines is None and "no context exchange ring" in (ring.reason or "")
    with pytest.raises(pipesched.PipeSchedError, match="torchtitan 0.3.0 has no context exchange"):
        planned(launcher="torchtitan", context_exchange="ring")


def test_passes_say_it() -> None:
    request = Request(
        model="qwen3-30b-a3b",
        system="dgx-h100",
        gpus=64,
        global_batch=64,
        expert_balance=1.25,
        expert_dispatch="per-node",
    )
    shape = Shape(2, 4, 4, 1, 16, "none", "optimizer", context=2, expert=8, exchange="gather")
    system = attach_system(Space(request).costs(shape), effective=True)
    for option in (
        "accelerators=4",
        "context-parallel=2",
        "context-exchange=gather",
        "expert-parallel=8",
        "expert-balance=1.25",
        "expert-dispatch=per-node",
        "data-parallel=4",
    ):
        assert option in system
    alone = Shape(2, 4, 8, 1, 8, "none", "optimizer")
    system = attach_system(Space(request).costs(alone), effective=True)
    assert "expert" not in system and "context" not in system


# The command


LINE = [
    *("plan", "--model", "mixtral-8x7b", "--system", "dgx-h100", "--gpus", "32"),
    *("--global-batch", "32", "--schedules", "1f1b", "--microbatch-size", "1", "--top", "2"),
]


def test_the_table_has_degrees_that_differ(capsys: Capture) -> None:
    assert main([*LINE, "--ep", "8", "--memory", "1TiB"]) == 0
    heading = next(li for li in capsys.readouterr().out.splitlines() if "tokens/s/GPU" in li)
    assert "expert" in heading.split() and "context" not in heading.split()
    assert main([*LINE, "--ep", "1", "--cp", "2", "--memory", "1TiB"]) == 0
    heading = next(li for li in capsys.readouterr().out.splitlines() if "tokens/s/GPU" in li)
    assert "context" in heading.split() and "expert" not in heading.split()


def test_the_command_takes_degrees(capsys: Capture) -> None:
    rows = rows_of(capsys, *LINE, "--ep", "8", "--cp", "1,2", "--memory", "1TiB")
    assert {row["expert"] for row in rows} == {8}
    assert {row["context"] for row in rows} <= {1, 2}
    said = failure_of(capsys, *LINE, "--ep", "5")
    assert "expert 5 does not divide 8 experts; 4 and 8 do" in said
