"""Reading the functions that torch-mlir's copy of MLIR has lowered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from . import FrontendError
from ._file import Function, Port
from .partition import Role

CLEAN_UP = (
    "func.func(linalg-fold-unit-extent-dims, canonicalize, cse, linalg-fuse-elementwise-ops, "
    "canonicalize, cse)"
)
"""Passes that fuse chains of elementwise operations into one loop, which saves time in LLVM."""

_OTHERS = re.compile(r"= \"?(tm_tensor|ml_program|torch|torch_c|stablehlo|chlo)\.([A-Za-z0-9_.]+)")


def foreign_operation(text: str) -> str:
    """Returns an operation that LLVM does not have; empty if there is none."""
    found = _OTHERS.search(text)
    return f"{found[1]}.{found[2]}" if found else ""


def parse(text: str) -> Any:
    """The module of a text with upstream's operations."""
    from torch_mlir.ir import Context, Module

    return Module.parse(text, Context())


def only_function(module: Any, what: str) -> Any:
    """The only operation of a module, without assertions: compiled schedules check indices
    themselves.
    """
    operations = list(module.body.operations)
    if len(operations) != 1:
        names = ", ".join(sorted({str(each.operation.name) for each in operations}))
        raise FrontendError(f"{what} needs more than one function ({names})")
    found: list[Any] = []
    _collect_assertions(operations[0].operation, found)
    for assertion in found:
        assertion.erase()
    return operations[0]


def _collect_assertions(operation: Any, found: list[Any]) -> None:
    if operation.name == "cf.assert":
        found.append(operation)
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                _collect_assertions(inner.operation, found)


NUMBERS = ("microbatch", "step", "slice")
"""Roles of numbers, which are not tensors."""


def with_values(module: Any, roles: Sequence[Role], codes: Sequence[Sequence[str]]) -> Any:
    """The module whose function computes its last arguments by the lines of `codes`."""
    from torch_mlir.ir import Module

    function = next(iter(module.body.operations))
    kinds = [
        "i64" if role in NUMBERS else str(kind)
        for (role, _), kind in zip(roles, function.type.inputs, strict=False)
    ]
    given = ", ".join(f"%arg{number}: {kind}" for number, kind in enumerate(kinds))
    made = ", ".join(str(kind) for kind in function.type.results)
    body = function.operation.get_asm(use_local_scope=True).splitlines()[1:-1]
    lines = [line for code in codes for line in code]
    text = "\n".join([f"func.func @main({given}) -> ({made}) {{", *lines, *body, "}"])
    return Module.parse(text, module.context)


def function_of(lowered: Any, arguments: Sequence[Role], results: Sequence[Role]) -> Function:
    text = lowered.operation.get_asm(use_local_scope=True)
    kinds = lowered.type
    return Function(
        _ports(arguments, kinds.inputs),
        _ports(results, kinds.results),
        "\n".join(line[2:] for line in text.splitlines()[1:-1]),
    )


def _ports(roles: Sequence[Role], types: Any) -> tuple[Port, ...]:
    return tuple(
        Port(role, str(kind), name) for (role, name), kind in zip(roles, types, strict=True)
    )
