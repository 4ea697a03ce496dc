"""Pages in a headless browser: their pictures, and actions of people."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pipesched
import pytest
from browser import Opened, running
from pipesched import Simulation, _core
from pipesched.results.comparison import _Measured
from pipesched.support.options import Transport

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CAUSES = (
    *("fill", "drain", "dependency", "queue_order", "communication"),
    *("imbalance", "weights", "experts", "context"),
)
TIMES = "F=10ms,I=11ms,W=9ms,B=20ms,D=5ms,U=6ms,comm=0.7ms"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as started:
        yield started


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """An empty page; at the end no script has complained."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = Opened(context.new_page())
    yield page
    context.close()
    assert page.complaints == []


def simulated(family: str = "1f1b", microbatches: int = 12, **options: Any) -> Simulation:
    schedule = pipesched.generate(family, workers=4, microbatches=microbatches, name=family)
    return schedule.simulate(**{"times": TIMES, "transport": "delay", **options})


def frame_of(simulation: Simulation) -> Any:
    """The cells with their times."""
    return simulation.to_frame()


def show(opened: Opened, folder: Path, *simulations: Simulation, title: str = "page") -> Path:
    file = folder / "page.html"
    file.write_text(pipesched.page(simulations, title=title))
    opened.goto(file)
    return file


# The page agrees with the report


def offloading() -> Simulation:
    schedule = pipesched.generate("1f1b", workers=4, microbatches=12)
    return schedule.transform("pipe-add-offload").simulate(times=TIMES)


def reducing() -> Simulation:
    point = pipesched.Configuration(
        "chimera",
        4,
        8,
        costs=pipesched.Costs(model="llama3-8b", system="dgx-h100", microbatch_size=1),
        optimizer_step="overlapped",
    )
    return point.simulate()


def measured(
    workers: int = 4, microbatches: int = 12, transport: Transport = "delay"
) -> Simulation:
    """Every cell and every message takes a different time."""
    draw = random.Random(0)
    schedule = pipesched.generate("1f1b", workers=workers, microbatches=microbatches)
    program = schedule.transform("convert-pipe-to-exec").to_text()
    program = re.sub(
        r"(?m)( = (compute|send) .*)$",
        lambda found: (
            f"{found[1]} flops {draw.randrange(10**13, 2 * 10**13)}"
            if found[2] == "compute"
            else f"{found[1]} bytes {draw.randrange(10**7, 10**8)}"
        ),
        program,
    )
    return pipesched.Schedule.from_text(program).simulate(system="dgx-h100", transport=transport)


CASES: dict[str, Callable[[], Simulation]] = {
    "1f1b": simulated,
    "measured": measured,
    "measured queues": lambda: measured(transport="overlap"),
    "one cell": lambda: pipesched.generate("1f1b", workers=1, microbatches=1).simulate(),
    "blocking": lambda: simulated(transport="blocking"),
    "queues": lambda: simulated("zb-v", transport="overlap"),
    "pairs": lambda: simulated("dualpipe"),
    "offload": offloading,
    "all-reduce": reducing,
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_the_page(opened: Opened, tmp_path: Path, case: str) -> None:
    simulation = CASES[case]()
    show(opened, tmp_path, simulation)
    execution = simulation.execution
    items = opened.ask(
        """(({items}) => [...Array(items.cells).keys()].map((i) =>
             [items.worker[i], timeline.nameOf(i), items.start[i], items.release[i]]))(timeline)"""
    )
    frame = frame_of(simulation)
    frame = frame[frame["queue"] == "compute"].sort_values(["worker", "start_ps", "index"])
    names: dict[tuple[int, int, int], list[str]] = {}
    for cell in frame.itertuples():
        name = f"{cell.stage}{cell.phase}{cell.microbatch}"
        names.setdefault((cell.worker, cell.start_ps, cell.end_ps), []).append(name)
    wanted = [[w, "+".join(name), begin, end] for (w, begin, end), name in names.items()]
    assert items == wanted

    idle = opened.ask(
        """(() => {
             const sums = timeline.facts.causes.map(() => Array(timeline.numRows).fill(0));
             const {rows, begin, end, cause} = timeline.idle;
             for (let row = 0; row < timeline.numRows; ++row)
               for (let i = rows[row]; i < rows[row + 1]; ++i)
                 sums[cause[i]][row] += end[i] - begin[i];
             return sums;
           })()"""
    )
    for cause, sums in zip(CAUSES, idle, strict=True):
        assert sums == getattr(execution.idle_by_cause_ps, cause).tolist(), cause

    path = opened.ask(
        "[...timeline.criticalPath].filter((i) => ![1, 2].includes(timeline.items.kind[i]))"
        ".map((i) => timeline.nameOf(i))"
    )
    assert tuple(path) == execution.critical_path
    if simulation.memory is not None:
        assert opened.ask("timeline.peaks()") == simulation.memory.peak_activation_bytes.tolist()
        total = int(simulation.memory.peak_bytes.max())
        assert opened.ask("timeline.mostHeld") == total


COLUMNS: dict[str, Callable[[], Simulation]] = {
    **CASES,
    "no time": lambda: simulated(times="F=0ms,B=1ms,comm=0ms"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_arrive_as_they_were(opened: Opened, tmp_path: Path, case: str) -> None:
    """Columns that are left out because they follow from the rest have their old values."""
    simulation = COLUMNS[case]()
    show(opened, tmp_path, simulation)
    drawing = _core.drawing(simulation._evaluation)
    items = drawing.items()
    for name in ("kind", "worker", "peer", "stage", "phase", "microbatch", "awaited"):
        assert opened.ask("[...timeline.items[given]]", name) == items[name].tolist(), name
    for name in ("start", "release", "end"):
        assert opened.ask("[...timeline.items[given]]", name) == items[f"{name}_ps"].tolist(), name
    path = items["critical"].tolist()
    assert opened.ask("[...timeline.criticalPath]") == path
    idle = drawing.idle()
    for name, wanted in (("begin", "begin_ps"), ("end", "end_ps"), ("cause", "cause")):
        assert opened.ask("[...timeline.idle[given]]", name) == idle[wanted].tolist(), name
    memory = drawing.memory()
    for name, wanted in (("rows", "row_begins"), ("at", "at_ps"), ("held", "held")):
        assert opened.ask("[...timeline.memory[given]]", name) == memory[wanted].tolist(), name


def test_times_of_their_own_take_the_bytes_of_their_digits(tmp_path: Path) -> None:
    """Milliseconds in picoseconds are four random bytes and a few bits, a third more as base64,
    once for a cell and once for its message. Everything else follows, or repeats.
    """
    cells = 2 * 16 * 256
    head = len(pipesched.page([measured(1, 1)]))
    assert len(pipesched.page([measured(16, 256)])) - head < 14 * cells


def test_every_item_waited_for_what_ended_at_its_start(opened: Opened, tmp_path: Path) -> None:
    show(opened, tmp_path, simulated("zb-v", transport="overlap"))
    unlike = opened.ask(
        """(({awaited, start, release, end, size}) => [...Array(size).keys()].filter((i) =>
             awaited[i] < 0 ? start[i] !== 0 :
             start[i] !== release[awaited[i]] && start[i] !== end[awaited[i]]))(timeline.items)"""
    )
    assert unlike == []


def test_slices_are_named_and_shaded(opened: Opened, tmp_path: Path) -> None:
    schedule = pipesched.generate("seq1f1b", workers=2, microbatches=3, slices=2)
    simulation = schedule.simulate(times="F=10ms,B=20ms")
    show(opened, tmp_path, simulation)
    cells = frame_of(simulation)
    words = cells.stage.astype(str) + cells.phase.astype(str) + cells.microbatch.astype(str)
    named = (words + "." + cells.slice.astype(str)).tolist()
    found = opened.ask("[...Array(timeline.items.cells).keys()].map((i) => timeline.nameOf(i))")
    assert found == named
    colours = opened.ask("[...timeline.colours.first]")[: len(named)]
    assert [colour % 2 for colour in colours] == cells.slice.tolist()
    cell = cells.iloc[1]
    about = opened.hover(int(cell.worker), float(cell.start_ps + cell.end_ps) / 2)[1]
    assert about == "forward of slice 0.1 on stage 0"
    assert "dark to light: slice 0 to 1" in opened.ask("document.body.innerText")


# Actions of people


def milliseconds(ps: int) -> str:
    number = Decimal(ps).scaleb(-9)
    return f"{number.normalize():f} ms"


def in_own_unit(ps: int) -> str:
    for size, unit in ((12, "s"), (9, "ms"), (6, "us"), (3, "ns")):
        if ps >= 10**size:
            return f"{Decimal(ps).scaleb(-size).normalize():f} {unit}"
    return f"{ps} ps"


def test_hover_says_what_the_report_says(opened: Opened, tmp_path: Path) -> None:
    simulation = simulated()
    show(opened, tmp_path, simulation)
    frame = frame_of(simulation)
    for cell in frame.itertuples():
        middle = (cell.start_ps + cell.end_ps) / 2
        title, about, worker, times, *why = opened.hover(cell.worker, middle)
        assert title == f"{cell.stage}{cell.phase}{cell.microbatch}"
        assert about.endswith(f"of microbatch {cell.microbatch} on stage {cell.stage}")
        assert worker == f"worker {cell.worker}"
        assert times == (
            f"start {milliseconds(cell.start_ps)}, end {milliseconds(cell.end_ps)},"
            f" takes {in_own_unit(cell.end_ps - cell.start_ps)}"
        )
        assert why[0].startswith("waited for ")
    first = frame[(frame.worker == 1) & (frame["index"] == 0)].iloc[0]
    why = opened.hover(1, (first.start_ps + first.end_ps) / 2)[4:]
    assert why[:2] == [
        "waited for message 0F0 from worker 0 to worker 1, which came at 10.7 ms",
        "idle before it: 10.7 ms (fill 10.7 ms)",
    ]
    gap = opened.hover(1, first.start_ps / 2)
    assert gap[:3] == ["idle", "worker 1", "fill: before its first cell"]
    assert gap[-1].startswith("next: 1F0; it waited for message 0F0")
    opened.page.mouse.move(5, 5)
    assert not opened.page.locator(".tip").is_visible()


def test_zoom_and_pan(opened: Opened, tmp_path: Path) -> None:
    """All timelines follow, the cell under the pointer stays there."""
    one, other = simulated(), simulated("gpipe")
    show(opened, tmp_path, one, other)
    longest = max(run.execution.makespan_ps for run in (one, other))
    assert opened.view == (0, longest)
    before = [opened.picture(figure) for figure in (0, 1)]
    at = longest / 3
    place = opened.place(1, at)
    opened.page.mouse.move(*place)
    opened.page.keyboard.down("Control")
    opened.page.mouse.wheel(0, -300)
    opened.page.keyboard.up("Control")
    begin, end = opened.view
    assert end - begin < longest / 4
    assert opened.place(1, at)[0] == pytest.approx(place[0], abs=1)
    assert all(a != b for a, b in zip(before, map(opened.picture, (0, 1)), strict=True))

    opened.page.mouse.down()
    opened.page.mouse.move(place[0] - 100, place[1], steps=5)
    opened.page.mouse.up()
    assert opened.place(1, at)[0] == pytest.approx(place[0] - 100, abs=3)
    assert opened.view[1] - opened.view[0] == pytest.approx(end - begin)

    opened.page.mouse.wheel(0, 200)  # without Control the page scrolls
    assert opened.view[1] - opened.view[0] == pytest.approx(end - begin)
    opened.page.get_by_role("button", name="Fit").click()
    assert opened.view == (0, longest)
    opened.page.get_by_role("button", name="Zoom in").click()
    assert opened.view == (longest / 4, 3 * longest / 4)
    opened.page.get_by_role("button", name="Zoom out").click()
    opened.page.get_by_role("button", name="Zoom out").click()
    assert opened.view == (0, longest)
    opened.page.evaluate("scrollTo(0, 0)")
    assert [opened.picture(figure) for figure in (0, 1)] == before


@pytest.mark.parametrize("switch", ["critical", "idle", "messages", "memory"])
def test_switches(opened: Opened, tmp_path: Path, switch: str) -> None:
    show(opened, tmp_path, simulated("dualpipe"))
    box = opened.page.locator(f"input[name={switch}]")
    assert box.is_checked() == (switch == "messages")
    before, legend = opened.picture(), opened.page.locator(".legend").inner_text()
    box.click()
    assert opened.picture() != before
    assert opened.page.locator(".legend").inner_text() != legend
    box.click()
    assert opened.picture() == before
    key = {"critical": "c", "idle": "i", "messages": "m", "memory": "y"}[switch]
    opened.page.locator("canvas").focus()
    opened.page.keyboard.press(key)
    assert box.is_checked() != (switch == "messages")


def test_colours_on_the_canvas(opened: Opened, tmp_path: Path) -> None:
    """A forward has the colour of forwards; off the critical path it is dimmed."""
    simulation = simulated()
    show(opened, tmp_path, simulation)
    cell = frame_of(simulation).query("worker == 1 and phase == 'F'").iloc[1]
    critical = simulation.execution.critical_path
    assert critical is not None and f"1F{cell.microbatch}" not in critical

    def colour() -> list[int]:
        opened.settle()
        found: list[int] = opened.ask(
            """(() => {
                 const layout = timeline.layout(panel.show);
                 const pixel = new OffscreenCanvas(1, 1).getContext('2d');
                 pixel.drawImage(figure.canvas, -figure.x(given) - 2, -layout.pitch - 3);
                 return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
               })()""",
            int(cell.start_ps),
        )
        return found

    forward = opened.ask("timeline.facts.phases[0].colours[0]")
    assert bytes(colour()).hex() == forward.removeprefix("#")
    opened.page.locator("input[name=critical]").check()
    assert min(colour()) > 150


def test_keyboard(opened: Opened, tmp_path: Path) -> None:
    simulation = simulated()
    show(opened, tmp_path, simulation)
    opened.page.locator("canvas").focus()
    press, title = opened.page.keyboard.press, opened.page.locator(".tip strong")
    press("ArrowRight")
    assert title.inner_text() == "0F1"
    press("ArrowDown")
    assert title.inner_text() == "1F0"  # runs when 0F1 starts
    press("w")
    assert title.inner_text() == "0F0"
    press("+")
    begin, end = opened.view
    assert end - begin == simulation.execution.makespan_ps / 2
    press("d")
    assert opened.view[0] == begin + 0.2 * (end - begin)
    press("0")
    assert opened.view == (0, simulation.execution.makespan_ps)
    press("Escape")
    assert not opened.page.locator(".tip").is_visible()


def test_selected_by_a_click(opened: Opened, tmp_path: Path) -> None:
    simulation = simulated()
    show(opened, tmp_path, simulation)
    opened.page.mouse.click(*opened.place(0, 15e9))
    assert opened.ask("timeline.nameOf(figure.selected)") == "0F1"
    opened.page.mouse.move(5, 5)
    assert opened.page.locator(".tip strong").inner_text() == "0F1"


def test_memory_under_the_pointer(opened: Opened, tmp_path: Path) -> None:
    simulation = reducing()
    assert simulation.memory is not None
    show(opened, tmp_path, simulation)
    opened.page.locator("input[name=memory]").check()
    opened.settle()  # the rows become higher
    x, y = opened.place(2, float(simulation.memory.peak_ps[2]) + 1)
    below = opened.ask("(({row, lanes}) => row / 2 + lanes + 8)(timeline.layout(panel.show))")
    opened.page.mouse.move(x + 1, y + below)
    peak = int(simulation.memory.peak_bytes[2]) / 2**30
    assert opened.page.locator(".tip strong").inner_text() == f"{peak:.2f} GiB"


# Sizes


def large(microbatches: int) -> Simulation:
    schedule = pipesched.generate("1f1b", workers=64, microbatches=microbatches)
    return schedule.simulate(times="F=18.522ms,B=27.423ms,comm=0.601ms", transport="delay")


@pytest.mark.parametrize("microbatches", [512, pytest.param(7813, marks=pytest.mark.long)])
def test_large_schedules(opened: Opened, tmp_path: Path, microbatches: int) -> None:
    """64 workers with 65,536 and a million cells: every one is there."""
    simulation = large(microbatches)
    file = show(opened, tmp_path, simulation)
    cells = 2 * 64 * microbatches
    assert file.stat().st_size < 400_000
    assert opened.ask("timeline.items.cells") == cells
    rows = opened.ask("timeline.drawn.rows")
    assert opened.ask("timeline.drawn.cells") == cells // 64 * rows
    for switch in ("critical", "idle", "memory"):
        opened.page.locator(f"input[name={switch}]").check()
    box = opened.page.locator("input[name=messages]")
    assert box.is_checked() == (microbatches == 512)
    box.check()
    opened.settle()

    row = 5
    frame = frame_of(simulation)
    cell = frame[frame.worker == row].iloc[microbatches]
    middle = (cell.start_ps + cell.end_ps) / 2
    opened.ask("panel.setView(given - 2e10, given + 2e10)", middle)
    assert opened.hover(row, middle)[0] == f"{cell.stage}{cell.phase}{cell.microbatch}"
    opened.page.get_by_role("button", name="Fit").click()
    opened.settle()
    assert any("cells begin in this pixel" in line for line in opened.hover(row, middle))


def test_nobody_knows_for_what_measured_cells_waited(opened: Opened, tmp_path: Path) -> None:
    schedule = pipesched.generate("1f1b", workers=2, microbatches=3)
    predicted = schedule.simulate(times=TIMES, transport="delay")
    places = [range(len(schedule.program(worker))) for worker in range(2)]
    starts = np.array([10**9 * k + 10**7 * worker for worker in range(2) for k in places[worker]])
    lasts = _core.measured(
        predicted._evaluation, "run", starts, starts + 5 * 10**8, int(starts.max()) + 10**9
    )
    file = tmp_path / "page.html"
    file.write_text(_Measured(lasts).to_html())
    opened.goto(file)
    lines = opened.hover(0, 1e8)
    assert lines[0] == "0F0" and lines[-1].startswith("start ")


def test_many_workers_scroll(opened: Opened, tmp_path: Path) -> None:
    schedule = pipesched.generate("1f1b", workers=300, microbatches=300)
    show(opened, tmp_path, schedule.simulate())
    before = opened.picture()
    assert opened.ask("timeline.drawn.rows") < 150
    opened.page.locator(".plot").hover()
    opened.ask("figure.plot.scrollTop = 1e6")
    opened.settle()
    assert opened.picture() != before
    lines = opened.hover(299, 299.5e6)
    assert lines[0] == "299F0" and "worker 299" in lines


# Readers of all kinds


def test_without_scripts(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for name, microbatches in (("small", 12), ("large", 200)):
        file = tmp_path / f"{name}.html"
        file.write_text(simulated(microbatches=microbatches).to_html())
        page.goto(file.as_uri())
        image = page.locator("noscript img, img")
        assert image.count() == (1 if name == "small" else 0)
        assert ("Scripts are off" in page.locator("body").inner_text()) == (name == "large")
    context.close()


def test_dark_and_light(opened: Opened, tmp_path: Path) -> None:
    show(opened, tmp_path, simulated())
    light = opened.picture()
    opened.page.emulate_media(color_scheme="dark")
    ground = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(22, 24, 27)"
    assert opened.picture() != light


def test_print_has_all_rows(opened: Opened, tmp_path: Path) -> None:
    schedule = pipesched.generate("1f1b", workers=120, microbatches=120)
    show(opened, tmp_path, schedule.simulate())
    assert opened.ask("timeline.drawn.rows") < 120
    printed = opened.ask("(page.print(true), timeline.drawn.rows)")
    assert printed == 120
    opened.ask("page.print(false)")
    assert opened.ask("timeline.drawn.rows") < 120
    assert opened.page.pdf().startswith(b"%PDF")


def test_names_are_text(opened: Opened, tmp_path: Path) -> None:
    title = "</title><script>alert(1)</script> & <b>"
    show(opened, tmp_path, simulated(), title=title)
    assert opened.page.title() == title
    assert title in opened.page.locator("body > p").first.inner_text()


def test_damaged_data_is_said(browser: Browser, tmp_path: Path) -> None:
    text = pipesched.page([simulated()])
    begin = text.index('<script type="text/plain">') + 40
    file = tmp_path / "damaged.html"
    file.write_text(text[:begin] + "AAAA" + text[begin + 4 :])
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    page.get_by_text("This timeline cannot be drawn").wait_for()
    context.close()


def test_columns_are_borrowed_and_whole() -> None:
    """The arrays behind pages, without a browser."""
    from pipesched import _core

    drawing = _core.drawing(simulated()._evaluation)
    items, idle = drawing.items(), drawing.idle()
    assert not items["start_ps"].flags.writeable
    del drawing
    assert len(items["kind"]) == len(items["awaited"]) > items["row_begins"][-1]
    assert (items["start_ps"] <= items["release_ps"]).all()
    busy = (items["release_ps"] - items["start_ps"])[: items["row_begins"][-1]].sum()
    whole = simulated().execution.makespan_ps * 4
    assert busy + np.sum(idle["end_ps"] - idle["begin_ps"]) == whole
