"""A forward and a backward whose layers overlap part by part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from .. import _core
from ..errors import PipeSchedError
from ..support.options import PairOrder, Phase, code_of, flag_of, instance_of, integer, text_of
from .costs import Costs
from .segments import (
    EXCHANGES,
    PARTS,
    Factors,
    Kind,
    LayerSegments,
    Segments,
    factor,
    read_segments,
    segments_of,
)

if TYPE_CHECKING:
    import pandas as pd

STREAMS = ("compute", "exchange")

_SPLIT: tuple[Phase, ...] = ("I", "W")

NOTHING = 0.01
"""A gain below this is too small to be measured."""

Range = tuple[int, int]
"""Layers from the first to before the second."""


@dataclass(frozen=True)
class PartRun:
    """A part of a layer as it ran. `layer` counts within the cell, which is the forward for F and
    the backward for I and W; `hidden_ps` is the time in which an exchange overlapped with compute.
    """

    part: str
    phase: Phase
    layer: int
    start_ps: int
    end_ps: int
    hidden_ps: int

    @property
    def name(self) -> str:
        """`mlp.I`."""
        return f"{self.part}.{self.phase}"

    @property
    def stream(self) -> str:
        """`compute` or `exchange`."""
        return STREAMS[self.part in EXCHANGES]

    def event(self, worker: int, begin_ps: int, **more: Any) -> dict[str, Any]:
        """A slice of a trace, in a cell that starts at `begin_ps`."""
        return {
            "ph": "X",
            "name": self.name,
            "cat": "forward" if self.phase == "F" else "backward",
            "pid": worker,
            "tid": STREAMS.index(self.stream),
            "ts": (begin_ps + self.start_ps) / 1e6,
            "dur": (self.end_ps - self.start_ps) / 1e6,
            "args": {"layer": self.layer, "hidden_ps": self.hidden_ps, **more},
        }


@dataclass(frozen=True)
class Pair:
    """An overlapped pair: its time, and the hidden part of the exchanges.

    `pair_ps` is the time of the pair, `forward_ps` and `backward_ps` are the times of its cells by
    themselves, and `in_turn_ps` is the sum of all parts without overlap; `input_ps` and
    `weights_ps` are its parts I and W, and `alone_exchange_ps` is its part for exchanges of the
    forward and of the backward. `backward_exchange_ps` is the time of exchanges in a backward by
    itself, of which its own W hide `backward_hidden_ps`. `exposed_ps` is the time in which only the
    exchange stream is in use. No order ends before `bound_ps`; `is_optimal` says that no order ends
    before this one. At `output_ps` and `gradient_ps` the output of the forward and the gradient of
    the backward's input can be sent.
    """

    order: str
    """The name of the order, or `given`."""
    pattern: tuple[str, ...]
    """The parts of a pair of layers, in the order of issue."""
    whole_backward: bool
    contention: Factors
    pair_ps: int
    forward_ps: int
    backward_ps: int
    in_turn_ps: int
    input_ps: int
    weights_ps: int
    alone_exchange_ps: tuple[int, int]
    backward_exchange_ps: int
    backward_hidden_ps: int
    output_ps: int
    gradient_ps: int
    compute_ps: int
    exchange_ps: int
    exposed_ps: int
    bound_ps: int
    is_optimal: bool
    orders_timed: int
    orders_cut: int
    runs: tuple[PartRun, ...]
    alone_runs: dict[Phase, tuple[PartRun, ...]] = field(default_factory=dict, repr=False)
    """The parts of a cell that runs by itself: F, B, I and W."""

    @property
    def gain(self) -> float:
        """The share of the time without overlap that the pair saves."""
        return 1 - self.pair_ps / self.in_turn_ps if self.in_turn_ps else 0.0

    @property
    def hidden_ps(self) -> int:
        """The time in which both streams are in use."""
        return self.exchange_ps - self.exposed_ps

    @property
    def hidden(self) -> float:
        """The share of the exchanges that compute hides."""
        return self.hidden_ps / self.exchange_ps if self.exchange_ps else 0.0

    def hidden_by_part(self) -> dict[str, tuple[int, int]]:
        """For dispatch.F, dispatch.I, combine.F and combine.I: their time, and the part of it that
        overlaps with compute, ps.
        """
        sums = {f"{part}.{phase}": (0, 0) for part in EXCHANGES for phase in ("F", "I")}
        for run in self.runs:
            if run.part in EXCHANGES:
                ran, hidden = sums[run.name]
                sums[run.name] = ran + run.end_ps - run.start_ps, hidden + run.hidden_ps
        return sums

    def times(self) -> str:
        """The times of a stage with these cells as forward and backward, as `Costs(times=)` takes
        them: F and B by themselves, the latter also as I and W if these are separate, and FB of the
        pair.
        """
        split = "" if self.whole_backward else f"I={self.input_ps}ps,W={self.weights_ps}ps,"
        return f"F={self.forward_ps}ps,B={self.backward_ps}ps,{split}FB={self.pair_ps}ps"

    def to_frame(self) -> pd.DataFrame:
        """The parts in the order of issue, one a row."""
        import pandas as pd

        names = ("part", "phase", "stream", "layer", "start_ps", "end_ps", "hidden_ps")
        rows = [tuple(getattr(run, name) for name in names) for run in self.runs]
        return pd.DataFrame(rows, columns=names)

    def trace(self) -> str:
        """A trace for Perfetto (https://ui.perfetto.dev) with both streams. Times are microseconds
        there.
        """
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": stream}}
            for tid, stream in enumerate(STREAMS)
        ]
        events += [run.event(0, 0) for run in self.runs]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


# Scheduling


def _runs(found: Sequence[tuple[int, int, int, int, int]]) -> tuple[PartRun, ...]:
    letters = _core.phases()
    exchanges = {PARTS.index(part) for part in EXCHANGES}
    busy = sorted(
        (start, end) for part, _, _, start, end in found if part not in exchanges and end > start
    )
    runs = []
    for part, phase, layer, start, end in found:
        hidden = 0
        if part in exchanges:
            hidden = sum(max(0, min(end, stop) - max(start, begin)) for begin, stop in busy)
        letter = cast(Phase, letters[phase])
        runs.append(PartRun(PARTS[part], letter, layer, start, end, hidden))
    return tuple(runs)


def _range(what: str, given: Range | None, otherwise: Range) -> Range:
    if given is None:
        return otherwise
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    if not is_pair or not all(isinstance(n, int) for n in given):
        raise PipeSchedError(f"{what}: expected two numbers of layers, found {given!r}")
    return given


def _check_weights(layers: Sequence[Kind], place: str, whole: bool) -> None:
    for kind in layers:
        if not kind.has_weights and not whole:
            raise PipeSchedError(
                f"{place}: {kind.name}: B says nothing of W apart from I; give I and W, or a whole"
                " backward"
            )


def _schedule(forward: Sequence[Kind], backward: Sequence[Kind], **options: Any) -> dict[str, Any]:
    return _core.schedule_pair(
        [kind.times for kind in forward], [kind.times for kind in backward], **options
    )


def _exchanges(layers: Sequence[Kind], phase: str) -> int:
    return sum(kind.time_of(part, phase) for kind in layers for part in EXCHANGES)


def _name(order: str) -> tuple[str, int, str]:
    """Returns the name of an order, its number, and its pattern if the library does not have it."""
    if "," in text_of("order", order):
        return "given", 0, order
    return order, code_of(PairOrder, "order", order), ""


@dataclass(frozen=True)
class _Cells:
    """The cells of a pair, and their order."""

    forward: Sequence[Kind]
    backward: Sequence[Kind]
    whole: bool
    contention: Factors

    def scheduled(self, order: str) -> Pair:
        name, number, pattern = _name(order)
        options: dict[str, Any] = {
            "order": number,
            "pattern": pattern,
            "delays_weights": not self.whole,
            "compute_percent": round(self.contention[0] * 100),
            "exchange_percent": round(self.contention[1] * 100),
        }
        found = _schedule(self.forward, self.backward, **options)
        first = _schedule(self.forward, (), **options)
        alone = _schedule((), self.backward, **options)
        cells = (self.forward, self.backward, self.backward)
        sums = [
            sum(sum(layer.times[phase::3]) for layer in layers)
            for phase, layers in enumerate(cells)
        ]
        same = ("gradient_ps", "compute_ps", "exchange_ps", "exposed_ps", "bound_ps", "is_optimal")
        return Pair(
            order=name,
            pattern=tuple(found["pattern"].split(",")),
            whole_backward=self.whole,
            contention=self.contention,
            pair_ps=found["end_ps"],
            forward_ps=first["end_ps"],
            backward_ps=alone["end_ps"],
            in_turn_ps=sum(sums),
            input_ps=sums[1],
            weights_ps=sums[2],
            alone_exchange_ps=(_exchanges(self.forward, "F"), _exchanges(self.backward, "I")),
            backward_exchange_ps=alone["exchange_ps"],
            backward_hidden_ps=alone["exchange_ps"] - alone["exposed_ps"],
            output_ps=found["forward_ps"],
            orders_timed=found["timed"],
            orders_cut=found["cut"],
            runs=_runs(found["runs"]),
            alone_runs={
                "F": _runs(first["runs"]),
                "B": _runs(alone["runs"]),
                **{phase: self._in_turn(phase) for phase in _SPLIT},
            },
            **{each: found[each] for each in same},
        )

    def _in_turn(self, phase: Phase) -> tuple[PartRun, ...]:
        """The parts of an I or a W without overlap, one after the other."""
        now, runs = 0, []
        for layer in reversed(range(len(self.backward))):
            for part in reversed(PARTS):
                if phase == "W" and part in EXCHANGES:
                    continue
                end = now + self.backward[layer].time_of(part, phase)
                runs.append(PartRun(part, phase, layer, now, end, 0))
                now = end
        return tuple(runs)


def _contention(given: float | Factors | None, segments: LayerSegments) -> Factors:
    if given is None:
        return segments.contention or (1.0, 1.0)
    if isinstance(given, (tuple, list)) and len(given) != 2:
        raise PipeSchedError(f"contention: expected a factor or two of them, found {given!r}")
    compute, exchange = given if isinstance(given, (tuple, list)) else (given, 1.0)
    return factor("contention of compute", compute), factor("contention of exchanges", exchange)


def overlap(
    segments: Segments | LayerSegments | None = None,
    *,
    costs: Costs | None = None,
    microbatches: int = 1,
    order: PairOrder | str = "deepseek",
    forward: Range | None = None,
    backward: Range | None = None,
    whole_backward: bool = False,
    contention: float | Factors | None = None,
) -> Pair:
    """The time of a forward and a backward that share a worker part by part: while rows of one are
    on their way to experts, the other computes.

    `segments` has measured times of the parts of layers (docs/schemas/layer-segments.schema.json);
    in their place `costs` give the times of a model on a system. The cells go through the layers
    `forward` and `backward`, by default all; layer i of the forward runs with layer L-1-i of the
    backward. `order` is "deepseek", "megatron", "best", "in-turn", or the parts themselves,
    "combine.I,attention.F,...". With `whole_backward` W is not separate from I. `contention` is the
    slowdown of compute during an exchange, and, as a second number, the slowdown of exchanges
    during compute.

    >>> parts = {"attention": {"F": 4, "I": 4, "W": 2}, "dispatch": {"F": 3, "I": 3},
    ...          "mlp": {"F": 6, "I": 6, "W": 6}, "combine": {"F": 3, "I": 3}}
    >>> pair = overlap({"layers": [parts]})
    >>> pair.pair_ps, pair.in_turn_ps, pair.exposed_ps, pair.is_optimal
    (28, 40, 0, True)
    """
    if (segments is None) == (costs is None):
        raise PipeSchedError("give segments, or the costs of a model on a system")
    flag_of("whole_backward", whole_backward)
    if costs is not None:
        count = integer("microbatches", microbatches, 1, 2**31 - 1)
        read = segments_of(instance_of("costs", Costs, costs), count)
    else:
        assert segments is not None
        read = segments if isinstance(segments, LayerSegments) else read_segments(segments)
    if read.count == 0:
        raise PipeSchedError(f"{read.place}: there are no layers")
    first = _range("forward", forward, (0, read.count))
    second = _range("backward", backward, first)
    cells = _Cells(
        read.layers(*first), read.layers(*second), whole_backward, _contention(contention, read)
    )
    _check_weights(cells.backward, read.place, whole_backward)
    return cells.scheduled(order)


def says_nothing_gained(pair: Pair) -> str | None:
    """Returns a sentence that says that overlap gains nothing, and why; empty if it gains."""
    if pair.gain >= NOTHING:
        return None
    if pair.exchange_ps == 0:
        return "overlap gains nothing: no rows are on their way to experts"
    share = pair.exchange_ps / pair.in_turn_ps
    why = "what compute loses beside exchanges takes what they hide"
    if share < 0.05:
        why = f"exchanges take {share:.2%} of it, as with few expert ranks"
    return f"overlap gains {pair.gain:.2%} of the time in turn: {why}"
