"""Checkpoints run nothing when they are loaded."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from pipesched.torch import PipelineError  # noqa: E402
from pipesched.torch._checkpoint import Reader, read_into  # noqa: E402
from torch.distributed.checkpoint.state_dict_saver import save  # noqa: E402


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


# `save` says that it saves without other processes, which is what these tests want.
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")

STATE = {"model": {"w": torch.arange(4.0), "c": torch.zeros(2, 3)}, "optimizer": {"lr": 0.5}}


def saved(folder: Path, **more: Any) -> Path:
    save({**STATE, **more}, checkpoint_id=folder, no_dist=True)
    return folder


def test_own_checkpoints_load(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c", betas=(0.9, 0.99), name="adam")
    state: dict[str, Any] = {"model": {"w": torch.zeros(4)}, "betas": None, "name": None}
    read_into(state, folder, None)
    assert state["model"]["w"].tolist() == [0, 1, 2, 3]
    assert (state["betas"], state["name"]) == ((0.9, 0.99), "adam")


def test_metadata_runs_nothing(tmp_path: Path) -> None:
    folder, mark = saved(tmp_path / "c"), tmp_path / "ran"
    (folder / ".metadata").write_bytes(pickle.dumps(Harmful(mark)))
    with pytest.raises(PipelineError, match=r"names posix\.mkdir, which no checkpoint needs"):
        Reader(folder).read_metadata()
    reads = b"cbuiltins\ngetattr\n(ctorch\nSize\nS'__new__'\ntR."
    for contents in (reads, b"", b"no pickle", pickle.dumps({})):
        (folder / ".metadata").write_bytes(contents)
        with pytest.raises(PipelineError, match="metadata"):
            Reader(folder).read_metadata()
    assert not mark.exists()


def test_values_run_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder = saved(tmp_path / "c", lr=Harmful(mark))
    with pytest.raises(PipelineError, match="'lr' is not loaded, since it may run code"):
        read_into({"lr": None}, folder, None)
    assert not mark.exists()
