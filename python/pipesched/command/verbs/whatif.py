"""`pipesched whatif`: a row of a plan with single changes, and the effect of each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import pipesched
from pipesched import PipeSchedError
from pipesched.costs.settings import settings
from pipesched.planning import whatif as _whatif
from pipesched.planning.candidate import describe
from pipesched.planning.expenses import KEYS
from pipesched.planning.request import Request, renew
from pipesched.planning.search.disturbances import Slow
from pipesched.planning.whatif import Case, Change, Result
from pipesched.results.disturbances import KINDS, SEEDS
from pipesched.schedule.families import canonical
from pipesched.support.files import read_json
from pipesched.support.text import closest

from ..explain import disturbances
from ..options import table
from ..options.arguments import UsageError, source
from ..options.files import show_path
from ..options.paths import Named, check_read
from ..options.table import RARE, integers
from ..render.output import (
    EXPENSES,
    TABLES,
    Column,
    add_output,
    gibibytes,
    percent,
    seconds,
    thousands,
    write_rows,
)

EXAMPLE = """  pipesched plan --model llama3-8b --system dgx-h100 --gpus 64 --global-batch 128 \\
      --format json -o plan.json
  pipesched whatif plan.json --set network.bandwidth=0.5x --disturbance node3=1.1 --lose-node 1 \\
      --recompute selective --offload half"""


def _show_signed(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Shows a difference with its sign, unless its digits are all 0."""

    def signed(value: float) -> str:
        digits = show(abs(value))
        if not any(digit in digits for digit in "123456789"):
            return digits
        return f"{'+' if value > 0 else '-'}{digits}"

    return signed


COLUMNS = (
    Column("", "change", left=True, wraps=True),
    Column("step", "expected_s", seconds),
    Column("+/-", "step_ratio", _show_signed(percent)),
    Column("tokens/s", "tokens_per_s", thousands),
    Column("+/-", "tokens_ratio", _show_signed(percent), detail=2),
    Column("MFU", "mfu", percent, detail=1),
    *EXPENSES,
    Column("memory/GPU", "peak_bytes_per_gpu", gibibytes),
    Column("+/-", "peak_difference_bytes", _show_signed(gibibytes), detail=1),
    Column("fits", "fits", lambda fits: "yes" if fits else "no"),
    Column("why", "why", left=True, wraps=True, reason="error"),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="PLAN",
        help="of plan: what --format json wrote, or a file of --save; - for standard input",
    )
    group = parser.add_argument_group(
        "changes", "Each is a row of the table; several are also tried together."
    )
    table.add(
        group,
        *CHANGED,
        workers={"dest": "pp"},
        context_parallel={"dest": "context"},
        expert_parallel={"dest": "expert"},
        schedules={"dest": "schedule"},
        tokens={"dest": "total_tokens"},
        offload={"action": "store", "nargs": "?", "const": "all", "choices": _whatif.OFFLOADS},
    )
    rare = {name: RARE[name] for name in ("attention", "vocabulary")}
    table.add_set(parser, group, rare)
    group.add_argument(
        "--lose-node",
        type=_nodes,
        metavar="NUMBERS",
        help="without these nodes, such as 1 or 1,2: with the pipelines that are left, and planned"
        " again",
    )
    table.add(parser, "name")
    disturbances.add(parser)
    add_output(parser)


CHANGED = (
    *("system", "gpus", "recompute", "sharding", "precision", "transport", "offload", "tensor"),
    *(
        "context_parallel",
        "expert_parallel",
        "workers",
        "microbatch_size",
        "global_batch",
        "sequence",
        "chunks",
    ),
    *("schedules", "memory", "reserve", "tokens", "price"),
)


def _nodes(text: str) -> list[int]:
    if text.strip() == "0":
        return [0]
    parts = text.split(",")
    found = [0] if "0" in parts else []
    rest = ",".join(part for part in parts if part != "0")
    return found + (integers(rest) if rest else [])


# The plan


def _beside(path: str) -> str:
    """The numbers of a proposal that `plan --save` wrote next to its other files."""
    stem, ending = os.path.splitext(path)
    if ending not in (".mlir", ".svg", ".csv"):
        return path
    if not os.path.exists(f"{stem}.json"):
        raise PipeSchedError(
            f"{path}: a plan is the JSON of plan --format json, or of plan --save; there is no"
            f" {stem}.json"
        )
    return f"{stem}.json"


def _read(arguments: argparse.Namespace) -> Any:
    path: str = arguments.file
    if path == "-":
        text = sys.stdin.buffer.read()
    else:
        beside = _beside(arguments.file)
        check_read(arguments, [Named("PLAN", beside)])
        with open(beside, "rb") as file:
            text = file.read()
    try:
        return read_json(text.decode("utf-8-sig"))
    except ValueError as error:
        raise PipeSchedError(f"{show_path(path)}: expected the JSON of a plan: {error}") from None


def _row(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The row that was asked for, or the first."""
    rows = _read(arguments)
    rows = rows if isinstance(rows, list) else [rows]
    if not rows or not all(isinstance(row, dict) and "name" in row for row in rows):
        raise PipeSchedError(f"{show_path(arguments.file)}: expected the rows of a plan")
    if arguments.name is None:
        return rows[0]  # type: ignore[no-any-return]
    names = [str(row["name"]) for row in rows]
    if arguments.name not in names:
        hint = closest(arguments.name, names)
        raise PipeSchedError(f"the plan has no row {arguments.name!r}{hint}")
    return rows[names.index(arguments.name)]  # type: ignore[no-any-return]


# Changes


def _change_fields(arguments: argparse.Namespace) -> Iterator[Change]:
    for text in arguments.settings:
        yield Change(text, _whatif.set_fields([text]))
    settings(arguments.settings)  # refuses one field twice
    if arguments.system:
        system = source(arguments.system, pipesched.systems)
        yield Change(f"system {arguments.system}", _whatif.change_request(system=system))
    names = ("attention", "precision", "transport", "sequence", "memory", "reserve", "price")
    for name in (*names, "total_tokens"):
        if (value := getattr(arguments, name)) is not None:
            shown = name.removeprefix("total_")
            yield Change(f"{shown} {value}", _whatif.change_request(**{name: value}))


def _change_shape(arguments: argparse.Namespace) -> Iterator[Change]:
    if arguments.gpus:
        yield Change(f"{arguments.gpus} accelerators", _whatif.change_accelerators(arguments.gpus))
    if arguments.global_batch:
        batch = arguments.global_batch
        yield Change(f"global batch {batch}", _whatif.change_batch(batch))
    fields = {"pp": "pipeline"}
    for name in ("tensor", "context", "expert", "pp", "microbatch_size", "recompute", "sharding"):
        if (value := getattr(arguments, name)) is not None:
            changes = {fields.get(name, name): value}
            yield Change(f"{name.replace('_', ' ')} {value}", _whatif.change_shape(**changes))
    if arguments.schedule or arguments.chunks:
        parts = [arguments.schedule, arguments.chunks and f"chunks {arguments.chunks}"]
        family = arguments.schedule and canonical(arguments.schedule)
        changed = _whatif.change_schedule(family, arguments.chunks)
        yield Change(" ".join(filter(None, parts)), changed)
    if arguments.vocabulary:
        kind = arguments.vocabulary
        yield Change(f"vocabulary {kind}", _whatif.change_vocabulary(kind))


def _change_troubles(arguments: argparse.Namespace) -> Iterator[Change]:
    for what in KINDS:
        for number, factor in getattr(arguments, f"slow_{what}").items():
            slow: dict[str, Any] = {f"{what}s": {number: factor}}
            yield Change(f"{what} {number} x {factor}", _whatif.slow_down(Slow(**slow)))
    if arguments.jitter:
        yield Change(f"jitter {arguments.jitter}", _whatif.slow_down(Slow(jitter=arguments.jitter)))
    disturbances.check_seeds(arguments)
    if arguments.offload:
        yield Change(f"offload {arguments.offload}", _whatif.offload(arguments.offload))
    if arguments.lose_node:
        yield Change(_name_lost(arguments), _whatif.lose_nodes(arguments.lose_node))


def _name_lost(arguments: argparse.Namespace) -> str:
    nodes = arguments.lose_node
    return f"without node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"


def _changes(arguments: argparse.Namespace) -> list[Change]:
    found = [*_change_fields(arguments), *_change_shape(arguments), *_change_troubles(arguments)]
    if not found:
        raise UsageError("say what changes, such as --set network.bandwidth=0.5x")
    if len(found) == 1:
        return found
    all_of_them = Change("all together", lambda case: reduce(lambda c, f: f.apply(c), found, case))
    return [*found, all_of_them]


# Rows


def _numbers(plan: Result, found: Result) -> dict[str, Any]:
    """The row of an evaluated case."""

    def ratio(new: float | None, old: float | None) -> float | None:
        return new / old - 1 if new and old else None

    is_plan = found is plan
    peaks = found.peak_bytes, plan.peak_bytes
    difference = None if None in peaks else peaks[0] - peaks[1]  # type: ignore[operator]
    case, new = found.case, found.proposal
    return {
        "step_s": found.step_s,
        "expected_s": new.expected_s,
        "step_ratio": None if is_plan else ratio(new.expected_s, plan.proposal.expected_s),
        "tokens_per_s": found.tokens_per_s,
        "tokens_ratio": None if is_plan else ratio(found.tokens_per_s, plan.tokens_per_s),
        "mfu": new.mfu,
        "peak_bytes_per_gpu": found.peak_bytes,
        "peak_difference_bytes": None if is_plan else difference,
        "fits": None if found.peak_bytes is None else new.fits,
        "missing_bytes_per_gpu": None if found.peak_bytes is None else new.missing_bytes,
        "why": describe(case.candidate) if is_plan else _whatif.why(plan, found),
        "parts_s": found.parts_s,
        **found.expenses,
        "schedule": case.candidate.schedule,
        "vocabulary": case.candidate.vocabulary,
        "receive_placement": case.candidate.receives,
        "gpus": case.request.gpus,
        **{name: getattr(case.shape, name) for name in case.shape._fields},
    }


def _evaluate(change: Change, case: Case, plan: Result, seeds: int) -> dict[str, Any]:
    row: dict[str, Any] = {"change": change.text, "error": None}
    try:
        found = _whatif.evaluate(change.apply(case), seeds)
    except PipeSchedError as error:
        reason = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        return {**row, "error": reason}
    return {**row, **_numbers(plan, found)}


def _plan_again(
    row: Mapping[str, Any], request: Request, arguments: argparse.Namespace, plan: Result
) -> dict[str, Any]:
    """The best plan on the accelerators that are left, under the limits of the old one."""
    found: dict[str, Any] = {"change": f"{_name_lost(arguments)}, planned again", "error": None}
    try:
        given = renew(row["request"])
        given["gpus"] = _whatif.count_remaining(request, arguments.lose_node)
        made = pipesched.plan(given.pop("model", None), given.pop("system"), top=1, **given)
        if not made.fitting:
            raise PipeSchedError("nothing fits")
        best = made.fitting[0]
        result = _whatif.evaluate(Case(made.request, best.candidate))
    except PipeSchedError as error:
        reason = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        return {**found, "error": reason}
    return {**found, **_numbers(plan, result), "why": describe(best.candidate)}


def _title(arguments: argparse.Namespace, row: Mapping[str, Any], request: Request) -> str:
    system = request.system
    name = system.get("name", "a system") if isinstance(system, Mapping) else system
    return (
        f"{row['name']} of {show_path(arguments.file)}: {request.gpus} accelerators of {name},"
        f" {request.global_batch} sequences a step"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.show_passes:
        raise UsageError("--show-passes: plan --show-passes has those of each row")
    changes = _changes(arguments)
    row = _row(arguments)
    case = _whatif.case_of(row)
    seeds = arguments.seeds or SEEDS
    plan = _whatif.evaluate(case)
    rows = [{"change": "as planned", "error": None, **_numbers(plan, plan)}]
    rows += [_evaluate(change, case, plan, seeds) for change in changes]
    if arguments.lose_node:
        at = next(i for i, each in enumerate(rows) if each["change"] == _name_lost(arguments))
        rows.insert(at + 1, _plan_again(row, case.request, arguments, plan))
    asked = case.request.total_tokens, case.request.price, arguments.total_tokens, arguments.price
    if arguments.format in TABLES:
        for each in rows:
            if asked == (None,) * 4:
                each.update(dict.fromkeys(KEYS))
            each.setdefault("why", f"not possible: {each['error']}")
    write_rows(arguments, rows, COLUMNS, title=_title(arguments, row, case.request))
    return 0 if any(each["error"] is None for each in rows[1:]) else 1
