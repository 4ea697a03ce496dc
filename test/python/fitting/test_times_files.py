"""Files of times of layers: their schema and their reader agree, and errors name the place."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pipesched import Configuration, Costs, PipeSchedError
from schemas import is_valid, read_schema

SCHEMA: dict[str, Any] = read_schema("layer-times")
EXAMPLES: list[dict[str, Any]] = SCHEMA["examples"]
WRONG = ({"wrong": 1}, ["wrong"], "wrong", 7.5, -1, True)
BETWEEN_FIELDS = ("which the layers", "it is not said how many layers")
"""Mistakes that a schema cannot say."""


@pytest.fixture
def error_of(tmp_path: Path) -> Callable[[Any], str]:
    """Reads a file with this value, and says the error or nothing."""
    path = tmp_path / "times.json"

    def read(value: Any) -> str:
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        try:
            Costs(times=str(path), times_of="layer")
        except PipeSchedError as error:
            (said,) = error.diagnostics
            assert said.message.startswith(str(path))
            return said.message.removeprefix(str(path))
        return ""

    return read


def owners() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]]:
    """Each property of each example: a copy of the example, the schema of the object that has the
    property, this object in the copy, and the name.
    """
    for example in EXAMPLES:
        for name, value in example.items():
            whole = deepcopy(example)
            yield whole, SCHEMA, whole, name
            for inner in value if isinstance(value, dict) else ():
                whole = deepcopy(example)
                yield whole, SCHEMA["properties"][name], whole[name], inner


def test_examples_are_read(error_of: Callable[[Any], str]) -> None:
    for example in EXAMPLES:
        assert is_valid(SCHEMA, example)
        assert error_of(example) == ""


def test_examples_have_every_field() -> None:
    used: dict[str, set[str]] = {}
    for example in EXAMPLES:
        used.setdefault("", set()).update(example)
        for name, value in example.items():
            if isinstance(value, dict):
                used.setdefault(name, set()).update(value)
    known = {n: set(p["properties"]) for n, p in SCHEMA["properties"].items() if "properties" in p}
    assert used == {"": set(SCHEMA["properties"]), **known}


def test_wrong_types_are_refused(error_of: Callable[[Any], str]) -> None:
    for whole, _, owner, name in owners():
        for wrong in WRONG:
            owner[name] = wrong
            assert is_valid(SCHEMA, whole) == (not error_of(whole)), (name, wrong)


def test_what_is_required(error_of: Callable[[Any], str]) -> None:
    for whole, schema, owner, name in owners():
        del owner[name]
        said = error_of(whole)
        if name in schema.get("required", ()):
            assert not is_valid(SCHEMA, whole) and said, name
        else:
            assert is_valid(SCHEMA, whole), name
            assert not said or any(reason in said for reason in BETWEEN_FIELDS), (name, said)


@pytest.mark.parametrize("part", ["", "layers", "embedding", "head"])
def test_unknown_fields_are_refused(part: str, error_of: Callable[[Any], str]) -> None:
    whole = deepcopy(EXAMPLES[0])
    (whole[part] if part else whole)["nonsense"] = "1ms"
    assert not is_valid(SCHEMA, whole)
    assert "nonsense" in error_of(whole)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"layers": {"F": "1ms",\n  "B" "2ms"}}', ":2:7: Expecting ':' delimiter"),
        ("[]", ": expected an object such as"),
        ('{"layers": {"F": "1ms", "F": "2ms"}}', ": the field 'F' is given twice"),
        (
            '{"layers": {"F": ["1ms", "1ms", "1m"], "B": "2ms"}}',
            ": times of layers, layers: F[2]: expected a unit (ps, ns, us, ms or s) after '1',",
        ),
        (
            '{"layers": {"count": 2, "F": "1ms"}, "head": {"F": "fast"}}',
            ": times of layers, head: F: expected a time such as 1.5ms, found 'fast'",
        ),
        ('{"layers": {"count": 2, "F": "1ms"}, "head": 5}', ": times of layers: expected head to"),
    ],
)
def test_damage_is_found(text: str, said: str, error_of: Callable[[Any], str]) -> None:
    assert error_of(text).startswith(said)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(PipeSchedError, match=r"none\.json: No such file"):
        Costs(times=str(tmp_path / "none.json"), times_of="layer")


def test_files_of_both_kinds_name_their_schema(tmp_path: Path) -> None:
    schema = "docs/schemas/any.schema.json"
    path = tmp_path / "times.json"
    path.write_text(json.dumps({"$schema": schema, "F": ["1ms", "2ms"], "B": "3ms"}))
    stages = Configuration("1f1b", 2, 4, costs=Costs(times=str(path))).simulate()
    assert stages.execution.busy_ps.tolist() == [16 * 10**9, 20 * 10**9]
    layers = {"$schema": schema, "layers": {"F": ["1ms", "2ms"], "B": "3ms"}}
    path.write_text(json.dumps(layers))
    costs = Costs(times=str(path))
    assert costs.times_of == "layer"
    assert Configuration("1f1b", 2, 4, costs=costs).simulate() == stages
