"""The lists that type checkers read equal the enums of the library."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from pipesched import PipeSchedError, _core
from pipesched._options import ENUMS, Attention, Transport, code_of, names_of


@pytest.mark.parametrize(("choices", "name"), ENUMS.items(), ids=ENUMS.values())
def test_literals_are_the_names_of_the_library(choices: Any, name: str) -> None:
    listed = _core.enums()[name]
    assert len(set(listed)) == len(listed)
    assert get_args(choices) == names_of(choices)
    assert set(listed) - set(names_of(choices)) <= {"as-described"}
    for value in names_of(choices):
        assert listed[code_of(choices, name, value)] == value


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
