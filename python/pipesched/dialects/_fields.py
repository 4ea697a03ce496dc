"""Fields of the classes of operations, in the terms of TableGen.

A field reads as an attribute of MLIR, or None where an optional one is not given. It takes such an
attribute, or a value of Python from which it makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _core, ir
from .._core import OpView
from ..schedule.rows import cells_of_row

Make = Callable[[ir.Context, Any], ir.Attribute]


def _integer(width: int) -> Make:
    return lambda context, value: ir.IntegerAttr.get(
        ir.IntegerType.get_signless(width, context), value
    )


MAKERS: dict[str, Make] = {
    "::mlir::StringAttr": lambda context, value: ir.StringAttr.get(value, context),
    "::mlir::FlatSymbolRefAttr": lambda context, value: ir.FlatSymbolRefAttr.get(value, context),
    "::mlir::DenseI32ArrayAttr": lambda context, value: ir.DenseI32ArrayAttr.get(value, context),
    "::mlir::DenseI64ArrayAttr": lambda context, value: ir.DenseI64ArrayAttr.get(value, context),
    "::mlir::UnitAttr": lambda context, value: ir.UnitAttr.get(context),
    "::mlir::IntegerAttr": _integer(64),
    "int64_t": _integer(64),
    "int32_t": _integer(32),
    "::pipesched::GradientAfter": lambda context, value: ir.StringAttr.get(value, context),
}
"""Functions that make attributes, by the type that holds these in C++. Others take attributes."""


class Field:
    """An attribute or a property."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.make = MAKERS.get(kind)

    def __get__(self, op: OpView, owner: type | None = None) -> Any:
        return dict(op.attributes.items()).get(self.name)

    def __set__(self, op: OpView, value: Any) -> None:
        if value is not None:
            op.attributes[self.name] = self.made(op, value)
        elif self.name in op.attributes:
            del op.attributes[self.name]

    def made(self, op: OpView, value: Any) -> ir.Attribute:
        if isinstance(value, ir.Attribute):
            return value
        if self.make is None:
            raise TypeError(f"{self.name} of {op.name} is an Attribute; got {value!r}")
        return self.make(op.context, value)


class Flag(Field):
    """A unit attribute, which is there or not."""

    def __get__(self, op: OpView, owner: type | None = None) -> bool:
        return self.name in op.attributes

    def __set__(self, op: OpView, value: bool | None) -> None:
        super().__set__(op, value or None)


class Enum(Field):
    """A value of an enum, as text."""

    def __init__(self, name: str, cases: dict[str, int]) -> None:
        self.name, self.cases = name, cases

    def __get__(self, op: OpView, owner: type | None = None) -> str | None:
        found = super().__get__(op)
        names = {case: name for name, case in self.cases.items()}
        return None if found is None else names.get(found.value)

    def made(self, op: OpView, value: Any) -> ir.Attribute:
        if isinstance(value, ir.Attribute):
            return value
        if value not in self.cases:
            wanted = ", ".join(self.cases)
            raise ValueError(f"{self.name} of {op.name} is one of {wanted}; got {value!r}")
        return _integer(32)(op.context, self.cases[value])


class Cell(Field):
    """A cell, as text such as `2F0`."""

    def __get__(self, op: OpView, owner: type | None = None) -> str | None:
        value = super().__get__(op)
        return None if value is None else _core.texts_of_cells(op, [value.value])[0]

    def made(self, op: OpView, value: Any) -> ir.Attribute:
        if isinstance(value, ir.Attribute):
            return value
        bits = _core.bits_of_cells(op, cells_of_row(0, [value]))
        if len(bits) != 1:
            raise ValueError(f"{self.name} of {op.name} is one cell; got {value!r}")
        return _integer(64)(op.context, bits[0])


class Optional(Field):
    """A property that may have no value: an array of one attribute or of none."""

    def __init__(self, inner: Field) -> None:
        self.name, self.inner = inner.name, inner

    def __get__(self, op: OpView, owner: type | None = None) -> Any:
        values = op.attributes[self.name]
        if isinstance(self.inner, Cell) and len(values):
            return _core.texts_of_cells(op, [values[0].value])[0]
        return values[0] if len(values) else None

    def __set__(self, op: OpView, value: Any) -> None:
        values = [] if value is None else [self.inner.made(op, value)]
        op.attributes[self.name] = ir.ArrayAttr.get(values, op.context)


class Cells(Field):
    """The entries of a row, as `pipesched.ir.set_row` takes them. The first ones, which a new row
    gets, leave the family of its schedule.
    """

    def __get__(self, op: OpView, owner: type | None = None) -> list[str]:
        return ir.get_row(op)

    def __set__(self, op: OpView, value: Any) -> None:
        if ir.get_row(op):
            ir.set_row(op, value)
        else:
            ir.fill_row(op, value)


class Part:
    """The operands, a result or a region of an operation."""

    def __init__(self, read: Callable[[OpView], Any]) -> None:
        self.read = read

    def __get__(self, op: OpView, owner: type | None = None) -> Any:
        return self.read(op)


def created(
    name: str,
    results: Iterable[str],
    operands: Sequence[Any],
    regions: int,
    loc: ir.Location | None,
    ip: ir.InsertionPoint | None,
) -> ir.Operation:
    """A new operation without attributes. Operands may be operations with one result."""
    context = loc.context if loc is not None else None
    types = [ir.Type.parse(text, context) for text in results]
    values = [each if isinstance(each, ir.Value) else each.result for each in operands]
    return ir.Operation.create(name, types, values, regions=regions, loc=loc, ip=ip)
