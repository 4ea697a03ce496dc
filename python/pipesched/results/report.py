"""The report as dataclasses: formula, table, execution and memory of one schedule."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from ..support.options import ForwardSends, ReceivePlacement, Runtime, Transport

if TYPE_CHECKING:
    import pandas as pd

Integers = npt.NDArray[np.int64]
"""One entry per worker, unless it says otherwise."""

Ratios = npt.NDArray[np.float64]


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right)
    return left == right


class _Section:
    """Base class whose equality compares arrays by their contents."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        compared = [f.name for f in fields(self) if f.compare]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in compared)

    __hash__ = None  # type: ignore[assignment]


_OF_SPAN = "between the first and the last cell of a worker"
_ENOUGH = re.compile(r"\bN >= (\d*)D(?:-(\d+))?")


@dataclass(frozen=True, eq=False)
class Formula(_Section):
    """Level 1: the formulas of the literature for the family."""

    bubble_ratio: float
    peak_activations: int
    source: str
    conditions: str
    bubble_ratio_general: float | None
    """For the given times; None if stages differ or no such formula is known."""
    general_source: str | None
    general_conditions: str | None

    @property
    def of(self) -> Literal["step", "span"]:
        """The time to which `bubble_ratio` is relative: the whole step, or the time from the first
        to the last cell of a worker.
        """
        return "span" if self.conditions.endswith(_OF_SPAN) else "step"

    def states(self, workers: int, microbatches: int) -> bool:
        """Whether the literature states `bubble_ratio` for this many microbatches."""
        least = _ENOUGH.search(self.conditions)
        return least is None or microbatches >= int(least[1] or 1) * workers - int(least[2] or 0)


@dataclass(frozen=True, eq=False)
class Retention(_Section):
    """Slots from a forward to the end of the backward that releases it."""

    mean: Ratios
    max: Integers


@dataclass(frozen=True, eq=False)
class Table(_Section):
    """Level 2: the slot table."""

    slots: int
    busy_slots: Integers
    bubble_ratio: float
    fill_slots: Integers
    drain_slots: Integers
    peak_activations: Integers
    retention_slots: Retention
    slot_lengths: dict[str, list[int]] | None
    """Slots of each phase by path and stage; None for unit slots."""


@dataclass(frozen=True, eq=False)
class IdleByCause(_Section):
    """Idle time of each worker; the causes (docs/CostModel.md, "Why workers idle") add up to it."""

    fill: Integers
    drain: Integers
    dependency: Integers
    queue_order: Integers
    communication: Integers
    imbalance: Integers
    weights: Integers
    experts: Integers
    context: Integers

    def ratios(self, makespan_ps: int) -> dict[str, float]:
        """The causes divided by workers times makespan, as `fill_ratio`; they add up to the idle
        ratio.
        """
        whole = len(self.fill) * makespan_ps or 1
        return {
            f"{cause.name}_ratio": int(getattr(self, cause.name).sum()) / whole
            for cause in fields(self)
        }


@dataclass(frozen=True, eq=False)
class Execution(_Section):
    """Level 3: when everything happens, in picoseconds."""

    transport: Transport
    receive_placement: ReceivePlacement | None
    forward_sends: ForwardSends
    runtime: Runtime
    makespan_ps: int
    busy_ps: Integers
    idle_ratio: float
    span_ps: int
    span_bubble_ratio: float
    idle_by_cause_ps: IdleByCause
    exposed_communication_ps: int
    messages: int
    bytes_sent: Integers
    exposed_sharding_ps: Integers
    """Time in which cells wait for weights or gradients that are sharded over other ranks."""
    copies: int
    """Offloads and reloads."""
    offload_ps: Integers
    """Time of the copy queue to the host, which overlaps with the cells."""
    reload_ps: Integers
    critical_path: tuple[str, ...] | None
    """None, like the next two fields, if several evaluations of one table shared a walk."""
    critical_path_messages: int | None
    critical_path_copies: int | None
    all_to_all_ps: Integers | None = None
    """Time in which rows are on their way to experts and back; None if there are none."""
    exposed_all_to_all_ps: Integers | None = None
    """The part of it that no compute hides."""
    context_exchange_ps: Integers | None = None
    """Time in which the ranks of a worker exchange keys and values or their gradients; None if
    sequences are not divided.
    """
    exposed_context_exchange_ps: Integers | None = None
    """The part of it for which attention waits."""
    context_exchange_bytes: Integers | None = None
    """Bytes that all accelerators of the worker send in it; not among `bytes_sent`."""

    @property
    def cells_ps(self) -> Integers:
        """The time in which cells of each worker run, computing or waiting."""
        idle = self.idle_by_cause_ps
        return self.busy_ps + idle.weights + idle.experts + idle.context


@dataclass(frozen=True, eq=False)
class Composition(_Section):
    """The composition of the peak memory of each worker."""

    weight_bytes: Integers
    gradient_bytes: Integers
    optimizer_bytes: Integers
    activation_bytes: Integers


@dataclass(frozen=True, eq=False)
class Memory(_Section):
    """Peak memory of each worker."""

    persistent_bytes: Integers
    peak_activation_bytes: Integers
    peak_bytes: Integers
    peak_ps: Integers
    peak_cell: tuple[str | None, ...]
    peak_activations: Integers
    offloaded_bytes: Integers
    reloaded_bytes: Integers
    composition: Composition
    bottleneck_worker: int
    capacity_bytes: int | None
    fits: bool | None


@dataclass(frozen=True, eq=False)
class Report(_Section):
    """The report of one schedule or program under costs."""

    schedule: str
    kind: Literal["schedule", "program"]
    family: str | None
    workers: int
    stages: int
    microbatches: int
    slices: int
    formula: Formula | None
    formula_reason: str | None
    table: Table | None
    execution: Execution
    memory: Memory | None
    _json: str = field(repr=False, compare=False)

    def to_json(self) -> str:
        return self._json

    def to_dict(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self._json)
        return report

    def worker_frame(self) -> pd.DataFrame:
        """One row per worker: slots, times, bytes."""
        from .frames import worker_frame

        return worker_frame(self)


_hints_of = cache(get_type_hints)
_R = TypeVar("_R", bound=Report)


def _value(hint: Any, raw: Any) -> Any:
    """Converts one value of the JSON to the type of the annotation."""
    choices = get_args(hint) or (hint,)
    section = next((choice for choice in choices if is_dataclass(choice)), None)
    if raw is None:
        return None
    if section is not None:
        return _section(section, raw)
    if array_type := next((each for each in (hint, *choices) if each in (Integers, Ratios)), None):
        array = np.array(raw, dtype=np.int64 if array_type == Integers else np.float64)
        array.flags.writeable = False
        return array
    if isinstance(raw, list):
        return tuple(raw)
    return float(raw) if float in choices else raw


def _section(section: Any, raw: dict[str, Any]) -> Any:
    hints = _hints_of(section)
    return section(
        **{
            f.name: _value(hints[f.name], raw[f.name])
            for f in fields(section)
            if f.default is MISSING or f.name in raw
        }
    )


def read_report(kind: type[_R], text: str, **extra: Any) -> _R:
    """Reads a report from JSON text, which may have additional keys, and no `slices` if there is
    one.
    """
    raw = {"slices": 1, **json.loads(text)}
    hints = _hints_of(Report)
    names = (f.name for f in fields(Report) if f.name != "_json")
    values = {name: _value(hints[name], raw[name]) for name in names}
    return kind(**values, _json=text, **extra)
