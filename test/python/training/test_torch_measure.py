"""Measurements of real processes on gloo: they are complete, overlaps are possible ones, and the
causes of errors add up. The lengths of times are not tested; `benchmarks/torch_steps.py` shows
them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pipesched import Measurement, PipeSchedError, Schedule

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from measure_ranks import STEPS, MeasureJob
from runtime_runs import made
from runtime_runs import run as run_jobs

SCHEDULES = {
    "line": made("1f1b", 2, 4),
    "pairs": made("dualpipe", 4, 8),
    "sums": made("chimera", 4, 4, "pipe-add-optimizer{all-reduce=eager}"),
    "copies": made("zb-h1", 2, 4, "pipe-add-offload{memory=2}"),
    "again": made("interleaved-1f1b", 2, 4, "pipe-add-recompute"),
    "program": made("zb-v", 2, 4, "convert-pipe-to-exec{receive-placement=consumer}"),
}
TRACED = {"line": made("1f1b", 2, 4), "split": made("zb-v", 2, 4)}


def run(folder: Path, kind: str, schedules: dict[str, Schedule]) -> Path:
    jobs = [MeasureJob(name, schedule, kind) for name, schedule in schedules.items()]
    run_jobs(jobs, folder, "measure_ranks")
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("measured"), "pipesched", SCHEDULES)


@pytest.fixture(scope="module")
def measured(ran: Path) -> dict[str, Measurement]:
    folder = ran
    for name, schedule in SCHEDULES.items():
        texts = {(folder / f"{name}.{rank}.json").read_text() for rank in range(schedule.workers)}
        assert len(texts) == 1, f"ranks have other measurements of {name}"
    return {name: Measurement.from_file(folder / f"{name}.0.json") for name in SCHEDULES}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("traced"), "torch", TRACED)


def files_of(traces: Path, name: str) -> list[Path]:
    return [traces / f"{name}.{rank}.json" for rank in range(TRACED[name].workers)]


# Contents of a measurement


@pytest.mark.parametrize("name", SCHEDULES)
def test_has_every_instruction_of_every_step_once(
    measured: dict[str, Measurement], name: str
) -> None:
    measurement, schedule = measured[name], SCHEDULES[name]
    assert measurement.schedule == schedule and measurement.steps == STEPS
    # The first step and two evaluations are not part of it.
    assert measurement.numbers == (3, 4, 5)
    frame = measurement.to_frame()
    for (_, worker), rows in frame.groupby(["step", "worker"]):
        assert isinstance(worker, int)
        program = schedule.program(worker)
        assert rows["index"].tolist() == list(range(len(program)))
        assert rows.kind.tolist() == [each.kind for each in program]
        assert rows.cell.tolist() == ["+".join(map(str, each.cells)) for each in program]
    assert len(frame) == STEPS * sum(len(schedule.program(w)) for w in range(schedule.workers))


@pytest.mark.parametrize("name", SCHEDULES)
def test_times_are_in_order(measured: dict[str, Measurement], name: str) -> None:
    frame = measured[name].to_frame()
    assert (frame.ready_s <= frame.start_s).all() and (frame.start_s <= frame.end_s).all()
    before = frame.groupby(["step", "worker"]).end_s.shift()
    assert (frame.ready_s >= before)[before.notna()].all()
    span = frame[frame.kind == "compute"]
    assert (span.groupby("step").start_s.min() == 0).all()
    latest = frame.groupby("step")[["end_s", "done_s", "arrived_s"]].max().max(axis=1)
    assert latest.tolist() == pytest.approx(list(measured[name].step_times_s))
    assert measured[name].step_s == sorted(measured[name].step_times_s)[1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_messages_arrive_after_they_are_sent(measured: dict[str, Measurement], name: str) -> None:
    measurement = measured[name]
    assert 0 < measurement.clock_error_s < 0.1
    frame = measurement.to_frame()
    sent = frame[frame.kind == "send"].set_index(["step", "message"])
    received = frame[frame.kind == "recv"].set_index(["step", "message"])
    assert len(sent) == len(received) > 0
    assert sent.index.is_unique and received.index.is_unique
    # Clocks of two workers may each be wrong by the error.
    flight = received.arrived_s - sent.start_s.reindex(received.index)
    assert (flight >= -2 * measurement.clock_error_s).all()
    assert (received.arrived_s <= received.done_s).all()
    assert sent.arrived_s.reindex(received.index).equals(received.arrived_s)


def test_sums_and_copies_are_seen_to_be_done(measured: dict[str, Measurement]) -> None:
    sums = measured["sums"].to_frame()
    rows = sums[sums.kind == "all_reduce"]
    assert len(rows) > 0 and (rows.done_s >= rows.start_s).all()
    copies = measured["copies"].to_frame()
    reloads = copies[copies.kind == "reload"]
    assert len(reloads) > 0 and (reloads.done_s >= reloads.end_s).all()


# Comparisons


@pytest.mark.parametrize(
    ("name", "transport"),
    # The program places its receives so that queues of messages would hang.
    [(n, t) for n in SCHEDULES for t in ("delay", "overlap") if (n, t) != ("program", "overlap")],
)
def test_causes_add_up_to_the_difference(
    measured: dict[str, Measurement], name: str, transport: Any
) -> None:
    measurement = measured[name]
    comparison = measurement.compare(transport=transport)
    difference = comparison.measured_s - comparison.predicted_s
    sums = comparison.errors.groupby("worker").sum(numeric_only=True)
    assert sums.error_s.tolist() == pytest.approx([difference] * len(sums), abs=1e-9)
    assert sums.measured_s.tolist() == pytest.approx([measurement.step_s] * len(sums))
    assert sums.predicted_s.tolist() == pytest.approx([comparison.predicted_s] * len(sums))
    assert (comparison.errors.measured_s >= 0).all()
    assert (comparison.errors.predicted_s >= 0).all()
    assert comparison.error == pytest.approx(difference / comparison.predicted_s)


def test_compute_is_the_sum_of_the_cells(measured: dict[str, Measurement]) -> None:
    for measurement in measured.values():
        comparison = measurement.compare()
        frame = measurement.to_frame()
        step = measurement.numbers[measurement.median_step]
        cells = frame[(frame.kind == "compute") & (frame.step == step)]
        wanted = (cells.end_s - cells.start_s).groupby(cells.worker).sum()
        compute = comparison.errors[comparison.errors.cause == "compute"]
        assert compute.groupby("worker").measured_s.sum().tolist() == pytest.approx(wanted.tolist())
        busy = comparison.prediction.execution.busy_ps / 1e12
        assert compute.groupby("worker").predicted_s.sum().tolist() == pytest.approx(busy.tolist())


def test_causes_are_those_of_the_schedule(measured: dict[str, Measurement]) -> None:
    def causes(name: str) -> set[str]:
        errors = measured[name].compare().errors
        return set(errors[errors.measured_s > 0].cause)

    assert {"compute", "messages", "issue", "start", "end"} <= causes("line")
    assert "copies" in causes("copies") and "copies" not in causes("line")
    assert "all_reduces" not in causes("line")
    phases = set(measured["pairs"].compare().errors.phase)
    assert {"F+B", "F", "B"} <= phases


def test_prediction_takes_given_costs(measured: dict[str, Measurement]) -> None:
    schedule = SCHEDULES["line"]
    comparison = measured["line"].compare(times="F=5ms,B=2ms,comm=1ms", transport="overlap")
    wanted = schedule.simulate(times="F=5ms,B=2ms,comm=1ms", transport="overlap")
    assert comparison.predicted_s == wanted.execution.makespan_ps / 1e12
    with pytest.raises(PipeSchedError, match="had its receives at arrival"):
        measured["line"].compare(receive_placement="consumer")


def test_text_has_a_row_per_cause_and_a_column_per_worker(measured: dict[str, Measurement]) -> None:
    comparison = measured["pairs"].compare()
    lines = comparison.text().splitlines()
    assert lines[0].startswith("schedule: step ") and "median of 3 steps" in lines[1]
    head = next(i for i, line in enumerate(lines) if line.startswith("cause"))
    assert lines[head].split() == ["cause", "0", "1", "2", "3"]
    rows = {(each.cause, each.phase) for each in comparison.errors.itertuples()}
    assert len(lines) - head - 2 == len(rows)
    assert str(comparison) == comparison.text()
    narrow = comparison.text(width=24).splitlines()
    heads = [line.split() for line in narrow if line.startswith("cause")]
    assert len(heads) > 1 and [each for head in heads for each in head[1:]] == ["0", "1", "2", "3"]
    assert all(
        len(line) <= 24
        for line in narrow[
            narrow.index(next(line for line in narrow if line.startswith("cause"))) :
        ]
    )


# Pictures


@pytest.mark.parametrize("name", SCHEDULES)
def test_pictures_show_both(measured: dict[str, Measurement], name: str) -> None:
    comparison = measured[name].compare()
    picture = ElementTree.fromstring(comparison.to_svg())
    labels = picture.iter("{http://www.w3.org/2000/svg}text")
    texts = [text for label in labels for text in label.itertext()]
    title = SCHEDULES[name].name
    assert title in texts and f"{title}, measured" in texts
    assert sum(text.startswith("worker ") for text in texts) == SCHEDULES[name].workers
    if name == "line":  # Others have cells that are too short to draw.
        boxes = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}title")]
        frame = measured[name].to_frame()
        for cell in set(frame[frame.kind == "compute"].cell):
            assert sum(box.startswith(f"{cell}:") for box in boxes) == 2
    page = comparison.to_html("a run")
    facts = [json.loads(t) for t in re.findall('class="facts">(.*?)</script>', page, re.DOTALL)]
    assert [each["title"] for each in facts] == [title, f"{title}, measured"]
    assert facts[1]["makespan_ps"] == pytest.approx(1e12 * comparison.measured_s)
    assert "<title>a run</title>" in page
    events = json.loads(comparison.to_chrome_trace())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    workers = {pid: each for pid, each in names.items() if "worker" in each}
    assert sum("measured" in each for each in workers.values()) == SCHEDULES[name].workers
    slices = [e for e in events if e["ph"] == "X" and e["tid"] == 0 and e["pid"] in workers]
    measured_slices = [e for e in slices if "measured" in names[e["pid"]]]
    assert len(measured_slices) == len(slices) / 2
    for event in measured_slices:
        assert 0 <= event["ts"] <= event["ts"] + event["dur"] <= 1e6 * comparison.measured_s + 1


def test_the_trace_has_the_measured_times(measured: dict[str, Measurement]) -> None:
    measurement = measured["line"]
    frame = measurement.to_frame()
    step = measurement.numbers[measurement.median_step]
    rows = frame[(frame.kind == "compute") & (frame.step == step)].set_index(["worker", "cell"])
    events = json.loads(measurement.compare().to_chrome_trace())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    found = 0
    for event in events:
        name = names[event["pid"]]
        if event["ph"] == "X" and event["tid"] == 0 and "measured" in name and "worker" in name:
            row = rows.loc[int(name.rsplit(maxsplit=1)[1]), event["name"]]
            assert event["ts"] == pytest.approx(1e6 * row.start_s, abs=0.01)
            assert event["dur"] == pytest.approx(1e6 * (row.end_s - row.start_s), abs=0.01)
            found += 1
    assert found == len(rows)


# Profiles


@pytest.mark.parametrize("name", SCHEDULES)
def test_profile_is_taken_by_passes(measured: dict[str, Measurement], name: str) -> None:
    profile = measured[name].profile()
    names = {entry.partition("=")[0] for entry in profile.replace("],", "]|").split("|")}
    assert names
    attached = SCHEDULES[name].transform(f"pipe-attach-profile{{times={profile}}}")
    assert attached.simulate(transport="delay").execution.makespan_ps > 0


def test_profile_has_what_ran(measured: dict[str, Measurement]) -> None:
    def names(name: str) -> set[str]:
        letters = measured[name].profile().split("=")[:-1]
        return {each.rpartition(",")[2] for each in letters}

    assert names("line") == {"F", "B", "comm"}
    assert names("pairs") == {"F", "B", "I", "W", "FB", "comm"}
    assert names("sums") == {"F", "B", "O", "G", "comm"}
    assert names("copies") == {"F", "I", "W", "D", "U", "comm"}
    assert names("again") == {"F", "B", "R", "comm"}


def test_profile_is_by_stage(measured: dict[str, Measurement]) -> None:
    """The forward of stage 0 sleeps 60 ms, all others 5 ms."""
    frame = measured["line"].to_frame()
    cells = frame[(frame.kind == "compute") & (frame.phase == "F")]
    means = (cells.end_s - cells.start_s).groupby(cells.stage).mean()
    written = re.match(r"F=\[([\d.]+)ms,([\d.]+)ms]", measured["line"].profile())
    assert written
    assert [float(ms) for ms in written.groups()] == pytest.approx(
        [1e3 * means[0], 1e3 * means[1]], abs=1e-6
    )
    assert means[0] >= 0.06 and 0.005 <= means[1]


def test_profile_with_issue_has_all_that_holds_a_worker(measured: dict[str, Measurement]) -> None:
    """On worker 0 only backwards wait: a forward lasts up to the next cell."""
    measurement = measured["line"]
    times = measurement.profile(issue=True)
    forward = float(times.partition("F=[")[2].partition("ms")[0]) / 1e3
    frame = measurement.to_frame()
    cells = frame[(frame.kind == "compute") & (frame.worker == 0)]
    gaps = []
    for _, rows in cells.groupby("step"):
        following = rows.ready_s.shift(-1) - rows.ready_s
        gaps += following[rows.phase == "F"].tolist()
    assert forward == pytest.approx(sum(gaps) / len(gaps), rel=1e-6)


def test_profile_is_optimized(measured: dict[str, Measurement]) -> None:
    measurement = measured["copies"]
    attached = SCHEDULES["copies"].transform(
        f"pipe-attach-profile{{times={measurement.profile()}}}"
    )
    found = attached.optimize(memory=2, threads=1, max_evaluations=200)
    own = attached.simulate(transport="delay").execution.makespan_ps
    assert 0 < found.objective_ps <= own


# Files


def test_files_are_read_as_they_were_written(
    measured: dict[str, Measurement], tmp_path: Path
) -> None:
    for measurement in measured.values():
        measurement.save(tmp_path / "m.json")
        again = Measurement.from_file(tmp_path / "m.json")
        assert again.to_json() == measurement.to_json()
        assert again.profile() == measurement.profile()
        assert again.clock == measurement.clock and again.step_times_s == measurement.step_times_s


def test_files_of_other_kinds_are_refused(
    measured: dict[str, Measurement], traces: Path, tmp_path: Path
) -> None:
    good = json.loads(measured["line"].to_json())

    def error(**changes: Any) -> str:
        file = tmp_path / "changed.json"
        file.write_text(json.dumps({**good, **changes}))
        with pytest.raises(PipeSchedError) as caught:
            Measurement.from_file(file)
        text = str(caught.value)
        assert str(file) in text
        return text

    assert "format: found \"other\", wanted 'pipesched-measurement'" in error(format="other")
    assert "version: found 2, wanted 1" in error(version=2)
    assert "steps: found [], wanted the numbers of steps" in error(steps=[])
    assert "receives: found 'never', wanted arrival or consumer" in error(receives="never")
    assert "receives: found null, wanted null for a program" in error(receives=None)
    assert "schedule" in error(schedule="pipe.schedule @x")
    assert "source: found 3, wanted a text" in error(source=3)
    assert "'error_s' is missing" in error(clock={})
    assert "workers_ns: found 1 workers, the schedule has 2" in error(
        workers_ns=good["workers_ns"][:1],
        clock={"error_s": None, "offsets_s": [0], "drifts_ppm": [0]},
    )
    worker = good["workers_ns"][0]
    shorter = {**worker, "end": [row[1:] for row in worker["end"]]}
    assert "workers_ns[0].end: found 3 steps of" in error(
        workers_ns=[shorter, good["workers_ns"][1]]
    )
    early = {**worker, "end": [[0] * len(row) for row in worker["end"]]}
    late = {**early, "ready": worker["start"], "start": [[9] * len(r) for r in worker["end"]]}
    assert "later than its" in error(workers_ns=[late, good["workers_ns"][1]])
    words = {**worker, "ready": [["x"]]}
    assert "workers_ns[0].ready" in error(workers_ns=[words, good["workers_ns"][1]])
    with pytest.raises(PipeSchedError, match="from_torch_traces"):
        Measurement.from_file(files_of(traces, "line")[0])
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(PipeSchedError, match="not JSON"):
        Measurement.from_file(tmp_path / "text.json")


# Traces of PyTorch's profiler


@pytest.mark.parametrize("name", TRACED)
def test_traces_have_every_cell(traces: Path, name: str) -> None:
    schedule = TRACED[name]
    measurement = Measurement.from_torch_traces(schedule, reversed(files_of(traces, name)))
    assert measurement.steps == STEPS and measurement.clock_error_s >= 0
    frame = measurement.to_frame()
    for (_, worker), rows in frame.groupby(["step", "worker"]):
        assert isinstance(worker, int)
        cells = rows[rows.kind == "compute"].sort_values("start_s")
        wanted = [str(i.cell) for i in schedule.program(worker) if i.kind == "compute"]
        assert cells.cell.tolist() == wanted
        assert (cells.start_s.iloc[1:].to_numpy() >= cells.end_s.iloc[:-1].to_numpy() - 1e-6).all()
    comparison = measurement.compare()
    sums = comparison.errors.groupby("worker").error_s.sum()
    difference = comparison.measured_s - comparison.predicted_s
    assert sums.tolist() == pytest.approx([difference] * schedule.workers, abs=1e-9)
    assert comparison.to_svg() and comparison.to_chrome_trace()
    assert Measurement.from_json(measurement.to_json()).to_json() == measurement.to_json()


@pytest.mark.parametrize("name", SCHEDULES)
def test_traces_of_our_runtime_say_what_it_records(
    measured: dict[str, Measurement], ran: Path, name: str
) -> None:
    schedule = SCHEDULES[name]
    files = [ran / f"{name}.{rank}.trace.json" for rank in range(schedule.workers)]
    traced = Measurement.from_torch_traces(schedule, files)
    assert traced.steps == STEPS and traced.source == "torch.profiler"
    ours, theirs = measured[name].to_frame(), traced.to_frame()
    assert theirs[["worker", "index", "cell"]].equals(ours[["worker", "index", "cell"]])
    took = [each.end_s - each.start_s for each in (ours, theirs)]
    is_compute = ours.kind == "compute"
    assert (took[0] - took[1])[is_compute].abs().median() < 1e-3
    # The forwards of stage 0 sleep 60 ms.
    long = took[1][is_compute & (ours.stage == 0) & (ours.phase == "F")]
    assert len(long) and long.min() >= 0.06
    assert traced.step_s == pytest.approx(measured[name].step_s, rel=0.2)
    comparison = traced.compare(times=measured[name].profile())
    assert comparison.predicted_s == measured[name].compare().predicted_s


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hta_finds_the_cells(ran: Path) -> None:
    """Holistic Trace Analysis divides traces at `ProfilerStep`, and leaves out the last step."""
    hta = pytest.importorskip("hta.common.trace", reason="needs HTA: . scripts/lib/setup.sh")
    files = {rank: str(ran / f"line.{rank}.trace.json") for rank in range(2)}
    traces = hta.Trace(trace_files=files, trace_dir=str(ran))
    traces.parse_traces(use_multiprocessing=False)
    traces.align_and_filter_trace()
    names = traces.symbol_table.get_sym_table()
    for rank in range(2):
        found = Counter(names[each] for each in traces.get_trace(rank).name)
        cells = [each.cell for each in SCHEDULES["line"].program(rank) if each.kind == "compute"]
        wanted = {f"{cell.phase} {cell.stage} mb {cell.microbatch}" for cell in cells}
        assert len(wanted) == 8 and {found[name] for name in wanted} == {STEPS - 1}


def test_waits_for_receives_are_taken_out(traces: Path) -> None:
    """Forwards of stage 1 sleep 5 ms, but the first waits for the 60 ms of stage 0."""
    measurement = Measurement.from_torch_traces(TRACED["line"], files_of(traces, "line"))
    frame = measurement.to_frame()
    first = frame[(frame.kind == "compute") & (frame.cell == "1F0")]
    assert (first.start_s - first.ready_s).min() > 0.02
    sent = frame[(frame.kind == "compute") & (frame.cell == "0F0")]
    slack = 2 * measurement.clock_error_s
    assert (first.start_s.to_numpy() >= sent.end_s.to_numpy() - slack).all()


def test_traces_may_be_compressed(traces: Path, tmp_path: Path) -> None:
    packed = []
    for file in files_of(traces, "line"):
        packed.append(tmp_path / f"{file.name}.gz")
        packed[-1].write_bytes(gzip.compress(file.read_bytes()))
    plain = Measurement.from_torch_traces(TRACED["line"], files_of(traces, "line"))
    assert Measurement.from_torch_traces(TRACED["line"], packed).to_json() == plain.to_json()


def test_traces_that_do_not_fit_are_refused(
    measured: dict[str, Measurement], traces: Path, tmp_path: Path
) -> None:
    files = files_of(traces, "line")

    def error(schedule: Schedule, given: list[Path]) -> str:
        with pytest.raises(PipeSchedError) as caught:
            Measurement.from_torch_traces(schedule, given)
        return str(caught.value)

    line = TRACED["line"]
    assert "no trace is of worker 1" in error(line, files[:1])
    assert "is of worker 0, as" in error(line, [files[0], files[0]])
    assert "which no worker of 'schedule' holds together" in error(line, files_of(traces, "split"))
    more = made("1f1b", 2, 6)
    assert "has 0 ranges 'PP:0F4' or 'F 0 mb 4', wanted 3, one per step" in error(more, files)
    split = made("1f1b", 2, 4, "pipe-split-backward")
    assert "has 0 ranges 'PP:0I0'" in error(split, files)
    own = tmp_path / "own.json"
    measured["line"].save(own)
    assert "Measurement.from_file reads measurements" in error(line, [own])
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    assert "has no range 'PP:<action>'" in error(line, [tmp_path / "empty.json"])
    (tmp_path / "broken.json").write_bytes(gzip.compress(b"{}")[:10])
    assert "not JSON" in error(line, [tmp_path / "broken.json"])
    (tmp_path / "odd.json").write_text('{"traceEvents": [{"ph": "X", "name": "PP:0F0"}]}')
    assert "traceEvents[0]: PP:0F0 has no numbers" in error(line, [tmp_path / "odd.json"])
