"""Fields of wrong types in every format of files that the command reads: an error, no traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched.command import main
from pipesched.planning import Shape
from test_command import Capture, rows_of, text_of

WRONG: list[Any] = [None, -1, 1e308, "nope", "\ud800", [], [None], {"nope": 1}]
SIZES = ["1f1b", "--pp", "2", "--microbatches", "4"]
ON = ["--system", "dgx-h100", "--microbatch-size", "1"]
PART = {"F": "4us", "I": 4, "W": "2us"}
LAYER: dict[str, Any] = {"attention": PART, "mlp": PART, "count": 2}
LAYER |= {name: {"F": "3us", "I": "3us"} for name in ("dispatch", "combine")}
STEP = {"model": "llama3-8b", "system": "dgx-h100", "gpus": 8, "global_batch": 8, "tensor": 2,
        "stages": 2, "schedule": "1f1b", "microbatch_size": 1, "sharding": "optimizer",
        "measured_s": 1.0}  # fmt: skip


def experts() -> Any:
    found = pipesched.models()["qwen3-30b-a3b"]
    return {key: found[key] for key in found if key != "sources"}


def system() -> Any:
    found = pipesched.systems()["dgx-h100"]
    return {key: found[key] for key in found if key != "sources"}


def plan() -> Any:
    limits: dict[str, Any] = {"gpus": 4, "global_batch": 4, "pp": [2], "tensor": [2]}
    limits |= {"schedules": ["interleaved-1f1b"], "chunks": [2], "recompute": ["none"], "top": 1}
    (row,) = pipesched.plan("llama3-8b", "dgx-h100", misses=0, **limits).to_dicts()
    read = ("name", "context_exchange", "schedule", "options", "paths", "request", "optimized")
    return {key: row[key] for key in (*read, "receive_placement", *Shape._fields) if key in row}


FILES: dict[str, tuple[Callable[[], Any], Callable[[str], list[str]]]] = {
    "grid": (
        lambda: {
            "family": ["1f1b", "zb-h1"], "workers": 2, "microbatches": "2:4:2",
            "transport": "overlap", "disturbance": "worker0=1.1", "paths": [[[0, 1]]],
            "times": {"F": "1ms", "B": ["2ms", "2ms"]}, "reserve": "5%", "expert_balance": 1.0,
        },
        lambda file: ["sweep", file, "--jobs", "1"],
    ),
    "plan": (plan, lambda file: ["whatif", file, "--memory", "80GB"]),
    "model": (experts, lambda file: ["simulate", *SIZES, *ON, "--model", file]),
    "system": (
        system, lambda file: ["simulate", *SIZES, *ON[2:], "--model", "toy", "--system", file]
    ),
    "Hugging Face": (
        lambda: json.loads((ROOT / "test/data/huggingface/gemma-3-1b.json").read_text()),
        lambda file: ["show", "--model", file],
    ),
    "times": (
        lambda: {"F": ["1ms", "2ms"], "B": "2ms", "comm": "1us"},
        lambda file: ["simulate", *SIZES, "--times", file],
    ),
    "times of layers": (
        lambda: {"layers": {"count": 8, "F": "1ms", "B": "2ms"}, "head": {"F": "1ms", "B": 2}},
        lambda file: ["simulate", *SIZES, "--times", file],
    ),
    "segments": (
        lambda: {"layers": [LAYER], "contention": {"compute": 1.1, "exchange": 1.0}},
        lambda file: ["overlap", file],
    ),
    "samples": (
        lambda: [{"kind": "network", "bytes": 10**n, "us": 10 + 10**n / 100} for n in (3, 4, 5)],
        lambda file: ["fit", file, "--system", "toy"],
    ),
    "steps": (lambda: [STEP], lambda file: ["fit", file]),
}  # fmt: skip
"""For each format a file, and a command line that reads it."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values below one; in lists of the first entry."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at a place."""
    changed = copy.deepcopy(value)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return changed


@pytest.mark.parametrize("name", FILES)
def test_fields_of_wrong_types(name: str, tmp_path: Path, capsys: Capture) -> None:
    made, line = FILES[name]
    value, file = made(), tmp_path / "file.json"
    file.write_text(json.dumps(value))
    assert main(line(str(file))) == 0, capsys.readouterr().err
    failed = []
    for path in places(value):
        for new in WRONG:
            file.write_text(json.dumps(put(value, path, new)))
            try:
                status = main(line(str(file)))
            except SystemExit as ended:
                status = int(ended.code or 0)
            except BaseException as error:
                failed.append(f"{path} = {new!r}: {type(error).__name__}: {error}")
                continue
            printed = capsys.readouterr()
            if status not in (0, 1, 2) or (status and not printed.err + printed.out):
                failed.append(f"{path} = {new!r}: {status}")
    assert failed == []


def test_reasons_are_shown_where_columns_are_chosen(tmp_path: Path, capsys: Capture) -> None:
    """A table without numbers says why, for any requested columns."""
    fields = {**pipesched.models()["toy"], "layers": 10, "name": "ten"}
    file = tmp_path / "ten.json"
    file.write_text(json.dumps(fields))
    line = ["simulate", "1f1b,gpipe", "--pp", "3", "--microbatches", "8", "--model", str(file)]
    line += [*ON, "--set", "balance=exact", "--columns", "schedule,step"]
    printed = text_of(capsys, *line, status=1)
    assert "why not" in printed and "10 layers" in printed
    plain = ["simulate", *SIZES, "--columns", "schedule,step"]
    assert "why not" not in text_of(capsys, *plain)


def test_reasons_of_changes_are_shown(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan()))
    line = ["whatif", str(file), "--pp", "3", "--columns", "change,step"]
    assert "not possible: " in text_of(capsys, *line, status=1)


@pytest.mark.parametrize("given", [None, [None, "worker0=1.2"]])
def test_no_disturbance_in_a_grid(given: Any, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "grid.json"
    grid = {"family": "1f1b", "workers": 4, "microbatches": 8, "disturbance": given}
    file.write_text(json.dumps(grid))
    steps = [row["step_s"] for row in rows_of(capsys, "sweep", str(file))]
    assert main(["sweep", str(file)]) == 0
    assert steps == sorted(steps) and len(steps) == (1 if given is None else 2)
