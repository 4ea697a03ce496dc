"""The streams of a worker, compute and exchange, within its cells, if costs are from a model with
experts (docs/Pictures.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .. import _core
from ..costs.costs import Costs
from ..costs.pairs import STREAMS, PartRun, _Cells
from ..costs.segments import EXCHANGES, PARTS, Kind, LayerSegments, segments_of
from ..costs.stage_times import Place
from ..errors import PipeSchedError
from ..support.options import Phase

if TYPE_CHECKING:
    from .pictures import Pictures

MOST_CELLS = 200_000
"""The most cells of a schedule that is drawn with the parts of its cells: each cell has many."""

THREADS = {stream: 10 + at for at, stream in enumerate(STREAMS)}
"""The threads of a worker in traces, after its other threads."""

FACTOR = 1e-6
"""The largest relative difference by rounding between the time of a cell and the sum of its parts.
"""

Key = tuple[str, int, int]
"""The phases of a cell, and the stages of its first and second."""


class Origin(NamedTuple):
    """The parts of the times of a simulation."""

    costs: Costs
    places: tuple[Place, ...]
    microbatches: int


@dataclass(frozen=True)
class Runs:
    """The parts of cells of a kind, with times from the start of the cell."""

    parts: tuple[PartRun, ...]
    exchange_ps: int
    hidden_ps: int


def _whole(layers: Sequence[Kind], phases: str) -> Iterator[PartRun]:
    """The parts of a cell by itself, one after the other."""
    now, is_forward = 0, phases == "F"
    order = range(len(layers)) if is_forward else reversed(range(len(layers)))
    for layer in order:
        for part in PARTS if is_forward else reversed(PARTS):
            for phase in phases:
                if phase != "W" or part not in EXCHANGES:
                    end = now + layers[layer].time_of(part, phase)
                    yield PartRun(part, cast(Phase, phase), layer, now, end, 0)
                    now = end


@dataclass
class Streams:
    """The parts of all cells of a simulation: `runs` of each kind, and by cell its kind or -1."""

    origin: Origin
    evaluation: _core.Evaluation
    runs: list[Runs] = field(default_factory=list)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The meaning of the columns of the drawing."""
        found: dict[str, Any] = json.loads(_core.drawing(self.evaluation).facts)
        return found

    @cached_property
    def items(self) -> dict[str, Any]:
        """The columns of the drawing."""
        found: dict[str, Any] = _core.drawing(self.evaluation).items()
        return found

    @cached_property
    def _segments(self) -> LayerSegments:
        return segments_of(self.origin.costs, self.origin.microbatches)

    @cached_property
    def _layers(self) -> list[range]:
        """The layers of each stage, path by path."""
        found: list[range] = []
        for workers, lengths in self.origin.places:
            each = self._segments.count // len(workers)
            if lengths is not None and sum(lengths) != self._segments.count:
                raise PipeSchedError("the stages have weights, which are no layers")
            ends = list(accumulate(lengths or [each] * len(workers)))
            found += map(range, [0, *ends], ends)
        return found

    def _kinds(self, stage: int) -> list[Kind]:
        layers = self._layers[stage]
        return self._segments.layers(layers.start, layers.stop) if layers else []

    def _parts(self, key: Key) -> tuple[PartRun, ...]:
        phases, first, second = key
        if len(phases) == 1:
            return tuple(_whole(self._kinds(first), {"B": "IW"}.get(phases, phases)))
        stages = (first, second) if phases == "FB" else (second, first)
        forward, backward = map(self._kinds, stages)
        cells = _Cells(forward, backward, whole=False, contention=(1.0, 1.0))
        return cells.scheduled(self.origin.costs.pair_order).runs

    @cached_property
    def _ends(self) -> tuple[set[int], set[int]]:
        """The stages with an embedding, and the stages with a head."""
        after = list(accumulate(len(workers) for workers, _ in self.origin.places))
        return {0, *after[:-1]}, {end - 1 for end in after}

    def _begin(self, key: Key, rest_ps: int) -> int:
        """When the layers of a cell start: after an embedding or the gradients of a head."""
        if len(key[0]) > 1:
            return 0  # their place in a pair is unknown
        first, last = (key[1] in stages for stages in self._ends)
        is_behind = (first if key[0] == "F" else last) and not (first and last)
        return max(0, rest_ps) if is_behind else 0

    @cached_property
    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """By cell, the number of its kind, or -1 if parts do not add up to its time."""
        items, letters = self.items, [each["letter"] for each in self.facts["phases"]]
        count = int(items["row_begins"][-1])
        found = np.full(count, -1, dtype=np.int64)
        columns = ("phase", "stage", "start_ps", "release_ps")
        phase, stage, start, release = (items[name][:count].tolist() for name in columns)
        seconds = [items[f"second_{name}"].tolist() for name in ("phase", "stage")]
        known: dict[tuple[Key, int], int] = {}
        for cell in range(count):
            phases, other = letters[phase[cell]], stage[cell]
            if seconds[0] and seconds[0][cell] >= 0:
                phases += letters[seconds[0][cell]]
                other = seconds[1][cell]
            if phases not in ("F", "B", "I", "W", "FB", "BF"):
                continue
            key, took = (phases, stage[cell], other), release[cell] - start[cell]
            if (key, took) not in known:
                known[key, took] = self._number(key, took)
            found[cell] = known[key, took]
        return found

    def _number(self, key: Key, took: int) -> int:
        """Returns the number of the parts of cells that take this long; -1 if there are none."""
        try:
            parts = self._parts(key)
        except PipeSchedError:
            return -1
        rest = took - max((part.end_ps for part in parts), default=0)
        is_end = any(stage in stages for stage in key[1:] for stages in self._ends)
        if not parts or rest < -FACTOR * took or (rest > FACTOR * took and not is_end):
            return -1
        begin = self._begin(key, rest)
        exchanges = [part for part in parts if part.part in EXCHANGES]
        taken = sum(part.end_ps - part.start_ps for part in exchanges)
        shown = tuple(
            replace(part, start_ps=part.start_ps + begin, end_ps=part.end_ps + begin)
            for part in parts
            if part.end_ps > part.start_ps
        )
        made = Runs(shown, taken, sum(part.hidden_ps for part in exchanges))
        if made not in self.runs:
            self.runs.append(made)
        return self.runs.index(made)

    def drawn(self) -> dict[str, Any]:
        """The data of the page, for JSON: parts as part, phase, layer, start, end and hidden."""
        numbers = self.numbers.tolist()
        parts = [
            [
                [PARTS.index(p.part), p.phase, p.layer, p.start_ps, p.end_ps, p.hidden_ps]
                for p in runs.parts
            ]
            for runs in self.runs
        ]
        sums = [[r.exchange_ps, r.hidden_ps] for r in self.runs]
        is_exchange = [part in EXCHANGES for part in PARTS]
        return {
            "names": list(PARTS),
            "is_exchange": is_exchange,
            "runs": parts,
            "sums": sums,
            "of": numbers,
        }

    def events(self, first: int) -> Iterator[dict[str, Any]]:
        """The events of a trace whose workers are the processes from `first` on."""
        numbers, items = self.numbers, self.items
        begins = items["row_begins"].tolist()
        for worker in range(len(begins) - 1):
            for stream, thread in THREADS.items():
                for key, value in (("name", f"{stream} stream"), ("sort_index", thread)):
                    yield {
                        **{"ph": "M", "name": f"thread_{key}", "pid": first + worker},
                        **{"tid": thread, "args": {key: value}},
                    }
            for cell in range(begins[worker], begins[worker + 1]):
                if numbers[cell] >= 0:
                    yield from self._events_of(cell, first + worker, self.runs[numbers[cell]])

    def _events_of(self, cell: int, pid: int, runs: Runs) -> Iterator[dict[str, Any]]:
        begin = int(self.items["start_ps"][cell])
        for part in runs.parts:
            is_second = not self._is_first(cell, part)
            event = part.event(pid, begin, **self._named(cell, is_second))
            event["tid"] = THREADS[part.stream]
            if part.part in EXCHANGES:
                event["args"]["exposed_ps"] = part.end_ps - part.start_ps - part.hidden_ps
            else:
                del event["args"]["hidden_ps"]
            yield event

    def _letter(self, cell: int) -> str:
        letter: str = self.facts["phases"][int(self.items["phase"][cell])]["letter"]
        return letter

    def _is_first(self, cell: int, part: PartRun) -> bool:
        """Whether a part is one of the first cell of a pair, or of the only one."""
        seconds = self.items["second_phase"]
        if not len(seconds) or seconds[cell] < 0:
            return True
        return (part.phase == "F") == (self._letter(cell) == "F")

    def _named(self, cell: int, is_second: bool) -> dict[str, int]:
        names = ("second_stage", "second_microbatch") if is_second else ("stage", "microbatch")
        stage, microbatch = (int(self.items[name][cell]) for name in names)
        return {"stage": self.facts["stages"][stage]["stage"], "microbatch": microbatch}


def streams_of(simulation: Any) -> Streams | None:
    """The streams of a simulation; None if experts exchange nothing or times are not of layers
    (docs/CostModel.md, "Overlapped pairs").
    """
    known: tuple[Origin, ...] = getattr(simulation, "_origin", ())
    if not known or simulation.slices > 1 or not known[0].places:
        return None
    (origin,) = known
    costs = origin.costs
    if costs.model is None or costs.times is not None or costs.expert_exposed != 100:
        return None
    if costs.pair_order == "fluid" or simulation._evaluation.num_cells > MOST_CELLS:
        return None
    try:
        kinds = segments_of(costs, origin.microbatches).kinds
    except PipeSchedError:
        return None
    if not any(kind.time_of(part, "F") for kind in kinds for part in EXCHANGES):
        return None
    found = Streams(origin, simulation._evaluation)
    return found if (found.numbers >= 0).any() else None


def chrome_trace(simulations: Iterable[Pictures]) -> str:
    """Timelines for Perfetto, with the streams of workers if they are known."""
    listed = list(simulations)
    text = _core.chrome_trace([each._evaluation for each in listed])
    first, events = 0, []
    for each in listed:
        if (streams := streams_of(each)) is not None:
            events += list(streams.events(first))
        first += getattr(each, "workers", 0) + 1  # after the workers comes the critical path
    if not events:
        return text
    end = "\n]}\n"
    assert text.endswith(end)
    return text.removesuffix(end) + "".join(f",\n{json.dumps(each)}" for each in events) + end
