"""The part of JSON Schema that the schemas in docs/schemas use."""

import json
import math
import re
from typing import Any

from conftest import ROOT

TYPES: dict[str, Any] = {
    "number": (int, float),
    "integer": int,
    "string": str,
    "object": dict,
    "array": list,
    "null": type(None),
}


def read_schema(name: str) -> Any:
    """Reads a schema of docs/schemas, with definitions in the place of references to them."""
    file = ROOT / "docs" / "schemas" / f"{name}.schema.json"
    whole = json.loads(file.read_text())

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(each) for each in value]
        if not isinstance(value, dict):
            return value
        fields = {key: resolve(each) for key, each in value.items() if key not in ("$ref", "$defs")}
        if "$ref" not in value:
            return fields
        return resolve(whole["$defs"][value["$ref"].removeprefix("#/$defs/")]) | fields

    return resolve(whole)


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    """Returns whether a value has the form that the schema says."""
    if "oneOf" in schema:
        return sum(is_valid(choice, value) for choice in schema["oneOf"]) == 1
    if "enum" in schema:
        return bool(value in schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if isinstance(value, bool) or not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, (int, float)):
        above = float(schema.get("exclusiveMinimum", -math.inf))
        below = float(schema.get("exclusiveMaximum", math.inf))
        return above < value < below and value >= float(schema.get("minimum", -math.inf))
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(
            is_valid(schema["items"], item) for item in value
        )
    if isinstance(value, dict):
        known = schema["properties"]
        return set(schema.get("required", ())) <= set(value) <= set(known) and all(
            is_valid(known[name], each) for name, each in value.items()
        )
    return True
