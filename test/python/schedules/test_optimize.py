"""Optimized schedules: results, errors, the cache, Ctrl-C."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Optimization, PipeSchedError

TIMES = "F=10ms,I=12ms,W=8ms,D=14ms,U=14ms,comm=1ms"
QUICK: dict[str, Any] = {"threads": 1, "max_evaluations": 500}


def timed(workers: int, microbatches: int) -> pipesched.Schedule:
    schedule = pipesched.problem(workers=workers, microbatches=microbatches, name="s")
    return schedule.transform(f"pipe-attach-profile{{times={TIMES}}}")


def test_finds_what_the_timeline_has() -> None:
    found = timed(4, 6).optimize(memory=2, offload=True, **QUICK)
    assert isinstance(found, Optimization)
    assert found.objective == "makespan"
    assert found.lower_bound_ps <= found.objective_ps
    assert found.gap == pytest.approx(found.objective_ps / found.lower_bound_ps - 1)
    assert found.bound and found.origin
    assert set(found.without) == {"split_backward", "offload"}
    assert (found.without["offload"] or 0) > 0
    report = found.schedule.simulate(transport="delay")
    assert report.execution.makespan_ps == found.objective_ps
    found.schedule.verify(memory=2, transport="delay")


@pytest.mark.parametrize("objective", ["makespan", "period"])
def test_remarks_say_the_same(objective: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A result and its remarks have equal numbers."""
    caplog.set_level("INFO", "pipesched")
    options: dict[str, Any] = {**QUICK, "objective": objective, "placements": ["linear", "v"]}
    found = timed(2, 4).optimize(memory=2, offload=True, **options)
    summary, chosen, other_said, *without = caplog.messages[-1].splitlines()
    said = {"optimal": "proven optimal", "limit": "the best within the limits"}[found.status]
    assert f"remark: @s: {objective} {found.objective_ps / 1e9:g}ms, {said}; " in summary
    assert f"; lower bound {found.lower_bound_ps / 1e9:g}ms ({found.bound}), " in summary
    assert summary.endswith(f"; from {found.origin}")
    assert chosen.endswith(f"note: chosen: placement {found.placement}")
    (other,) = found.others
    assert f"with placement {other.placement}: {(other.objective_ps or 0) / 1e9:g}ms" in other_said
    assert (" at least, " in other_said) == other.is_bound
    for note, (name, takes) in zip(without, found.without.items(), strict=True):
        assert f"without {name.replace('_', '-')}: " in note
        assert takes is None or f" {takes / 1e9:g}ms, " in note


@pytest.mark.parametrize("name", ["a\nb", "s: makespan 1ms, interrupted; lower bound 1ms (x)"])
def test_names_do_not_matter(name: str) -> None:
    asked = pipesched.problem(workers=2, microbatches=4, name=name)
    found = asked.transform(f"pipe-attach-profile{{times={TIMES}}}").optimize(memory=2, **QUICK)
    assert found.schedule.name == name and found.status != "interrupted"
    assert found.objective_ps == timed(2, 4).optimize(memory=2, **QUICK).objective_ps


def test_keeps_memory_at_the_given_times_alone() -> None:
    options: dict[str, Any] = {"memory": 3, "offload": True, "explain": False, **QUICK}
    found = timed(4, 8).optimize(**options, memory_times="given").schedule
    found.verify(memory=3, memory_times="given", transport="delay")
    with pytest.raises(PipeSchedError, match="may hold 4 activations at cell") as raised:
        found.verify(memory=3)
    (finding,) = raised.value.diagnostics
    assert "nothing before waits for it: a join" in finding.notes[0].message


def test_starts_from_the_rows_there_are() -> None:
    seed = pipesched.generate("zb-h1", workers=4, microbatches=8)
    seed = seed.transform(f"pipe-attach-profile{{times={TIMES}}}")
    before = seed.simulate(transport="delay").execution.makespan_ps
    found = seed.optimize(explain=False, **QUICK)
    assert found.objective_ps <= before
    assert found.schedule.family is None
    assert found.without == {}


def test_proves_small_ones() -> None:
    found = timed(2, 4).optimize(memory=2)
    assert found.status == "optimal"
    assert found.gap == 0
    found = timed(2, 4).optimize(objective="period", placements=["linear", "v"], **QUICK)
    assert found.objective == "period"


def test_says_when_nothing_fits_without() -> None:
    vee = pipesched.problem(workers=2, microbatches=3, paths=[[0, 1, 1, 0]])
    vee = vee.transform(f"pipe-attach-profile{{times={TIMES}}}")
    found = vee.optimize(memory=1, offload=True, **QUICK)
    assert found.without["offload"] is None


def toy(workers: int, microbatches: int) -> pipesched.Schedule:
    schedule = pipesched.problem(workers=workers, microbatches=microbatches, name="s")
    return schedule.transform(
        "pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy}"
    )


def test_chooses_size_and_placement() -> None:
    found = toy(2, 8).optimize(
        memory="500000B", microbatch_sizes=[1, 2, 4], placements=["linear", "v"], **QUICK
    )
    assert (found.placement, found.microbatch_size) in {("linear", 1), ("v", 1)}
    assert found.schedule.microbatches == 16
    assert "microbatch_size 1" in found.schedule.to_text()
    pairs = {(other.placement, other.microbatch_size) for other in found.others}
    assert len(pairs) == len(found.others) == 5
    for other in found.others:
        assert (other.objective_ps is None) == (other.reason is not None)
        assert other.objective_ps is None or other.objective_ps >= found.objective_ps
    large = [other for other in found.others if other.microbatch_size == 4]
    assert any("which holds no schedule" in (other.reason or "") for other in large)
    assert any(other.is_bound for other in found.others)
    report = found.schedule.simulate(transport="delay")
    assert report.execution.makespan_ps == found.objective_ps
    found.schedule.verify(memory="500000B", transport="delay")


def test_chooses_nothing_unasked() -> None:
    found = toy(2, 4).optimize(**QUICK)
    assert (found.placement, found.microbatch_size, found.others) == (None, None, ())
    found = toy(2, 4).optimize(microbatch_sizes=[2], **QUICK)
    assert (found.placement, found.microbatch_size, found.others) == (None, 2, ())


def test_errors_are_exceptions() -> None:
    with pytest.raises(PipeSchedError, match="microbatches of 3 do not divide"):
        toy(2, 4).optimize(microbatch_sizes=[3])
    with pytest.raises(PipeSchedError, match="found 2 twice"):
        toy(2, 4).optimize(microbatch_sizes=[2, 2])
    with pytest.raises(PipeSchedError, match="times are those of one microbatch size"):
        timed(2, 4).optimize(microbatch_sizes=[1])
    with pytest.raises(PipeSchedError, match="has no model, which a memory budget in bytes"):
        timed(2, 4).optimize(memory="80GB")
    with pytest.raises(PipeSchedError, match="a placement is one of .*; got 'w'"):
        timed(2, 4).optimize(placements=["w"])  # type: ignore[list-item]
    with pytest.raises(PipeSchedError, match="time-limit is 0 to"):
        timed(2, 4).optimize(time_limit=-1)


def test_keeps_what_was_found(tmp_path: Path) -> None:
    options: dict[str, Any] = {"memory": 2, "offload": True, "explain": False, **QUICK}
    options["cache"] = str(tmp_path)
    first = timed(4, 6).optimize(**options)
    assert len(list(tmp_path.glob("*.txt"))) == 1
    again = timed(4, 6).optimize(seed=9, **options)
    assert again.schedule.to_text() == first.schedule.to_text()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_the_search() -> None:
    hard = timed(8, 24)
    timer = threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        hard.optimize(memory=3, offload=True, recompute="full", threads=1, time_limit=300)
        time.sleep(1)  # the exception is due by now
    assert time.monotonic() - start < 60
    timer.join()
    assert timed(2, 2).optimize(**QUICK).status == "optimal"
