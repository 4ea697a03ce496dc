"""The lists that type checkers read equal the enums of the library."""

from __future__ import annotations

import ast
import pathlib
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_type_hints

import pytest
from pipesched import Costs, PipeSchedError, _core
from pipesched.costs import deployment as _deployment
from pipesched.costs.deployment import (
    HABITS,
    HELD,
    OPTIONS,
    Deployment,
    DeploymentOptions,
    HeldOptions,
    raw,
    unlike,
)
from pipesched.support.options import ENUMS, Attention, Phase, Transport, code_of, names_of


@pytest.mark.parametrize(("choices", "name"), ENUMS.items(), ids=ENUMS.values())
def test_literals_are_the_names_of_the_library(choices: Any, name: str) -> None:
    listed = _core.enums()[name]
    assert len(set(listed)) == len(listed)
    assert get_args(choices) == names_of(choices)
    assert set(listed) - set(names_of(choices)) <= {"as-described"}
    for value in names_of(choices):
        assert listed[code_of(choices, name, value)] == value


def test_phases_are_those_of_the_library() -> None:
    assert set(get_args(Phase)) == {*_core.phases()} - {"_"}


def test_attention_as_described_is_none() -> None:
    assert _core.enums()["attention"][0] == "as-described"
    assert "as-described" not in names_of(Attention)


def test_unknown_names_say_what_is_known() -> None:
    known = ", ".join(_core.enums()["transport"])
    with pytest.raises(PipeSchedError, match=f"transport is one of {known}; got 'teleport'"):
        code_of(Transport, "transport", "teleport")


def test_other_literals_are_their_own_lists() -> None:
    colours = Literal["red", "green"]
    assert names_of(colours) == ("red", "green")
    assert code_of(colours, "colour", "green") == 1


def test_types_of_deployments_are_the_table() -> None:
    listed = {row[0].replace("-", "_"): row[1] for row in _core.deployment()}
    assert {name: option.kind for name, option in OPTIONS.items()} == listed
    hints = get_type_hints(DeploymentOptions)
    assert hints == {name: option.hint for name, option in OPTIONS.items()}
    assert {*HELD} == {*HeldOptions.__annotations__}
    defaults = {f.name: f.default for f in fields(Deployment)}
    unsaid = {name: None if name in HABITS else o.unsaid for name, o in OPTIONS.items()}
    assert defaults == unsaid
    assert tuple(defaults) == tuple(OPTIONS)


def declared(name: str) -> dict[str, tuple[str, Any]]:
    """The fields that type checkers read of a class, with types and defaults as written."""
    tree = ast.parse(pathlib.Path(_deployment.__file__).read_text(encoding="utf-8"))
    (found,) = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name)
    listed = (n for n in found.body if isinstance(n, ast.AnnAssign))
    return {
        ast.unparse(n.target): (ast.unparse(n.annotation), ast.literal_eval(n.value))
        for n in listed
        if n.value is not None
    }


def test_fields_for_type_checkers_are_the_table() -> None:
    known = {**vars(_deployment), "int": int, "float": float}
    held, chosen = declared("Held"), declared("Deployment")
    assert {*held} == {*HELD}
    assert {*held} | {*chosen} == {*OPTIONS}
    for name, (hint, default) in {**held, **chosen}.items():
        assert eval(hint, known) == OPTIONS[name].hint
        assert default == OPTIONS[name].unsaid


def test_unlike_lists_what_is_not_the_default() -> None:
    given = {"data_parallel": 4, "sharding": "none", "expert_balance": 1.5, "expert_parallel": 1}
    assert unlike(given) == {"data-parallel": 4, "expert-balance": 1.5}
    assert unlike(given, effective=True) == {"data-parallel": 4}
    assert unlike({}) == {}


def test_options_are_passed_by_name_and_text() -> None:
    costs = Costs(system="h100-sxm", data_parallel=4, expert_balance=1, sharding="full")
    assert raw(costs) == [("data-parallel", "4"), ("sharding", "full")]
    assert repr(costs) == "Costs(system='h100-sxm', data_parallel=4, sharding='full')"
    assert pickle.loads(pickle.dumps(costs)) == costs
    assert replace(costs, sharding="none").data_parallel == 4


NEW_ROW = """
import pipesched._core as core

rows = core.deployment()
row = ("toy-count", "count", "1", 9, "toys", "", "always", "Toys of a toy")
core.deployment = lambda: [*rows, row]

from pipesched import Costs, PipeSchedError
from pipesched.sweeps.grid import AXES
from pipesched.command import main, parser
from pipesched.command.options import passes
from pipesched.costs import deployment
from pipesched.planning.request import Request

assert AXES["toy_count"] is int
request = Request(model="llama3-8b", system="dgx-h100", gpus=8, global_batch=64)
assert request.toy_count == 1
given = ["--pp", "4", "--microbatches", "8", "--schedules", "1f1b", "--model", "llama3-8b"]
assert main(["simulate", *given, "--system", "dgx-h100"]) == 0
costs = ["--model", "llama3-8b", "--system", "dgx-h100", "--set", "toy-count=2"]
taken = parser().parse_args(["simulate", "1f1b", "--pp", "4", "--microbatches", "8", *costs])
(taken.system,) = taken.system  # of several
known = deployment.raw
deployment.raw = lambda costs: [each for each in known(costs) if each[0] != "toy-count"]
print(passes.attach_costs(taken)[0])
deployment.raw = known
try:
    Costs(system="h100-sxm", toy_count=3)
except PipeSchedError as error:
    print(error)
"""


def test_a_new_row_is_taken_everywhere() -> None:
    """Without a word in Python; the library, whose table is another, then refuses the option."""
    made = subprocess.run([sys.executable, "-c", NEW_ROW], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "toy count 1, " in made.stdout
    assert (
        "pipe-attach-system{name=dgx-h100 expert-dispatch=per-rank tensor-overlap=backward"
        " toy-count=2}" in made.stdout
    )
    assert "no training has an option 'toy-count'" in made.stdout
