"""The part of JSON Schema that the schemas in docs/schemas use."""

import math
import re
from typing import Any

TYPES: dict[str, Any] = {
    "number": (int, float),
    "integer": int,
    "string": str,
    "object": dict,
    "array": list,
    "null": type(None),
}


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
