"""One measurement gives one profile, by `pipesched-run`, which ran it, and by the package, which
reads it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pipesched import Measurement
from pipesched.costs.stage_times import entries_of

ROOT = Path(__file__).parents[3]
MLP = ROOT / "examples" / "stages" / "mlp.mlir"
TOOLS = [ROOT / "build" / preset / "bin" / "pipesched-run" for preset in ("dev", "release")]
TOOL = next((tool for tool in TOOLS if tool.exists()), None)

pytestmark = pytest.mark.skipif(TOOL is None, reason="pipesched-run is not built")

CASES = {
    # Two paths, replicas, overlapped pairs, O and G.
    "dualpipe": (["--schedule=dualpipe"], {"F", "B", "I", "W", "O", "G", "FB", "comm"}),
    "chimera": (["--schedule=chimera"], {"F", "B", "O", "G", "comm"}),
    "copies": (
        ["--schedule=1f1b", "--pipeline=pipe-add-offload"],
        {"F", "B", "D", "U", "O", "comm"},
    ),
    "stages": (
        ["--schedule=interleaved-1f1b", "--workers=2", "--chunks=2"],
        {"F", "B", "O", "comm"},
    ),
}


def ran(folder: Path, options: list[str]) -> tuple[Measurement, dict[str, list[str]]]:
    """The measurement of the tool, and the profile that it made of that."""
    profile, measurement = folder / "profile.json", folder / "measurement.json"
    written = [f"--write-profile={profile}", f"--write-measurement={measurement}"]
    command = [str(TOOL), str(MLP), *options, "--steps=4", *written]
    subprocess.run(command, check=True, capture_output=True)
    return Measurement.from_file(measurement), json.loads(profile.read_text())


@pytest.mark.parametrize("name", CASES)
def test_both_ways_give_one_profile(tmp_path: Path, name: str) -> None:
    options, phases = CASES[name]
    measurement, wanted = ran(tmp_path, options)
    assert measurement.source == "pipesched-run"
    assert measurement.numbers == (1, 2, 3)
    found = {
        key: value if isinstance(value, list) else [value]
        for key, value in entries_of(measurement.profile()).items()
    }
    assert found == wanted
    assert found.keys() == phases


def test_compares_what_was_compiled(tmp_path: Path) -> None:
    measurement, wanted = ran(tmp_path, ["--schedule=dualpipe"])
    frame = measurement.to_frame()
    assert (frame.ready_s <= frame.start_s).all() and (frame.start_s <= frame.end_s).all()
    sent = frame[frame.kind == "send"].set_index(["step", "message"]).start_s
    received = frame[frame.kind == "recv"].set_index(["step", "message"])
    assert (received.done_s >= sent.reindex(received.index)).all()
    comparison = measurement.compare(times=tmp_path / "profile.json")
    errors = comparison.errors.groupby("worker").error_s.sum()
    assert errors.tolist() == pytest.approx([comparison.measured_s - comparison.predicted_s] * 4)
    assert set(comparison.errors.cause) >= {"compute", "messages", "issue"}
    assert wanted["FB"]


def test_paced_cells_and_messages_are_measured_as_long_as_they_were_to_last(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text('{"F": ["3ms"], "B": ["4ms"], "G": ["6ms"], "comm": ["5ms"]}')
    measurement, _ = ran(tmp_path, ["--schedule=chimera", "--pace", f"--profile={times}"])
    frame = measurement.to_frame()
    lengths = (frame.end_s - frame.start_s)[frame.kind == "compute"].groupby(frame.phase).min()
    # The clock of a log is calibrated against the one that paces.
    assert lengths.F >= 0.00299 and lengths.B >= 0.00399
    sent = frame[frame.kind == "send"].set_index(["step", "message"]).start_s
    received = frame[frame.kind == "recv"].set_index(["step", "message"])
    assert (received.done_s - sent.reindex(received.index)).min() >= 0.00499
    sums = frame[frame.kind == "all_reduce"]
    assert (sums.done_s - sums.start_s).min() >= 0.00599
