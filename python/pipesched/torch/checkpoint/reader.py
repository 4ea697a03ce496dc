"""Writes checkpoints of `torch.distributed.checkpoint`, and reads them without running code in
them.

PyTorch's reader unpickles the metadata, and its planner each value that is not a tensor; a pickle
may call any function. Here metadata may only name the classes that metadata consist of, and values
only the types that `torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import io
import os
import pickle
from enum import EnumType
from pathlib import PosixPath, PurePosixPath
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.futures import Future

from ..core.errors import PipelineError
from .saves import METADATA, Progress, Sealed, Writer, reason_of

KINDS = ("model", "optimizer", "loss", "others", "random")
"""The first parts of the names of values."""
WRITES = {
    "plan": "come to the saving of the checkpoint",
    "write": "write its part of the checkpoint",
}
READS = {"plan": "come to the loading of the checkpoint", "read": "read its part of the checkpoint"}
"""The places of `Progress`."""


def _member(enumeration: Any, name: str) -> Any:
    """Replaces `getattr`, with which Python 3.11 pickles a member of an enumeration."""
    if not isinstance(enumeration, EnumType) or name not in enumeration.__members__:
        raise PipelineError(f"{METADATA} reads {name!r} of what is no enumeration")
    return enumeration[name]


def _list_admitted() -> dict[tuple[str, str], Any]:
    """Returns the objects that metadata may name, by module and name."""
    found: dict[tuple[str, str], Any] = {("torch", "Size"): torch.Size}
    found["builtins", "getattr"] = _member
    for name, value in vars(torch).items():
        if isinstance(value, torch.dtype):
            found["torch", name] = value
    untyped: Any = torch.serialization
    found["torch.serialization", "_get_layout"] = untyped._get_layout
    for module, names in (
        (
            metadata,
            "Metadata TensorStorageMetadata TensorProperties _MEM_FORMAT_ENCODING "
            "BytesStorageMetadata ChunkStorageMetadata MetadataIndex StorageMeta",
        ),
        (filesystem, "_StorageInfo"),
    ):
        for name in names.split():
            if hasattr(module, name):
                found[module.__name__, name] = getattr(module, name)
    for path in (PosixPath, PurePosixPath):
        for place in ("pathlib", "pathlib._local"):
            found[place, path.__name__] = path
    return found


class _Unpickler(pickle.Unpickler):
    """Makes the classes of metadata and no others."""

    admitted = _list_admitted()

    def find_class(self, module: str, name: str) -> Any:
        """Returns the object that a pickle names, if it is allowed."""
        if (module, name) not in self.admitted:
            raise PipelineError(
                f"{METADATA} names {module}.{name}, which no checkpoint needs; wanted only classes "
                "of torch.distributed.checkpoint's metadata"
            )
        return self.admitted[module, name]


def _unpickle(contents: bytes) -> Metadata:
    try:
        read = _Unpickler(io.BytesIO(contents)).load()
    except PipelineError:
        raise
    except Exception as error:  # a file that is not a pickle may raise anything
        raise PipelineError(f"{METADATA} is no metadata: {error}") from error
    if not isinstance(read, Metadata):
        raise PipelineError(f"{METADATA} has a {type(read).__name__}, wanted metadata")
    if getattr(read, "storage_meta", None) is None:
        read.storage_meta = StorageMeta()
    return read


class Stored:
    """A checkpoint whose values are not read yet. Raises a PipelineError if it is not whole."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = folder
        try:
            self.sealed = Sealed(folder)
            self.metadata = _unpickle(self.sealed.contents)
        except OSError as error:
            raise PipelineError(str(error)) from error

    @property
    def step(self) -> int:
        """The steps that the runtime which saved it had run; 0 if that is not known."""
        return int(self.sealed.seal.get("step", 0))

    def kinds(self) -> dict[str, dict[str, Any]]:
        """Returns the values by the first part of names ("model", "optimizer") and the rest."""
        found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for key, value in self.metadata.state_dict_metadata.items():
            kind, _, name = key.partition(".")
            if kind in found:
                found[kind][name] = value
        if not found["model"]:
            keys = sorted(self.metadata.state_dict_metadata)[:5]
            raise PipelineError(f"has no names under 'model'; it has {', '.join(map(repr, keys))}")
        return found

    def check(self, part: int = 0, parts: int = 1) -> None:
        """Checks the files of all ranks, of `parts` ranks each the contents of some."""
        ends: dict[str, int] = {}
        for each in self.metadata.storage_data.values():
            end = each.offset + each.length
            ends[each.relative_path] = max(end, ends.get(each.relative_path, 0))
        try:
            self.sealed.check(ends, part, parts)
        except OSError as error:
            raise PipelineError(str(error)) from error


class Reader(FileSystemReader):
    """Reads the values of a checkpoint."""

    def __init__(self, stored: Stored, progress: Progress | None = None) -> None:
        super().__init__(stored.folder)
        self._stored, self._progress = stored, progress

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        found = self._stored.metadata
        assert found.storage_meta is not None
        found.storage_meta.load_id = self.load_id
        return found

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Is called when this rank knows its reads."""
        if self._progress is not None:
            self._progress.reach("plan")
        return super().prepare_local_plan(plan)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        found = super().read_data(plan, planner)
        if self._progress is not None:
            self._progress.reach("read")
        return found


class _Planner(DefaultLoadPlanner):
    """Reads values as PyTorch reads weights."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__()
        self._progress = progress

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Reads a value that is not a tensor."""
        name = read_item.dest_index.fqn
        try:
            loaded = torch.load(value, weights_only=True)
        except Exception as error:
            first = str(error).split("\n", 1)[0]
            raise PipelineError(f"{name!r} is not loaded, since it may run code: {first}") from None
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        if self._progress is not None:
            self._progress.moved()
        found: torch.Tensor = super().resolve_tensor(read_item)
        return found


def _make_error(
    folder: str | os.PathLike[str], is_not: str, error: CheckpointException
) -> PipelineError:
    said = [f"rank {rank}: {reason_of(each[0])}" for rank, each in error.failures.items()]
    text = "\n".join(said)
    return PipelineError(f"checkpoint {os.fspath(folder)!r} {is_not}:\n{text}")


def read_into(
    state: dict[str, Any],
    stored: Stored,
    group: dist.ProcessGroup | None = None,
    progress: Progress | None = None,
) -> None:
    """Reads a checkpoint into the tensors and the values of a state."""

    def call() -> None:
        reader, planner = Reader(stored, progress), _Planner(progress)
        load(state, storage_reader=reader, planner=planner, process_group=group)

    try:
        call() if progress is None else progress.run(call)
    except CheckpointException as error:
        raise _make_error(stored.folder, "cannot be read", error) from error


def write(
    state: dict[str, Any],
    folder: str | os.PathLike[str],
    step: int,
    group: dist.ProcessGroup | None,
    progress: Progress,
) -> None:
    """Writes a checkpoint in the place of the one that the folder has."""
    writer = Writer(folder, step, progress)

    def call() -> None:
        save(state, storage_writer=writer, process_group=group)

    try:
        progress.run(call)
    except CheckpointException as error:
        writer.discard()
        raise _make_error(folder, "is not written, and stays as it was", error) from error
    finally:
        writer.end()
