"""The text that nccl-tests and rccl-tests print.

Which collective a run measured stands in its text, or follows from the reduction, the root and the
ratio of both bandwidths (nccl-tests, doc/PERFORMANCE.md): 2 (n - 1)/n for an all-reduce of n ranks,
(n - 1)/n for all-gather, reduce-scatter and all-to-all, and 1 for messages and what has a root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..errors import PipeSchedError
from ._samples import Found, Sample, usable

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
    """What one program printed."""

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
        """What was measured; "" if the cost model has no such thing."""
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


def read(text: str, file: str) -> Found:
    """Reads the output of one or several runs."""
    found, run = Found(), _Run()
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\d+\s+\d+\s+[a-z]", line):
            run.rows += _rows(line, run.columns, f"{file}:{number}")
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


def _rows(line: str, columns: list[str], place: str) -> Iterable[_Row]:
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
    """The link if all ranks are on one host, the network if each is on a host of its own."""
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
