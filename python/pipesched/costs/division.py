"""How costs divide the layers of a model among the stages of schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from .. import _core
from ..errors import PipeSchedError
from ..support.options import Balance, Path, Paths, pass_options
from .layer_times import LayerTimes
from .stage_times import Entries, Place, listed_stages

Counts = tuple[int, ...]
"""The layers of the stages of a path."""


SPREAD = ("vocab-1f1b", "vocab-v-half", "interlaced-1f1b")
"""Families that spread the head over the workers."""


@dataclass(frozen=True)
class Division:
    """The layers that costs describe, and the rule that divides them."""

    raw: _core.Costs
    balance: Balance
    layers: int
    """The number of layers; 0 if it is unknown."""
    layer_times: LayerTimes | None = None
    """The times, if they are times of layers."""
    entries: Mapping[str, str | list[str]] = field(default_factory=dict)
    """The times, if they are times of stages."""
    has_costs: bool = False
    """Whether a model and a system give the costs of layers."""
    has_groups: bool = False
    """Whether that system has groups of nodes, whose speeds differ."""
    _found: dict[tuple[int, Sequence[int]], Counts | None] = field(
        default_factory=dict, compare=False
    )

    # Times

    def times_on(self, places: Sequence[Place]) -> LayerTimes | None:
        """Returns the times of layers to add up on these paths; None if the times need no division.
        A list of times of stages is divided again for paths with another number of stages.
        """
        if self.layer_times is not None:
            return self.layer_times
        return self._of_stages(max(len(workers) for workers, _ in places))

    def _of_stages(self, stages: int) -> LayerTimes | None:
        entries: Entries = dict(self.entries)
        listed = listed_stages(entries)
        if listed is None or listed == stages:
            return None
        layers = self.layers
        if layers == 0 or layers % listed:
            if stages % listed and listed % stages:
                known = f"{layers} layers are" if layers else "the number of layers is"
                why = f"which {listed} stages do not hold evenly" if layers else "not known"
                raise PipeSchedError(
                    f"times of {listed} stages cannot be divided for {stages} stages: {known}"
                    f' {why}; give times of layers (times_of="layer")'
                )
            layers = math.lcm(listed, stages)
        return LayerTimes.of_stages(entries, listed, layers)

    # Layers

    @property
    def divides_costs(self) -> bool:
        """Whether the times of stages depend on the division of layers."""
        return bool(self.layers and (self.layer_times or self.has_costs))

    def _divides_unevenly(self, stages: int) -> bool:
        """Returns whether this rule, rather than equal numbers, divides the layers."""
        if not stages or stages > self.layers or self.balance == "exact":
            return False
        return self.has_groups or self.balance == "cost" or self.layers % stages != 0

    def counts_on(
        self, places: Sequence[Place], microbatches: int, family: str | None = None
    ) -> tuple[Counts, ...] | None:
        """Returns the layers of the stages of each path. Returns None if all stages have equally
        many layers, if the paths give them, or if no division exists; in the last case the
        evaluation reports the reason. Families that spread the head over the workers use numbers
        that are as equal as possible.
        """
        if not places or any(lengths is not None for _, lengths in places):
            return None
        if not any(self._divides_unevenly(len(workers)) for workers, _ in places):
            return None
        if family in SPREAD:
            return tuple(self.by_number(workers) for workers, _ in places)
        found = [self._try_balance(tuple(workers), microbatches) for workers, _ in places]
        counts = tuple(each for each in found if each is not None)
        return counts if len(counts) == len(places) else None

    def _try_balance(self, workers: tuple[int, ...], microbatches: int) -> Counts | None:
        key = microbatches, workers
        if key not in self._found:
            try:
                self._found[key] = self.balanced(workers, microbatches)
            except PipeSchedError:
                self._found[key] = None
        return self._found[key]

    def balanced(self, workers: Sequence[int], microbatches: int) -> Counts:
        """The layers of each stage of a path such that all workers are equally busy: by times of
        layers, by the model on the system, or else by number.
        """
        times = self.layer_times or self._of_stages(len(workers))
        if times is not None and times.count == self.layers:
            return times.balanced_on(workers)
        if self.has_costs:
            return tuple(_core.balance_layers(self.raw, microbatches, list(workers)))
        return self.by_number(workers)

    def by_number(self, workers: Sequence[int]) -> Counts:
        """Numbers of layers that are as equal as possible."""
        return tuple(_core.balance_loads(list(workers), [self.layers], [1], 0, 0))


def with_counts(places: Sequence[Place], counts: Sequence[Counts] | None) -> tuple[Place, ...]:
    """The same places with the layers of their stages."""
    if counts is None:
        return tuple(places)
    return tuple((workers, each) for (workers, _), each in zip(places, counts, strict=True))


def paths_with(
    paths: Paths | None, places: Sequence[Place], counts: Sequence[Counts]
) -> list[Path]:
    """Paths, given or from places, with the layers of their stages."""
    given = [Path(workers) for workers, _ in places] if paths is None else paths
    whole = [path if isinstance(path, Path) else Path(path) for path in given]
    return [replace(path, blocks=each) for path, each in zip(whole, counts, strict=True)]


def pass_of(counts: Sequence[Counts], schedule: str | None = None) -> str:
    """The pass that sets the layers of each stage of a schedule."""
    lists = ";".join(",".join(map(str, each)) for each in counts)
    return f"pipe-place-blocks{pass_options({'schedule': schedule, 'counts': lists})}"


def counts_text(counts: Sequence[Counts]) -> str:
    """Formats the layers of stages: equal neighbours as `1x47`; different paths are separated by a
    bar.

    >>> counts_text([(3, 4, 4, 5), (4, 4, 4, 4)])
    '3+4x2+5|4x4'
    """

    def runs(each: Counts) -> str:
        groups = [(count, len(list(same))) for count, same in groupby(each)]
        return "+".join(f"{count}x{times}" if times > 1 else str(count) for count, times in groups)

    return "|".join(dict.fromkeys(map(runs, counts)))


def layers_text(layers: int, places: Sequence[Place]) -> str | None:
    """Formats the layers on each stage when `layers` are divided: `4` if all stages have as many,
    otherwise for example `3+4x6+5`. Returns None if there are no layers or stages, or if stages
    only have weights.

    >>> layers_text(8, [((0, 1), None)]), layers_text(7, [((0, 1), (3, 4))])
    ('4', '3+4')
    """
    lengths = [lengths for _, lengths in places if lengths is not None]
    if not layers or not places or any(sum(each) != layers for each in lengths):
        return None
    if lengths and len({count for each in lengths for count in each}) > 1:
        return counts_text(lengths)
    return str(layers // len(places[0][0]))
