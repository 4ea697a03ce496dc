"""Failures of pipelines in real processes, and their other work: see runtime_cases.py."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from case_runs import Cases, check, expected, run_cases
from conftest import ROOT
from pipesched import Schedule

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import runtime_cases  # noqa: F401

SOON = 60.0
"""Ranks learn of a failure within a second, not by their time limit of 300 s."""

FAILURES: dict[str, tuple[int, str, str]] = {
    # The rank that fails, its exception, and the exception of the others.
    "exception_in_a_stage": (
        1,
        "ValueError: broken\nin the pipeline: rank 1, at 10: compute 1F2",
        "RemoteError: rank 1 failed: at 10: compute 1F2: ValueError: broken",
    ),
    "exception_in_the_second_step": (
        1,
        "ValueError: broken\nin the pipeline: rank 1, at 1: compute 1F0",
        "RemoteError: rank 1 failed: at 1: compute 1F0: ValueError: broken",
    ),
    "stage_missing": (
        1,
        "PipelineError: `stages` has no module for path 0, stage 1, which the placement gives to "
        "rank 1; it has [(0, 2)]",
        "RemoteError: rank 1 failed: making the runtime: PipelineError: `stages` has no module",
    ),
    "exception_in_an_optimizer": (
        1,
        "ArithmeticError: no step\nin the pipeline: rank 1, at 16: compute 1O0",
        "RemoteError: rank 1 failed: at 16: compute 1O0: ArithmeticError: no step",
    ),
    "exception_in_an_exchange": (
        1,
        "ValueError: broken\nin the pipeline: rank 1, looking for gradients that are not finite",
        "RemoteError: rank 1 failed: looking for gradients that are not finite: ValueError: broken",
    ),
    "no_inputs": (
        0,
        "PipelineError: this rank has a first stage, and needs `inputs`",
        "RemoteError: rank 0 failed: at 0: compute 0F0: PipelineError: this rank has a first",
    ),
    "shapes_that_change_without_tags": (
        0,
        "PipelineError: message 0 (1: send 0F0 to 1) holds (float64[4, 6]), but held "
        "(float64[2, 6]) before with batches of the same shapes; pass static_shapes=False",
        "RemoteError: rank 0 failed: at 1: send 0F0 to 1: PipelineError: message 0",
    ),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("cases"), "runtime_cases")


def test_no_process_is_left(cases: Cases) -> None:
    for name, ranks in cases.items():
        wanted = [-9 if name == "killed" and r == 1 else 0 for r in range(len(ranks))]
        assert [rank["exit"] for rank in ranks] == wanted, name
        assert not any(rank["left"] for rank in ranks), name


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_all_ranks(cases: Cases, name: str) -> None:
    failing, own, others = FAILURES[name]
    for rank, result in enumerate(cases[name]):
        assert result["text"].startswith(own if rank == failing else others)
        assert result["seconds"] < SOON


def test_a_killed_rank_ends_the_others(cases: Cases) -> None:
    first, _, last = cases["killed"]
    for result in (first, last):
        assert "PipelineError" in result["text"] or "RemoteError" in result["text"]
        assert "lost message" in result["text"] and "from 1)" in result["text"]
        assert result["seconds"] < SOON


def ends_of(mode: str, folder: Path) -> list[tuple[int, float, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "3"}
    script = Path(__file__).with_name("leaving_ranks.py")
    ranks = []
    for rank in range(3):
        with open(folder / f"{rank}.err", "wb") as errors:
            environment = {**os.environ, **common, "RANK": str(rank)}
            command = [sys.executable, str(script), mode]
            ranks.append(subprocess.Popen(command, env=environment, stderr=errors))
    found: dict[int, tuple[int, float]] = {}
    begin = time.monotonic()
    # On a machine with other work, loading PyTorch may take a minute.
    while len(found) < (3 if mode == "raise" else 2) and time.monotonic() < begin + 4 * SOON:
        for number, process in enumerate(ranks):
            if number not in found and process.poll() is not None:
                found[number] = process.returncode, time.monotonic()
        time.sleep(0.01)
    for process in ranks:
        process.kill()
        process.wait()
    texts = [(folder / f"{rank}.err").read_text() for rank in range(3)]
    return [(*found.get(rank, (-9, 0.0)), texts[rank]) for rank in range(3)]


def test_the_rank_that_failed_ends_first(tmp_path: Path) -> None:
    """Launchers take it for the cause then; and no rank is aborted by a thread that waits."""
    leads = []
    for attempt in ("first", "second"):  # Other work on the machine can delay the end of a process.
        (tmp_path / attempt).mkdir()
        ends = ends_of("raise", tmp_path / attempt)
        assert [status for status, _, _ in ends] == [1, 1, 1], ends
        assert "ValueError: broken" in ends[1][2]
        for rank in (0, 2):
            assert ends[rank][1] > ends[1][1]
            assert "RemoteError: rank 1 failed: at " in ends[rank][2]
        leads.append(min(ends[0][1], ends[2][1]) - ends[1][1])
        if leads[-1] > 1:
            return
    raise AssertionError(f"ended {leads} s before the others, wanted 1")


def test_a_stopped_rank_with_the_store_ends_the_others(tmp_path: Path) -> None:
    ends = ends_of("freeze", tmp_path)
    assert [status for status, _, _ in ends] == [-9, 1, 1], ends
    for rank in (1, 2):
        assert f"PipelineTimeout: rank {rank} waited 2 s for message " in ends[rank][2]
        assert "rank 0: no answer: outside of step(), or gone" in ends[rank][2]


def test_a_time_limit_says_where_all_ranks_are(cases: Cases) -> None:
    for rank, result in enumerate(cases["time_limit"]):
        assert result["text"].startswith("PipelineTimeout: rank ")
        lines = result["text"].splitlines()
        assert " waited 1.5 s for message " in lines[0]
        assert "rank 1: at 4: compute 1F1, running" in lines
        waiting = "rank 0: at 7: compute 0B0, waiting for message 6 (6: recv 1B0 from 1)"
        assert waiting in lines
        assert result["seconds"] < (8 if rank == 1 else 1.5 + SOON)


def test_a_stopped_rank_ends_the_others(cases: Cases) -> None:
    """By the time limit, which names awaited instructions; the rank itself when it continues."""
    first, middle, last = cases["stopped"]
    for result in (first, last):
        assert result["text"].startswith("PipelineTimeout: rank ")
        assert " waited 1.5 s for message " in result["text"]
        assert "from 1)" in result["text"].splitlines()[0]
        assert "rank 1: no answer: outside of step(), or gone" in result["text"]
        assert result["seconds"] < SOON
    assert middle["text"].startswith(("PipelineTimeout: ", "PipelineError: lost message"))


def test_mixed_precision(cases: Cases) -> None:
    for result in cases["mixed_precision"]:
        assert result["text"] == ""
        worst, size = result["value"]
        assert size > 0.1
        assert worst <= 1e-4 * size


def test_backends_by_device(cases: Cases) -> None:
    assert [result["value"] for result in cases["backends_by_device"]] == 2 * ["TaggedMessages"]


def test_a_rank_that_does_not_come_is_named(cases: Cases) -> None:
    for result in cases["rank_that_does_not_come"][:2]:
        assert "waited 1 s for rank 2 to come to 'start'" in result["text"]


def test_ranks_agree_on_overflows(cases: Cases) -> None:
    for result in cases["overflow"]:
        first, over, last = result["value"]
        assert first[1:3] == [False, 1024.0] and 0 < first[3] < 10
        assert over[1:] == [True, 512.0, float("inf")]
        assert last[1:3] == [False, 512.0] and 0 < last[3] < 10
    losses = [entry[0] for entry in cases["overflow"][1]["value"]]
    assert losses[0] > losses[1] == losses[2]


def test_evaluation(cases: Cases) -> None:
    first, last = cases["evaluation"]
    assert first["text"] == last["text"] == ""
    assert last["value"] == 8 * [[True, True]]
    assert first["value"] == 2 * (2 * [[False, False]] + 2 * [[True, True]])


def test_a_step_enters_few_modules(cases: Cases) -> None:
    """So that readers of a step of 1F1B have few files to open."""
    for result in cases["modules_of_a_step"]:
        assert 10 < len(result["value"]) <= 15, result


@pytest.mark.parametrize("name", expected("runtime_cases"))
def test_gradients(cases: Cases, name: str) -> None:
    check(cases, name)


def torchrun(folder: Path, *script: str) -> str:
    """Runs a script on two ranks; returns its output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_the_guide_trains(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "Torch.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "train.py").write_text(script)
    printed = torchrun(tmp_path, "train.py")
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (.*)$", printed, re.MULTILINE)]
    assert len(losses) == 2
    assert losses[1] < losses[0] / 4


def test_the_example_trains_by_the_best_schedule(tmp_path: Path) -> None:
    printed = torchrun(tmp_path, str(ROOT / "examples" / "train.py"), "zb-h1", "optimized")
    assert re.findall(r"^(\S+): measured [\d.]+ ms, predicted", printed, re.MULTILINE)
    best = Schedule.from_file(tmp_path / "optimized.mlir")
    best.verify()
    assert (best.workers, best.microbatches, best.family) == (2, 8, None)
    assert (tmp_path / "optimized.svg").stat().st_size > 1000
