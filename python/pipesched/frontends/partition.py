"""Cutting a graph of values into the functions of a stage, for any framework that traced it.

    forward          needed by the output
    input_gradient   also needed by the gradient of the input
    weight_gradient  the rest
    backward         both at once

A value of an earlier function that a later one reads is a residual. Cheap values, which only view a
tensor in another way or need no tensor, are not kept but recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipesched import Schedule

from . import FrontendError

Value = TypeVar("Value", bound=Hashable)
Role = tuple[str, str]
"""A role and its name, empty if it has none."""


@dataclass
class Graph(Generic[Value]):
    """The values of a stage, forward and backward."""

    order: Sequence[Value]
    """All values, each after its operands."""
    inputs: Callable[[Value], Sequence[Value]]
    roles: Mapping[Value, Role]
    """The values that are given."""
    output: Value
    input_gradient: Value | None
    gradients: Mapping[str, Value]
    """By the names of parameters."""
    name: Callable[[Value], str]
    is_cheap: Callable[[Value], bool]
    whole: Mapping[Value, Value] = field(default_factory=dict)
    """All results together of an operation with several, which are not a tensor."""


@dataclass
class Piece(Generic[Value]):
    """The inputs, computed values and outputs of one function, in the order of the graph."""

    kind: str
    taken: list[tuple[Role, Value]]
    computed: list[Value]
    results: list[tuple[Role, Value]]


class _Cut(Generic[Value]):
    """Cuts one graph."""

    def __init__(self, graph: Graph[Value]) -> None:
        self.graph = graph
        self.place = {value: number for number, value in enumerate(graph.order)}
        self.back = {value for value, role in graph.roles.items() if role[0] == "output_gradient"}
        for value in graph.order:
            if any(source in self.back for source in graph.inputs(value)):
                self.back.add(value)
        self.front = self._closed(self._above([graph.output]))
        self.inner = self._closed(self._inner())

    def _above(self, values: Iterable[Value]) -> set[Value]:
        """Returns the values and everything that they need."""
        found: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value not in found:
                found.add(value)
                stack.extend(self.graph.inputs(value))
        return found

    def _closed(self, values: set[Value]) -> set[Value]:
        """Returns the values and, of each operation with several results, all results."""
        return values | {part for part, whole in self.graph.whole.items() if whole in values}

    def _inner(self) -> set[Value]:
        """Returns the values of the backward that input_gradient computes, including shared values
        of parameters only.
        """
        graph = self.graph
        if graph.input_gradient is not None:
            return self._above([graph.input_gradient]) & self.back
        above = [self._above([value]) & self.back for value in graph.gradients.values()]
        longest = max(above, key=len, default=set())
        shared = {value for value in longest if sum(value in each for each in above) > 1}
        return shared - set(graph.roles)

    def run(self) -> dict[str, Piece[Value]]:
        graph = self.graph
        weights: list[tuple[Role, Value]] = [
            (("gradient", name), value) for name, value in graph.gradients.items()
        ]
        inputs: list[tuple[Role, Value]] = []
        if graph.input_gradient is not None:
            inputs.append((("input_gradient", ""), graph.input_gradient))
        whole = self.piece("backward", [*inputs, *weights], self.front)
        weight = self.piece("weight_gradient", weights, self.front | self.inner)
        left = [each for each in self._read([weight]) if each[1] in self.inner]
        inner = self.piece("input_gradient", [*inputs, *left], self.front)
        kept = [each for each in self._read([whole, weight, inner]) if each[1] not in self.inner]
        if all(role != "output_gradient" for (role, _), _ in whole.taken):
            # The next stage sends it even if nothing needs it.
            given = [(role, n) for n, role in graph.roles.items() if role[0] == "output_gradient"]
            for piece in (whole, inner):
                piece.taken += given
        front = self.piece("forward", [(("output", ""), graph.output), *kept], set())
        return {each.kind: each for each in (front, whole, inner, weight)}

    def _read(self, pieces: Sequence[Piece[Value]]) -> list[tuple[Role, Value]]:
        """Returns the residuals that the pieces read."""
        read = {each for piece in pieces for each in piece.taken if each[0][0] == "residual"}
        return sorted(read, key=lambda each: self.place[each[1]])

    def piece(
        self, kind: str, results: list[tuple[Role, Value]], known: set[Value]
    ) -> Piece[Value]:
        """Returns the function that computes `results`, given the values in `known`."""
        graph = self.graph
        computed: set[Value] = set()
        taken: set[Value] = set()
        stack = [value for _, value in results]
        while stack:
            value = stack.pop()
            if value in computed or value in taken:
                continue
            if value in graph.roles or (value in known and not graph.is_cheap(value)):
                taken.add(value)
            else:
                computed.add(value)
                stack.extend(graph.inputs(value))
        roles = [(self._role(value), value) for value in sorted(taken, key=self._placed)]
        return Piece(kind, roles, sorted(computed, key=self._placed), results)

    def _placed(self, value: Value) -> int:
        return self.place[value]

    def _role(self, value: Value) -> Role:
        graph = self.graph
        if value in graph.roles:
            return graph.roles[value]
        return ("output", "") if value == graph.output else ("residual", graph.name(value))


def stage_pieces(graph: Graph[Value]) -> dict[str, Piece[Value]]:
    return _Cut(graph).run()


def loss_piece(graph: Graph[Value]) -> Piece[Value]:
    """The only function of a loss: `output` is its value, `input_gradient` its output's."""
    assert graph.input_gradient is not None
    results = [(("loss", ""), graph.output), (("output_gradient", ""), graph.input_gradient)]
    return _Cut(graph).piece("loss", results, set())


def count_stages(schedule: Schedule, **given: Sequence[object]) -> int:
    """Returns the number of stages, which must be equal on all paths and in the given lists.
    Refuses slices: functions of stages compute whole microbatches.
    """
    if schedule.slices > 1:
        raise FrontendError(
            f"schedule {schedule.name!r} has {schedule.slices} slices a microbatch; exported models"
            " run whole microbatches (docs/Stages.md says how functions of slices are written)"
        )
    placed = {
        (stage.path, stage.stage): stage.blocks
        for worker in range(schedule.workers)
        for stage in schedule.stages(worker)
    }
    count = 1 + max(stage for _, stage in placed)
    first = [placed[0, stage] for stage in range(count) if (0, stage) in placed]
    for (path, stage), blocks in placed.items():
        if stage >= len(first) or blocks != first[stage]:
            raise FrontendError(
                f"path {path} of the schedule divides the model otherwise than path 0, at stage "
                f"{stage}; functions belong to the stages of all paths alike"
            )
    for what, found in given.items():
        if len(found) != count:
            raise FrontendError(
                f"there are {len(found)} {what.replace('_', ' ')}; schedule {schedule.name!r} has "
                f"{count} stages"
            )
    return count
