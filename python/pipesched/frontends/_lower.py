"""From graphs of PyTorch to functions on tensors, by torch-mlir."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from . import EXTRA, FrontendError
from ._cut import Part
from ._dropout import MASK, is_random, mask_code
from ._file import Function
from ._mlir import CLEAN_UP, foreign_operation, function_of, only_function, with_values
from ._trace import Joint, module_of, op_name

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)
"""They are those of `torch_mlir.fx`, which prints errors and leaves a file where one
occurs.
"""

_SCATTERS = ("scatter", "index_put", "index_add", "pool", "embedding_bag")
"""What is in the names of operations that write to places that the data says."""


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
    """Lowers the functions of one graph. `what` names it, for errors."""

    def __init__(self, joint: Joint, what: str) -> None:
        self.what = what
        self.graph = joint.module.graph
        for node in self.graph.nodes:
            if node.op == "call_function" and is_random(node.target):
                raise FrontendError(
                    f"{what}: {self._place(op_name(node))} draws random numbers, which functions "
                    "of stages cannot; wanted none but those of dropout in the forward of a stage, "
                    "which the backward does not run again"
                )

    def _place(self, name: str) -> str:
        """An operation with the module that it comes from. One of the backward has that of the
        forward.
        """
        names = (name, name.removesuffix("_backward"))
        found = (n for n in self.graph.nodes if n.op == "call_function" and op_name(n) in names)
        module = next(filter(None, map(module_of, found)), "")
        return f"aten.{name}" + (f" of {module}" if module else "")

    def lower(self, part: Part) -> Function:
        """The function of a part."""
        what = f"{self.what}, {part.kind}"
        masks = _take_masks(part.graph)
        module = fx.GraphModule(torch.nn.Module(), part.graph)
        found = torch_mlir()
        from torch_mlir.passmanager import PassManager

        try:
            lowered = found.stateless_fx_import(module, output_type="raw", model_name="main")
            with lowered.context:
                for pipeline in _PIPELINES:
                    PassManager.parse(pipeline).run(lowered.operation)
                if masks:
                    lowered = with_values(lowered, part.arguments, masks)
                PassManager.parse(f"builtin.module({CLEAN_UP})").run(lowered.operation)
        except Exception as error:
            raise self._refused(what, str(error)) from error
        function = only_function(lowered, what)
        if (other := foreign_operation(str(function))):
            raise self._scatters(what, part, other)
        return function_of(function, part.arguments, part.results)

    def _refused(self, what: str, said: str) -> FrontendError:
        found = re.search(r"torch\.aten\.([A-Za-z0-9_]+)|aten[:.]+([A-Za-z0-9_]+)", said)
        if found is None:
            lines = said.strip().splitlines() or ["for an unknown reason"]
            return FrontendError(f"{what} cannot be lowered: {' '.join(lines)[:300]}")
        place = self._place(found[1] or found[2])
        return FrontendError(f"{what} cannot be lowered: {place} has no form in linalg")

    def _scatters(self, what: str, part: Part, other: str) -> FrontendError:
        places = [
            self._place(op_name(node))
            for node in part.graph.nodes
            if any(name in op_name(node) for name in _SCATTERS)
        ]
        return FrontendError(
            f"{what} cannot be lowered: {', '.join(dict.fromkeys(places)) or 'its code'} needs "
            f"{other}, which LLVM 22 does not have"
        )


def _take_masks(graph: fx.Graph) -> list[list[str]]:
    """Makes placeholders of the masks of dropout, behind all others. Returns the code of each, for
    functions whose arguments are called `%arg0`, `%arg1`, and so on.
    """
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
