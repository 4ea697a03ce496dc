"""Tests sweeps on threads, and that they leave the interpreter to other threads."""

import itertools
import math
import signal
import threading
import time

import pandas as pd
import pipesched
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipesched import (
    Configuration,
    Costs,
    PipeSchedError,
    Simulation,
    _core,
    compare,
    generate,
    simulate_batch,
)
from pipesched.results.batch import findings
from points import PROFILE, configurations


def single(point: Configuration) -> Simulation | str:
    try:
        return point.simulate()
    except PipeSchedError as error:
        return error.diagnostics[0].message


@given(st.lists(configurations(), max_size=8), st.integers(1, 4))
def test_batch_is_singles(points: list[Configuration], threads: int) -> None:
    frame = simulate_batch(points, threads=threads)
    assert len(frame) == len(points)
    for (_, row), point in zip(frame.iterrows(), points, strict=True):
        alone = single(point)
        if isinstance(alone, str):
            assert row["error"].split("\n")[0] == alone
            assert pd.isna(row["makespan_ps"]) and math.isnan(row["idle_ratio"])
            continue
        assert row["error"] is None
        assert row["family"] == alone.family
        assert row["makespan_ps"] == alone.execution.makespan_ps
        assert row["idle_ratio"] == alone.execution.idle_ratio
        assert row["span_bubble_ratio"] == alone.execution.span_bubble_ratio
        assert alone.table is not None
        assert row["table_bubble_ratio"] == alone.table.bubble_ratio
        assert row["peak_activations"] == alone.table.peak_activations.max()
        if alone.memory is None:
            assert pd.isna(row["peak_bytes"])
        else:
            assert row["peak_bytes"] == alone.memory.peak_bytes.max()
            assert row["bottleneck_worker"] == alone.memory.bottleneck_worker


def test_points_of_one_table_share_no_results() -> None:
    """Systems, microbatch sizes, disturbances and transports of one table, in any order."""
    systems = ("baseline", "fast_nw_slow_cp", "slow_nw_fast_cp")
    points = [
        Configuration(
            family,
            4,
            microbatches,
            costs=Costs(model="paper-gpt", system=system, microbatch_size=size),
            transport=transport,
            disturbance=disturbance,
        )
        for disturbance in ("", "worker1=1.3", "jitter=5%,seed=3", "jitter=5%,seed=4")
        for size, system in itertools.product((1, 2), systems)
        for transport in ("overlap", "delay", "blocking")
        for family, microbatches in (("1f1b", 24), ("zb-v", 8), ("chimera", 8))
    ]
    steps = simulate_batch(points).makespan_ps.tolist()
    assert steps == [point.simulate().execution.makespan_ps for point in points]
    assert len(set(steps)) > len(points) / 2


def test_columns() -> None:
    points = [
        Configuration("interleaved-1f1b", 2, 4, {"chunks": 2}),
        Configuration("1f1b", 2, 4, costs=PROFILE, transport="delay"),
    ]
    frame = simulate_batch(points)
    assert list(frame.columns[:5]) == ["family", "workers", "microbatches", "chunks", "transport"]
    assert list(frame.columns)[-1] == "error"
    assert frame.chunks.tolist() == [2, pd.NA]
    assert str(frame.dtypes["peak_bytes"]) == "Int64"
    assert simulate_batch([]).empty


def test_compare_is_the_reports() -> None:
    made = [generate(f, workers=4, microbatches=8, name=f) for f in ("gpipe", "1f1b")]
    simulations = [schedule.simulate(PROFILE, transport="delay") for schedule in made]
    frame = compare(made, PROFILE, transport="delay")
    pd.testing.assert_frame_equal(frame, compare(simulations))
    assert frame.makespan_ps.tolist() == [s.execution.makespan_ps for s in simulations]
    text = pipesched.explain(simulations)
    assert "gpipe" in text and "idle by cause" in text


def test_findings_are_the_last_lines() -> None:
    simulations = [
        generate(f, workers=4, microbatches=8, name=f).simulate(PROFILE, transport="delay")
        for f in ("gpipe", "1f1b")
    ]
    found = findings(simulations)
    assert found[0].kind == "fastest"
    assert {finding.kind for finding in found} <= set(_core.enums()["finding"])
    lines = pipesched.explain(simulations).splitlines()[-len(found) :]
    assert lines == [f"- {finding.text}" for finding in found]


# Threads


def test_progress() -> None:
    seen: list[int] = []
    simulate_batch([Configuration("1f1b", 4, 8)] * 100, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 100


LONG = [Configuration("1f1b", 64, 64, costs=PROFILE)] * 20_000
"""At least a minute of work."""


def test_progress_can_stop() -> None:
    def stop(done: int) -> None:
        raise RuntimeError(f"enough after {done}")

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="enough after"):
        simulate_batch(LONG, progress=stop)
    assert time.monotonic() - started < 30


def test_keyboard_can_stop() -> None:
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        simulate_batch(LONG)
    timer.join()
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("call", ["simulate", "transform", "to_text", "to_bytecode", "verify"])
def test_calls_release_the_interpreter(call: str) -> None:
    """This thread continues while the other is inside a call."""
    # Bytecode is written so fast that a small schedule would leave no time for this thread.
    count = 4 * 16384 if call == "to_bytecode" else 16384
    schedule = generate("1f1b", workers=64, microbatches=count)
    arguments = ["pipe-align-slots"] if call == "transform" else []
    inside: list[float] = []

    def work() -> None:
        inside.append(time.monotonic())
        getattr(schedule, call)(*arguments)
        inside.append(time.monotonic())

    worker = threading.Thread(target=work)
    worker.start()
    ticks = []
    while worker.is_alive():
        time.sleep(0.001)
        ticks.append(time.monotonic())
    begin, end = inside
    assert len([tick for tick in ticks if begin < tick < end]) > 3


def test_schedules_in_threads() -> None:
    """Threads with separate schedules, and threads that share one."""
    shared = generate("zb-h1", workers=8, microbatches=64)
    expected = shared.simulate().to_json()
    results: list[str] = []

    def work() -> None:
        for _ in range(5):
            results.append(shared.simulate().to_json())
            own = generate("zb-h1", workers=8, microbatches=64)
            results.append(own.transform("pipe-align-slots,pipe-compact").simulate().to_json())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 40
