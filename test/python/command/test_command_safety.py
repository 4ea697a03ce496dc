"""The command does not run data or listen to other machines."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pipesched.command import main
from test_command import Capture, failure_of, text_of
from test_command_run import LIMIT, SOON, begin, marked, processes, toy

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)
assert marked  # A fixture.

COMMAND = str(Path(sys.executable).with_name("pipesched"))
HIDING = ("torch", "numpy", "random", "socket", "tempfile", "multiprocessing", "rich", "pipesched")
"""Modules whose names files next to data have."""


def hide(folder: Path) -> None:
    """Files next to data that leave a mark when they run."""
    for name in HIDING:
        mark = f"import pathlib\npathlib.Path({str(folder)!r}, 'ran-{name}').touch()\n"
        (folder / f"{name}.py").write_text(mark)


def command(folder: Path, *words: str, status: int = 0) -> str:
    """Runs the command in a folder; returns its output."""
    done = subprocess.run(
        [COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == status, done.stderr
    return done.stderr


@needs_torch
def test_ranks_run_no_file_beside_data(tmp_path: Path) -> None:
    hide(tmp_path)
    (tmp_path / "neighbour.py").write_text("WIDTH = 8\n")
    toy(tmp_path, "import neighbour; assert neighbour.WIDTH == 8")
    line = "run --schedule 1f1b --model toy.py --pp 2 --microbatches 2 --steps 3 --warmup 1"
    command(tmp_path, *line.split(), "--calibration", "1", "-o", "out")
    assert not list(tmp_path.glob("ran-*"))


SWEEP = """
from pipesched import sweep
from pipesched.sweeps import sweep as _sweep

if __name__ == "__main__":
    _sweep._SMALL_WORK = 0
    rows = sweep({"family": "1f1b", "workers": 4, "microbatches": [8, 16, 24]}, processes=2)
    assert len(rows) == 3
"""


def test_sweeps_run_no_file_beside_data(tmp_path: Path) -> None:
    data, script = tmp_path / "data", tmp_path / "sweep.py"
    data.mkdir()
    hide(data)
    script.write_text(SWEEP)
    line = [sys.executable, str(script)]
    done = subprocess.run(line, cwd=data, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert not list(data.glob("ran-*"))


def listening(pids: set[int]) -> set[str]:
    """The addresses on which processes listen, as Linux writes them."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # listens
                sockets[f"socket:[{fields[9]}]"] = fields[1].partition(":")[0]
    found = set()
    for pid in pids:
        for descriptor in Path("/proc", str(pid), "fd").iterdir():
            found.add(sockets.get(os.readlink(descriptor), ""))
    return found - {""}


@needs_torch
def test_ranks_listen_to_their_machine_alone(tmp_path: Path, marked: dict[str, str]) -> None:
    model = toy(tmp_path, "pass")
    line = f"--schedule 1f1b --model {model} --pp 2 --microbatches 4 --steps 1000000"
    marked["GLOO_SOCKET_IFNAME"] = "eth0"  # As for several machines.
    marked["TMPDIR"] = str(tmp_path)
    process = begin(line, marked)
    (folder,) = tmp_path.glob("pipesched-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    addresses = listening(set(processes(marked["PIPESCHED_TEST"])))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SOON)
    assert addresses == {"0100007F"}
    assert not list(tmp_path.glob("pipesched-*"))


# Numbers, and invalid values


def test_sweeps_read_numbers(capsys: Capture) -> None:
    sizes = ["--schedules", "1f1b", "--pp", "2", "--microbatches", "4"]
    costs = ["--model", "mixtral-8x7b", "--system", "dgx-h100"]
    argv = ["sweep", *sizes, *costs, "--set", "expert-balance=1,1.5", "--format", "csv"]
    rows = list(csv.DictReader(io.StringIO(text_of(capsys, *argv))))
    assert [float(row["expert_balance"]) for row in rows] == [1.0, 1.5]
    for wrong in ("much", "nan", "inf"):
        said = failure_of(capsys, "sweep", *sizes, "--set", f"expert-balance={wrong}", status=2)
        assert "expert_balance: expected numbers" in said


def test_passes_of_nothing_say_why(capsys: Capture) -> None:
    argv = ["simulate", "--pp", "3", "--microbatches", "3", "--schedules", "chimera"]
    assert main([*argv, "--show-passes"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "chimera: 3 workers: a bidirectional placement takes an even number" in printed.err


# Invalid measurements


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"kind,kind,m\ngemm,copy,1\n", r"wrong:1: the header names 'kind' twice"),
        (b'{"kind": "gemm", "kind": "copy"}\n', r"wrong:1: .*the name 'kind' is there twice"),
        (gzip.compress(b" " * (1 << 17)), r"empty, or begins with 65536 blanks"),
        (
            gzip.compress(b'[{"ph": ' + b" " * (1 << 28)),
            r"bytes unpack to more than [0-9]+, as no measurement does",
        ),
    ],
    ids=["header", "object", "nothing", "blanks"],
)
def test_fits_refuse(tmp_path: Path, capsys: Capture, contents: bytes, message: str) -> None:
    file = tmp_path / "wrong"
    file.write_bytes(contents)
    assert main(["fit", str(file)]) == 1
    assert re.search(message, capsys.readouterr().err)
