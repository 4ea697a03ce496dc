"""The functions of a traced stage as graphs of PyTorch."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ._partition import Graph, Piece, Role, loss_piece, stage_pieces
from ._trace import Joint, op_name

aten = torch.ops.aten

_VIEWS = frozenset(
    "view reshape _unsafe_view permute transpose t expand unsqueeze squeeze slice select "
    "split split_with_sizes full full_like arange scalar_tensor zeros ones zeros_like "
    "ones_like dropout_mask".split()
)


@dataclass
class Part:
    """A function as a graph of its own, with a role for each argument and result."""

    kind: str
    graph: fx.Graph
    arguments: list[Role]
    results: list[Role]


def _is_cheap(node: fx.Node) -> bool:
    """Whether the node is computed again where it is read, as masks of dropout, which need no
    tensor.
    """
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_cheap(node.all_input_nodes[0])
    return op_name(node) in _VIEWS


def _graph_of(joint: Joint) -> Graph[fx.Node]:
    nodes = [node for node in joint.module.graph.nodes if node.op != "output"]
    return Graph(
        order=nodes,
        inputs=lambda node: node.all_input_nodes,
        roles=joint.roles,
        output=joint.output,
        input_gradient=joint.input_gradient,
        gradients=joint.gradients,
        name=lambda node: node.name,
        is_cheap=_is_cheap,
        whole={n: n.all_input_nodes[0] for n in nodes if n.target is operator.getitem},
    )


def stage_parts(joint: Joint) -> list[Part]:
    return [_part(piece) for piece in stage_pieces(_graph_of(joint)).values()]


def loss_part(joint: Joint) -> Part:
    return _part(loss_piece(_graph_of(joint)))


def _part(piece: Piece[fx.Node]) -> Part:
    graph = fx.Graph()
    copied = {node: _argument(graph, node) for _, node in piece.taken}
    for node in piece.computed:
        copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(tuple(_result(graph, copied[n], n, role) for role, n in piece.results))
    return Part(
        piece.kind, graph, [role for role, _ in piece.taken], [role for role, _ in piece.results]
    )


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
