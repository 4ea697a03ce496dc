"""Plans say whether a heavy head is better divided among the workers, or uneven layers are."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from heavy_head import heavy_head
from pipesched import PipeSchedError
from pipesched._division import SPREAD
from pipesched._frameworks import LauncherName
from pipesched.planning import Plan, plan
from pipesched.planning._request import Request
from pipesched.planning._search import Search
from pipesched.planning._space import Space


def planned(tmp_path: Path, vocabulary: int, **given: Any) -> Plan:
    limits: dict[str, Any] = {"gpus": 8, "global_batch": 32, "stages": [8], "tensor": [1]}
    limits |= {"context": [1], "microbatch_size": [1]}
    return plan(heavy_head(tmp_path, vocabulary), "a100-sxm-80gb", **{**limits, **given})


def sentences(tmp_path: Path, vocabulary: int, **given: Any) -> list[str]:
    found = planned(tmp_path, vocabulary, **given)
    return [text for text in found.why() if "vocabulary" in text or "whole head" in text]


def test_a_heavy_head_is_proposed_in_shards(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144)
    found = re.search(r"as long as ([\d.]+) layers; with the vocabulary in shards", text)
    assert found and float(found[1]) > 5, text
    assert re.search(r"would take [\d.]+ s and [\d.]+ GiB, [\d.]+ % ahead of layers", text)
    assert "no launcher of a framework runs shards of the vocabulary, so that it is not" in text
    named = re.search(r"--schedules (\S+) searches it", text)
    assert named and named[1] in SPREAD, text
    assert ("searches it by Vocab-1" in text) == ("by Vocab-2 would take" in text), text


def test_shards_are_proposed_beside_other_pipelines(tmp_path: Path) -> None:
    """Each of two pipelines of eight sums the gradients of shards with the other."""
    two: dict[str, Any] = {"gpus": 16, "global_batch": 64}
    (text,) = sentences(tmp_path, 262144, **two)
    assert "with the vocabulary in shards" in text, text
    found = planned(tmp_path, 262144, schedules=["vocab-1f1b"], **two).fitting
    assert found and all(each.shape.data == 2 for each in found)
    alone = planned(tmp_path, 262144, schedules=["vocab-1f1b"]).fitting[0]
    # Each pipeline has as many microbatches as that one; what is more are the sums.
    assert alone.step_s < found[0].step_s < 1.2 * alone.step_s


def test_a_light_head_is_not(tmp_path: Path) -> None:
    assert not sentences(tmp_path, 512)


def test_schedules_that_are_named_are_searched(tmp_path: Path) -> None:
    (text,) = sentences(tmp_path, 262144, schedules=["1f1b", "interlaced-1f1b"])
    assert text.startswith("on the same shape shards of the vocabulary win, ")
    (text,) = sentences(tmp_path, 512, schedules=["zb-h1", "interlaced-1f1b"])
    assert text.startswith("on the same shape a whole head wins, ")


@pytest.mark.parametrize("launcher", ["torchtitan", "megatron"])
@pytest.mark.parametrize("schedule", SPREAD)
def test_no_launcher_runs_shards(tmp_path: Path, schedule: str, launcher: LauncherName) -> None:
    name = {"torchtitan": "torchtitan keeps the head whole", "megatron": "Megatron-LM has 1F1B"}
    with pytest.raises(PipeSchedError, match=f"nothing to plan.*{name[launcher]}.*{schedule}"):
        sentences(tmp_path, 512, schedules=[schedule], launcher=launcher)


@pytest.mark.parametrize("schedule", SPREAD)
def test_rows_of_shards_have_no_lines(tmp_path: Path, schedule: str) -> None:
    found = planned(tmp_path, 512, schedules=[schedule])
    lines = found.fitting[0].launchers()
    assert lines.torchtitan.lines is None and lines.megatron.lines is None
    assert f"pipesched.torch runs {schedule}" in (lines.torchtitan.reason or "")


@pytest.mark.parametrize("vocabulary", [512, 32768, 262144])
def test_bounds_of_shards_hold(tmp_path: Path, vocabulary: int) -> None:
    """A worker with the last stage has a share of the head, as the others have."""
    request = Request(
        model=heavy_head(tmp_path, vocabulary),
        system="a100-sxm-80gb",
        gpus=8,
        global_batch=32,
        schedules=SPREAD,
        context=[1],
        recompute=["none", "full"],
        sharding=["none", "optimizer"],
    )
    search = Search(Space(request), None, None)
    outcomes = search.evaluate(search.space.candidates())
    assert len(outcomes) > 200 and search.limits.bases
    for outcome in outcomes:
        step = float(outcome.step_ps)
        for limit in (math.inf, step):
            least = search.limits.of_candidate(outcome.candidate, limit)
            assert least.step_ps <= step
            assert least.peak_bytes <= outcome.peak_bytes
            assert search.limits.peak(outcome.candidate.shape, limit) <= outcome.peak_bytes
        assert search.limits.alive(outcome.candidate) <= outcome.peak_bytes
