"""Sweeps with metrics of one's own: columns, processes and files."""

import json
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pipesched
import pytest
from pipesched import Configuration, Grid, PipeSchedError, Simulation, simulate_batch, sweep
from pipesched.sweeps.grid import configuration
from pipesched.sweeps.sweep import evaluate, lines_of
from points import SMALL


def cells(simulation: Simulation) -> int:
    return len(simulation.to_frame())


def idle(simulation: Simulation, worker: int) -> Any:
    """The idle time of a worker, as NumPy has it."""
    execution = simulation.execution
    return np.int64(execution.makespan_ps) - execution.busy_ps[worker]


def family(simulation: Simulation) -> str | None:
    return simulation.family


METRICS: dict[str, Any] = {"cells": cells, "idle of 1": partial(idle, worker=1), "of": family}


def test_metrics_are_those_of_the_batch() -> None:
    frame = sweep(SMALL, metrics=METRICS)
    points = [configuration(point.inputs) for point in Grid(SMALL).points()]
    batch = simulate_batch(points, metrics=METRICS)
    assert frame.error.isna().any() and frame.error.notna().any()
    for name in ("makespan_ps", *METRICS, "error"):
        pd.testing.assert_series_equal(frame[name], batch[name], check_dtype=name in METRICS)
    pd.testing.assert_frame_equal(frame.drop(columns=[*METRICS]), sweep(SMALL))


def test_executors_make_no_difference() -> None:
    alone = lines_of(Grid(SMALL), processes=1, metrics=METRICS)
    with ThreadPoolExecutor(2) as pool:
        assert lines_of(Grid(SMALL), executor=pool, metrics=METRICS) == alone
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        assert lines_of(Grid(SMALL), executor=processes, metrics=METRICS) == alone


def test_own_processes_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = sweep(SMALL, processes=1, metrics=METRICS)
    monkeypatch.setattr("pipesched.sweeps.sweep._SMALL_WORK", 0)
    pd.testing.assert_frame_equal(sweep(SMALL, processes=2, metrics=METRICS), alone)


def test_what_cannot_be_sent_is_refused() -> None:
    count = 0

    def here(simulation: Simulation) -> int:
        nonlocal count
        count += 1
        return count

    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(TypeError, match=r"metric 'here' cannot be sent .*processes=1\)"),
    ):
        sweep(SMALL, executor=pool, metrics={"here": here})
    assert count == 0
    assert sweep(SMALL, processes=1, metrics={"here": here}).here.max() == count > 0


@pytest.mark.parametrize("value", [[1], {"a": 1}, np.zeros(2), pipesched])
def test_what_a_row_cannot_keep_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"metric 'm' gives .*; wanted a number, a text, a bool"):
        sweep(SMALL, processes=1, metrics={"m": lambda _: value})


def test_numbers_that_json_has_not() -> None:
    values = iter([float("nan"), np.float64("inf"), np.float32(0.5), np.True_])
    grid = Grid({"family": "gpipe", "workers": 2, "microbatches": [1, 2, 3, 4]})
    lines = lines_of(grid, processes=1, metrics={"m": lambda _: next(values)})
    assert [json.loads(line)["m"] for line in lines] == [None, None, 0.5, True]


@pytest.mark.parametrize("name", ["makespan_ps", "family", "fits", "version", "crc32", "transport"])
def test_names_of_columns_are_taken(name: str) -> None:
    with pytest.raises(PipeSchedError, match=f"metric '{name}' has the name of a column"):
        sweep(SMALL, metrics={name: cells})
    with pytest.raises(TypeError, match="metrics is a mapping from names to functions"):
        sweep(SMALL, metrics=[cells])  # type: ignore[arg-type]


def test_what_a_metric_raises_ends_the_sweep() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        sweep(SMALL, processes=1, metrics={"bad": lambda _: 1 // 0})
    assert raised.value.__notes__ == ["in the metric 'bad' of 1f1b"]


# Files


def test_files_keep_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sweep.jsonl"
    whole = sweep(SMALL, processes=1, file=file, metrics=METRICS)
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    file.write_text("".join(lines[:7]) + lines[7][:90])
    pd.testing.assert_frame_equal(sweep(SMALL, processes=1, file=file, metrics=METRICS), whole)
    assert file.read_text() == text
    monkeypatch.setattr(
        "pipesched.sweeps.sweep.evaluate", lambda *_, **__: pytest.fail("evaluated")
    )
    pd.testing.assert_frame_equal(sweep(SMALL, file=file, metrics=METRICS), whole)


def test_files_of_other_metrics(tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    sweep(SMALL, processes=1, file=file, metrics={"cells": cells})
    contents = file.read_text()
    for metrics, wanted in [
        (None, "of a sweep with other columns: cells; give a file of its own"),
        ({"more": cells}, "of a sweep with other columns: cells, more;"),
        ({"cells": family}, "of a sweep with another function as metric 'cells';"),
        ({"cells": partial(idle, worker=0)}, "of a sweep with another function as metric 'cells';"),
    ]:
        with pytest.raises(PipeSchedError) as raised:
            sweep(SMALL, file=file, metrics=metrics)
        assert f"{file}:1: {wanted}" in str(raised.value)
        assert file.read_text() == contents
    plain = tmp_path / "plain.jsonl"
    sweep(SMALL, processes=1, file=plain)
    with pytest.raises(PipeSchedError, match="of a sweep with other columns: cells;"):
        sweep(SMALL, file=plain, metrics={"cells": cells})


# Evaluating


def test_points_are_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Configuration] = []
    convert = Configuration._raw

    def counted(self: Configuration) -> object:
        made.append(self)
        return convert(self)

    monkeypatch.setattr(Configuration, "_raw", counted)
    points = Grid(SMALL).points()
    assert len(evaluate([point.inputs for point in points])) == len(points) == len(made)
