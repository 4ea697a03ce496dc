"""From graphs of PyTorch to functions on tensors, by torch-mlir."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from . import EXTRA, FrontendError
from ._dropout import MASK, is_random, mask_code
from ._file import Function
from ._mlir import CLEAN_UP, foreign_operation, function_of, only_function, parse, with_values
from ._process import Failure, Worker
from ._trace import Joint, Part, module_of, op_name

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)
"""They are those of `torch_mlir.fx`, which prints errors and leaves a file where one
occurs.
"""
_LAST = f"builtin.module({CLEAN_UP})"


def torch_mlir() -> Any:
    """The module `torch_mlir.fx`. Raises FrontendError where it is not installed."""
    try:
        import torch_mlir.fx as found
    except ImportError as error:
        raise FrontendError(
            f"torch-mlir, which lowers the functions of stages, is not there ({error}); {EXTRA}"
        ) from error
    return found


class Lowering:
    """Lowers the functions of one graph in the process of a worker. `what` names it, for errors."""

    def __init__(self, joint: Joint, what: str, worker: Worker) -> None:
        self.what, self.worker = what, worker
        self.graph = joint.module.graph
        for node in self.graph.nodes:
            if node.op == "call_function" and is_random(node.target):
                raise FrontendError(
                    f"{what}: {self.place(node)} draws random numbers, which functions "
                    "of stages cannot; wanted none but those of dropout in the forward of a stage, "
                    "which the backward does not run again"
                )

    def place(self, node: fx.Node) -> str:
        """An operation with its module; one of the backward has that of the forward."""
        name = op_name(node)
        names = (name, name.removesuffix("_backward"))
        found = (n for n in self.graph.nodes if n.op == "call_function" and op_name(n) in names)
        module = next(filter(None, map(module_of, [node, *found])), "")
        return f"aten.{name}" + (f" of {module}" if module else "")

    def lower(self, part: Part) -> Function:
        what = f"{self.what}, {part.kind}"
        whole = part.graph
        masks = _take_masks(whole)
        try:
            text = self.text(whole, _PIPELINES if masks else (*_PIPELINES, _LAST))
            if masks:
                text = str(with_values(parse(text), part.arguments, masks))
                text = self.worker.lower(text, [_LAST])
        except Failure as failure:
            raise self._make_refusal(what, whole, str(failure)) from None
        module = parse(text)  # An operation does not keep its module.
        return function_of(only_function(module, what), part.arguments, part.results)

    def text(self, graph: fx.Graph, passes: Sequence[str] = _PIPELINES) -> str:
        """The graph as operations of LLVM. Raises Failure."""
        module = fx.GraphModule(torch.nn.Module(), graph)
        try:
            found = torch_mlir().stateless_fx_import(module, output_type="raw", model_name="main")
        except Exception as error:
            raise Failure(f"{type(error).__name__}: {error}") from error
        text = self.worker.lower(str(found), passes, "torch")
        if other := foreign_operation(text):
            raise Failure(f"needs {other}, which LLVM 22 does not have")
        return text

    def _make_refusal(self, what: str, graph: fx.Graph, said: str) -> FrontendError:
        """The error of a graph that cannot be lowered, by the first operation that cannot by
        itself.
        """
        tried = set()
        for node in graph.nodes:
            single, key = single_operation(node)
            if single is None or key in tried:
                continue
            tried.add(key)
            try:
                self.text(single)
            except Failure as failure:
                why = str(failure)
                if not why.startswith(("needs ", "ends ")):
                    why = "has no form in linalg"
                shapes = ", ".join(_shape_text(each) for each in node.all_input_nodes)
                given = f", for {shapes}" if shapes else ""
                return FrontendError(f"{what} cannot be lowered: {self.place(node)} {why}{given}")
        return FrontendError(f"{what} cannot be lowered: {' '.join(said.split())[:300]}")


def _shape_text(node: fx.Node) -> str:
    """`float32 [2, 3]`."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{value.dtype} {list(value.shape)}".removeprefix("torch.")


def single_operation(node: fx.Node) -> tuple[fx.Graph | None, Any]:
    """A graph of one operation, and what equal ones have in common."""
    if node.op != "call_function" or node.target is operator.getitem:
        return None, None
    graph = fx.Graph()
    copied = {}
    for each in node.all_input_nodes:
        copied[each] = graph.placeholder(each.name)
        copied[each].meta["val"] = each.meta["val"]
    made = graph.node_copy(node, copied.__getitem__)
    several = [user for user in node.users if user.target is operator.getitem]
    made_parts = [graph.node_copy(user, lambda _: made) for user in several]
    graph.output(tuple(made_parts or [made]))
    given = fx.map_arg((node.args, node.kwargs), _shape_text)
    return graph, (node.target, str(given), len(several))


def _take_masks(graph: fx.Graph) -> list[list[str]]:
    """Makes placeholders of the masks of dropout, behind all others; returns the code of each."""
    places = list(graph.find_nodes(op="placeholder"))
    found = [node for node in graph.nodes if node.op == "call_function" and node.target is MASK]
    codes, last = [], places[-1] if places else None
    for number, node in enumerate(found, len(places)):
        given = [f"%arg{places.index(each)}" for each in node.args[:3]]
        codes.append(mask_code(f"%arg{number}", node.args[3:], given))
        assert last is not None
        with graph.inserting_after(last):
            last = graph.placeholder(f"mask{number}")
        last.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    return codes
