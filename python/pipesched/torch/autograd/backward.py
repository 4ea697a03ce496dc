"""Backwards of one stage and microbatch: whole, or the gradient of the input first and the
gradients of the parameters later.

A node of the graph is *above* the inputs if a gradient flows through it to an input. I runs these
nodes, only for the inputs. For each node with edges that leave the part above the inputs, to
parameters below it, I notes the gradients with which it was run:

    output <- n1 <- n2 <- input        I runs n1 and n2 and notes g1 and g2
              |     |
              w1    w2                 W runs n1 with g1 for w1, and n2 with g2 for w2

W runs these nodes again with the noted gradients, only for the parameters. Parameters that meet in
a node are run together. If a parameter hangs on several nodes (a weight that is used twice), these
are run together, and each gets exactly the gradient that I noted, even if the run reaches it from
another one. A value that a stage computes only from its parameters has no node above the inputs: W
starts there from the outputs. A node that gives the gradients of its parameters in I too, whichever
gradients are requested (a custom function, a compiled graph), is not run again: W continues from
the gradients that I has kept of it, and the node is free after I. All parameter gradients are
accumulated by autograd itself, so that hooks of parameters run.

`torch.distributed.pipelining` works in a similar way. But it notes nothing for such outputs, and so
loses their gradients, and it passes hooks of tensors inside the stage a gradient that they have
already changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._functorch import config as functorch_config
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, _engine_run_backward, get_gradient_edge

from pipesched import Cell

from ..core.errors import PipelineError
from ..core.values import is_plain

Gradients = tuple[Tensor | None, ...]
Root = tuple[GradientEdge, Tensor]
"""Where the gradient of an output starts, and the gradient. The output itself is not kept."""


def root_of_loss(edge: GradientEdge) -> Root:
    untyped: Any = edge.node
    metadata = untyped._input_metadata[edge.output_nr]
    return edge, torch.ones(metadata.shape, dtype=metadata.dtype, device=metadata.device)


def roots_of(
    cell: Cell, outputs: list[GradientEdge | None], gradients: list[Tensor | None]
) -> list[Root]:
    if len(gradients) != len(outputs):
        raise PipelineError(
            f"{cell} received {len(gradients)} gradients for {len(outputs)} outputs"
        )
    return [
        (edge, gradient)
        for edge, gradient in zip(outputs, gradients, strict=True)
        if edge is not None and gradient is not None
    ]


def may_run_again(is_on: bool) -> AbstractContextManager[Any]:
    """Keeps the buffers of a compiled backward, which I and W both run."""
    untyped: Any = functorch_config
    patched: AbstractContextManager[Any] = untyped.patch(donated_buffer=False)
    return patched if is_on else nullcontext()


def _are_plain(tensors: Iterable[Tensor]) -> bool:
    return all(map(is_plain, tensors))


def _accumulate(
    edges: Sequence[GradientEdge], gradients: Sequence[Tensor], leaves: Sequence[Tensor] = ()
) -> None:
    """Adds gradients to these leaves, and keeps the graph, or to all, and releases it. Unlike
    `torch.autograd.backward` it compares no shapes, in Python, which takes as long as a small
    layer.
    """
    if not (_are_plain(gradients) and _are_plain(leaves)):
        chosen: Any = leaves or None
        torch.autograd.backward(edges, gradients, retain_graph=bool(leaves), inputs=chosen)
        return
    _engine_run_backward(
        tuple(edges),
        tuple(gradients),
        bool(leaves),
        False,
        tuple(leaves),
        allow_unreachable=True,
        accumulate_grad=True,
    )


def _gradients(roots: Sequence[Root], inputs: Sequence[GradientEdge]) -> Sequence[Tensor | None]:
    """Returns the gradients of inputs, by the same way; the graph is kept."""
    edges, given = tuple([edge for edge, _ in roots]), tuple([each for _, each in roots])
    if not _are_plain(given):
        return torch.autograd.grad(edges, inputs, given, retain_graph=True, allow_unused=True)
    return _engine_run_backward(
        edges, given, True, False, tuple(inputs), allow_unreachable=True, accumulate_grad=False
    )


def whole_backward(roots: Sequence[Root]) -> None:
    """Adds gradients to all leaves that the outputs depend on."""
    if roots:
        _accumulate([edge for edge, _ in roots], [given for _, given in roots])


@dataclass
class _Group:
    """Parameters, and the nodes above the inputs that lead to them."""

    nodes: list[Node]
    leaves: list[Tensor]
    kept: list[tuple[GradientEdge, Tensor]] = field(default_factory=list)
    """The edges out of the nodes with their gradients, if I gave all; then there are no nodes."""


@dataclass
class WeightBackward:
    """The work that I leaves for W."""

    groups: list[_Group] = field(default_factory=list)
    noted: dict[Node, Gradients] = field(default_factory=dict)
    loose: list[Root] = field(default_factory=list)
    """Roots of outputs through which no gradient flows to an input."""

    def run(self) -> None:
        """Adds gradients to the parameters, and releases the graph."""
        try:
            for group in self.groups:
                self._run(group)
        except RuntimeError as error:
            if "backward an extra time" in str(error):
                raise PipelineError(
                    "a part of the stage under selective checkpointing (context_fn of "
                    "torch.utils.checkpoint) lets only one backward through, and I and W are two: "
                    "take a schedule with B, as by transform('pipe-merge-backward'), or R cells"
                ) from error
            raise
        whole_backward(self.loose)
        self.groups, self.noted, self.loose = [], {}, []

    def tensors(self) -> list[Tensor]:
        noted = [t for given in self.noted.values() for t in given if t is not None]
        kept = [gradient for group in self.groups for _, gradient in group.kept]
        return [*noted, *kept, *(given for _, given in self.loose)]

    def _run(self, group: _Group) -> None:
        if group.kept:
            whole_backward(group.kept)
            return
        edges: list[GradientEdge] = []
        gradients: list[Tensor] = []
        handles = []
        for node in group.nodes:
            given = self.noted.get(node)
            if given is None:
                continue  # no gradient reached this node
            handles.append(node.register_prehook(_replacing(given)))
            for number, gradient in enumerate(given):
                if gradient is not None:
                    edges.append(GradientEdge(node, number))
                    gradients.append(gradient)
        try:
            if edges:
                _accumulate(edges, gradients, group.leaves)
        finally:
            for handle in handles:
                handle.remove()


def _replacing(given: Gradients) -> Callable[[Any], Any]:
    """Returns a hook that does not refer to its node: otherwise the node could not be collected."""
    return lambda _: given


def _noting(noted: dict[int, Gradients], number: int) -> Callable[[Any], None]:
    def note(gradients: Any) -> None:
        noted[number] = tuple(gradients)

    return note


def _keeping(kept: dict[int, Gradients], number: int, outside: list[int]) -> Callable[..., None]:

    def keep(gradients: Any, _: Any) -> None:
        found = tuple(gradients[i] for i in outside)
        if all(gradient is not None for gradient in found):
            kept[number] = found

    return keep


def _outside(node: Node, inner: set[Node]) -> list[int]:
    below = enumerate(node.next_functions)
    return [number for number, (other, _) in below if other is not None and other not in inner]


def _release(
    groups: Iterable[_Group], nodes: Sequence[Node], kept: dict[int, Gradients], inner: set[Node]
) -> None:
    """Replaces the nodes of groups if I gave all that W would compute from them."""
    number_of = {node: number for number, node in enumerate(nodes)}
    for group in groups:
        if all(number_of[node] in kept for node in group.nodes):
            for node in group.nodes:
                below = [node.next_functions[i] for i in _outside(node, inner)]
                given = kept[number_of[node]]
                group.kept += [
                    (GradientEdge(other, number), gradient)
                    for (other, number), gradient in zip(below, given, strict=True)
                    if other is not None and gradient is not None
                ]
            group.nodes = []


def reversed_edges(roots: Iterable[Node], ends: Collection[Node] = ()) -> dict[Node, list[Node]]:
    """By node of the graph above the ends: the nodes from which a gradient flows to it."""
    above: dict[Node, list[Node]] = {}
    stack = []
    for root in roots:
        if root not in above:
            above[root] = []
            stack.append(root)
    while stack:
        node = stack.pop()
        for below, _ in () if node in ends else node.next_functions:
            if below is None:
                continue
            if below not in above:
                above[below] = []
                stack.append(below)
            above[below].append(node)
    return above


def leaves_of(outputs: Iterable[Tensor], ends: Iterable[GradientEdge]) -> list[Tensor]:
    """Returns the leaves, without inputs, that get gradients from outputs."""
    roots = [get_gradient_edge(output).node for output in outputs if output.requires_grad]
    inputs = {edge.node for edge in ends}
    above = reversed_edges(roots, inputs)
    found = [getattr(node, "variable", None) for node in above if node not in inputs]
    return [leaf for leaf in found if leaf is not None]


def _reach(starts: Iterable[Node], above: dict[Node, list[Node]]) -> set[Node]:
    """Returns the nodes from which a gradient flows to the starts, which are included."""
    found = {start for start in starts if start in above}
    stack = list(found)
    while stack:
        for node in above[stack.pop()]:
            if node not in found:
                found.add(node)
                stack.append(node)
    return found


def _boundary(leaf: Node, above: dict[Node, list[Node]], inner: set[Node]) -> list[Node]:
    """Returns the nodes above the inputs from which a gradient flows to a leaf directly."""
    seen, stack = {leaf}, [leaf]
    found: dict[Node, None] = {}
    while stack:
        for node in above[stack.pop()]:
            if node in inner:
                found[node] = None
            elif node not in seen:
                seen.add(node)
                stack.append(node)
    return list(found)


def _groups(above: dict[Node, list[Node]], inner: set[Node]) -> list[_Group]:
    """Returns the leaves other than inputs, grouped so that groups have no node in common."""
    group_of: dict[Node, _Group] = {}
    groups: dict[int, _Group] = {}
    for node in above:
        leaf = getattr(node, "variable", None)
        if leaf is None or node in inner:
            continue
        nodes = _boundary(node, above, inner)
        if not nodes:
            continue  # only loose outputs depend on it
        merged = _Group([], [leaf])
        for old in {id(group_of[n]): group_of[n] for n in nodes if n in group_of}.values():
            merged.nodes += old.nodes
            merged.leaves += old.leaves
            del groups[id(old)]
        merged.nodes = list(dict.fromkeys([*merged.nodes, *nodes]))
        groups[id(merged)] = merged
        for each in merged.nodes:
            group_of[each] = merged
    return list(groups.values())


def input_backward(
    roots: Sequence[Root], inputs: Sequence[GradientEdge]
) -> tuple[list[Tensor | None], WeightBackward]:
    """Returns the gradients of the inputs (None if no output uses it) and the work left for W."""
    edges = [edge.node for edge, _ in roots]
    ends = {edge.node for edge in inputs}
    above = reversed_edges(edges, ends)
    inner = _reach(ends, above)
    rest = WeightBackward()
    rest.loose = [root for root, node in zip(roots, edges, strict=True) if node not in inner]
    through = [root for root, node in zip(roots, edges, strict=True) if node in inner]
    if not through:
        return [None] * len(inputs), rest
    rest.groups = _groups(above, inner)
    nodes = list(dict.fromkeys(node for group in rest.groups for node in group.nodes))
    noted: dict[int, Gradients] = {}
    kept: dict[int, Gradients] = {}
    handles = [node.register_prehook(_noting(noted, i)) for i, node in enumerate(nodes)]
    handles += [
        node.register_hook(_keeping(kept, i, _outside(node, inner)))
        for i, node in enumerate(nodes)
        if isinstance(node, BackwardCFunction)  # others compute the requested ones
    ]
    try:
        found = _gradients(through, inputs)
    finally:
        for handle in handles:
            handle.remove()
    _release(rest.groups, nodes, kept, inner)
    needed = {node for group in rest.groups for node in group.nodes}
    rest.noted = {nodes[i]: given for i, given in noted.items() if nodes[i] in needed}
    return list(found), rest
