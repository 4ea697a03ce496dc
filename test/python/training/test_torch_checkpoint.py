"""Checkpoints are whole or refused, and run nothing when they are loaded."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from pipesched.torch import PipelineError  # noqa: E402
from pipesched.torch.checkpoint import files  # noqa: E402
from torch.distributed.checkpoint import state_dict_loader  # noqa: E402
from torch.distributed.checkpoint.state_dict_saver import save  # noqa: E402


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


# `save` warns that it saves without other processes, as these tests want.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
KILLS = Path(__file__).with_name("kill_saves.py")

STATE = {"model": {"w": torch.arange(4.0), "c": torch.zeros(2, 3)}, "optimizer": {"lr": 0.5}}


def saved(folder: Path, **more: Any) -> Path:
    save({**STATE, **more}, checkpoint_id=folder, no_dist=True)
    return folder


def test_own_checkpoints_load(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c", betas=(0.9, 0.99), name="adam")
    state: dict[str, Any] = {"model": {"w": torch.zeros(4)}, "betas": None, "name": None}
    files.read_into(state, files.Stored(folder))
    assert state["model"]["w"].tolist() == [0, 1, 2, 3]
    assert (state["betas"], state["name"]) == ((0.9, 0.99), "adam")


def test_metadata_runs_nothing(tmp_path: Path) -> None:
    folder, mark = saved(tmp_path / "c"), tmp_path / "ran"
    (folder / ".metadata").write_bytes(pickle.dumps(Harmful(mark)))
    with pytest.raises(PipelineError, match=r"names posix\.mkdir, which no checkpoint needs"):
        files.Stored(folder)
    reads = b"cbuiltins\ngetattr\n(ctorch\nSize\nS'__new__'\ntR."
    for contents in (reads, b"", b"no pickle", pickle.dumps({})):
        (folder / ".metadata").write_bytes(contents)
        with pytest.raises(PipelineError, match="metadata"):
            files.Stored(folder)
    assert not mark.exists()


def test_values_run_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder = saved(tmp_path / "c", lr=Harmful(mark))
    with pytest.raises(PipelineError, match="'lr' is not loaded, since it may run code"):
        files.read_into({"lr": None}, files.Stored(folder))
    assert not mark.exists()


# Whole, or refused


class Alone:
    def moved(self) -> None:
        pass

    def reach(self, place: str) -> None:
        pass

    def run(self, call: Callable[[], None]) -> None:
        call()


def written(folder: Path, step: int) -> Path:
    state = {"model": {"w": torch.full((300,), float(step))}}
    files.write(state, folder, step, None, Alone())  # type: ignore[arg-type]
    return folder


def values_in(folder: Path) -> list[float]:
    """The values of a checkpoint that is not refused."""
    stored = files.Stored(folder)
    stored.check()
    state: dict[str, Any] = {"model": {"w": torch.zeros(300)}}
    files.read_into(state, stored)
    found: list[float] = state["model"]["w"].unique().tolist()
    return found


def file_of(folder: Path) -> Path:
    (found,) = folder.glob("*.distcp")
    return found


def test_a_save_takes_the_place_of_another(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c")  # of PyTorch
    for step in (1, 2):
        written(folder, step)
        assert values_in(folder) == [step]
        assert {p.name[:6] for p in folder.iterdir()} == {".metad", f"step{step}-"}
    state = {"model": {"w": torch.zeros(300)}}
    state_dict_loader.load(state, checkpoint_id=folder, no_dist=True)
    assert state["model"]["w"].unique().tolist() == [2]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def from_other(other: Path, path: Path) -> None:
    shutil.copy(file_of(other), path)


def from_more_ranks(other: Path, path: Path) -> None:
    contents = file_of(other).read_bytes()
    found = files.split_seal(contents)
    assert found is not None
    path.write_bytes(contents[: found[0]] + files.seal_line({**found[1], "ranks": 4}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder, _: file_of(folder).write_bytes(b""), "the file 'step1-.*' is empty"),
        (lambda folder, _: file_of(folder).unlink(), "the file 'step1-.*' is missing"),
        (lambda folder, _: cut(file_of(folder)), "the file 'step1-.*' was cut off or changed"),
        (lambda folder, _: cut(folder / ".metadata"), "'.metadata' was cut off or changed"),
        (lambda folder, _: (folder / ".metadata").write_bytes(b""), "'.metadata' is empty"),
        (
            lambda folder, _: (folder / ".metadata").unlink(),
            "there is no '.metadata' in it; of step1-.* only a part was written",
        ),
        (
            lambda folder, other: from_other(other, file_of(folder)),
            "'step1-.*' is of step2-.* .step 2., rank 0 of 1, but the checkpoint is of step1-.*",
        ),
        (
            lambda folder, other: shutil.copy(other / ".metadata", folder / ".metadata"),
            "the file 'step2-.*' is missing",
        ),
        (
            lambda folder, _: from_more_ranks(folder, file_of(folder)),
            "is of step1-.* .step 1., rank 0 of 4, but the checkpoint is of .* rank 0 of 1",
        ),
        (lambda folder, _: shutil.rmtree(folder), "No such file or directory"),
    ],
)
def test_what_is_not_whole_is_refused(
    damage: Callable[[Path, Path], Any], said: str, tmp_path: Path
) -> None:
    folder, other = written(tmp_path / "c", 1), written(tmp_path / "d", 2)
    damage(folder, other)
    with pytest.raises(PipelineError, match=said):
        values_in(folder)


def test_a_changed_byte_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", 1)
    for path in (folder / ".metadata", file_of(folder)):
        contents = path.read_bytes()
        for at in range(0, len(contents), 13):
            changed = bytes([contents[at] ^ 1])
            path.write_bytes(contents[:at] + changed + contents[at + 1 :])
            with pytest.raises(PipelineError):
                values_in(folder)
        path.write_bytes(contents)
    assert values_in(folder) == [1]


def test_a_checkpoint_of_pytorch_is_as_long_as_it_says(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c")
    files.Stored(folder).check()
    path = file_of(folder)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PipelineError, match="_0.distcp' has .* bytes, wanted at least"):
        files.Stored(folder).check()


def test_a_full_disk_is_told_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened = written(tmp_path / "c", 1), Path.open

    def open_full(path: Path, mode: str = "r") -> Any:
        return opened(Path("/dev/full"), "wb") if mode == "xb" else opened(path, mode)

    monkeypatch.setattr(Path, "open", open_full)
    said = "stays as it was:\nrank 0: the disk is full: .*No space left on device: .*step2-"
    with pytest.raises(PipelineError, match=said):
        written(folder, 2)
    monkeypatch.undo()
    assert values_in(folder) == [1]
    assert len(list(folder.iterdir())) == 2


def test_two_jobs_do_not_save_into_one_folder(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", 1)
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(PipelineError, match="another job is saving into this folder"):
        written(folder, 2)
    os.close(other)
    assert values_in(folder) == [1]
    assert values_in(written(folder, 2)) == [2]


def test_killed_ranks_leave_a_whole_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, str(KILLS), str(tmp_path), "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 kills: " in done.stdout


def test_a_rank_that_stops_in_a_save_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(KILLS), str(tmp_path), "stop"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("rank 0 waited 3 s for rank 1 to write its part of the checkpoint")
    assert lines[1] == "no answer from rank 1: stopped, busy, or gone"
