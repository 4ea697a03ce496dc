"""Cutting the graph of a stage into its functions.

    forward          what the output needs
    input_gradient   what the gradient of the input needs besides
    weight_gradient  the rest
    backward         both at once

What a later function reads of an earlier one is a residual. What only looks at a tensor in another
way, or needs no tensor, is not kept but computed again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from ._trace import Joint

aten = torch.ops.aten

_VIEWS = frozenset(
    "view reshape _unsafe_view permute transpose t expand unsqueeze squeeze slice select "
    "split split_with_sizes full full_like arange scalar_tensor zeros ones zeros_like "
    "ones_like".split()
)

Role = tuple[str, str]


@dataclass
class Part:
    """A function as a graph of its own, with a role for each argument and result."""

    kind: str
    graph: fx.Graph
    arguments: list[Role] = field(default_factory=list)
    results: list[Role] = field(default_factory=list)


def _is_cheap(node: fx.Node) -> bool:
    """Whether the node is computed again where it is read."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_cheap(node.all_input_nodes[0])
    return getattr(node.target, "_opname", "") in _VIEWS


def _ancestors(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes, and all that they need."""
    found: set[fx.Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return found


class Cutter:
    """Cuts one graph."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self.order = {node: number for number, node in enumerate(joint.module.graph.nodes)}
        starts = [node for node, role in joint.roles.items() if role[0] == "output_gradient"]
        self.back = set(starts)
        for node in joint.module.graph.nodes:
            if any(source in self.back for source in node.all_input_nodes):
                self.back.add(node)
        self.front = _ancestors([joint.output])
        self.inner = self._inner()
        for node in joint.module.graph.nodes:  # a result of an operation with several is with it
            for known in (self.front, self.inner):
                if node.target is operator.getitem and node.all_input_nodes[0] in known:
                    known.add(node)

    def _inner(self) -> set[fx.Node]:
        """The nodes of the backward that run in input_gradient. A stage whose input has no
        gradient runs there what several parameters need: the way back through its layers.
        """
        joint = self.joint
        if joint.input_gradient is not None:
            return _ancestors([joint.input_gradient]) & self.back
        above = [_ancestors([node]) & self.back for node in joint.gradients.values()]
        if not above:
            return set()
        longest = max(above, key=len)
        starts = set(joint.roles)
        return {
            node for node in longest if sum(node in each for each in above) > 1
        } - starts

    def parts(self) -> dict[str, Part]:
        """The functions."""
        joint = self.joint
        weights = [(("gradient", name), node) for name, node in joint.gradients.items()]
        inputs = [] if joint.input_gradient is None else [
            (("input_gradient", ""), joint.input_gradient)
        ]
        whole = self._part("backward", [*inputs, *weights], self.front)
        weight = self._part("weight_gradient", weights, self.front | self.inner)
        left = [
            (("residual", node.name), node)
            for node in self._read([weight])
            if node in self.inner
        ]
        inner = self._part("input_gradient", [*inputs, *left], self.front)
        kept = [
            (("residual", node.name), node)
            for node in self._read([whole, weight, inner])
            if node not in self.inner
        ]
        front = self._part("forward", [(("output", ""), joint.output), *kept], set())
        made = (front, whole, inner, weight)
        return {part.kind: part for part in made}

    def loss(self) -> Part:
        """The only function of a graph of a loss."""
        assert self.joint.input_gradient is not None
        results = [
            (("loss", ""), self.joint.output),
            (("output_gradient", ""), self.joint.input_gradient),
        ]
        return self._part("loss", results, set())

    def _read(self, parts: Sequence[Part]) -> list[fx.Node]:
        """The nodes that the parts take as residuals, in the order of the graph."""
        names = {name for part in parts for role, name in part.arguments if role == "residual"}
        return [node for node in self.order if node.name in names]

    def _part(
        self, kind: str, results: Sequence[tuple[Role, fx.Node]], known: set[fx.Node]
    ) -> Part:
        """The function that computes `results`, where nodes of `known` need not be computed."""
        needed, taken = self._needed([node for _, node in results], known)
        part = Part(kind, fx.Graph())
        copied: dict[fx.Node, fx.Node] = {}
        for node in sorted(taken, key=self.order.__getitem__):
            role = self.joint.roles.get(node) or self._role(node)
            part.arguments.append(role)
            copied[node] = _argument(part.graph, node)
        for node in sorted(needed, key=self.order.__getitem__):
            copied[node] = part.graph.node_copy(node, copied.__getitem__)
        values = []
        for role, node in results:
            part.results.append(role)
            values.append(_result(part.graph, copied[node], node, role))
        part.graph.output(tuple(values))
        return part

    def _role(self, node: fx.Node) -> Role:
        return ("output", "") if node is self.joint.output else ("residual", node.name)

    def _needed(
        self, wanted: Sequence[fx.Node], known: set[fx.Node]
    ) -> tuple[set[fx.Node], set[fx.Node]]:
        """What is computed, and what is taken from arguments."""
        needed: set[fx.Node] = set()
        taken: set[fx.Node] = set()
        stack = list(wanted)
        while stack:
            node = stack.pop()
            if node in needed or node in taken:
                continue
            if node in self.joint.roles or (node in known and not _is_cheap(node)):
                taken.add(node)
            else:
                needed.add(node)
                stack.extend(node.all_input_nodes)
        return needed, taken


def _convert(graph: fx.Graph, node: fx.Node, like: Any, dtype: torch.dtype) -> fx.Node:
    made = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
    made.meta["val"] = like.to(dtype)
    return made


def _argument(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """The argument that gives a node. Truth values are kept as bytes."""
    value = node.meta["val"]
    place = graph.placeholder(node.name)
    if value.dtype != torch.bool:
        place.meta["val"] = value
        return place
    place.meta["val"] = value.to(torch.int8)
    return _convert(graph, place, place.meta["val"], torch.bool)


def _result(graph: fx.Graph, node: fx.Node, source: fx.Node, role: Role) -> fx.Node:
    value = source.meta["val"]
    if role[0] != "residual" or value.dtype != torch.bool:
        return node
    return _convert(graph, node, value, torch.int8)
