"""From graphs of PyTorch to functions on tensors, by torch-mlir."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx

from . import FrontendError
from ._cut import Part
from ._file import Function, Port
from ._trace import Joint, module_of, op_name

EXTRA = "pip install 'pipesched[frontends]'"


def torch_mlir() -> Any:
    """The module `torch_mlir.fx`. Raises FrontendError where it is not installed."""
    try:
        import torch_mlir.fx as found
    except ImportError as error:
        raise FrontendError(
            f"torch-mlir, which lowers the functions of stages, is not there ({error}); install "
            f"the extra that has it: {EXTRA}"
        ) from error
    return found


_RANDOM = frozenset(
    "bernoulli native_dropout rand randn rand_like randn_like randint normal uniform multinomial "
    "randperm exponential".split()
)


_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
    "builtin.module(func.func(linalg-fold-unit-extent-dims, canonicalize, cse, "
    "linalg-fuse-elementwise-ops, canonicalize, cse))",
)
"""Those of `torch_mlir.fx`, which prints errors and leaves a file where one occurs; then chains of
elementwise operations become one loop each, of which there would be several times as many.
"""


_SCATTERS = ("scatter", "index_put", "index_add", "pool", "embedding_bag")
"""What is in the names of operations that write to places that the data says."""


class Lowering:
    """Lowers the functions of one graph. `what` names it, for errors."""

    def __init__(self, joint: Joint, what: str) -> None:
        self.what = what
        self.graph = joint.module.graph
        for node in self.graph.nodes:
            if node.op == "call_function" and op_name(node) in _RANDOM:
                raise FrontendError(
                    f"{what}: {self._place(op_name(node))} draws random numbers, which functions "
                    "of stages cannot; set dropout to 0"
                )

    def _place(self, name: str) -> str:
        """An operation with the module that it comes from. One of the backward has that of the
        forward.
        """
        names = (name, name.removesuffix("_backward"))
        found = (n for n in self.graph.nodes if n.op == "call_function" and op_name(n) in names)
        module = next(filter(None, map(module_of, found)), "")
        return f"aten.{name}" + (f" of the module {module!r}" if module else "")

    def lower(self, part: Part) -> Function:
        """The function of a part."""
        what = f"{self.what}, {part.kind}"
        module = fx.GraphModule(torch.nn.Module(), part.graph)
        found = torch_mlir()
        from torch_mlir.passmanager import PassManager

        try:
            lowered = found.stateless_fx_import(module, output_type="raw", model_name="main")
            with lowered.context:
                for pipeline in _PIPELINES:
                    PassManager.parse(pipeline).run(lowered.operation)
        except Exception as error:
            raise self._refused(what, str(error)) from error
        return self._function(lowered, part, what)

    def _refused(self, what: str, said: str) -> FrontendError:
        found = re.search(r"torch\.aten\.([A-Za-z0-9_]+)|aten[:.]+([A-Za-z0-9_]+)", said)
        if found is None:
            lines = said.strip().splitlines() or ["for an unknown reason"]
            return FrontendError(f"{what} cannot be lowered: {' '.join(lines)[:300]}")
        place = self._place(found[1] or found[2])
        return FrontendError(f"{what} cannot be lowered: {place} has no form in linalg")

    def _function(self, module: Any, part: Part, what: str) -> Function:
        """Reads the only function of a lowered module."""
        operations = list(module.body.operations)
        if len(operations) != 1:
            names = ", ".join(sorted({str(each.operation.name) for each in operations}))
            raise FrontendError(f"{what} needs state outside of its functions ({names})")
        (function,) = operations
        _drop_assertions(function)
        text = function.operation.get_asm(use_local_scope=True)
        if (other := _OPS.search(text)) is not None:
            places = [
                self._place(op_name(node))
                for node in part.graph.nodes
                if any(name in op_name(node) for name in _SCATTERS)
            ]
            raise FrontendError(
                f"{what} cannot be lowered: {', '.join(dict.fromkeys(places)) or 'its code'} needs "
                f"{other[1]}.{other[2]}, which LLVM 22 does not have"
            )
        kinds = function.type
        return Function(
            _ports(part.arguments, kinds.inputs),
            _ports(part.results, kinds.results),
            "\n".join(line[2:] for line in text.splitlines()[1:-1]),
        )


_OPS = re.compile(r"= \"?(tm_tensor|ml_program|torch|torch_c)\.([A-Za-z0-9_.]+)")


def _ports(roles: list[tuple[str, str]], types: Any) -> tuple[Port, ...]:
    return tuple(
        Port(role, str(kind), name) for (role, name), kind in zip(roles, types, strict=True)
    )


def _drop_assertions(function: Any) -> None:
    """Compiled schedules check indices themselves (docs/Lowering.md)."""
    found: list[Any] = []

    def visit(operation: Any) -> None:
        if operation.name == "cf.assert":
            found.append(operation)
        for region in operation.regions:
            for block in region:
                for inner in block.operations:
                    visit(inner.operation)

    visit(function.operation)
    for operation in found:
        operation.erase()
