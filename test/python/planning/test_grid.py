"""Grids: their axes, points, keys and files."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, get_type_hints

import pipesched
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipesched import Configuration, Costs, Grid, PipeSchedError, _core, sweep
from pipesched.sweeps.grid import AXES, COSTS, OPTIONS, RESERVE, configuration, integers
from points import SMALL

# Axes


def test_axes_are_the_arguments() -> None:
    """Every argument of Configuration and Costs is an axis, new ones too."""
    taken = {*get_type_hints(Configuration), *get_type_hints(Costs), *OPTIONS}
    taken -= {"options", "costs", "_raw", "_of_stages", "_division", "_assumed"}
    assert {*AXES} - {RESERVE} == taken
    assert not set(OPTIONS) & set(COSTS)


@given(st.integers(0, 999), st.integers(0, 999), st.integers(1, 99))
def test_integers(first: int, last: int, step: int) -> None:
    if first > last:
        with pytest.raises(ValueError, match="ascend"):
            integers(f"{first}:{last}:{step}")
        return
    assert integers(f"{first}:{last}:{step}") == list(range(first, last + 1, step))
    assert integers(f"{first},{last}") == [first, last]


@given(st.integers(1, 99), st.integers(1, 9999), st.integers(2, 9))
def test_integers_by_a_factor(first: int, last: int, factor: int) -> None:
    if first <= last:
        powers = [first * factor**i for i in range(20)]
        assert integers(f"{first}:{last}:x{factor}") == [n for n in powers if n <= last]


@pytest.mark.parametrize(
    "text", ["", "1,", "a", "-1", "1:", "1:2:0", "1:8:x1", "1:8:x", "0:8:x2", "1:9:x-2", "9" * 30]
)
def test_integers_that_are_none(text: str) -> None:
    if text == "1:":
        assert integers(text) == [1]
        return
    with pytest.raises(ValueError, match="expected"):
        integers(text)


def test_integers_have_an_end() -> None:
    with pytest.raises(ValueError, match="at most 1000000 numbers"):
        integers("1:9000000000000000000")


# Grids


def test_points_are_the_product() -> None:
    points = Grid(SMALL).points()
    # chunks are an axis of one of the four families
    assert len(points) == 2 * 2 * 2 * (3 + 2)
    assert len({point.key for point in points}) == len(points)
    assert [p.labels["family"] for p in points[:5]] == [
        "1f1b",
        "interleaved-1f1b",
        "interleaved-1f1b",
        "dualpipe",
        "zb-h1",
    ]
    made = configuration(points[1].inputs)
    assert (made.family, made.options) == ("interleaved-1f1b", {"chunks": 1})
    assert made.costs == Costs(times=SMALL["times"][0])


def test_without_family_it_is_all() -> None:
    points = Grid({"workers": 4, "microbatches": 8}).points()
    assert [point.inputs["family"] for point in points] == list(pipesched.families())


def test_parts_are_put_together() -> None:
    plain = {"family": "1f1b", "workers": 4, "microbatches": "8:16:8"}
    grid = Grid([plain, {**plain, "microbatches": "16:24:8"}, {**plain, "transport": "overlap"}])
    assert [point.inputs["microbatches"] for point in grid.points()] == [8, 16, 24]
    assert grid.axes == ("transport", "workers", "microbatches", "family")


@given(st.permutations(list(SMALL)), st.randoms())
def test_order_of_axes_does_not_matter(names: list[str], random: Any) -> None:
    given = {name: SMALL[name] for name in names}
    assert [p.key for p in Grid(given).points()] == [p.key for p in Grid(SMALL).points()]
    shuffled = {name: random.sample(values, len(values)) for name, values in SMALL.items()}
    assert {p.key for p in Grid(shuffled).points()} == {p.key for p in Grid(SMALL).points()}


def test_keys_are_those_of_another_process() -> None:
    code = f"""
        from pipesched import Grid
        print(*(point.key for point in Grid({SMALL!r}).points()))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert found.stdout.split() == [point.key for point in Grid(SMALL).points()]


def one_key(**axes: Any) -> str:
    (point,) = Grid({"family": "1f1b", "workers": 4, "microbatches": 8, **axes}).points()
    return point.key


def test_keys_are_of_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = one_key()
    same: dict[str, Any] = {"transport": "overlap", "disturbance": "", "model": None}
    assert all(one_key(**{axis: value}) == plain for axis, value in same.items())
    others = [
        one_key(**axes)
        for axes in (
            {"transport": "delay"},
            {"disturbance": "jitter=5%"},
            {"workers": 5},
            {"times": "F=1ms,B=2ms"},
            {"system": "toy"},
            {"split_backward": True},
            {"paths": [[[0, 1, 2, 3]]]},
        )
    ]
    assert len({plain, *others}) == 8
    monkeypatch.setattr(_core, "version", "99.0")
    assert one_key() != plain


def test_files_count_by_their_contents(tmp_path: Path) -> None:
    fields = pipesched.systems()["toy"]
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(fields))
    second.write_text(json.dumps(fields, indent=2))
    assert one_key(system=str(first)) == one_key(system=second) == one_key(system=fields)
    second.write_text(json.dumps({**fields, "description": "another"}))
    assert one_key(system=str(second)) != one_key(system=str(first))


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ({"systems": "toy"}, "unknown key 'systems', the closest is 'system'"),
        ({"system": "toi"}, "unknown system 'toi', the closest is 'toy'"),
        ({"system": 3}, "system: expected a name, a file or an object with its fields, found 3"),
        ({"system": "no/such.json"}, "cannot read 'no/such.json'"),
        ({"times": {"F": None}}, "times: "),
        ({"transport": "delai"}, "transport: unknown value 'delai', the closest is 'delay'"),
        ({"disturbance": 3}, "disturbance: expected a text such as worker3=1.3,jitter=5%, found 3"),
        ({"disturbance": "gpu3=2"}, "disturbance: expected worker<number>, stage<number>, jitter"),
        ({"disturbance": "worker3=fast"}, "disturbance: worker3: expected a factor"),
        ({"family": "1fb1"}, "the closest is '1f1b'"),
        ({"family": 1}, "family: expected a name, found 1"),
        ({"family": None}, "family: expected a value, found None"),
        ({"workers": []}, "workers: expected at least one value, found none"),
        ({"workers": 2.5}, "workers: expected an integer or a range such as 8:64:8, found 2.5"),
        ({"workers": True}, "workers: expected an integer"),
        ({"workers": "8:4"}, "workers: expected ranges that ascend, found '8:4'"),
        ({"chunks": 2}, "none of 1f1b has the option 'chunks'"),
        ({"split_backward": "yes"}, "split_backward: expected true or false, found 'yes'"),
        ({"paths": [[0, 1]]}, "paths: expected the workers of the stages of each path"),
        ({"paths": [[{"worker": [0]}]]}, "paths: unknown key 'worker', the closest is 'workers'"),
        ({"workers": "1:1001", "microbatches": "1:1000"}, "has 1,001,000 points, expected at most"),
    ],
)
def test_grids_that_are_none(axes: dict[str, Any], wanted: str) -> None:
    with pytest.raises(PipeSchedError) as raised:
        Grid({"family": "1f1b", "workers": 4, "microbatches": 8, **axes})
    assert wanted in str(raised.value)


def test_sizes_are_needed() -> None:
    with pytest.raises(PipeSchedError, match="needs the key 'microbatches'"):
        Grid({"workers": 4})


def test_other_names_of_axes() -> None:
    named = {"schedules": "VPP", "stages": 4, "microbatches": 8}
    assert [p.labels["family"] for p in Grid(named).points()] == ["interleaved-1f1b"]
    with pytest.raises(PipeSchedError, match="the keys 'workers' and 'stages' are the same"):
        Grid({"workers": 4, **named})


def test_labels_tell_apart() -> None:
    toy = pipesched.systems()["toy"]
    with pytest.raises(PipeSchedError, match="system: two are called 'toy'"):
        Grid({"workers": 4, "microbatches": 8, "system": [toy, {**toy, "description": "another"}]})


# Grids in files


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"workers": 4,\n "microbatches": [8 16]}', "grid.json:2:21: error: expecting ',' delim"),
        ("", "grid.json:1:1: error: expecting value"),
        ('{"workers": 4, "workers": 8}', "grid.json: the field 'workers' is given twice"),
        ('"1f1b"', "grid.json: expected an object with the axes of a grid"),
        ("[]", "grid.json: expected an object with the axes of a grid"),
        ("[" * 100_000, "grid.json: "),
        (b"\xff\xfe", "grid.json: byte 0 is not UTF-8"),
        ('{"workers": 4, "microbatch": 8}', "unknown key 'microbatch', the closest is 'microbatc"),
    ],
)
def test_files_that_are_none(text: str | bytes, wanted: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PipeSchedError) as raised:
        Grid.from_file(file)
    assert wanted in str(raised.value)


def test_file_with_axes_replaced(tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({**SMALL, "microbatches": "8:256:x2"}))
    keys = [point.key for point in Grid.from_file(file, microbatches=[3, 8]).points()]
    assert keys == [point.key for point in Grid(SMALL).points()]


def test_paths_of_ones_own() -> None:
    halves: list[Any] = [
        [[0, 1, 2, 2, 1, 0]],
        [{"workers": [0, 1, 2, 2, 1, 0], "weights": [1, 1, 1, 2, 2, 2]}],
        [
            {"workers": [0, 1, 2], "takes": [[0, 4, 2]]},
            {"workers": [2, 1, 0], "takes": [[1, 4, 2]]},
        ],
    ]
    grid = {"family": "greedy", "workers": 3, "microbatches": 4, "paths": halves}
    frame = sweep(grid)
    assert frame.error.isna().all()
    paths = [[0, 1, 2, 2, 1, 0]]
    alone = Configuration("greedy", 3, 4, paths=paths).simulate()
    assert frame.makespan_ps[0] == alone.execution.makespan_ps
    assert frame.stages.tolist() == [6, 6, 3]
