"""From measured times to a profile: one time for each phase and stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._program import Instruction, WorkerProgram
from ._schedule import Schedule

if TYPE_CHECKING:
    from ._measurement import Measurement, Stamps

Key = tuple[int, int]
"""The key of a stage: (path, stage)."""
Row = npt.NDArray[np.int64]
"""One time per step, in ns."""
Samples = dict[Key, list[float]]


class _Collector:
    """The times of one measurement, by name in the profile and by stage, in ns."""

    def __init__(self, measurement: Measurement, with_issue: bool) -> None:
        self.schedule = measurement.schedule
        self.times: dict[str, Samples] = defaultdict(lambda: defaultdict(list))
        self._owned = _owned_blocks(self.schedule)
        self._sent: dict[int, tuple[Key, Row]] = {}
        """By message: the stage that sends it, and when its send began."""
        self._sums: dict[int, list[tuple[Key, Row, Row]]] = defaultdict(list)
        """By group, for each member: its stage, its start, and when it saw the end."""
        both = list(zip(measurement.programs, measurement.stamps, strict=True))
        for program, stamps in both:
            issue = _issue_times(program, stamps, with_issue)
            for instruction in program:
                self._read(instruction, stamps, issue[:, instruction.index])
        for program, stamps in both:
            for instruction in program:
                if instruction.kind == "recv":
                    self._read_arrival(instruction, stamps)
        for group, members in self._sums.items():
            self._read_sum(group, members)

    def _read(self, instruction: Instruction, stamps: Stamps, issue: Row) -> None:
        cell, index = instruction.cell, instruction.index
        key = cell.path, cell.stage
        start, end = stamps.start[:, index], stamps.end[:, index]
        length = end - start + issue
        if instruction.kind == "send":
            assert instruction.message is not None
            self._sent[instruction.message] = key, start
        elif instruction.kind == "all_reduce":
            assert instruction.group is not None
            done = np.maximum(stamps.done[:, index], end)
            self._sums[instruction.group].append((key, start, done))
        elif instruction.kind in ("offload", "reload"):
            # A copy ends at the latest when the worker sees that it is done.
            self._add(cell.phase, key, end - start)
        elif instruction.kind == "compute" and len(instruction.cells) == 2:
            self._add("FB", key, length)
        elif instruction.kind == "compute":
            owned, held = self._owned.get(key, (1, 1)) if cell.phase == "O" else (1, 1)
            if owned:
                self._add(cell.phase, key, length * (held / owned))

    def _add(self, name: str, key: Key, lengths: npt.NDArray[np.generic]) -> None:
        self.times[name][key] += [max(float(length), 0.0) for length in lengths.tolist()]

    def _read_arrival(self, instruction: Instruction, stamps: Stamps) -> None:
        assert instruction.message is not None
        key, sent = self._sent[instruction.message]
        arrived = stamps.arrived[:, instruction.index]
        is_known = arrived != _NEVER
        begin = np.maximum(sent, stamps.end[:, instruction.index])
        self._add("comm", key, (arrived - begin)[is_known])

    def _read_sum(self, group: int, members: Sequence[tuple[Key, Row, Row]]) -> None:
        """Adds the times of all-reduces. One runs from the start of its last member until the first
        member sees its end. The profile has one time for all blocks that a stage owns.
        """
        start = np.max([start for _, start, _ in members], axis=0)
        end = np.min([done for _, _, done in members], axis=0)
        blocks = len(self.schedule.groups[group].blocks)
        for key, _, _ in members:
            owned, _ = self._owned.get(key, (1, 1))
            self._add("G", key, (end - start) * (max(owned, 1) / max(blocks, 1)))

    def fill(self) -> None:
        """Adds times that a profile must have but that the run did not show separately: F and B of
        stages that ran them only in overlapped pairs, and B of stages that ran I and W.
        """
        times = self.times
        for key, pairs in times["FB"].items():
            for name in ("F", "B"):
                if key not in times[name] and not times["I"].get(key):
                    times[name][key] = [fmean(pairs) * _SHARE_OF_PAIR[name]]
        for key in set(times["I"]) & set(times["W"]):
            if times["B"] and key not in times["B"]:
                times["B"][key] = [fmean(times["I"][key]) + fmean(times["W"][key])]


_NEVER = int(np.iinfo(np.int64).min)
_SHARE_OF_PAIR = {"F": 1 / 3, "B": 2 / 3}
"""The shares of the time of a pair that F and B get if a stage ran none of them alone: a backward
has twice as many matrix products as a forward.
"""


def _issue_times(program: WorkerProgram, stamps: Stamps, is_wanted: bool) -> Row:
    """By step and compute: the time until the next compute in which the worker neither computes nor
    waits nor copies, plus the time to unpack messages before the compute.

        compute | gap | send | gap | recv | gap | wait ...... | unpack | compute
        `-------------- of the first ----------'               `of the next-'
    """
    found = np.zeros(stamps.ready.shape, dtype=np.int64)
    for step in range(len(found) if is_wanted else 0):
        last, at = None, 0
        order = np.argsort(stamps.ready[step], kind="stable").tolist()
        for instruction in map(program.__getitem__, order):
            index = instruction.index
            times = (stamps.ready, stamps.start, stamps.end)
            ready, start, end = (int(each[step, index]) for each in times)
            is_compute = instruction.kind == "compute"
            if last is not None:
                found[step, last] += max(ready - at, 0)
                if instruction.kind in ("send", "recv", "all_reduce"):
                    found[step, last] += end - ready
            if is_compute:
                found[step, index] += start - _wait_end(instruction, stamps, step, ready, start)
            last, at = index if is_compute else last, max(at, end)
        if last is not None:  # Nothing behind the last compute can delay a compute.
            found[step, last] = 0
    return found


def _wait_end(
    instruction: Instruction, stamps: Stamps, step: int, ready: int, start: int
) -> int:
    """When the last thing that an instruction waited for arrived, between its `ready` and its
    `start`.
    """
    at = ready
    for other in instruction.waits:
        arrived = int(stamps.arrived[step, other])
        at = max(at, int(stamps.done[step, other]) if arrived == _NEVER else arrived)
    return min(at, start)


def _owned_blocks(schedule: Schedule) -> dict[Key, tuple[int, int]]:
    """By stage: how many blocks it owns, and how many it has. Its O steps, and its G sums, those
    that it owns.
    """
    blocks = {}
    for worker in range(schedule.workers):
        sets = schedule.parameter_sets(worker)
        for stage in schedule.stages(worker):
            held = sum(len(sets[number].blocks) for number in stage.sets)
            owned = sum(len(sets[number].blocks) for number in stage.owned_sets)
            known = (owned, held) if held else (int(bool(stage.owned_sets)), 1)
            blocks[stage.path, stage.stage] = known
    return blocks


def _stages_of_all_paths(schedule: Schedule) -> int | None:
    """The number of stages of every path; None if they differ."""
    counts: dict[int, int] = defaultdict(int)
    for worker in range(schedule.workers):
        for stage in schedule.stages(worker):
            counts[stage.path] = max(counts[stage.path], stage.stage + 1)
    return next(iter(counts.values())) if len(set(counts.values())) == 1 else None


def _printed(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.6f}".rstrip("0").rstrip(".") + "ms"


def _by_stage(samples: Samples, stages: int | None, mean: Callable[[list[float]], float]) -> str:
    """The means of all stages, as a list. A stage without times gets the mean of the others."""
    pooled: dict[int, list[float]] = defaultdict(list)
    for (_, stage), times in samples.items():
        pooled[stage] += times
    means = {stage: mean(times) for stage, times in pooled.items() if times}
    overall = mean([time for times in pooled.values() for time in times])
    if stages is None:
        return _printed(overall)
    values = [_printed(means.get(stage, overall)) for stage in range(stages)]
    return values[0] if len(set(values)) == 1 else f"[{','.join(values)}]"


def profile_text(measurement: Measurement, with_issue: bool) -> str:
    """See `Measurement.profile`."""
    collector = _Collector(measurement, with_issue)
    collector.fill()
    stages = _stages_of_all_paths(measurement.schedule)
    entries = []
    for name in ("F", "B", "I", "W", "R", "D", "U", "O", "G", "FB", "comm"):
        samples = {key: times for key, times in collector.times[name].items() if times}
        if samples:
            mean = median if name == "comm" else fmean
            entries.append(f"{name}={_by_stage(samples, stages, mean)}")
    return ",".join(entries)
