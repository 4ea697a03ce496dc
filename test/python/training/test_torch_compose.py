"""Pipelines side by side in PyTorch, by sums of the runtime, by DDP and by fully_shard: they train
as the model without a pipeline does with the batches of all of them, in real processes over gloo
and in float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from case_runs import Cases, check, expected, run_cases
from pipesched import Path, generate
from runtime_runs import Job, Result, train

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import compose_cases  # noqa: F401

PRECISION = 1e-12
SOON = 60.0
ASYMMETRIC = [
    Path([0, 1], takes=[range(0, 5, 2)], weights=[1, 2]),
    Path([1, 0], takes=[range(1, 5, 2)], weights=[2, 1]),
]
SCHEDULES: dict[str, tuple[str, int, str]] = {
    "1f1b": ("1f1b", 4, ""),
    "zb-v": ("zb-v", 5, ""),
    "interleaved-zb": ("interleaved-zb", 4, ""),
    "chimera": ("chimera", 4, ""),
    "dualpipe": ("dualpipe", 6, ""),
    "recomputed": ("interleaved-zb", 4, "pipe-add-recompute"),
    "offloaded": ("zb-v", 4, "pipe-add-offload{keep=1}"),
    "1f1b steps": ("1f1b", 4, "pipe-add-optimizer"),
    "zb-v steps": ("zb-v", 5, "pipe-add-optimizer{all-reduce=eager}"),
    "chimera steps": ("chimera", 4, "pipe-add-optimizer{all-reduce=eager}"),
    "dualpipe steps": ("dualpipe", 6, "pipe-add-optimizer{all-reduce=end}"),
}


def job(name: str, how: str, model: str = "plain", title: str = "", **options: Any) -> Job:
    family, count, transform = SCHEDULES[name]
    schedule = generate(family, workers=2, microbatches=count)
    if transform:
        schedule = schedule.transform(transform)
    steps = name.endswith("steps")
    title = title or f"{name} {how}"
    return Job(title, schedule, model, options, steps_inside=steps, how=how, pipelines=2)


@cache
def jobs() -> dict[str, Job]:
    found = [job(name, how) for how in ("plain", "both") for name in SCHEDULES]
    found += [job(name, "ddp") for name in ("1f1b", "zb-v", "recomputed", "chimera steps")]
    for name in ("zb-v", "chimera", "recomputed", "chimera steps"):
        found += [job(name, "blocks"), job(name, "stages")]
    found += [
        job(name, "again") for name in ("1f1b", "zb-v", "recomputed", "offloaded", "chimera steps")
    ]
    found += [
        job("zb-v", how, model, f"{model} zb-v {how}")
        for how in ("plain", "ddp", "both")
        for model in ("shared", "tied")
    ]
    found += [
        job("chimera steps", how, "tied", f"tied chimera steps {how}") for how in ("plain", "both")
    ]
    found.append(job("1f1b steps", "plain", "tied", "tied 1f1b steps plain"))
    cut = generate("greedy", workers=2, microbatches=5, paths=ASYMMETRIC, gradient_after="I")
    for how in ("plain", "ddp", "blocks"):
        two: dict[str, Any] = {"how": how, "pipelines": 2}
        found.append(Job(f"paths that cut each other {how}", cut, **two))
        stepped = cut.transform("pipe-add-optimizer")
        title = f"paths that cut each other step {how}"
        found.append(Job(title, stepped, steps_inside=True, **two))
    three = generate("1f1b", workers=1, microbatches=2)
    found.append(Job("four of one worker, hsdp", three, how="hsdp", pipelines=4))
    found.append(Job("four of one worker, plain", three, how="plain", pipelines=4))
    for rule in ("own", "average", "first"):
        for name in ("chimera", "1f1b"):
            title = f"buffers {name} {rule}"
            found.append(job(name, "plain", "counted", title, buffers=rule))
    found.append(job("1f1b", "ddp", "counted", "buffers 1f1b by default"))
    return {each.name: each for each in found}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    return train(list(jobs().values()), tmp_path_factory.mktemp("compose"))


@pytest.mark.parametrize("name", [n for n, j in jobs().items() if j.model != "counted"])
def test_trains_as_one_model_with_all_batches(trained: dict[str, list[Result]], name: str) -> None:
    assert len(trained[name]) == 4
    for result in trained[name]:
        assert result.losses <= PRECISION
        assert result.gradients <= PRECISION
        assert result.values <= PRECISION


STEPS = 2


def test_gradients_travel_once_in_a_step(trained: dict[str, list[Result]]) -> None:
    for name in ("1f1b plain", "1f1b ddp", "1f1b steps plain"):
        assert [r.calls for r in trained[name]] == 4 * [{"all_reduce": STEPS}]
    both = STEPS * 2  # The stage has only the parameters of its two blocks.
    calls = {"all_gather_single": both, "reduce_scatter_single": both}
    assert [r.calls for r in trained["zb-v blocks"]] == 4 * [calls]
    for result in trained["zb-v again"]:
        assert result.calls["all_gather_single"] > 2 * both
        assert result.calls["reduce_scatter_single"] == both
    assert [r.calls for r in trained["chimera stages"]] == 4 * [{**calls, "all_reduce": 2 * STEPS}]


# Buffers


def mean(values: list[list[float]]) -> list[float]:
    return [sum(each) / len(values) for each in zip(*values, strict=True)]


def test_buffers_of_replicas(trained: dict[str, list[Result]]) -> None:
    own = [rank.buffers for rank in trained["buffers chimera own"]]
    first = trained["buffers chimera first"]
    for name, values in own[0].items():
        for rank in range(4):
            average = trained["buffers chimera average"][rank].buffers[name]
            if name.endswith("num_batches_tracked"):
                assert [each[name] for each in own] == 4 * [[2]] and average == [4]
            else:
                assert average == pytest.approx(mean([each[name] for each in own]), rel=1e-14)
            assert first[rank].buffers[name] in [own[0][name], own[1][name]]
            assert first[rank].buffers[name] == first[0].buffers[name]
        if name.endswith("running_mean"):
            assert values != own[1][name] != own[2][name]


def test_buffers_of_pipelines(trained: dict[str, list[Result]]) -> None:
    own = [rank.buffers for rank in trained["buffers 1f1b own"]]
    for rank in range(4):
        like = [own[rank % 2], own[rank % 2 + 2]]
        for name in like[0]:
            average = trained["buffers 1f1b average"][rank].buffers[name]
            if name.endswith("num_batches_tracked"):
                assert average == like[0][name] == [4]
            else:
                assert average == pytest.approx(mean([each[name] for each in like]), rel=1e-14)
            for which in ("buffers 1f1b first", "buffers 1f1b by default"):
                assert trained[which][rank].buffers[name] == like[0][name]
    assert own[0] != own[2]


# Refusals and failures


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("cases"), "compose_cases")


@pytest.mark.parametrize("name", expected("compose_cases"))
def test_works_or_is_refused(cases: Cases, name: str) -> None:
    check(cases, name)


@pytest.mark.parametrize("name", ["failure_beside", "failure_beside_shards"])
def test_a_failure_ends_all_pipelines(cases: Cases, name: str) -> None:
    for rank, result in enumerate(cases[name]):
        assert result["seconds"] < SOON and result["exit"] == 0 and not result["left"]
        if rank == 3:
            assert result["text"].startswith("ValueError: broken\nin the pipeline: rank 1, at ")
        else:
            who = "rank 1" if rank == 2 else "rank 1 of pipeline 1"
            assert result["text"].startswith(f"RemoteError: {who} failed: at "), result["text"]


def test_a_time_limit_beside(cases: Cases) -> None:
    first, second = cases["time_limit_beside"]
    wanted = "waited 1.5 s for the gradients of path 0, stage 0 from other pipelines"
    for result in (first, second):
        assert result["text"].startswith("PipelineTimeout: rank 0 " + wanted)
        assert result["seconds"] < SOON


def test_shards_do_not_count_as_activations(cases: Cases) -> None:
    for result in cases["bytes_of_activations"]:
        plain, sharded = result["value"]
        assert plain == sharded and max(plain) > 0


def test_sums_in_a_part_of_the_ranks(cases: Cases) -> None:
    values = [result["value"] for result in cases["sums_in_a_part_of_the_ranks"]]
    assert values == [3, None, 3, None]


def test_overflows_of_one_pipeline(cases: Cases) -> None:
    for name in ("overflow_beside", "overflow_of_shards"):
        for result in cases[name]:
            assert result["value"] == [1024.0, 512.0, True], result


# State and divisions


def test_states_that_do_not_fit(cases: Cases) -> None:
    for result in cases["state_with_other_names"]:
        assert result["text"] == ""
        missing, unexpected, shape = result["value"]
        assert missing == "the state does not fit:\nrank 1: misses '1.outer.bias'"
        assert unexpected == "the state does not fit:\nno rank has '2.inner.weight', 'other'"
        assert shape.endswith("rank 0: has '0.inner.bias' of shape [3], wanted shape [12]")


def test_checkpoints_that_do_not_fit(cases: Cases) -> None:
    for result in cases["checkpoint_with_other_names"]:
        assert result["text"] == ""
        missing, shape, optimizer, other, none = result["value"]
        assert missing.endswith("/0' does not fit:\nrank 0: misses '0.inner.bias'")
        assert shape.endswith("rank 1: has '1.outer.bias' of shape [7], wanted shape [6]")
        assert optimizer.endswith("rank 1: misses the optimizer state of '1.outer.bias'")
        assert "rank 1: has no names under 'model'; it has 'other.0.inner.bias', " in other
        assert "/none' cannot be loaded:\nrank 0: " in none


def test_ranks_divide_alike(cases: Cases) -> None:
    for result in cases["ranks_that_divide_otherwise"]:
        assert "the division of the model: [" in result["text"]
    one, other = (result["value"] for result in cases["measured_by_one_rank"])
    assert one == other and len(one) == 3 and min(one) > 0
