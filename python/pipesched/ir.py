"""IR as objects: modules are read, built, walked and changed, and passes run on them.

The names and their behaviour follow `mlir.ir` and `mlir.passmanager` of MLIR's own bindings, so
code that uses only these runs on both. Where these bindings end the process, such as after an op
was erased, an error is raised. A context knows the dialects `pipe` and `exec`, and the dialects of
MLIR that the tools know. Ops are `Operation`s; there are no classes of single ops.

>>> from pipesched import ir
>>> text = '''
... pipe.schedule @s workers 1 microbatches 1 {
...   path on [0]
...   worker 0 runs [0F0 0B0]
... }'''
>>> with ir.Context():
...     module = ir.Module.parse(text)
>>> [op.name for op in module.body.operations[0].regions[0].blocks[0]]
['pipe.path', 'pipe.worker']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING

from . import _core
from ._core import (
    ArrayAttr,
    Attribute,
    Block,
    BlockArgument,
    BoolAttr,
    Context,
    DenseI32ArrayAttr,
    DenseI64ArrayAttr,
    DiagnosticHandler,
    ExternalPass,
    FlatSymbolRefAttr,
    InsertionPoint,
    IntegerAttr,
    IntegerType,
    Location,
    Operation,
    OperationBase,
    OpOperand,
    OpResult,
    OpView,
    PassManager,
    Region,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    WalkOrder,
    WalkResult,
)
from ._core import IRModule as Module
from .errors import PipeSchedError
from .schedule.rows import Entry, cells_of_row

if TYPE_CHECKING:
    from .schedule.schedule import Schedule

__all__ = [
    "ArrayAttr",
    "Attribute",
    "Block",
    "BlockArgument",
    "BoolAttr",
    "Context",
    "DenseI32ArrayAttr",
    "DenseI64ArrayAttr",
    "DiagnosticHandler",
    "DiagnosticInfo",
    "DiagnosticSeverity",
    "ExternalPass",
    "FlatSymbolRefAttr",
    "InsertionPoint",
    "IntegerAttr",
    "IntegerType",
    "Location",
    "MLIRError",
    "Module",
    "OpOperand",
    "OpResult",
    "OpView",
    "Operation",
    "PassManager",
    "Region",
    "StringAttr",
    "Type",
    "UnitAttr",
    "Value",
    "WalkOrder",
    "WalkResult",
    "get_row",
    "set_row",
]

_Raw = tuple[int, Location, str, list["_Raw"]]


class DiagnosticSeverity(IntEnum):
    NOTE = 0
    WARNING = 1
    ERROR = 2
    REMARK = 3


@dataclass(frozen=True)
class DiagnosticInfo:
    """One diagnostic, with its notes."""

    severity: DiagnosticSeverity
    location: Location
    message: str
    notes: list[DiagnosticInfo]

    def __str__(self) -> str:
        return self.message


class MLIRError(Exception):
    """MLIR has refused an operation; `error_diagnostics` are the errors that it emitted."""

    def __init__(self, message: str, error_diagnostics: list[DiagnosticInfo]) -> None:
        self.message = message
        self.error_diagnostics = error_diagnostics
        super().__init__(message, error_diagnostics)

    def __str__(self) -> str:
        text = self.message + (":" if self.error_diagnostics else "")
        for error in self.error_diagnostics:
            for word, told in [("error", error), *((" note", note) for note in error.notes)]:
                place = str(told.location)[4:-1]
                text += f"\n{word}: {place}: " + told.message.replace("\n", "\n  ")
        return text


def info_of(raw: _Raw) -> DiagnosticInfo:
    """The diagnostic of what the library collected."""
    severity, location, message, notes = raw
    return DiagnosticInfo(DiagnosticSeverity(severity), location, message, [*map(info_of, notes)])


def error_of(message: str, diagnostics: list[_Raw]) -> MLIRError:
    """The error of the collected diagnostics."""
    return MLIRError(message, [*map(info_of, diagnostics)])


def get_row(operation: OperationBase) -> list[str]:
    """Returns the entries of a `pipe.worker` in order, as they are written: cells (`2F0`), pairs
    (`2F3+1B0`), idle slots (`_12`) and joins (`2d0`).
    """
    _check_row(operation)
    return _core.texts_of_cells(operation, list(operation.attributes["cells"]))


def set_row(operation: OperationBase, cells: str | Iterable[Entry]) -> None:
    """Replaces the entries of a `pipe.worker`, given as text or as `Schedule.from_rows` takes them.
    The schedule then belongs to no family; `operation.parent.verify()` checks the row.
    """
    fill_row(operation, cells)
    _core.drop_family(operation)


def fill_row(operation: OperationBase, cells: str | Iterable[Entry]) -> None:
    """Like `set_row`, but keeps the family: the row must be the one that the family has."""
    _check_row(operation)
    worker = operation.attributes["worker"].value
    bits = _core.bits_of_cells(operation, cells_of_row(worker, cells))
    operation.attributes["cells"] = DenseI64ArrayAttr.get(bits, operation.context)


def _check_row(operation: OperationBase) -> None:
    if operation.name != "pipe.worker":
        raise ValueError(f"the row of {operation.name} is wanted; only pipe.worker has one")


# Pipelines with passes of Python


def run_places(schedule: Schedule, pipeline: str) -> str | None:
    """Runs a pipeline that contains passes written in Python and returns the text of the result;
    None if the pipeline contains none.
    """
    from .schedule.registry import elements_of, function_at, is_place

    elements = elements_of(pipeline)
    if not any(map(is_place, elements)):
        return None
    module = schedule.module
    manager = PassManager("builtin.module", module.context)
    try:
        for are_places, group in groupby(elements, is_place):
            if not are_places:
                manager.add(",".join(group))
                continue
            for element in group:
                function = function_at(element, "pass")
                assert function is not None
                manager.add(function, name=element, argument=element)
        manager.run(module.operation)
    except PipeSchedError:
        raise
    except MLIRError as error:
        raise PipeSchedError(str(error)) from error
    except Exception as error:
        raise PipeSchedError(f"{pipeline}: {type(error).__name__}: {error}") from error
    return str(module)
