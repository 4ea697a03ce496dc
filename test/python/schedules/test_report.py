"""The report and its timeline."""

import json
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pipesched
import pytest
from hypothesis import given
from pipesched import Configuration, Costs, PipeSchedError, Report, generate
from pipesched.costs.costs import Time
from points import configurations


def as_json(value: Any) -> Any:
    """Converts dataclasses and arrays to the values that JSON has."""
    if is_dataclass(value):
        every = {f.name: as_json(getattr(value, f.name)) for f in fields(value) if f.name[0] != "_"}
        absent = {f.name for f in fields(value) if f.default is None and every[f.name] is None}
        return {name: each for name, each in every.items() if name not in absent}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


@given(configurations())
def test_dataclasses_are_the_contract(point: Configuration) -> None:
    try:
        report = point.simulate()
    except PipeSchedError:
        return
    assert report.to_dict() == json.loads(report.to_json())
    assert as_json(report) == {"slices": 1, **report.to_dict()}
    assert len(report.worker_frame()) == report.workers


@given(configurations())
def test_with_and_without_ir_are_the_same(point: Configuration) -> None:
    try:
        schedule = point.generate(name=point.family)
    except PipeSchedError as error:
        with pytest.raises(PipeSchedError) as raised:
            point.simulate()
        assert raised.value.diagnostics == error.diagnostics
        return
    options: Any = {
        "transport": point.transport,
        "receive_placement": point.receive_placement,
        "forward_sends": point.forward_sends,
        "runtime": point.runtime,
    }
    try:
        report = schedule.simulate(point.costs, **options)
    except PipeSchedError as error:
        with pytest.raises(PipeSchedError) as raised:
            point.simulate()
        direct_error, named_error = raised.value.diagnostics[0], error.diagnostics[0]
        if direct_error.notes:  # a deadlock: the same waits
            waits = [note.message.strip() for note in direct_error.notes]
            assert waits == [note.message for note in named_error.notes]
        else:
            assert direct_error.message in named_error.message
        return
    direct = point.simulate()
    assert report == direct
    assert report.to_json() == direct.to_json()
    assert report.to_frame().equals(direct.to_frame())


@given(configurations())
def test_timeline(point: Configuration) -> None:
    try:
        simulation = point.simulate()
    except PipeSchedError:
        return
    frame = simulation.to_frame()
    schedule = point.generate()
    assert frame.drop(columns=["start_ps", "end_ps", "message"]).equals(schedule.to_frame())
    assert frame.end_ps.max() <= simulation.execution.makespan_ps
    beside = frame.phase.isin(list("XYZAC"))  # collectives that the row does not wait for
    for _, row in frame[~beside].groupby("worker"):
        assert row.start_ps.is_monotonic_increasing
        lengths = (row.end_ps - row.start_ps)[~row.duplicated("start_ps")]
        worker = row.worker.iloc[0]
        assert lengths.sum() <= simulation.execution.busy_ps[worker] + 0


def test_costs_from_everywhere() -> None:
    schedule = generate("gpipe", workers=2, microbatches=4)
    root = Path(__file__).parents[3]
    fields_of_toy = pipesched.models()["toy"]
    given: Any = {"microbatch_size": 2, "framework": "none"}
    named = schedule.simulate(model="toy", system="toy", **given)
    for model in (root / "models/toy.json", str(root / "models/toy.json"), fields_of_toy):
        costs = Costs(model=model, system=root / "systems/toy.json", **given)
        assert schedule.simulate(costs) == named
    attached = schedule.transform(
        "pipe-attach-model{name=toy microbatch-size=2},pipe-attach-system{name=toy}"
    )
    assert attached.simulate() == named


def test_what_is_given_goes_first() -> None:
    schedule = generate("gpipe", workers=2, microbatches=4)
    slow = schedule.transform('pipe-attach-profile{times="F=2ms,B=4ms"}')
    assert slow.simulate().execution.makespan_ps == 5 * 6 * 10**9
    assert slow.simulate(times="F=1ms,B=2ms").execution.makespan_ps == 5 * 3 * 10**9
    attached = slow.transform("pipe-attach-model{name=toy microbatch-size=2}")
    timed = attached.simulate(system="toy")
    assert timed.memory is not None
    assert timed.execution.makespan_ps >= 5 * 6 * 10**9


def test_times() -> None:
    schedule = generate("1f1b", workers=2, microbatches=2)
    text = schedule.simulate(times="F=[1ms,2ms],B=3ms,comm=5us")
    mapping: dict[str, Time | list[Time]] = {"F": [10**9, "2ms"], "B": "3ms", "comm": 5 * 10**6}
    assert schedule.simulate(times=mapping) == text


def test_costs_are_values() -> None:
    costs = Costs(times="F=1ms,B=2ms")
    assert costs == Costs(times="F=1ms,B=2ms") != Costs(times="F=1ms,B=3ms")
    assert pickle.loads(pickle.dumps(costs)) == costs
    assert repr(costs) == "Costs(times='F=1ms,B=2ms')"


def test_reports_are_values() -> None:
    report = generate("dualpipe", workers=4, microbatches=8).simulate()
    stored = pickle.loads(pickle.dumps(report))
    assert type(stored) is Report
    assert as_json(stored) == as_json(report)
    assert report != generate("dualpipe", workers=4, microbatches=10).simulate()
    assert not report.execution.busy_ps.flags.writeable


def test_pictures() -> None:
    schedule = generate("hanayo", workers=2, microbatches=2)
    simulation = schedule.simulate()
    assert schedule._repr_svg_() == simulation.to_svg("slots")
    assert simulation._repr_svg_() == simulation.to_svg()
    assert simulation.to_svg().lstrip().startswith("<?xml")
    both = pipesched.draw(simulation, simulation)
    assert both._repr_svg_() == str(both)
    assert both.count('class="t"') == 2 * simulation.to_svg().count('class="t"')
    assert json.loads(simulation.to_chrome_trace())["traceEvents"]


def test_pictures_that_notebooks_do_without() -> None:
    assert pipesched.problem(workers=2, microbatches=2)._repr_svg_() is None
    assert generate("gpipe", workers=2, microbatches=10_000)._repr_svg_() is None
    needs_system = generate("gpipe", workers=2, microbatches=2).transform(
        "pipe-attach-model{name=toy microbatch-size=2}"
    )
    assert needs_system._repr_svg_() is not None  # its slots need no costs
    assert needs_system.transform("convert-pipe-to-exec")._repr_svg_() is None
