#!/usr/bin/env python3
# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a module with a class for each operation of a dialect, from the records of TableGen.

The classes are as `mlir-tblgen -gen-python-op-bindings` would write them. That generator, of LLVM
22.1, leaves out properties and takes them for operands, so it cannot be used here.

Usage: gen-python-ops.py DIALECT RECORDS OUTPUT, where `llvm-tblgen --dump-json` wrote RECORDS.
"""

import json
import keyword
import sys

HEAD = '''"""Classes of the operations of `{dialect}`, written by utils/gen-python-ops.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import InsertionPoint, Location, OpView, register_operation
from . import _fields
'''
CLASS = '''

@register_operation
class {name}(OpView):
    """{summary}."""

    OPERATION_NAME = "{full}"
    _ODS_REGIONS = ({regions}, True)

    def __init__(
        self,
{arguments}
    ) -> None:
        made = _fields.created("{full}", {results}, {operands}, {regions}, loc, ip)
        super().__init__(made)
{stores}

{fields}
'''
CELLS = "::std::vector<::pipesched::Cell>"
RESERVED = {
    *keyword.kwlist,
    "name",
    "parent",
    "block",
    "context",
    "location",
    "operands",
    "results",
}
"""Names that Python or OpView uses otherwise; the field has an underscore after its name."""


class Argument:
    """An attribute or property: its field, and whether it must be given."""

    def __init__(self, records, name, record):
        self.name = f"{name}_" if name in RESERVED else name
        kinds = record["!superclasses"]
        optional = record.get("isOptional", 0) or "DefaultValuedAttr" in kinds
        self.is_needed = not (optional or record.get("defaultValue"))
        kind = record["storageType"].strip()
        inner = kind.removeprefix("::pipesched::exec::Compact").removeprefix("std::")
        self.is_optional_property = inner.startswith(("Optional<", "optional<"))
        if self.is_optional_property:
            kind = inner[len("optional<") : -1]
        base = records[record["baseAttr"]["def"]] if record.get("baseAttr") else record
        cases = [records[case["def"]] for case in base.get("enumerants", ())]
        names = {case["str"]: case["value"] for case in cases}
        self.field = (
            f'_fields.Enum("{name}", {names})'
            if names
            else f'_fields.{self.class_of(kind)}("{name}", "{kind}")'
        )
        if self.is_optional_property:
            self.field = f"_fields.Optional({self.field})"

    @staticmethod
    def class_of(kind):
        names = {CELLS: "Cells", "::pipesched::Cell": "Cell", "::mlir::UnitAttr": "Flag"}
        return names.get(kind, "Field")


def type_of_result(records, kind):
    """Returns the text of a result's type, which has no parameters."""
    record = records[kind["def"]]
    return f"!{records[record['dialect']['def']]['name']}.{record['mnemonic']}"


def write_class(records, dialect, op):
    arguments, operands = [], "[]"
    fields = {}
    for kind, name in op["arguments"]["args"]:
        record = records[kind["def"]]
        if "TypeConstraint" in record["!superclasses"]:
            if operands != "[]":
                sys.exit(f"error: {op['opName']} has several groups of operands; wanted one")
            operands = name
            fields[name] = "_fields.Part(lambda op: op.operands)"
        else:
            arguments.append(Argument(records, name, record))
            fields[arguments[-1].name] = arguments[-1].field
    for index, (_, name) in enumerate(op["results"]["args"]):
        fields[name] = f"_fields.Part(lambda op: op.results[{index}])"
    for index, (_, name) in enumerate(op["regions"]["args"]):
        fields[name] = f"_fields.Part(lambda op: op.regions[{index}])"
    lines = [f"{each.name}: Any" for each in arguments if each.is_needed]
    lines += [f"{operands}: Sequence[Any] = ()"] if operands != "[]" else []
    lines += ["*", *(f"{each.name}: Any = None" for each in arguments if not each.is_needed)]
    lines += ["loc: Location | None = None", "ip: InsertionPoint | None = None"]
    stores = [
        f"self.{each.name} = {each.name}"
        if each.is_needed
        else f"if {each.name} is not None:\n            self.{each.name} = {each.name}"
        for each in arguments
    ]
    return CLASS.format(
        name=op["!name"].removeprefix(dialect.title() + "_"),
        summary=op["summary"],
        full=f"{dialect}.{op['opName']}",
        regions=len(op["regions"]["args"]),
        arguments="\n".join(f"        {line}," for line in lines),
        results=[type_of_result(records, kind) for kind, _ in op["results"]["args"]],
        operands=operands,
        stores="\n".join(f"        {store}" for store in stores),
        fields="\n".join(f"    {name} = {field}" for name, field in fields.items()),
    )


def main():
    dialect, source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        records = json.load(file)
    named = [records[name] for name in records["!instanceof"]["Op"]]
    ops = [op for op in named if records[op["opDialect"]["def"]]["name"] == dialect]
    classes = [write_class(records, dialect, op) for op in ops]
    with open(target, "w", encoding="utf-8") as file:
        file.write(HEAD.format(dialect=dialect) + "".join(classes))


if __name__ == "__main__":
    main()
