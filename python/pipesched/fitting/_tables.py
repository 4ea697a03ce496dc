"""Tables of measurements: CSV, lines of JSON, or a JSON array of objects."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import PipeSchedError
from ..support.files import read_json, twice
from ._samples import COLLECTIVES, ENGINES, ITEM_BYTES, PARTS, Found, Sample, dtype_of, usable

_TIMES = {"seconds": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_KNOWN = {*_TIMES, "kind", "op", "flops", "bytes", "m", "n", "k", "batch"}
_KNOWN |= {"dtype", "group", "name", "count"}
_OPERATIONS = {name.replace("_", ""): name for name in COLLECTIVES}
_OPERATIONS |= {"": "message", "message": "message", "pingpong": "message", "copy": "copy"}

Row = Mapping[str, Any]


def read(text: str, file: str) -> Found:
    """Reads a table; a row that cannot be used is an error that names its line."""
    found = Found()
    for line, row in _rows(text, file):
        place = f"{file}:{line}"
        unknown = {str(key) for key in row} - _KNOWN
        if unknown:
            wanted = ", ".join(sorted(_KNOWN))
            raise PipeSchedError(
                f"{place}: unknown column {sorted(unknown)[0]!r}; known are {wanted}"
            )
        found.samples.append(_sample(row, place))
    if not found.samples:
        raise PipeSchedError(f"{file}: found no rows, wanted a table of measurements")
    return found


def _rows(text: str, file: str) -> Iterator[tuple[int, Row]]:
    """Rows with their lines, which count from 1."""
    start = text.lstrip()[:1]
    if start == "[":
        rows = _json(text, file, 1)
        for number, row in enumerate(rows if isinstance(rows, list) else [], 1):
            yield number, _object(row, f"{file}: row {number}")
    elif start == "{":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, _object(_json(line, file, number), f"{file}:{number}")
    else:
        reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, strict=True)
        try:
            reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
            if name := twice(filter(None, reader.fieldnames)):
                raise PipeSchedError(f"{file}:1: the header names {name!r} twice")
            for row in reader:
                if None in row:
                    raise PipeSchedError(
                        f"{file}:{reader.line_num}: found more values than the header has names"
                    )
                yield reader.line_num, {k: v for k, v in row.items() if v and v.strip()}
        except csv.Error as error:
            raise PipeSchedError(f"{file}:{max(reader.line_num, 1)}: {error}") from None


def _json(text: str, file: str, line: int) -> Any:
    try:
        return read_json(text, bounded=False, pairs=_unique)
    except ValueError as error:
        raise PipeSchedError(f"{file}:{line}: not JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> Row:
    """Makes an object. A name with two values is an error, since choosing one would be silent."""
    if (name := twice(name for name, _ in pairs)) is not None:
        raise ValueError(f"the name {name!r} is there twice")
    return dict(pairs)


def _object(row: Any, place: str) -> Row:
    if not isinstance(row, dict):
        raise PipeSchedError(f"{place}: found {json.dumps(row)[:40]}, wanted an object")
    return {str(key).lower(): value for key, value in row.items() if value is not None}


def _number(row: Row, name: str, place: str, *, least: float = 0.0) -> float | None:
    if name not in row:
        return None
    value = row[name]
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not math.isfinite(number) or number < least:
        wanted = f"of at least {least:g}" if least else "from 0 on"
        raise PipeSchedError(f"{place}: {name} is {value!r}, wanted a number {wanted}")
    return number


def _seconds(row: Row, place: str) -> float:
    given = [name for name in _TIMES if name in row]
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise PipeSchedError(
            f"{place}: wanted one time, in a column {', '.join(_TIMES)}; found {found}"
        )
    value = _number(row, given[0], place)
    if not value:
        raise PipeSchedError(f"{place}: {given[0]} is {row[given[0]]!r}, wanted a time above 0")
    return value * _TIMES[given[0]]


def _product(row: Row, dtype: str, place: str) -> tuple[float, float | None]:
    """FLOPs and bytes of a matrix product, if the row has its sizes."""
    sizes = [_number(row, name, place, least=1) for name in ("m", "n", "k")]
    if all(size is None for size in sizes):
        return _number(row, "flops", place) or 0.0, _number(row, "bytes", place)
    if None in sizes or "flops" in row:
        raise PipeSchedError(f"{place}: wanted m, n and k, or flops in place of all three")
    m, n, k = (float(size or 0) for size in sizes)
    batch = _number(row, "batch", place, least=1) or 1.0
    moved = _number(row, "bytes", place)
    if moved is None:
        if not dtype:
            raise PipeSchedError(f"{place}: m, n and k need a dtype such as bfloat16, or bytes")
        moved = batch * (m * k + k * n + m * n) * ITEM_BYTES[dtype]
    return 2 * batch * m * n * k, moved


def _sample(row: Row, place: str) -> Sample:
    part = str(row.get("kind", "")).strip().lower()
    if part not in PARTS:
        raise PipeSchedError(f"{place}: kind is {part!r}, wanted one of {', '.join(PARTS)}")
    dtype = dtype_of(row.get("dtype", ""))
    if row.get("dtype") and not dtype:
        raise PipeSchedError(f"{place}: dtype {row['dtype']!r} is not known")
    seconds = _seconds(row, place)
    flops, moved = _product(row, dtype, place)
    count = int(_number(row, "count", place, least=1) or 1)
    kind, group = _operation(row, part, place)
    is_engine = part in ENGINES
    if is_engine and flops == 0:
        raise PipeSchedError(f"{place}: a {part} kernel needs flops, or m, n and k")
    if not is_engine and not moved:
        raise PipeSchedError(f"{place}: a sample of the {part} needs bytes above 0")
    shape = " x ".join(str(row[size]) for size in ("m", "n", "k") if size in row)
    name = str(row.get("name", "")) or shape or kind
    return Sample(part, kind, seconds, flops, moved or 0.0, group, dtype, name, place, count)


def _operation(row: Row, part: str, place: str) -> tuple[str, int]:
    """The kind of a measurement, and the number of its members."""
    if part in (*ENGINES, "memory"):
        return ("gemm" if part == "matrix" else "kernel"), 1
    name = str(row.get("op", "")).strip().lower().replace("-", "").replace("_", "")
    if name not in _OPERATIONS:
        wanted = ", ".join(["message", *COLLECTIVES])
        raise PipeSchedError(f"{place}: op is {row.get('op')!r}, wanted one of {wanted}")
    operation = "copy" if part == "host" else _OPERATIONS[name]
    if operation not in COLLECTIVES:
        return operation, 1
    group = _number(row, "group", place, least=2)
    if group is None or group != int(group):
        raise PipeSchedError(f"{place}: {operation} needs its group, a whole number from 2 on")
    return operation, int(group)


# The text that nccl-tests and rccl-tests print. The collective of a run is in its text, or follows
# from the reduction, the root and the ratio of both bandwidths (nccl-tests, doc/PERFORMANCE.md): 2
# (n - 1)/n for an all-reduce of n ranks, (n - 1)/n for all-gather, reduce-scatter and all-to-all,
# and 1 for messages and collectives with a root.

_RANK = re.compile(r"#\s*Rank\s+\d+\s.*?\bon\s+(\S+)\s+device")
_NAME = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv|broadcast|reduce|gather"
    r"|scatter|hypercube)_perf"
)
_KINDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "message",
}
_USUAL = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split()


@dataclass(frozen=True)
class _Row:
    place: str
    size: float
    seconds: float
    algorithm: float
    bus: float
    reduction: str
    root: str


@dataclass
class _Run:
    """The output of one program."""

    hosts: list[str] = field(default_factory=list)
    name: str = ""
    columns: list[str] = field(default_factory=lambda: list(_USUAL))
    rows: list[_Row] = field(default_factory=list)

    def ratio(self) -> float:
        """The ratio of the bandwidths, if they are printed with enough digits."""
        ratios = [row.bus / row.algorithm for row in self.rows if min(row.algorithm, row.bus) >= 1]
        ratios = ratios or [r.bus / r.algorithm for r in self.rows if min(r.algorithm, r.bus) > 0]
        return float(np.median(ratios)) if ratios else 0.0

    def kind(self) -> str:
        """The kind of the measurement; "" if the cost model has none like it."""
        if self.name:
            return _KINDS.get(self.name, "")
        row, ratio = self.rows[-1], self.ratio()
        if row.root not in ("-1", "") or not ratio:
            return ""
        if row.reduction == "none":
            return "message" if ratio > 0.995 else "all_gather"
        members = len(self.hosts)
        middle = 1.5 * (members - 1) / members if members > 1 else 0.995
        return "all_reduce" if ratio > middle else "reduce_scatter"

    def members(self, kind: str) -> int:
        """The number of ranks, listed or by the bandwidths; 0 if neither gives it."""
        if kind == "message":
            return 1
        if len(self.hosts) > 1:
            return len(self.hosts)
        share = self.ratio() / (2 if kind == "all_reduce" else 1)
        return round(1 / (1 - share)) if 0.4 < share < 0.9995 else 0


def read_nccl_tests(text: str, file: str) -> Found:
    """Reads the output of one or several runs."""
    found, run = Found(), _Run()
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\d+\s+\d+\s+[a-z]", line):
            run.rows += _printed_rows(line, run.columns, f"{file}:{number}")
            continue
        if re.match(r"#\s*nThread", line) and run.rows:
            _finish(run, found, file)
            run = _Run()
        if rank := _RANK.match(line.strip()):
            run.hosts.append(rank[1])
        if name := _NAME.search(line.lower()):
            run.name = name[1].replace("_", "")
        if "algbw" in line:
            run.columns = line.strip("# \t").split()
    _finish(run, found, file)
    return found


def _printed_rows(line: str, columns: list[str], place: str) -> Iterable[_Row]:
    words = line.split()
    if len(words) > len(columns) or "time" not in columns:
        wanted = " ".join(columns)
        raise PipeSchedError(f"{place}: found {len(words)} values, wanted those of {wanted}")
    named = dict(zip(columns, words, strict=False))
    for start in [at for at, name in enumerate(columns) if name == "time"]:
        found = words[start : start + 3]
        if len(found) < 3 or "N/A" in found:
            continue
        try:
            size, micros, algorithm, bus = map(float, (words[0], *found))
        except ValueError:
            text = " ".join(found)
            raise PipeSchedError(f"{place}: found {text}, wanted three numbers") from None
        if size > 0 and usable(micros):
            redop, root = named.get("redop", ""), named.get("root", "")
            yield _Row(place, size, micros * 1e-6, algorithm, bus, redop, root)


def _finish(run: _Run, found: Found, file: str) -> None:
    if not run.rows:
        return
    kind = run.kind()
    total = sum(row.seconds for row in run.rows)
    found.seconds += total
    if not kind:
        found.leave_out(run.name or "collective with a root", total)
        return
    members = run.members(kind)
    if members < 1:
        raise PipeSchedError(
            f"{run.rows[0].place}: neither a line `# Rank ...` nor the bandwidths say how many "
            "ranks there were; wanted the whole output of the program"
        )
    part = _part(run, kind, file, found)
    if part:
        name = f"nccl-tests {kind}"
        found.samples += [
            Sample(part, kind, row.seconds, 0, row.size, members, "", name, row.place)
            for row in run.rows
        ]


def _part(run: _Run, kind: str, file: str, found: Found) -> str:
    """The link if all ranks are on one host, the network if each is on a separate host."""
    hosts = set(run.hosts)
    if len(hosts) == 1:
        return "link"
    if not hosts:
        found.notes.append(
            f"{file}: no line `# Rank ...` names hosts; the ranks are taken for one node"
        )
        return "link"
    if len(hosts) == len(run.hosts) or kind == "message":
        return "network"
    found.notes.append(
        f"{file}: {kind} of {len(run.hosts)} ranks on {len(hosts)} hosts is left out: with several "
        "ranks per host its time mixes link and network"
    )
    return ""
