"""Reading checkpoints of `torch.distributed.checkpoint` without running what is in them.

PyTorch's reader unpickles the metadata, and its planner each value that is no tensor; a pickle may
call any function. Here metadata may only name the classes that metadata consist of, and values only
what `torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import io
import os
import pickle
from enum import EnumType
from pathlib import PosixPath, PurePosixPath
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict_loader import load

from ._errors import PipelineError

METADATA = ".metadata"


def _member(enumeration: Any, name: str) -> Any:
    """Replaces `getattr`, with which Python 3.11 pickles a member of an enumeration."""
    if not isinstance(enumeration, EnumType) or name not in enumeration.__members__:
        raise PipelineError(f"{METADATA} reads {name!r} of what is no enumeration")
    return enumeration[name]


def _admitted() -> dict[tuple[str, str], Any]:
    """What metadata may name, by module and name."""
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

    admitted = _admitted()

    def find_class(self, module: str, name: str) -> Any:
        """The object that a pickle names, if it is allowed."""
        if (module, name) not in self.admitted:
            raise PipelineError(
                f"{METADATA} names {module}.{name}, which no checkpoint needs; wanted only classes "
                "of torch.distributed.checkpoint's metadata"
            )
        return self.admitted[module, name]


class Reader(FileSystemReader):
    """A reader of a folder."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata of all ranks, or of one. Raises an OSError or a PipelineError."""
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as file:
            contents = file.read()
        try:
            read = _Unpickler(io.BytesIO(contents)).load()
        except PipelineError:
            raise
        except Exception as error:  # a file that is no pickle may raise anything
            raise PipelineError(f"{METADATA} is no metadata: {error}") from error
        if not isinstance(read, Metadata):
            raise PipelineError(f"{METADATA} has a {type(read).__name__}, wanted metadata")
        if getattr(read, "storage_meta", None) is None:
            read.storage_meta = StorageMeta()
        assert read.storage_meta is not None
        read.storage_meta.load_id = self.load_id
        return read


class _Planner(DefaultLoadPlanner):
    """Reads values as PyTorch reads weights."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Reads a value that is no tensor."""
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


def read_into(
    state: dict[str, Any],
    folder: str | os.PathLike[str],
    group: torch.distributed.ProcessGroup | None,
) -> None:
    """Reads a checkpoint into the tensors and the values of a state."""
    try:
        load(state, storage_reader=Reader(folder), planner=_Planner(), process_group=group)
    except CheckpointException as error:
        said = [f"rank {rank}: {wrapped[0]}" for rank, wrapped in error.failures.items()]
        text = "\n".join(said)
        raise PipelineError(f"checkpoint {os.fspath(folder)!r} cannot be read:\n{text}") from error
