"""Reads the events of a Chrome trace of PyTorch's profiler (Kineto) one by one, to save memory."""

from __future__ import annotations

import codecs
import json
import math
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..errors import PipeSchedError
from ..support.files import most_unpacked

_CHUNK = 1 << 22
_ENDLESS = 1 << 31
"""The bytes to read of a device or pipe, which may have no end."""
_MOST = 1 << 28
"""The largest number of characters of one value. Events have a few hundred."""

CATEGORIES = {
    "kernel": "kernel",
    "gpu_kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "set",
    "memset": "set",
    "cpu_op": "operation",
    "operator": "operation",
    "cpu_instant_event": "",
    "user_annotation": "annotation",
    "cuda_runtime": "launch",
    "runtime": "launch",
    "cuda_driver": "launch",
    "hip_runtime": "launch",
    "xpu_runtime": "launch",
    "privateuse1_runtime": "launch",
}
"""The names of kinds of events in traces of any version, in lower case."""


_KEPT = frozenset(
    "external id|correlation|bytes|input dims|input type|input types|input strides|concrete inputs"
    "|collective name|in msg nelems|out msg nelems|group size|dtype|process group name"
    "|process group ranks|src rank|dst rank|seq".split("|")
)
"""The arguments of events that are used here, in lower case."""


@dataclass(frozen=True)
class Event:
    """A span, in microseconds of the trace's clock."""

    index: int
    kind: str
    name: str
    start: float
    duration: float
    thread: tuple[str, str]
    args: dict[str, Any]

    @property
    def end(self) -> float:
        return self.start + self.duration

    def integer(self, *names: str) -> int | None:
        """Returns the first of these arguments that is a whole number; case does not matter."""
        for name in names:
            value = self.args.get(name)
            if value is None:
                value = self.args.get(name.lower())
            number = number_of(value)
            if number is not None and number == int(number):
                return int(number)
        return None


@dataclass
class Trace:
    """The events of a file by kind."""

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)
    """The other fields of the trace."""
    events: dict[str, list[Event]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Event]:
        return self.events.get(kind, [])

    def place(self, event: Event) -> str:
        return f"{self.path}: event {event.index}"


def number_of(value: object) -> float | None:
    """A finite number, also of text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class Bytes:
    """The bytes of a file, unpacked from gzip; a file that ends too early gives its bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._is_packed = file.peek(2)[:2] == b"\x1f\x8b"  # type: ignore[attr-defined]
        self._unpacker = zlib.decompressobj(wbits=31)
        self.is_truncated = False
        self._taken = self._found = 0  # bytes of the file, and of its contents
        self._is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)

    def read(self, size: int) -> bytes:
        """Reads about this many bytes. Refuses endless devices, and files that unpack to far more
        than the size of events.
        """
        found = self._read(size)
        self._found += len(found)
        if self._is_packed and self._found > most_unpacked(self._taken):
            raise PipeSchedError(
                f"{self._file.name}: {self._taken} bytes unpack to more than"
                f" {most_unpacked(self._taken)}, as no measurement does"
            )
        if not self._is_regular and self._found > _ENDLESS:
            raise PipeSchedError(
                f"{self._file.name}: more than {_ENDLESS} bytes that are in no file;"
                " write them into one"
            )
        return found

    def _read(self, size: int) -> bytes:
        if not self._is_packed:
            return self._file.read(size)
        while True:
            if not (raw := self._unpacker.unconsumed_tail):
                raw = self._file.read(size)
                self._taken += len(raw)
            if self._unpacker.eof:
                raw = self._unpacker.unused_data + raw
                if not raw.startswith(b"\x1f\x8b"):
                    return b""
                self._unpacker = zlib.decompressobj(wbits=31)
            found = self._unpacker.decompress(raw, size)
            if found or not raw:
                self.is_truncated = not found and not self._unpacker.eof
                return found


class _Stream:
    """Values of a JSON text, decoded one after the other."""

    def __init__(self, file: Bytes, path: Path) -> None:
        self._file, self._path = file, path
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._before = "", 0, 0
        self._ended = False

    def _more(self) -> bool:
        if self._ended:
            return False
        chunk = self._file.read(_CHUNK)
        self._ended = not chunk
        self._before += self._at
        self._text = self._text[self._at :] + self._decode(chunk, final=self._ended)
        self._at = 0
        return True

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, wanted: str) -> bool:
        """Skips this character, if it is the next."""
        if self.peek() != wanted:
            return False
        self._at += 1
        return True

    def fail(self, wanted: str) -> PipeSchedError:
        found = self._text[self._at : self._at + 30] or "the end"
        place = f"{self._path}: character {self._before + self._at}"
        return PipeSchedError(f"{place}: found {found!r}, wanted {wanted}")

    def value(self) -> Any:
        """The next value; raises `_Cut` if the text ends in it."""
        if not self.peek():
            raise _Cut
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
            except RecursionError:
                raise self.fail("a value of fewer levels") from None
            except json.JSONDecodeError as error:
                # A value that is not complete fails at the end of the text, or at its open quote.
                rest = len(self._text) - error.pos
                is_open = rest < 16 or error.msg.startswith("Unterminated")
                if len(self._text) - self._at > _MOST or not (is_open and self._more()):
                    if is_open and self._ended:
                        raise _Cut from None
                    self._at = error.pos
                    raise self.fail("JSON") from None


class _Cut(Exception):
    """The text ends in the middle of a value."""


def _items(stream: _Stream) -> Iterator[Any]:
    """The items of an array whose bracket has been taken."""
    if stream.take("]"):
        return
    while True:
        yield stream.value()
        if stream.take("]"):
            return
        if not stream.take(","):
            if not stream.peek():
                raise _Cut
            raise stream.fail("',' or ']'")
        if stream.take("]"):  # some tools leave a comma after the last event
            return


def _all(stream: _Stream, trace: Trace) -> Iterator[Any]:
    """The events, whether the file is an array of them or an object that has it."""
    if stream.take("["):
        yield from _items(stream)
        return
    if not stream.take("{"):
        raise stream.fail("an object with traceEvents")
    has_events = False
    while not stream.take("}"):
        name = stream.value()
        if not isinstance(name, str) or not stream.take(":"):
            raise stream.fail("a name and a ':'")
        if name == "traceEvents":
            if not stream.take("["):
                raise stream.fail("the array traceEvents")
            has_events = True
            yield from _items(stream)
        else:
            trace.fields[name] = stream.value()
        if not stream.take(",") and stream.peek() != "}":
            if not stream.peek():
                raise _Cut
            raise stream.fail("',' or '}'")
    if not has_events:
        raise PipeSchedError(f"{trace.path}: found no traceEvents, wanted a trace or a table")


class _Reader:
    """Turns the contents of the file into events."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.open: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
        self.broken: list[int] = []

    def read(self, index: int, raw: Any) -> None:
        """One item of traceEvents."""
        if not isinstance(raw, dict):
            self.broken.append(index)
            return
        phase = raw.get("ph")
        thread = str(raw.get("pid")), str(raw.get("tid"))
        if phase == "X":
            self.add(index, raw, thread, number_of(raw.get("dur")))
        elif phase == "B":
            self.open.setdefault(thread, []).append((index, raw))
        elif phase == "E" and self.open.get(thread):
            first, begun = self.open[thread].pop()
            start, end = number_of(begun.get("ts")), number_of(raw.get("ts"))
            known = start is not None and end is not None
            self.add(first, begun, thread, (end or 0) - (start or 0) if known else None)

    def add(
        self, index: int, raw: dict[str, Any], thread: tuple[str, str], duration: float | None
    ) -> None:
        name, category, args = raw.get("name"), raw.get("cat"), raw.get("args")
        kind = CATEGORIES.get(str(category).lower(), "")
        if not kind:
            return
        start = number_of(raw.get("ts"))
        if start is None or duration is None or duration < 0 or not isinstance(name, str):
            self.broken.append(index)
            return
        args = args.items() if isinstance(args, dict) else ()
        args = {key: value for key, value in args if key.lower() in _KEPT}
        event = Event(index, kind, name, start, duration, thread, args)
        self.trace.events.setdefault(kind, []).append(event)


def read_trace(path: Path) -> Trace:
    """Reads a trace, packed or not. A truncated file is read up to its end."""
    trace = Trace(path)
    reader = _Reader(trace)
    index, is_cut = -1, False
    with open(path, "rb") as file:
        unpacked = Bytes(file)
        try:
            for index, item in enumerate(_all(_Stream(unpacked, path), trace)):
                reader.read(index, item)
        except _Cut:
            is_cut = True
    if is_cut or unpacked.is_truncated:
        trace.notes.append(
            f"{path}: the file ends too early; its first {index + 1} events are used"
        )
    if reader.broken:
        trace.notes.append(
            f"{path}: {len(reader.broken)} of {index + 1} events have no usable name, time or "
            f"duration and are left out; the first is event {reader.broken[0]}"
        )
    return trace
