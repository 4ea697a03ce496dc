"""Reads measurements from files of any kind, which their contents distinguish."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipesched

from ..errors import PipeSchedError
from . import _kineto, _tables
from ._samples import Found, Sample, usable
from ._trace import Bytes, Trace, read_trace

if TYPE_CHECKING:
    import pandas as pd

MEASURED = ("measured_s", "measured_tokens_per_s_per_gpu", "measured_log")
"""The keys of measured steps of own trainings; a row has one of them."""

_HEAD = 1 << 16
_MOST_TABLE = 1 << 28


def read(files: Sequence[str | os.PathLike[str]], message_bytes: int | None) -> Found:
    """Returns the measurements in all files. All traces are read together, since they belong to the
    ranks of one job.
    """
    found, traces = Found(), list[Trace]()
    for path in _expand(files):
        try:
            kind = kind_of(path)
            if kind == "steps":
                raise PipeSchedError(
                    f"{path}: measured steps of trainings correct a system, and samples make one;"
                    " pipesched.fitting.fit_steps takes the former alone"
                )
            if kind == "trace":
                traces.append(read_trace(path))
            elif kind == "measurement":
                found.add(_read_cells(path, message_bytes))
            else:
                text = _text_of(path)
                is_printed = kind == "nccl-tests"
                read_text = _tables.read_nccl_tests if is_printed else _tables.read
                found.add(read_text(text, str(path)))
        except zlib.error as error:
            raise PipeSchedError(f"{path}: not readable as gzip: {error}") from None
    if traces:
        found.add(_kineto.samples_of(traces))
    return found


def _text_of(path: Path) -> str:
    text = bytearray()
    with open(path, "rb") as file:
        unpacked = Bytes(file)
        while more := unpacked.read(_HEAD):
            text += more
            if len(text) > _MOST_TABLE:
                raise PipeSchedError(f"{path}: a table of more than {_MOST_TABLE} bytes")
    return text.decode("utf-8-sig", errors="replace")


def _expand(files: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Replaces folders by the traces in them."""
    paths = []
    for file in map(Path, files):
        if not file.is_dir():
            paths.append(file)
            continue
        inside = sorted(p for p in file.iterdir() if re.search(r"\.json(\.gz)?$", p.name))
        if not inside:
            raise PipeSchedError(f"{file}: found no .json or .json.gz in this folder")
        paths += inside
    return paths


def head_of(path: Path) -> str:
    """The start of a file, unpacked."""
    head = b""
    with open(path, "rb") as file:
        unpacked = Bytes(file)
        while len(head) < _HEAD and (more := unpacked.read(_HEAD)):
            head += more
    return head.decode("utf-8", errors="replace").removeprefix("\ufeff").lstrip()


def is_steps(head: str) -> bool:
    """Returns whether a file with this start has measured steps of a user's own trainings."""
    return head[:1] in ("[", "{") and any(f'"{name}"' in head for name in MEASURED)


def kind_of(path: Path) -> str:
    """`trace`, `measurement`, `nccl-tests`, `steps` or `table`."""
    head = head_of(path)
    if not head:
        raise PipeSchedError(f"{path}: the file is empty, or begins with {_HEAD} blanks")
    if re.search(r"^#?.*\balgbw\b", head, re.MULTILINE):
        return "nccl-tests"
    if '"pipesched-measurement"' in head[:4096]:
        return "measurement"
    if is_steps(head):
        return "steps"
    if head[0] == "[":
        return "trace" if re.search(r'"(ph|cat)"\s*:', head) else "table"
    if head[0] != "{":
        return "table"
    first = head.split("\n", 1)[0].strip()
    return "table" if first.endswith("}") and '"kind"' in first else "trace"


# Measurements of schedules, by their messages


def _read_cells(path: Path, message_bytes: int | None) -> Found:
    kind: Any = getattr(pipesched, "Measurement", None)
    if kind is None:
        raise PipeSchedError(f"{path}: this version of pipesched reads no measurements")
    measurement = kind.from_file(path)
    size = message_bytes or _boundary_bytes(measurement.schedule.to_text())
    if not size:
        raise PipeSchedError(
            f"{path}: the schedule has no model, which would say how large its messages are; "
            "give --message-bytes"
        )
    return messages_of(measurement.to_frame(), size, str(path))


def _boundary_bytes(text: str) -> int:
    found = re.search(r"\bboundary_bytes (\d+)", text)
    return int(found[1]) if found else 0


def messages_of(frame: pd.DataFrame, message_bytes: int, file: str) -> Found:
    """Returns one sample per message: its time from when it was sent and its receive was posted to
    its arrival.
    """
    found = Found()
    is_send, is_receive = frame["kind"] == "send", frame["kind"] == "recv"
    keys = ["step", "message"]
    both = frame[is_send].merge(frame[is_receive], on=keys, suffixes=("", "_received"))
    begin = both[["start_s", "ready_s_received"]].max(axis=1)
    times = (both["arrived_s_received"] - begin).tolist()
    lost = sum(not usable(seconds) for seconds in times)
    for seconds, message in zip(times, both["message"].tolist(), strict=True):
        if usable(seconds):
            place = f"{file}: message {message}"
            found.samples.append(
                Sample("network", "message", seconds, 0, message_bytes, 1, "", place, place)
            )
    if lost:
        found.notes.append(f"{file}: {lost} messages have no time above 0 and are left out")
    return found
