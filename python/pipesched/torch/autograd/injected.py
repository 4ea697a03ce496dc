"""Gradients that a stage adds by a separate autograd function, as for losses of routers.

The runtime divides a loss by the number of microbatches before its backward, which does not affect
such a gradient. To give it the weight that it has in PyTorch's schedules, which divide at the end
of a step, a stage with functions that the runtime does not know runs its backward with whole
gradients:

    gradients of outputs * N | backward of the stage | gradients of inputs / N, of parameters / N

The latter are divided by hooks, before they are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from pipesched import Cell

from ..partition.placement import Placement, StageKey
from .activation import ROOT, Activation
from .backward import Root, reversed_edges

KNOWN = ("pipesched.torch.", "torch.distributed.")
"""Modules whose functions add nothing to gradients."""


def _may_add(node: Node) -> bool:
    """Returns whether a node may add to the gradients that pass it."""
    kind: Any = type(node)
    if isinstance(node, BackwardCFunction):
        return not f"{kind._forward_cls.__module__}.".startswith(KNOWN)
    return bool(kind.__name__ == "CppFunction")  # a function of a C++ extension


def _walk(activation: Activation) -> tuple[bool, list[Tensor]]:
    """Returns whether the graph of a stage has a node that may add a gradient; and its leaves."""
    parts = activation.parts
    ran, ends = ([], []) if parts is None else (parts.ran, parts.ends)
    edges = [*activation.roots, *(edge for each in ran for edge in each.outputs)]
    begins = [*ends, *(edge for each in ran for edge in each.inputs)]
    between = {edge.node for edge in begins if edge is not None}
    nodes = reversed_edges(edge.node for edge in edges if edge is not None)
    found = [getattr(node, "variable", None) for node in nodes if node not in between]
    leaves = [leaf for leaf in found if leaf is not None and leaf is not ROOT]
    return any(map(_may_add, nodes)), leaves


class Injected:
    """The stages of a rank that may add to gradients."""

    def __init__(self, placement: Placement, slices: int) -> None:
        self._placement, self._slices = placement, slices
        self._found: set[StageKey] = set()
        self._looked: set[tuple[StageKey, int]] = set()
        """The numbers of nodes of graphs that have no such function, by stage."""
        self._hooked: set[tuple[StageKey, int]] = set()
        """Keys of graphs whose leaves have hooks in this step."""
        self._hooks: dict[int, tuple[Tensor, Any]] = {}
        self._decided: dict[tuple[StageKey, int], bool] = {}
        """By stage and microbatch, whose slices exchange gradients."""
        self._is_on = False
        self._count = 1

    def begin(self, count: int) -> None:
        self._count = count

    def end(self) -> None:
        for _, handle in self._hooks.values():
            handle.remove()
        self._hooks, self._hooked, self._decided = {}, set(), {}

    @staticmethod
    def now() -> int:
        """Returns a number that grows by 1 with each node of a graph."""
        untyped: Any = torch.autograd
        number: int = untyped._get_sequence_nr()
        return number

    def look(self, cell: Cell, activation: Activation, begun: int) -> None:
        """Looks at the graph of a forward, once for each number of nodes."""
        key = cell.path, cell.stage
        at = key, self.now() - begun
        if self._count == 1 or at in (self._hooked if key in self._found else self._looked):
            return
        found, leaves = _walk(activation)
        if found:
            self._found.add(key)
        if key not in self._found:
            self._looked.add(at)
            return
        self._hooked.add(at)
        modules = [self._placement.modules[key], self._placement.loss]
        held = [p for each in modules if each is not None for p in each.parameters()]
        for leaf in (*leaves, *held):
            if id(leaf) not in self._hooks and leaf.requires_grad:
                register: Any = leaf.register_hook
                self._hooks[id(leaf)] = leaf, register(self._divided)

    def _divided(self, gradient: Tensor) -> Tensor | None:
        return gradient / self._count if self._is_on else None

    def _is_whole(self, cell: Cell) -> bool:
        """Returns whether a stage runs backwards with whole gradients: all slices, both I and W."""
        if not self._found:
            return False
        key = cell.path, cell.stage
        at = key, cell.microbatch // self._slices
        return self._decided.setdefault(at, key in self._found)

    def scale_up(self, cell: Cell, roots: list[Root]) -> list[Root]:
        """Returns the gradients of outputs as the backward of a stage takes them."""
        if not self._is_whole(cell):
            return roots
        return [(edge, gradient * self._count) for edge, gradient in roots]

    def scale_down(self, cell: Cell, found: list[Tensor | None]) -> list[Tensor | None]:
        if not self._is_whole(cell):
            return found
        return [None if each is None else each / self._count for each in found]

    def backward(
        self, cell: Cell, inside: AbstractContextManager[None]
    ) -> AbstractContextManager[None]:
        """Runs a backward, which adds to the gradients of parameters, inside of a context."""
        return self._on(inside) if self._is_whole(cell) else inside

    @contextmanager
    def _on(self, inside: AbstractContextManager[None]) -> Iterator[None]:
        self._is_on = True
        try:
            with inside:
                yield
        finally:
            self._is_on = False
