"""Files of a checkpoint of `torch.distributed.checkpoint`, written so that a folder always has a
whole one, and read without running code in them.

    step8-3f9ac21b04de.rank0of2.0.distcp   the values of a rank, and a seal
    step8-3f9ac21b04de.rank1of2.0.distcp
    .metadata                              where values are, as PyTorch reads it, and a seal

A save writes files with new names. When all ranks are done, the first rank renames the new
`.metadata` over the last one, and then removes the files of the last save. A seal is the last line
of a file, which PyTorch does not read: the save, its step, the rank, and a checksum of all bytes
before it; the seal of `.metadata` lists the files of all ranks.

PyTorch unpickles the metadata and each value that is not a tensor; a pickle may call any function.
Here metadata may only name the classes that metadata consist of, and values only the types that
`torch.load(weights_only=True)` accepts.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import io
import json
import os
import pickle
import re
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import EnumType
from pathlib import Path, PosixPath, PurePosixPath
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint._traverse import set_element
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ..core.errors import PipelineError
from ..core.groups import store_of
from ..core.watch import Watch

TELL_SECONDS = 1.0


class Progress:
    """The progress of the ranks of a group; `places` names the places that a rank passes."""

    def __init__(self, group: dist.ProcessGroup, watch: Watch, places: dict[str, str]) -> None:
        untyped: Any = store_of(group)
        self._store, self._inner = untyped, untyped.clone()
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._watch, self._places = watch, places
        self._told = 0.0
        if "gloo" in str(dist.get_backend(group)):
            watch.carry(group, self._rank, self._size)

    def moved(self) -> None:
        """Notes now and then that this rank makes progress."""
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._inner.add("moved", 1)

    def reach(self, place: str) -> None:
        self._inner.set(f"{place}/{self._rank}", "")
        self._inner.add("moved", 1)

    def _what(self) -> str:
        for place, doing in self._places.items():
            keys = {rank: f"{place}/{rank}" for rank in range(self._size)}
            found = {rank: self._has(key) for rank, key in keys.items()}
            missing = [str(rank) for rank, has_come in found.items() if has_come is False]
            if None in found.values():
                return f"the store of torch.distributed to answer who is to {doing}"
            if missing:
                return f"rank {', '.join(missing)} to {doing}"
        others = "the other ranks to hear" if self._rank == 0 else "rank 0 to say"
        return f"{others} that all ranks are done"

    def _has(self, key: str) -> bool | None:
        found: bool | None = self._watch.ask(lambda: self._store.check([key]), None)
        return found

    def run(self, call: Callable[[], None]) -> None:
        """Runs a call in another thread. A PipelineTimeout names the rank without progress."""
        cuda: Any = torch.cuda
        device = cuda.current_device() if cuda.is_initialized() else None
        failures: list[CheckpointException] = []

        def inside() -> None:
            if device is not None:  # each thread has a separate one
                cuda.set_device(device)
            try:
                call()
            except CheckpointException as error:
                failures.append(error)

        def moves() -> Any:
            return self._watch.ask(lambda: self._store.add("moved", 0), None)

        with self._watch.looking():
            self._watch.wait(inside, self._what, moves=moves)
        if failures:
            raise failures[0]


METADATA = ".metadata"
MARK = b"\npipesched-save "
NAME = re.compile(r"(step(\d+)-[0-9a-f]{12})\.rank(\d+)of(\d+)\.\d+\.distcp")
"""The files of ranks: save, step, rank and number of ranks."""
SEAL_BYTES = 1024
"""More than the seal of a file of a rank has."""
CHUNK_BYTES = 1 << 20
Seal = dict[str, Any]
Moved = Callable[[], None]


def seal_line(seal: Seal) -> bytes:
    """Returns the last line of a file: a checksum of the seal, and the seal."""
    text = json.dumps(seal, sort_keys=True).encode()
    return MARK + f"{zlib.crc32(text):08x} ".encode() + text + b"\n"


def split_seal(contents: bytes) -> tuple[int, Seal] | None:
    """Returns the bytes before a seal, and the seal; None if it is missing or changed."""
    at = contents.rfind(MARK)
    try:
        seal = json.loads(contents[at + len(MARK) + 9 :]) if at >= 0 else None
    except ValueError:
        return None
    is_intact = isinstance(seal, dict) and seal_line(seal) == contents[at:]
    return (at, cast(Seal, seal)) if is_intact else None


def seal_of(name: str) -> Seal:
    """Returns the save, step and rank in the name of a file."""
    found = NAME.fullmatch(name)
    if found is None:
        return {}
    save, step, rank, ranks = found.groups()
    return {"save": save, "step": int(step), "rank": int(rank), "ranks": int(ranks)}


def _read_end(path: Path) -> tuple[int, Seal] | None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = file.seek(max(0, size - SEAL_BYTES))
        found = split_seal(file.read())
    return None if found is None else (begin + found[0], found[1])


def _sync(folder: Path) -> None:
    """Makes the names of the files of a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Writing


class _Stream(io.RawIOBase):
    """A file that is written from its beginning to its end, and gets a seal when it is closed."""

    def __init__(self, path: Path, seal: Seal, moved: Moved) -> None:
        self._file = path.open("xb")
        self._path, self._seal, self._moved = path, seal, moved
        self._sum = self._size = 0
        self.error: OSError | None = None
        """The first error of the system, which PyTorch may replace by another one."""

    def write(self, contents: Any) -> int:
        with memoryview(contents) as view, view.cast("B") as flat:
            self._do(lambda: self._file.write(flat))
            self._sum = zlib.crc32(flat, self._sum)
            self._size += len(flat)
            self._moved()
            return len(flat)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def _do(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except OSError as error:
            named = OSError(error.errno, os.strerror(error.errno or 0), str(self._path))
            self.error = self.error or named
            raise self.error from None

    def close(self) -> None:
        if not self._file.closed:
            line = seal_line({**self._seal, "crc32": self._sum})

            def end() -> None:
                self._file.write(line)
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()

            self._do(end)

    def discard(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink()


class _Files(FileSystem):
    """Makes files with seals, and puts `.metadata` in its place at once."""

    def __init__(self, save: str, moved: Moved) -> None:
        self._save, self._moved = save, moved
        self.sealed: Seal = {}
        """The seal of `.metadata`."""
        self.made: list[Path] = []

    def _own(self, path: Path) -> Path:
        """Returns a temporary name of `.metadata` for this save alone."""
        is_metadata = path.name == f"{METADATA}.tmp"
        return path.with_name(f"{METADATA}.{self._save}") if is_metadata else path

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        place = self._own(Path(path))
        self.made.append(place)
        stream = _Stream(place, seal_of(place.name) or self.sealed, self._moved)
        try:
            yield stream
            stream.close()
        except BaseException:
            stream.discard()
            if stream.error is not None:
                raise stream.error from None
            raise

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """PyTorch asks for an older checkpoint, to remove it: it stays until the rename."""
        return False

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Puts `.metadata` in its place. After this nothing may fail: the save is whole."""
        os.replace(self._own(Path(path)), new_path)
        with suppress(OSError):
            _sync(Path(new_path).parent)


class Writer(FileSystemWriter):
    """Writes one save. Raises an OSError or a PipelineError."""

    def __init__(self, folder: str | os.PathLike[str], step: int, progress: Progress) -> None:
        super().__init__(folder, sync_files=False)
        self.save_id = f"step{step}-{uuid.uuid4().hex[:12]}"
        self._folder, self._files = Path(folder), _Files(self.save_id, progress.moved)
        self.fs = self._files
        self._progress = progress
        self._lock = -1

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Makes the folder, into which one job saves at a time."""
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)
        is_new = not self._folder.exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        if is_new:
            _sync(self._folder.parent)
        if is_coordinator:
            self._lock = os.open(self._folder, os.O_RDONLY)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PipelineError(
                    "another job is saving into this folder; give each job a folder of its own"
                ) from None
            except OSError:  # a file system without locks
                pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """PyTorch warns here of an older checkpoint."""
        self._progress.reach("plan")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Names the files of all ranks, and removes files of failed saves."""
        with suppress(OSError):
            metadata = self._folder / METADATA
            known = split_seal(metadata.read_bytes()) if metadata.exists() else (0, {"files": {}})
            if known is not None:
                self._remove(known[1]["files"], NAME.fullmatch)
        return [
            dataclasses.replace(
                plan,
                storage_data=dataclasses.replace(
                    plan.storage_data, prefix=f"{self.save_id}.rank{rank}of{len(plans)}."
                ),
            )
            for rank, plan in enumerate(super().prepare_global_plan(plans))
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        written = super().write_data(plan, planner)
        _sync(self._folder)
        self._progress.reach("write")
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Makes the save the one that the folder has, on the first rank when all are done."""
        names = {each.storage_data.relative_path for theirs in results for each in theirs}
        files = {name: self._check_written(name) for name in sorted(names)}
        seal = seal_of(next(iter(files)))
        del seal["rank"]
        self._files.sealed = {**seal, "files": files}
        super().finish(metadata, results)
        with suppress(OSError):
            self._remove(files, lambda name: name.endswith(".distcp"))

    def _check_written(self, name: str) -> list[int]:
        """Returns the bytes and the checksum of a file."""
        try:
            found = _read_end(self._folder / name)
        except FileNotFoundError:
            raise PipelineError(
                f"{name!r}, which rank {seal_of(name)['rank']} has written, is not in the folder "
                "that the first rank sees; wanted a folder that all ranks share and no other job "
                "saves into"
            ) from None
        if found is None:
            raise PipelineError(f"{name!r} was changed by something else while it was written")
        return [found[0], found[1]["crc32"]]

    def _remove(self, kept: Any, is_old: Callable[[str], Any]) -> None:
        for path in self._folder.iterdir():
            is_part = path.name.startswith(f"{METADATA}.")
            if path.name not in kept and (is_part or is_old(path.name)):
                with suppress(OSError):
                    path.unlink()

    def discard(self) -> None:
        for path in self._files.made:
            with suppress(OSError):
                path.unlink()

    def end(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def reason_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}"
    is_named = isinstance(error, (OSError, PipelineError))
    return str(error) if is_named else f"{type(error).__name__}: {error}"


# Checks before reading


class Sealed:
    """The contents of `.metadata`, and whether the files that it lists belong to its save."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self.contents = self._read()
        found = split_seal(self.contents)
        self.seal: Seal = {} if found is None else found[1]
        """Empty for a checkpoint that PyTorch wrote, or an older PipeSched."""
        if found is not None:
            if zlib.crc32(self.contents[: found[0]]) != self.seal["crc32"]:
                raise PipelineError(f"{METADATA!r} was changed after it was written")
            self.contents = self.contents[: found[0]]

    def _read(self) -> bytes:
        try:
            contents = (self._folder / METADATA).read_bytes()
        except FileNotFoundError:
            if not self._folder.is_dir():
                raise
            halves = sorted({str(seal_of(p.name).get("save")) for p in self._folder.iterdir()})
            begun = ", ".join(name for name in halves if name != "None")
            text = f"; of {begun} only a part was written" if begun else ""
            raise PipelineError(f"there is no {METADATA!r} in it{text}") from None
        if not contents:
            raise PipelineError(f"{METADATA!r} is empty")
        return contents

    @property
    def save(self) -> str:
        return str(self.seal.get("save", ""))

    def check(self, ends: dict[str, int], part: int, parts: int) -> None:
        """Raises PipelineError for a file of another save or with other contents. Each of `parts`
        ranks checks some files; `ends` has the least bytes of each.
        """
        files = self.seal.get("files", {})
        sealed = [name for name in ends if NAME.fullmatch(name)]
        if not self.seal and sealed:
            raise PipelineError(f"{METADATA!r} was cut off or changed after it was written")
        if self.seal and set(ends) != set(files):
            raise PipelineError(f"{METADATA!r} lists other files than it uses")
        for number, (name, least) in enumerate(sorted(ends.items())):
            try:
                self._check_size(name, least)
                if name in files and number % parts == part:
                    self._check_contents(name, tuple(files[name]))
            except FileNotFoundError:
                raise PipelineError(self._missing(name)) from None

    def _missing(self, name: str) -> str:
        with suppress(OSError, PipelineError):
            now = Sealed(self._folder).save
            if now != self.save:
                return f"it was replaced by {now} while it was read; load it again"
        return f"the file {name!r} is missing"

    def _check_size(self, name: str, least: int) -> None:
        size = (self._folder / name).stat().st_size
        if not size:
            raise PipelineError(f"the file {name!r} is empty")
        if size < least:
            raise PipelineError(f"the file {name!r} has {size} bytes, wanted at least {least}")

    def _check_contents(self, name: str, listed: tuple[int, int]) -> None:
        path, wanted = self._folder / name, seal_of(name)
        found = _read_end(path)
        if found is None:
            raise PipelineError(f"the file {name!r} was cut off or changed after it was written")
        own = {key: value for key, value in found[1].items() if key != "crc32"}
        if own != wanted or wanted["save"] != self.save:
            raise PipelineError(
                f"the file {name!r} is of {_describe(own)}, but the checkpoint is of "
                f"{_describe({**wanted, 'save': self.save, 'ranks': self.seal['ranks']})}"
            )
        total, left = 0, found[0]
        with path.open("rb") as file:
            while left and (chunk := file.read(min(left, CHUNK_BYTES))):
                total, left = zlib.crc32(chunk, total), left - len(chunk)
        if not listed == (found[0], total) == (found[0], found[1]["crc32"]):
            raise PipelineError(f"the file {name!r} was changed after it was written")


def _describe(seal: Seal) -> str:
    known = {"save": "a save without a name", "step": "?", "rank": "?", "ranks": "?", **seal}
    return "{save} (step {step}), rank {rank} of {ranks}".format(**known)


KINDS = ("model", "optimizer", "loss", "others", "random")
"""The first parts of the names of values."""
WRITES = {
    "plan": "come to the saving of the checkpoint",
    "write": "write its part of the checkpoint",
}
READS = {"plan": "come to the loading of the checkpoint", "read": "read its part of the checkpoint"}


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
        ends: dict[str, int] = {}
        for each in self.metadata.storage_data.values():
            end = each.offset + each.length
            ends[each.relative_path] = max(end, ends.get(each.relative_path, 0))
        try:
            self.sealed.check(ends, part, parts)
        except OSError as error:
            raise PipelineError(str(error)) from error


class Reader(FileSystemReader):
    def __init__(self, stored: Stored, progress: Progress | None = None) -> None:
        super().__init__(stored.folder)
        self._stored, self._progress = stored, progress

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        found = self._stored.metadata
        assert found.storage_meta is not None
        found.storage_meta.load_id = self.load_id
        return found

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
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
