"""Files that appear whole or not at all, and JSON whose values every function can compute with."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import PipeSchedError

_DESCRIPTORS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


def _target(path: str) -> str:
    """The file that a path refers to, through symbolic links; paths of descriptors are kept."""
    for _ in range(40):  # as many links as Linux follows
        if path in _DESCRIPTORS or _DESCRIPTOR.fullmatch(path) or not os.path.islink(path):
            return path
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path


def _descriptor(target: str) -> int | None:
    """The inherited descriptor that a path refers to."""
    matched = _DESCRIPTOR.fullmatch(target)
    return int(matched[1]) if matched else _DESCRIPTORS.get(target)


def descriptor_of(path: str) -> int | None:
    """The same through symbolic links."""
    return _descriptor(_target(path))


@contextlib.contextmanager
def _name_errors(path: str) -> Iterator[None]:
    """Makes errors in the block name this path in place of any other file."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


def _write_to(descriptor: int, contents: bytes) -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(contents)


def _copy_access(source: os.stat_result, descriptor: int) -> None:
    """Gives a new file the owner and the permissions of the one that it replaces."""
    try:
        os.fchown(descriptor, source.st_uid, source.st_gid)
    except PermissionError:
        pass  # only the superuser gives files away
    os.fchmod(descriptor, stat.S_IMODE(source.st_mode))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _open_unnamed(folder: str) -> int | None:
    """Opens a file without a name, which disappears with the process even after SIGKILL; None if
    the system has no such files.
    """
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (AttributeError, OSError):
        return None
    if os.path.exists(f"/proc/self/fd/{handle}"):
        return handle
    os.close(handle)
    return None


def _open_named(folder: str) -> tuple[int, str]:
    """Opens a temporary file with a name."""
    handle, name = tempfile.mkstemp(prefix=".pipesched-", suffix=".tmp", dir=folder)
    os.fchmod(handle, 0o666 & ~_umask())
    return handle, name


def _name(handle: int, folder: str) -> str:
    """Gives a name to a file without one."""
    while True:
        name = os.path.join(folder, f".pipesched-{os.urandom(4).hex()}.tmp")
        with contextlib.suppress(FileExistsError):
            # Python follows the link to the file only if a folder is given.
            os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle)
            return name


def _open_next_to(path: str) -> tuple[int, str]:
    """A file in the folder of this one, with a name or without."""
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    folder = os.path.dirname(path) or "."
    if (handle := _open_unnamed(folder)) is None:
        return _open_named(folder)
    return handle, ""


def _replace(path: str, contents: bytes) -> None:
    """Writes a file next to this one and renames it."""
    existing = os.stat(path) if os.path.exists(path) else None
    folder = os.path.dirname(path) or "."
    handle, temporary = _open_next_to(path)
    try:
        with os.fdopen(handle, "wb") as file:
            if existing:
                _copy_access(existing, handle)
            file.write(contents)
            file.flush()
            temporary = temporary or _name(handle, folder)
        os.replace(temporary, path)
    except BaseException:
        if temporary:
            os.unlink(temporary)
        raise


def write_whole(path: str | os.PathLike[str], contents: bytes) -> None:
    """Replaces a file in one step, or does not change it. A symbolic link keeps pointing to the
    file, which keeps its permissions; a path that is not a regular file is written to directly.
    Raises an OSError that names `path`.
    """
    given = os.fspath(path)
    target = _target(given)
    with _name_errors(given):
        if (descriptor := _descriptor(target)) is not None:
            _write_to(descriptor, contents)
        elif os.path.exists(target) and not os.path.isfile(target):
            Path(target).write_bytes(contents)
        else:
            _replace(target, contents)


def most_unpacked(packed: int) -> int:
    """Returns the largest size to which a gzip file of this size may unpack. Measurements shrink to
    a twentieth at most; blanks shrink to a thousandth, so such a file could fill the memory.
    """
    return max(1 << 26, 200 * packed)


def check_file(path: str) -> None:
    """Raises the error that `write_whole` would raise, except for a full disk, before a long
    computation.
    """
    target = _target(path)
    with _name_errors(path):
        if (descriptor := _descriptor(target)) is not None:
            os.fstat(descriptor)
        elif os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        elif os.path.exists(target) and not os.path.isfile(target):
            if not os.access(target, os.W_OK):  # a FIFO may have no reader yet
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            handle, temporary = _open_next_to(target)
            os.close(handle)
            if temporary:
                os.unlink(temporary)


def check_folder(path: str) -> None:
    """The same for a folder of files, which is made with the folders above it."""
    above = os.path.abspath(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    with _name_errors(path):
        if os.path.exists(path) and not os.path.isdir(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if not os.path.isdir(above):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


# JSON

_MOST = 2**63 - 1


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(value := int(digits)) > _MOST:
        raise ValueError(f"the number {digits[:24]} is outside of 64 bits")
    return value


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"the number {digits[:24]} is too large")
    return value


def twice(names: Iterable[str]) -> str | None:
    """Returns the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def read_json(
    text: str | bytes,
    *,
    bounded: bool = True,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value of a text. Raises a ValueError also for values nested too deeply and, if `bounded`,
    for numbers outside of 64 bits.
    """
    hooks: dict[str, Any] = {"parse_int": _integer, "parse_float": _float} if bounded else {}
    try:
        return json.loads(text, object_pairs_hook=pairs, **hooks)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these fields, for `pairs` of `read_json`."""
    if (name := twice(name for name, _ in pairs)) is not None:
        raise ValueError(f"the field {name!r} is given twice")
    return dict(pairs)


def read_json_file(path: str) -> Any:
    """The value of a file. Raises a PipeSchedError that names the file, and line and column if it
    is not JSON.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            return read_json(file.read(), pairs=unique)
    except OSError as error:
        raise PipeSchedError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise PipeSchedError(f"{path}:{error.lineno}:{error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise PipeSchedError(f"{path}: byte {error.start} is not UTF-8") from None
    except ValueError as error:
        raise PipeSchedError(f"{path}: {error}") from None


_PLUGIN = Path(__file__).parents[1] / "PipeSchedPlugin.so"


def plugin_path() -> Path:
    """Where `PipeSchedPlugin.so` is, which brings the dialects and passes to the `mlir-opt` of an
    LLVM 22.1 with shared libraries, such as Debian's `mlir-opt-22`.

    Raises FileNotFoundError in a package that was not installed from a wheel.
    """
    if not _PLUGIN.exists():
        raise FileNotFoundError(
            f"{_PLUGIN}: not found, for only wheels of scripts/wheel.sh have it; in a checkout "
            "`cmake --build --preset release --target PipeSchedPlugin` builds "
            "build/release/lib/PipeSchedPlugin.so"
        )
    return _PLUGIN
