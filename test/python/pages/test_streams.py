"""The two streams of workers, compute and exchange, in traces and on pages."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipesched
import pytest
from browser import Opened, running
from pipesched import Configuration, Costs, Simulation, overlap
from pipesched.command import main
from pipesched.support.options import FamilyOptions
from pipesched.viz.streams import THREADS, streams_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MODEL: dict[str, Any] = {
    "model": "qwen3-30b-a3b",
    "system": "dgx-h100",
    "microbatch_size": 1,
    "accelerators": 1,
    "expert_parallel": 8,
    "data_parallel": 8,
    "sequence": 2048,
    "rates": "data-sheet",
}
FAMILIES: dict[str, FamilyOptions] = {
    "dualpipe-v": {},
    "dualpipe": {},
    "combined-1f1b": {"chunks": 2},
    "1f1b": {},
    "zb-v": {},
}
COMPUTE, EXCHANGE = THREADS.values()


def simulated(family: str = "dualpipe-v", workers: int = 4, **given: Any) -> Simulation:
    costs = Costs(**{**MODEL, **given})
    return Configuration(family, workers, 2 * workers, FAMILIES[family], costs=costs).simulate()


def slices_of(trace: str) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The slices of streams, by worker and thread, in the order of time."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in json.loads(trace)["traceEvents"]:
        if event["ph"] == "X" and event["tid"] in THREADS.values() and "layer" in event["args"]:
            found[event["pid"], event["tid"]].append(event)
    return {key: sorted(each, key=lambda e: float(e["ts"])) for key, each in found.items()}


# Traces


@pytest.mark.parametrize("workers", [4, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_parts_add_up_to_the_report(family: str, workers: int) -> None:
    """The times of exchanges, and their exposed parts, equal the report, also for stages with
    unequal numbers of layers.
    """
    if family == "dualpipe" and workers == 5:
        workers = 10
    simulation = simulated(family, workers)
    slices = slices_of(simulation.to_chrome_trace())
    execution = json.loads(simulation.to_json())["execution"]
    for worker in range(workers):
        exchanges = slices[worker, EXCHANGE]
        taken = sum(round(1e6 * each["dur"]) for each in exchanges)
        exposed = sum(each["args"]["exposed_ps"] for each in exchanges)
        assert taken == pytest.approx(execution["all_to_all_ps"][worker], rel=1e-6)
        assert exposed == pytest.approx(execution["exposed_all_to_all_ps"][worker], rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_runs_one_part_at_a_time_within_a_cell(family: str) -> None:
    simulation = simulated(family)
    frame = simulation.to_frame()
    for (worker, thread), slices in slices_of(simulation.to_chrome_trace()).items():
        ends = [each["ts"] + each["dur"] for each in slices]
        assert all(a <= b["ts"] + 1e-3 for a, b in zip(ends, slices[1:], strict=False))
        names = {each["name"].split(".")[0] for each in slices}
        assert names == ({"attention", "mlp"} if thread == COMPUTE else {"dispatch", "combine"})
        cells = frame[frame.worker == worker]
        begins, stops = cells.start_ps / 1e6 - 1e-3, cells.end_ps / 1e6 + 1e-3
        for each, end in zip(slices[::7], ends[::7], strict=True):
            args, phases = each["args"], {each["name"][-1], "B"}
            inside = cells[(begins <= each["ts"]) & (end <= stops)]
            same = inside[
                (inside.stage == args["stage"])
                & (inside.microbatch == args["microbatch"])
                & inside.phase.isin(phases)
            ]
            assert len(same) == 1


def test_a_pair_hides_what_overlap_says() -> None:
    simulation = simulated()
    costs = Costs(**MODEL)
    pair = overlap(costs=costs, forward=(0, 6), backward=(42, 48), order=costs.pair_order)
    streams = streams_of(simulation)
    assert streams is not None
    sums = {(runs.exchange_ps, runs.hidden_ps) for runs in streams.runs}
    assert (pair.exchange_ps, pair.hidden_ps) in sums and pair.hidden_ps > 0


def test_threads_are_named_and_the_rest_stays() -> None:
    simulation = simulated()
    text = simulation.to_chrome_trace()
    events = json.loads(text)["traceEvents"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    for worker in range(4):
        assert names[worker, COMPUTE] == "compute stream"
        assert names[worker, EXCHANGE] == "exchange stream"
        assert names[worker, 0] == "compute"
    plain = pipesched._core.chrome_trace([simulation._evaluation])
    assert [e for e in events if e.get("tid") not in THREADS.values()] == [
        e for e in json.loads(plain)["traceEvents"] if e.get("tid") not in THREADS.values()
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"pair_order": "fluid"},
        {"rates": "load"},  # the host is waited for
        {"expert_exposed": 40},
        {"expert_parallel": 1},
        {"model": "llama3-8b", "expert_parallel": 1},
    ],
)
def test_what_has_no_parts_has_no_streams(given: dict[str, Any]) -> None:
    simulation = simulated("1f1b", **given)
    assert streams_of(simulation) is None
    assert simulation.to_chrome_trace() == pipesched._core.chrome_trace([simulation._evaluation])


def test_disturbed_and_measured_times_have_no_streams() -> None:
    point = Configuration("dualpipe-v", 4, 8, costs=Costs(**MODEL), disturbance="worker1=1.5")
    assert streams_of(point.simulate()) is None
    schedule = pipesched.generate("dualpipe-v", workers=4, microbatches=8)
    assert streams_of(schedule.simulate(times="F=1ms,I=1ms,W=1ms,B=2ms")) is None


def test_the_command_writes_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second schedule has separate workers."""
    line = ["simulate", "--schedules", "dualpipe-v,zb-v", "--pp", "4", "--microbatches", "8"]
    for name, value in MODEL.items():
        line += [f"--{name.replace('_', '-')}", str(value)]
    page = tmp_path / "page.html"
    assert main([*line, "--draw", str(page)]) == 0
    assert page.read_text().count('"is_exchange":[false,true,false,true]') == 2
    rows = [tmp_path / "one.mlir", tmp_path / "other.mlir"]
    for file in rows:
        pipesched.generate("dualpipe-v", workers=4, microbatches=8).save(file)
    trace = tmp_path / "trace.json"
    assert main(["simulate", *map(str, rows), *line[7:], "--draw", str(trace)]) == 0
    assert {worker for worker, _ in slices_of(trace.read_text())} == {0, 1, 2, 3, 5, 6, 7, 8}


# Pages


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """A page with the streams of a schedule; at the end no script has complained."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = Opened(context.new_page())
    file = tmp_path / "page.html"
    file.write_text(pipesched.page([simulated()]))
    page.goto(file)
    yield page
    context.close()
    assert page.complaints == []


def test_streams_of_the_page_are_those_of_the_trace(opened: Opened) -> None:
    slices = slices_of(simulated().to_chrome_trace())
    for stream, thread in enumerate((COMPUTE, EXCHANGE)):
        rows, begins, names = opened.ask(
            """(() => {
                 const {layer} = timeline.streams.layers[given];
                 return [[...layer.rows], [...layer.begin],
                         [...layer.begin.keys()].map((i) => timeline.streams.at(given, i))
                           .map(({part, run}) => `${part}.${run[1]}`)];
               })()""",
            stream,
        )
        for worker in range(4):
            wanted = slices[worker, thread]
            own = slice(rows[worker], rows[worker + 1])
            assert [each["name"] for each in wanted] == names[own]
            assert begins[own] == pytest.approx([1e6 * each["ts"] for each in wanted])


def test_a_tip_says_what_is_hidden_and_what_remains(opened: Opened) -> None:
    """Under the pointer, in the lower of both lanes below the row of a worker."""
    hidden = opened.ask(
        """(() => {
             const {layer} = timeline.streams.layers[1];
             for (let i = 0; i < layer.rows[1]; ++i)
               if (timeline.streams.at(1, i).run[5] > 0)
                 return (layer.begin[i] + layer.end[i]) / 2;
           })()"""
    )
    opened.ask("panel.setView(given - 1e9, given + 1e9)", hidden)
    opened.settle()
    x, y = opened.place(0, hidden)
    layout = opened.ask("timeline.layout(panel.show)")
    opened.page.mouse.move(x, y + layout["row"] / 2 + 0.75 * layout["streams"])
    tip = opened.page.locator(".tip").inner_text()
    assert re.match(r"(dispatch|combine)\.[FI]\n", tip), tip
    assert re.search(r"layer \d+ of stage \d, microbatch \d+, in \dF\d+\+\dB\d+", tip), tip
    assert "worker 0, exchange stream" in tip
    assert re.search(r"of it compute hides [\d.]+ us, [\d.]+ p?s remains", tip), tip
    assert re.search(r"of all exchanges of \dF\d+\+\dB\d+, .* compute hides", tip), tip


def test_streams_are_switched(opened: Opened) -> None:
    box = opened.page.locator("input[name=streams]")
    assert box.is_checked()
    legend = opened.page.locator(".legend").inner_text()
    assert all(name in legend for name in ("attention", "dispatch", "mlp", "combine"))
    high = opened.ask("timeline.layout(panel.show).height")
    opened.page.keyboard.press("s")
    assert not box.is_checked()
    assert opened.ask("timeline.layout(panel.show).height") < high
    assert "dispatch" not in opened.page.locator(".legend").inner_text()


def test_pages_without_streams_have_no_switch(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "other.html"
    schedule = pipesched.generate("1f1b", workers=2, microbatches=4)
    file.write_text(pipesched.page([schedule.simulate(times="F=1ms,B=2ms")]))
    opened.goto(file)
    assert opened.page.locator("input[name=streams]").count() == 0
    opened.page.keyboard.press("s")
    assert opened.page.locator("input").count() == 4


def _luminance(colour: str) -> float:
    """As of WCAG."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_parts_of_a_stream_differ_in_grey() -> None:
    """Also in grey prints, and for readers who cannot distinguish hues."""
    style = files("pipesched.viz.pages").joinpath("page.css").read_text()
    colours = dict(re.findall(r"--part-(\d): #([0-9a-f]{6})", style))
    attention, dispatch, mlp, combine = (_luminance(colours[str(part)]) for part in range(4))
    for dark, light in ((attention, mlp), (combine, dispatch)):
        assert (light + 0.05) / (dark + 0.05) > 2


def test_collectives_of_a_vocabulary_have_threads_of_their_own(opened: Opened) -> None:
    """The paper's C0, C1 and C2: X is a broadcast, Y and Z are reductions; A and C of the embedding
    have their own.
    """
    costs = Costs(model="llama3-8b", system="dgx-h100", microbatch_size=1)
    options: FamilyOptions = {"embedding": True}
    simulation = Configuration("vocab-1f1b", 4, 8, options, costs=costs).simulate()
    events = json.loads(simulation.to_chrome_trace())["traceEvents"]
    threads = {
        event["args"]["name"]: event["tid"]
        for event in events
        if event["name"] == "thread_name" and event["pid"] == 1
    }
    wanted = {"broadcast": "X", "reduction": "YZ", "lookup": "A", "gradient": "C"}
    for thread, phases in wanted.items():
        slices = [
            event
            for event in events
            if event["ph"] == "X" and event["pid"] == 1 and event["tid"] == threads[thread]
        ]
        assert {each["name"].strip("0123456789") for each in slices} == set(phases)
        assert len(slices) == 8 * len(phases)
    file = Path(opened.page.url.removeprefix("file://")).with_name("vocabulary.html")
    file.write_text(pipesched.page([simulation]))
    opened.goto(file)
    lanes = opened.ask("timeline.lanes.map(({lane}) => timeline.facts.lanes[lane])")
    assert set(wanted) <= set(lanes)
