"""Sweeps: their rows, executors and files."""

import importlib.util
import itertools
import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pipesched
import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipesched import Grid, PipeSchedError, _core, simulate_batch, sweep
from pipesched.command import main
from pipesched.sweeps.file import rows_of as parsed
from pipesched.sweeps.grid import configuration
from pipesched.sweeps.sweep import _chunks, _work, cores, lines_of
from points import SMALL
from test_command import COMMAND, Capture, failure_of, rows_of, run_passes, text_of

SLOW = ["sweep", "--pp", "16,32", "--microbatches", "64:832:32", "--jobs", "2"]


# Rows


def test_sweep_is_the_batch() -> None:
    costs = {"model": "toy", "system": "toy", "microbatch_size": [1, 2], "times": None}
    grid = Grid({**SMALL, **costs})
    frame = sweep(grid)
    batch = simulate_batch(configuration(point.inputs) for point in grid.points())
    assert frame.error.isna().any() and frame.error.notna().any()
    for column in batch.columns:
        if column not in ("capacity_bytes", "chunks", "microbatch_size", "slices"):
            pd.testing.assert_series_equal(frame[column], batch[column], check_dtype=False)
    made = frame[frame.error.isna()]
    assert (made.step_s == made.makespan_ps / 1e12).all()
    capacity = batch.capacity_bytes[made.index]
    assert (made.fits == (made.peak_bytes <= capacity)).all()


def test_rates_are_those_of_compare(capsys: Capture) -> None:
    costs = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "32"]
    sizes = ["--schedules", "1f1b,VPP", "--pp", "4", "--microbatches", "16", *costs]
    compared = {row["schedule"]: row for row in rows_of(capsys, "simulate", *sizes)}
    swept = rows_of(capsys, "sweep", *sizes)
    assert len(swept) == 2
    for row in swept:
        same = compared[row["family"]]
        for key in ("step_s", "idle_ratio", "peak_bytes", "fits"):
            assert row[key] == same[key]
        for key in ("tokens_per_s", "mfu"):  # for the middle of the band, which sweeps do not have
            assert row[key] == pytest.approx(same[key] * same["band"]["middle_ratio"])


def test_what_is_wrong_with_a_point_is_its_row() -> None:
    frame = sweep({**SMALL, "workers": [0, 4], "microbatch_size": [0, 1]})
    assert "microbatch_size is an integer from 1" in frame.error[0]
    assert frame.makespan_ps.isna().all()
    assert frame.microbatch_size.tolist() == frame.microbatch_size.astype(int).tolist()
    without = sweep({**SMALL, "workers": [0, 4]})
    assert without.error.iloc[0] == "0 workers: there must be 1 to 65536"
    assert without.error.iloc[-1] is None


# Executors


class Backwards(Executor):
    """An executor that runs its tasks in reverse order, when somebody waits for them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        self._pool.submit(self._next)
        return future

    def _next(self) -> None:
        time.sleep(0.001)
        future, call = self._waiting.pop()
        if future.set_running_or_notify_cancel():
            future.set_result(call())


MANY = Grid({"workers": [4, 8], "microbatches": "2:62:20", "transport": ["overlap", "delay"]})


@pytest.fixture(scope="module")
def undisturbed() -> list[str]:
    return lines_of(MANY, processes=1)


def test_executors_make_no_difference(undisturbed: list[str], tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    assert lines_of(MANY, executor=Backwards(), file=file) == undisturbed
    assert file.read_text() == "".join(undisturbed)
    with ThreadPoolExecutor(3) as pool:
        assert lines_of(MANY, executor=pool) == undisturbed


def test_processes_make_no_difference(undisturbed: list[str], tmp_path: Path) -> None:
    large = {"workers": 16, "microbatches": "128:256:8", "family": ["1f1b", "zb-h1", "dualpipe"]}
    assert sum(map(_work, Grid(large).points())) > 200_000
    alone = lines_of(Grid(large), processes=1)
    file = tmp_path / "sweep.jsonl"
    code = f"""
        import pipesched, pipesched.sweeps.sweep
        pipesched.sweeps.sweep._SMALL_WORK = 0
        if __name__ == "__main__":
            pipesched.sweep({large!r}, processes=3, file={str(file)!r})
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    subprocess.run([sys.executable, script], check=True)
    assert file.read_text() == "".join(alone)


def example(page: str, word: str, language: str = "python") -> str:
    """The block of a page that contains the word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / page).read_text(), FLAGS)
    (found,) = (block for block in blocks if word in block)
    return str(found)


FLAGS = re.DOTALL | re.MULTILINE
DOCUMENTED = {"workers": [4, 8], "microbatches": "8:24:8"}


def test_dask_makes_no_difference(tmp_path: Path) -> None:
    """The example of the page with two workers in their own processes."""
    pytest.importorskip("distributed", reason="needs dask.distributed")
    script = tmp_path / "script.py"
    script.write_text(example("Python.md", "from distributed import"))
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path, timeout=120)
    assert (tmp_path / "sweep.jsonl").read_text() == "".join(lines_of(Grid(DOCUMENTED)))


def test_mpi_makes_no_difference(tmp_path: Path) -> None:
    """The example of the page on three processes."""
    if shutil.which("mpiexec") is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpiexec")
    script = tmp_path / "script.py"
    script.write_text(example("Python.md", "MPIPoolExecutor"))
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    # Open MPI refuses the superuser, and more processes than cores, unless it is asked.
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    subprocess.run(command, check=True, cwd=tmp_path, timeout=120, env={**os.environ, **allowed})
    assert (tmp_path / "sweep.jsonl").read_text() == "".join(lines_of(Grid(DOCUMENTED)))


def test_documented_grid(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "grid.json"
    file.write_text(example("Command.md", '"paths"', "json"))
    rows = rows_of(capsys, "sweep", str(file))
    assert len(rows) == 2 * 2 * 3 * 2 * 2 + 2
    assert all(row["error"] is None for row in rows)


@given(st.integers(1, 300), st.integers(1, 4000))
def test_chunks_are_the_points(count: int, microbatches: int) -> None:
    point = Grid({"family": "1f1b", "workers": 8, "microbatches": microbatches}).points()[0]
    chunks = list(_chunks([point] * count))
    assert sum(map(len, chunks)) == count
    assert all(len(chunk) == 1 or sum(map(_work, chunk)) <= 200_000 for chunk in chunks)
    assert all(sum(map(_work, [*a, b[0]])) > 200_000 for a, b in itertools.pairwise(chunks))


def test_progress() -> None:
    told: list[tuple[int, int]] = []
    sweep(MANY, progress=lambda done, total: told.append((done, total)))
    total = len(MANY.points())
    assert told[0] == (0, total) and told[-1] == (total, total)
    assert told == sorted(told)


def test_cores() -> None:
    assert 1 <= cores() <= (os.cpu_count() or math.inf)


# The file


class Enough(Exception):
    pass


def stop_at(least: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= least:
            raise Enough

    return progress


SMALL_LINES = lines_of(Grid(SMALL), processes=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_files_are_gone_on_with(tmp_path: Path, data: st.DataObject) -> None:
    """Any lines in any order, some of them twice, the last one cut at any place."""
    file = tmp_path / "sweep.jsonl"
    lines = data.draw(st.lists(st.sampled_from(SMALL_LINES)))
    text = "".join(lines).encode()
    cut = data.draw(st.integers(len(text) - len(lines[-1].encode()) if lines else 0, len(text)))
    file.write_bytes(text[:cut])
    assert lines_of(Grid(SMALL), processes=1, file=file) == SMALL_LINES
    assert file.read_text() == "".join(SMALL_LINES)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.jsonl"]


@pytest.mark.parametrize("backwards", [False, True])
def test_interruptions_make_no_difference(
    backwards: bool, undisturbed: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "sweep.jsonl"
    counts = [0]
    for least in (1, 100, 10_000):
        try:
            executor = Backwards() if backwards else None
            lines_of(MANY, processes=1, executor=executor, file=file, progress=stop_at(least))
        except Enough:
            counts.append(len(file.read_text().splitlines()))
    assert counts == sorted(counts)
    assert 0 < counts[1]
    assert file.read_text() == "".join(undisturbed)


def test_what_is_there_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sweep.jsonl"
    expected = sweep(SMALL, file=file)
    before = file.stat()  # reading may change the access time
    monkeypatch.setattr(
        "pipesched.sweeps.sweep.evaluate", lambda inputs: pytest.fail("evaluated again")
    )
    pd.testing.assert_frame_equal(sweep(SMALL, file=file), expected)
    after = file.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert after.st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize(
    ("contents", "wanted"),
    [
        ("my notes", ":1: a row of a sweep starts otherwise"),
        ("my notes\n", ":1: not JSON: Expecting value"),
        ('{"a": 1}\n', ":1: not a row of a sweep, which has a key"),
        ("[1]\n", ":1: not a row of a sweep, which has a key"),
        (SMALL_LINES[0] + SMALL_LINES[1][:70] + "\n", ":2: not JSON"),
        (SMALL_LINES[0] + "\n" + SMALL_LINES[1], ":2: not JSON"),
    ],
)
def test_files_of_others_stay_as_they_are(contents: str, wanted: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(contents)
    with pytest.raises(PipeSchedError) as raised:
        sweep(SMALL, file=file)
    assert str(file) + wanted in str(raised.value)
    assert file.read_text() == contents


DEEP = '{"key": ' + "[" * 100_000 + "]" * 100_000 + "}\n"


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        (SMALL_LINES[1].replace('"step_s": ', '"step_s": 1'), "by its checksum; delete the line"),
        (SMALL_LINES[1].replace('"crc32": "', '"crc32": "0'), "by its checksum; delete the line"),
        (SMALL_LINES[1].partition(', "crc32"')[0] + "}\n", "by its checksum; delete the line"),
        ("\ufeff" + SMALL_LINES[1], "a byte order mark"),
        (DEEP, "nested too deeply"),
    ],
)
def test_damaged_rows_are_refused_before_the_sweep(
    second: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(SMALL_LINES[0] + second)
    monkeypatch.setattr("pipesched.sweeps.sweep.evaluate", lambda inputs: pytest.fail("evaluated"))
    with pytest.raises(PipeSchedError) as raised:
        sweep(SMALL, file=file)
    assert f"{file}:2: " in str(raised.value) and wanted in str(raised.value)
    assert file.read_text() == SMALL_LINES[0] + second


def test_file_of_another_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sweep.jsonl"
    sweep(SMALL, file=file)
    with pytest.raises(PipeSchedError, match=":1: no point of this grid: transport overlap"):
        sweep({**SMALL, "transport": "blocking"}, file=file)
    with pytest.raises(PipeSchedError, match="sweep with other columns: forward_sends; give"):
        sweep({**SMALL, "forward_sends": "async"}, file=file)
    with pytest.raises(PipeSchedError, match=":1: no point of this grid: times F=1ms"):
        sweep({axis: v for axis, v in SMALL.items() if axis != "times"}, file=file)
    monkeypatch.setattr(_core, "version", "99.0")
    with pytest.raises(PipeSchedError, match="written by version .*, this is 99.0"):
        sweep(SMALL, file=file)


def test_file_of_another_name(tmp_path: Path) -> None:
    """The same system under another file name: rows would differ, so the file is rejected."""
    (tmp_path / "toy.json").write_text(json.dumps(pipesched.systems()["toy"]))
    grid = {"family": "1f1b", "workers": 2, "microbatches": 4, "model": "toy"}
    named = {**grid, "system": str(tmp_path / "toy.json")}
    sweep(named, file=tmp_path / "sweep.jsonl")
    with pytest.raises(PipeSchedError, match=":1: called differently here: system .*toy.json; "):
        sweep({**grid, "system": pipesched.systems()["toy"]}, file=tmp_path / "sweep.jsonl")


def test_process_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipesched.sweeps.sweep._SMALL_WORK", 0)
    file = tmp_path / "sweep.jsonl"

    def kill(done: int, total: int) -> None:
        for process in multiprocessing.active_children():
            process.kill()

    large = {"workers": [16, 32], "microbatches": "64:832:32"}
    with pytest.raises(PipeSchedError, match="a process of the sweep ended"):
        sweep(large, file=file, processes=2, progress=kill)
    assert file.read_text().endswith("}\n")
    assert len(sweep(large, file=file, processes=1)) == len(Grid(large).points())


def test_two_sweeps_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"

    def second(done: int, total: int) -> None:
        with pytest.raises(PipeSchedError, match="another sweep is writing"):
            sweep(SMALL, file=file)

    sweep(SMALL, file=file, progress=second)


def test_files_that_cannot_be() -> None:
    with pytest.raises(FileNotFoundError):
        sweep(SMALL, file="no/such/folder/sweep.jsonl")
    with pytest.raises(PipeSchedError, match="/dev/null is not a regular file"):
        sweep(SMALL, file="/dev/null")


def test_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    file = tmp_path / "sweep.jsonl"
    code = f"""
        import resource, signal
        import pipesched
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            pipesched.sweep({SMALL!r}, processes=1, file={str(file)!r})
        except OSError as error:
            print(error.filename)
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(file)
    assert set(file.read_text().splitlines(keepends=True)) <= set(SMALL_LINES)
    assert lines_of(Grid(SMALL), file=file) == SMALL_LINES


# The command

GRID = [
    *("--schedules", "1f1b,VPP,zb-h1", "--pp", "4", "--microbatches", "8:32:x2"),
    *("--times", "F=1ms,I=1ms,W=1ms,comm=0.1ms", "--times", "F=1ms,I=1ms,W=1ms,comm=2ms"),
    *("--set", "times-of=stage"),
]


def test_formats(capsys: Capture, tmp_path: Path) -> None:
    rows = rows_of(capsys, "sweep", *GRID)
    assert len(rows) == 2 * 3 * 3
    file, table = tmp_path / "sweep.jsonl", tmp_path / "sweep.csv"
    text = text_of(capsys, "sweep", *GRID, "-o", str(file))
    assert parsed(file.read_text().splitlines()) == rows
    assert text_of(capsys, "sweep", *GRID, "--format", "csv", "-o", str(table)) == ""
    read = pd.read_csv(table)
    assert list(read.columns) == list(rows[0])
    assert read.makespan_ps.tolist() == [row["makespan_ps"] for row in rows]
    assert text.splitlines()[0] == "18 points, times of stage, workers 4"
    assert "- first by step in 6 cases: zb-h1 6" in text
    assert "stages per worker are 2 in interleaved-1f1b, 1 in 1f1b and zb-h1" in text


def _table_of(text: str) -> list[str]:
    """The lines of the table, after its heading."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if "schedule  " in line and "  idle" in line)
    return lines[begin + 1 :]


def test_idle_is_ranked_whatever_the_work(capsys: Capture) -> None:
    grid = GRID[:-2]
    assert "\nwork differs: " in text_of(capsys, "sweep", *grid, "--rank-by", "idle")
    for metric in ("step", "tokens"):
        said = failure_of(capsys, "sweep", *grid, "--rank-by", metric, status=2)
        assert "--rank-by idle" in said


def test_tables_are_ranked_by_case(capsys: Capture) -> None:
    def table(*options: str) -> list[list[str]]:
        text = text_of(capsys, "sweep", *GRID, *options)
        return [line.split() for line in _table_of(text) if line and line[0] != "-"]

    rows = rows_of(capsys, "sweep", *GRID)
    best = table("--top", "1", "--rank-by", "idle")
    assert len(best) == 6
    for line in best:
        case = [r for r in rows if (r["times"], str(r["microbatches"])) == (line[0], line[1])]
        assert line[3] == min(case, key=lambda row: row["idle_ratio"])["family"]
    assert len(table("--group-by", "times", "--top", "2")) == 4
    assert [line[1] for line in table("--group-by", "family")[:3]] == ["1", "2", "3"]


def test_values_of_axes_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A description file is found without folder and extension, but other words stay as given."""
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(json.dumps(pipesched.systems()["toy"]))
    sizes = ["--pp", "2", "--microbatches", "4", "--schedules", "1f1b"]
    costs = ["--model", "toy", "--system", "toy,mine", "--option", "split-backward=true,false"]
    title, assumed, head, *table = text_of(capsys, "sweep", *sizes, *costs).splitlines()
    assert assumed.startswith("assumed: sequence 100, ")
    assert title == "4 points, model toy, workers 2, microbatches 4, family 1f1b"
    assert head.split()[:5] == ["system", "rank", "schedule", "split", "backward"]
    assert [line.split()[0] for line in table[:4]] == ["toy", "toy", "./mine", "./mine"]
    assert sorted(line.split()[3] for line in table[:4]) == ["false", "false", "true", "true"]


def test_points_without_schedule_are_said(capsys: Capture) -> None:
    sizes = ["--pp", "4", "--microbatches", "9"]
    assert main(["sweep", *sizes, "--schedules", "1f1b,dualpipe"]) == 0
    assert "- dualpipe: 1 of 1 points have no schedule" in capsys.readouterr().out
    assert main(["sweep", *sizes, "--schedules", "dualpipe"]) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "wanted"),
    [
        ("--pp 4", 2, "give --microbatches, or a file with a grid"),
        ("grid.json", 1, "grid.json: No such file or directory"),
        ("--pp 4 --microbatches 8 --group-by famly", 2, "the closest is 'family'"),
        ("--pp 4 --microbatches 8 --point 12", 2, "--point goes with --show-passes"),
        ("--pp 4 --microbatches 8 --point x --show-passes", 1, "0 points have the key 'x'"),
        ("--pp 4 --microbatches 8 --system baselin", 1, "the closest is 'baseline'"),
        ("--pp 4 --microbatches 8 -o no/x.jsonl", 1, "no/x.jsonl: No such file or directory"),
        ("--pp 4 --microbatches 8 --option split-backward=maybe", 2, "or false, found 'maybe'"),
        ("--microbatches 4,x", 2, "expected integers or ranges such as"),
        ("--transport delai", 2, "the closest is 'delay'"),
        ("--schedules 1f1b,,zb-v", 2, "expected names between the commas"),
        ("--pp 1:2000 --microbatches 1:2000", 1, "the grid has 100,000,000 points"),
    ],
)
def test_mistakes(arguments: str, status: int, wanted: str, capsys: Capture) -> None:
    assert wanted in failure_of(capsys, "sweep", *arguments.split(), status=status)


def test_passes_of_points(capsys: Capture) -> None:
    grid = [*GRID[:6], "--transport", "delay", "--model", "llama3-8b"]
    grid += ["--system", "dgx-h100", "--microbatch-size", "1", "--sequence", "64"]
    grid += ["--set", "accelerators=2", "--set", "boundary-bytes=1000", "--recompute", "full"]
    rows = rows_of(capsys, "sweep", *grid)
    for row in rows[:3]:
        report = json.loads(run_passes(capsys, "sweep", *grid, "--point", row["key"][:10]))[0]
        assert report["execution"]["makespan_ps"] == row["makespan_ps"]
        assert report["memory"]["peak_bytes"][row["bottleneck_worker"]] == row["peak_bytes"]
    assert len(text_of(capsys, "sweep", *grid, "--show-passes").splitlines()) == len(rows)


def test_passes_of_training_steps(capsys: Capture) -> None:
    grid = ["--schedules", "VPP", "--pp", "4", "--microbatches", "8", "--model", "llama3-8b"]
    grid += ["--system", "dgx-h100", "--global-batch", "32", "--data-parallel", "2"]
    grid += ["--sharding", "optimizer", "--set", "rank-order=pipeline", "--precision", "fp8"]
    grid += ["--set", "sequence-parallel=false", "--optimizer-step", "none,overlapped,exposed"]
    rows = rows_of(capsys, "sweep", *grid)
    assert len({row["makespan_ps"] for row in rows}) == 3
    for row in rows:
        report = json.loads(run_passes(capsys, "sweep", *grid, "--point", row["key"]))[0]
        assert report["execution"]["makespan_ps"] == row["makespan_ps"]
        assert report["memory"]["peak_bytes"][row["bottleneck_worker"]] == row["peak_bytes"]
        assert row["tokens_per_s"] == pytest.approx(32 * 8192 / row["step_s"])


def test_passes_need_files(capsys: Capture, tmp_path: Path) -> None:
    grid = tmp_path / "grid.json"
    system = pipesched.systems()["toy"]
    grid.write_text(json.dumps({"workers": 2, "microbatches": 4, "system": system, "model": "toy"}))
    said = failure_of(capsys, "sweep", str(grid), "--show-passes")
    assert "system 'toy' has to be a file for passes to read it" in said


def wait_for_rows(file: Path, least: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= least:
            return
        time.sleep(0.01)
    pytest.fail("nothing is written")


@pytest.fixture(scope="module")
def whole_sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """The rows of a sweep that is not interrupted, and its output."""
    file = tmp_path_factory.mktemp("whole") / "sweep.jsonl"
    command = [*COMMAND, *SLOW, "--jobs", "1", "-o", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return file.read_bytes(), done.stdout


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_killed_sweeps_are_gone_on_with(
    ending: signal.Signals, tmp_path: Path, whole_sweep: tuple[bytes, str]
) -> None:
    """Ends by Ctrl-C at a terminal, which all processes of the group get, or by a kill without
    warning.
    """
    file = tmp_path / "sweep.jsonl"
    command = [*COMMAND, *SLOW, "-o", str(file)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for_rows(file, 8)
    os.killpg(process.pid, ending) if ending == signal.SIGINT else process.kill()
    out, said = process.communicate(timeout=60)  # returns after the last process has ended
    assert out == ""
    kept = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    total = len(Grid({"workers": [16, 32], "microbatches": "64:832:32"}).points())
    assert 8 <= len(kept) < total
    if ending == signal.SIGINT:
        assert process.returncode == 130
        goes_on = (
            f"{file} has {len(kept):,} of {total:,} points; the same command goes on from there"
        )
        assert said == f"{goes_on}\ninterrupted\n"
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stderr == ""
    rows = file.read_text().splitlines(keepends=True)
    assert len(rows) == total
    assert whole_sweep == (file.read_bytes(), again.stdout)


def test_interrupt_without_a_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(*arguments: object, **options: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipesched.command.verbs.sweep.lines_of", interrupted)
    assert main(SLOW) == 130
    out, said = capsys.readouterr()
    assert out == ""
    assert said == "nothing is kept; with -o FILE.jsonl the same command can go on\ninterrupted\n"
