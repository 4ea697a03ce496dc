"""`pipesched sweep`: every combination of values, and the best schedule of each case."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pipesched
from pipesched import Costs, Grid, PipeSchedError
from pipesched.costs.costs import _times_text
from pipesched.costs.deployment import OPTIONS as OPTIONS_OF_TRAINING
from pipesched.costs.division import Counts
from pipesched.costs.stage_times import stages_per_worker
from pipesched.support.text import closest, plural, truth
from pipesched.sweeps import grid as _grid
from pipesched.sweeps.file import rows_of
from pipesched.sweeps.grid import AXES, OPTIONS, OWN_OPTIONS, Point, configuration, costs_of, kinds
from pipesched.sweeps.grid import COSTS as _COSTS
from pipesched.sweeps.sweep import lines_of

from ..explain import assumptions
from ..explain.ranking import METRICS, OF_WORK
from ..explain.rows import check_work
from ..options import passes, table
from ..options.arguments import UsageError, combine, source
from ..options.entries import FromFamily, times_by_schedule
from ..options.paths import READ, Named, check_read
from ..options.table import Rare, names, positive
from ..render.output import (
    CAUSES,
    TABLES,
    Column,
    View,
    add_output,
    other_text,
    progress,
    results,
    say,
    say_lines,
    seconds,
    table_text,
    terminal_width,
    view_of,
    wrap,
    write_text,
)

# Axes

FLAGGED = {
    **{name: name for name in table.OPTIONS if name in AXES},
    "family": "schedules",
    "memory": "activations",
}
"""The axes that have a separate option, and its name."""


def _disturbance(text: str) -> str:
    """Parses a disturbance; `none` is the first row of most comparisons."""
    return "" if text == "none" else text


_WITH_COMMAS: dict[str, Callable[[str], str]] = {"times": str, "disturbance": _disturbance}
"""Axes whose values have commas, so that each value takes a separate flag."""


def _cuts(axis: str) -> Callable[[str], list[str]]:
    """Parses names or sizes: `tokens,work` are two values, `4930,4238` is one."""
    option = OPTIONS_OF_TRAINING[axis]

    def read(text: str) -> list[str]:
        parts = names(text)
        apart = parts if any(part in option.choices for part in parts) else [text]
        try:
            if len(apart) > 1 and not all(part in option.choices for part in apart):
                raise PipeSchedError(
                    f"give each list of sizes its own --set {option.flag}, found {text!r}"
                )
            return [option.text(part) for part in apart]
        except PipeSchedError as error:
            raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None

    return read


def words_of(axis: str) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        parts = names(text)
        try:
            if kinds(axis) == (int,):
                return _grid.integers(text)
            if kinds(axis) == (bool,):
                return [truth(part) for part in parts]
            if axis not in ("family", "model", "system"):
                _grid.read_axis(axis, parts)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except PipeSchedError as error:
            raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None
        return parts

    return read


def _rare(axis: str) -> Rare:
    """An axis that `--set` gives. Repeated sizes of slices are further values."""
    is_sizes = axis in OPTIONS_OF_TRAINING and OPTIONS_OF_TRAINING[axis].kind == "sizes"
    summary = table.RARE[axis].summary if axis in table.RARE else axis.replace("_", " ")
    return Rare(summary, _cuts(axis) if is_sizes else words_of(axis), extends=is_sizes)


def add_axes(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each axis, and the rare ones to `--set`."""
    group = parser.add_argument_group("axes", "Lists of values of what one schedule has one of.")
    for axis, name in FLAGGED.items():
        if axis == OWN_OPTIONS:
            continue
        changed: dict[str, Any] = {"dest": f"axis_{axis}", "type": words_of(axis)}
        if axis in _WITH_COMMAS:
            changed |= {"action": "append", "type": _WITH_COMMAS[axis]}
        table.add(group, name, many=(name,), **{name: changed})
    table.add(group, "tensor", "own_options", many=("tensor",))
    flagged = {*FLAGGED, "paths", OWN_OPTIONS, *OPTIONS}
    rare = {axis: _rare(axis) for axis in AXES if axis not in flagged}
    table.add_set(parser, group, rare, prefix="axis_")


EXAMPLE = """  pipesched sweep --schedules 1f1b,VPP,zb-v --pp 4,8 --microbatches 8:64:x2 \\
      --model paper-gpt --system baseline,fast_nw_slow_cp -o sweep.jsonl"""

NUMBERS = (Column("step", "step_s", seconds), *results(*CAUSES, "expected_s"))
"""Rows of sweeps have no bands, so that their steps are as computed."""

MOST_COSTS = 200
"""The assumptions of a grid are listed if it has at most this number of costs."""

_SETTINGS = ("transport", "receive_placement", "forward_sends", "runtime", "optimizer_step")

# The command line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "grid",
        nargs="?",
        metavar="GRID",
        help="JSON file with axes, an object or an array of them; options replace its axes",
    )
    add_axes(parser)
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let GRID name families by places of Python functions, which are imported",
    )
    parser.add_argument(
        "--jobs", type=positive, metavar="J", help="processes; without it one per core"
    )
    parser.add_argument("--point", metavar="KEY", help="the only one that --show-passes shows")
    group = parser.add_argument_group("tables")
    table.add(group, "top", top={"default": 3})
    group.add_argument("--rank-by", choices=METRICS, default="step")
    group.add_argument(
        "--group-by",
        type=names,
        metavar="AXES",
        help="what makes a case; without it all but families and their options",
    )
    add_output(parser)


def _grid_of(arguments: argparse.Namespace) -> Grid:
    given = {axis: getattr(arguments, f"axis_{axis}", None) for axis in AXES}
    axes = {axis: values for axis, values in given.items() if values is not None}
    axes |= _read_family_axes(arguments)
    for axis, shipped in (("model", pipesched.models), ("system", pipesched.systems)):
        if axis in axes:
            axes[axis] = [source(text, shipped) for text in axes[axis]]
    if arguments.tensor:
        if (arguments.axis_context_parallel or [1]) != [1]:
            raise UsageError("--tp goes with --cp 1; else give --set accelerators, their product")
        if "accelerators" in axes:
            raise UsageError("give --tp or --set accelerators, which are tensor times context")
        axes["accelerators"] = arguments.tensor
    if arguments.settings:
        raise UsageError(
            f"--set {arguments.settings[0]}: files of systems and models are axes of a sweep; write"
            " a changed one with pipesched show --system NAME --set ... --format json"
        )
    if arguments.grid is not None:
        return Grid.from_file(arguments.grid, allow_code=arguments.allow_code, **axes)
    for axis in ("workers", "microbatches"):
        if axis not in axes:
            flag = arguments.shown[f"axis_{axis}"]
            raise UsageError(f"give {flag}, or a file with a grid")
    return Grid(axes)


def _read_family_axes(arguments: argparse.Namespace) -> dict[str, list[Any]]:
    """The axes that `--option` gives: options of families that ship, and of registered families."""
    axes: dict[str, list[Any]] = {}
    own = []
    for text in arguments.own_options or ():
        name, equals, values = (part.strip() for part in text.partition("="))
        axis = name.replace("-", "_")
        if axis not in OPTIONS or axis == OWN_OPTIONS or not equals:
            own.append(text)
            continue
        try:
            axes[axis] = words_of(axis)(values)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--option {name}: {error}") from None
    return axes | ({OWN_OPTIONS: combine(own)} if own else {})


def _check_files(arguments: argparse.Namespace, grid: Grid) -> None:
    """Refuses to write over files that the file with the grid names."""
    if arguments.grid is None:
        return
    named = [
        Named(f"a {axis} of {arguments.grid}", path)
        for part in grid.parts
        for axis in ("model", "system", "times", "family")
        for choice in part.get(axis, ())
        for path, _ in READ[f"axis_{axis}"](choice.value if isinstance(choice.value, str) else "")
    ]
    check_read(arguments, named)


def _cases(arguments: argparse.Namespace, grid: Grid) -> list[str]:
    """The axes that make up a case, within which schedules are ranked."""
    compared = ("family", "paths", *OPTIONS)
    if arguments.group_by is None:
        return [axis for axis in grid.axes if axis not in compared]
    for axis in arguments.group_by:
        if axis not in grid.axes:
            raise UsageError(f"--group-by: unknown axis {axis!r}{closest(axis, grid.axes)}")
    return list(dict.fromkeys(arguments.group_by))


# The table

Row = dict[str, Any]


PER_STAGE = Column("step per stage", "step_per_stage_s", seconds)
"""The measure to rank by if unit slots represent different amounts of work."""


def _better(metric: str) -> Callable[[Row], float]:
    key, sign = METRICS[metric]
    if metric == "step":
        return lambda row: float(row.get(PER_STAGE.key) or row["step_s"])
    return lambda row: sign * row[key]


def _has_no_costs(row: Row) -> bool:
    return not any(row.get(axis) for axis in ("model", "system", "times"))


def _per_stage(rows: Sequence[Row]) -> list[Row]:
    """The rows with their steps divided by the stages of a worker."""
    found: list[Row] = []
    for row in rows:
        is_timed = row["error"] is None and _has_no_costs(row)
        step = row["step_s"] * row["workers"] / row["stages"] if is_timed else None
        found.append({**row, PER_STAGE.key: step})
    return found


def _winners(rows: Sequence[Row], cases: Sequence[str], metric: str, top: int) -> Iterator[Row]:
    """The best rows of each case, ranked; equal ones share a rank."""
    measure = _better(metric)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row[METRICS[metric][0]] is not None:
            groups[json.dumps([row[axis] for axis in cases])].append(row)
    for group in groups.values():
        group.sort(key=measure)
        values = [measure(row) for row in group]
        for row, value in zip(group[:top], values, strict=False):
            yield {**row, "rank": 1 + values.index(value)}


def _show(value: Any) -> str:
    return value or "none" if isinstance(value, str) else json.dumps(value)


def _columns(grid: Grid, cases: Sequence[str], is_uneven: bool) -> list[Column]:
    """The columns of the table; layers of stages if they differ in a row."""
    varied = grid.varied()
    shown = [axis for axis in cases if axis in varied]
    shown += [axis for axis in varied if axis not in cases and axis != "family"]
    by_axis = {
        axis: Column(axis.replace("_", " "), axis, _show, left=kinds(axis) != (int,))
        for axis in shown
    }
    before = [by_axis[axis] for axis in shown if axis in cases]
    after = [by_axis[axis] for axis in shown if axis not in cases]
    own = [Column("rank", "rank"), Column("schedule", "family", left=True)]
    after = [*after, PER_STAGE]
    layers = [Column("layers", "layers", left=True)] if is_uneven else []
    return [*before, *own, *after, *NUMBERS, *layers]


def _check_times(grid: Grid, cases: Sequence[str], metric: str) -> list[str]:
    """Lines on cases in which the times of a stage are different work; only requests rank these."""
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    found: dict[str, Any] = {}
    for point in grid.points():
        inputs, labels = point.inputs, point.labels
        if "times" not in inputs:
            continue
        made = configuration({k: v for k, v in inputs.items() if k not in _COSTS})
        if made.places:
            case = json.dumps([labels.get(axis) for axis in cases])
            groups[case][_name_schedule(labels)] = stages_per_worker(made.places)
            found[case] = inputs
    lines: list[str] = []
    for case, group in groups.items():
        inputs = found[case]
        try:
            costs = Costs(**{axis: inputs[axis] for axis in _COSTS if axis in inputs})
        except PipeSchedError:
            continue  # rows have the errors of such costs
        of = inputs.get("times_of") if metric in OF_WORK else costs.times_of
        lines += check_work([group], costs, of, "--rank-by idle to rank by idle time")
    return list(dict.fromkeys(lines))


def _name_schedule(labels: Row) -> str:
    """A schedule of a case: the family with its options."""
    options = [f"{labels[name]} {name}" for name in OPTIONS if labels.get(name) is not None]
    return f"{labels['family']}{''.join(f' of {option}' for option in options)}"


def _assume(grid: Grid, rows: Sequence[Row]) -> list[str]:
    """The assumptions of points beyond the given axes."""
    given = grid.axes.__contains__
    settings = {n: v for n, v in Grid.defaults().items() if n in _SETTINGS}
    by_label = _costs_of(grid)
    costs = [each for _, each in by_label]
    sizes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["error"] is None and row["microbatch_size"]:
            size = row["microbatches"], row["microbatch_size"]
            sizes[json.dumps(row.get("model"))].append(size)
    families, cuts = grid.values()["family"], grid.values().get("slices", ())
    sliced = any(n in assumptions.OF_SLICED for n in families) or any((k or 1) > 1 for k in cuts)
    facts = [
        assumptions.assume_costs(
            *(each, given, sizes[label]),
            sliced=sliced,
            paired=assumptions.has_overlap(each, families),
        )
        for label, each in by_label
    ]
    facts.append(assumptions.assume_layers(_layers_of(grid), given))
    facts.append(assumptions.assume_timing(settings, given, costs))
    facts.append(assumptions.assume_families(families, given))
    facts.append(assumptions.assume_seed(grid.values().get("disturbance", ())))
    facts += [assumptions.assume_memory(each, given, reserve=True) for each in costs]
    return assumptions.head_lines(assumptions.join(facts), costs)


def _layers_of(grid: Grid) -> Iterator[tuple[Costs | None, Sequence[Counts] | None]]:
    """The costs of points and the layers of their stages, of at most some points."""
    for point in itertools.islice(grid.points(), MOST_COSTS):
        with contextlib.suppress(PipeSchedError):  # rows have the errors of such points
            made = configuration(point.inputs)
            yield made.costs, made._counts


def _costs_of(grid: Grid) -> list[tuple[str, Costs | None]]:
    """The costs of the grid, at most some of them, with their models as rows have them."""
    found: dict[str, tuple[str, Costs | None]] = {}
    for part in grid.parts:
        axes = [axis for axis in _COSTS if axis in part]
        for chosen in itertools.islice(itertools.product(*(part[a] for a in axes)), MOST_COSTS):
            values = zip(axes, chosen, strict=True)
            inputs = {axis: c.value for axis, c in values if c.value is not None}
            labels = {axis: c.label for axis, c in zip(axes, chosen, strict=True)}
            label = json.dumps(labels.get("model"))
            with contextlib.suppress(PipeSchedError):  # rows have the errors of such costs
                made = costs_of(inputs) if inputs else None
                found.setdefault(json.dumps(inputs), (label, made))
    return list(found.values())


def _title(grid: Grid, size: int) -> str:
    varied = grid.varied()
    fixed = {axis: value for axis, value in grid.values().items() if axis not in varied}
    said = [f"{axis.replace('_', ' ')} {_show(value)}" for axis, (value,) in fixed.items()]
    return ", ".join([plural(size, "point"), *said])


def _remark_winners(winners: Sequence[Row], cases: Sequence[str], metric: str) -> list[str]:
    first = [row for row in winners if row["rank"] == 1]
    if not first:
        return []
    found = {json.dumps([row[axis] for axis in cases]) for row in first}
    counts = Counter(row["family"] for row in first)
    listed = ", ".join(f"{family} {count:,}" for family, count in counts.most_common())
    return [f"- first by {metric} in {plural(len(found), 'case')}: {listed}"]


def _slots_differ(rows: Sequence[Row], cases: Sequence[str], metric: str) -> list[str]:
    """The first lines if unit slots represent different amounts of work in a case."""
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["error"] is None and _has_no_costs(row):
            case = json.dumps([row[axis] for axis in cases])
            groups[case][_name_schedule(row)] = row["stages"] / row["workers"]
    lines = check_work(list(groups.values()), None, None)
    if lines and metric == "step":
        ranked = "so that they are ranked by the step per stage of a worker"
        return [f"{line}, {ranked}" for line in lines]
    return lines


_OF_STEPS = ("microbatches", "microbatch_size", "data_parallel", "sequence", "model", "workers")
"""Axes that change the work of a step, if a case has several values of one."""


def _unlike_steps(rows: Sequence[Row], cases: Sequence[str], metric: str) -> list[str]:
    """The first lines if --group-by ranks steps with different amounts of work."""
    if metric != "step":
        return []
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["error"] is None:
            case = json.dumps([row[axis] for axis in cases])
            groups[case].add(json.dumps(_work_of(row)))
    if all(len(each) == 1 for each in groups.values()):
        return []
    values: dict[str, set[Any]] = {
        axis: {row.get(axis) for row in rows} for axis in _OF_STEPS if axis not in cases
    }
    listed = " and ".join(
        f"{axis.replace('_', ' ')} {', '.join(map(str, sorted(found)))}"
        for axis, found in values.items()
        if len(found) > 1 and None not in found
    )
    return [
        f"work differs: steps with {listed} are ranked with each other, and do different amounts of"
        " work; --rank-by idle, or with models mfu, compares parts of them"
    ]


def _work_of(row: Row) -> list[Any]:
    """The work of a step: sequences of a model, or microbatches and workers."""
    if row.get("model"):
        size = row["microbatch_size"] or 1
        batch = row["microbatches"] * size * (row.get("data_parallel") or 1)
        return [batch, row.get("sequence"), row["model"]]
    return [row["microbatches"], row["workers"]]


def _check_ranked(rows: Sequence[Row], metric: str) -> None:
    """Refuses a ranking by a column that no row has."""
    timed = [row for row in rows if row["error"] is None]
    if timed and all(row[METRICS[metric][0]] is None for row in timed):
        known = [name for name, (key, _) in METRICS.items() if any(row[key] for row in timed)]
        raise PipeSchedError(
            f"--rank-by {metric}: no point has such a value, which needs --model and --system; the"
            f" points have {', '.join(known)}"
        )


def _remark_errors(rows: Sequence[Row]) -> list[str]:
    failed: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["error"] is not None:
            failed[row["family"]].append(row["error"])
    return [
        f"- {family}: {len(errors):,} of {sum(row['family'] == family for row in rows):,} points"
        f" have no schedule or no time, the first: {errors[0].splitlines()[0]}"
        for family, errors in failed.items()
    ]


def _table(
    arguments: argparse.Namespace, grid: Grid, rows: Sequence[Row]
) -> tuple[list[Row], list[Column]]:
    """The best of each case, and the columns of their table."""
    cases = _cases(arguments, grid)
    winners = list(_winners(rows, cases, arguments.rank_by, arguments.top))
    is_uneven = any("+" in (row["layers"] or "") for row in winners)
    return winners, _columns(grid, cases, is_uneven)


def _text(
    arguments: argparse.Namespace, grid: Grid, rows: Sequence[Row], above: Sequence[str], view: View
) -> str:
    title = _title(grid, len(rows))
    winners, columns = _table(arguments, grid, rows)
    if arguments.format == "latex":
        return other_text("latex", winners, columns, title=title, above=above, view=view)
    cases = _cases(arguments, grid)
    remarks = [*_remark_winners(winners, cases, arguments.rank_by), *_remark_errors(rows)]
    width = terminal_width(arguments.output)
    lines = "".join(f"{wrap(remark, width)}\n" for remark in remarks)
    head = "".join(f"{wrap(line, width)}\n" for line in (title, *above))
    table = head + (table_text(winners, columns, view) if winners else "")
    return f"{table}\n{lines}" if lines else table


# The same as passes


def _as_arguments(point: Point) -> argparse.Namespace:
    """The point as arguments of other verbs."""
    labels = {axis: label for axis, label in point.labels.items() if label is not None}
    given = {**dict.fromkeys(AXES), **Grid.defaults(), **labels}
    inputs = point.inputs
    for axis in ("model", "system"):
        if isinstance(inputs.get(axis), dict):
            raise PipeSchedError(f"{axis} {given[axis]!r} has to be a file for passes to read it")
    if isinstance(inputs.get("times"), dict):
        given["times"] = _times_text(inputs["times"])
    if given["paths"] is not None:
        raise PipeSchedError("passes place schedules by their families, not on paths of one's own")
    return argparse.Namespace(**given)


def _passes(point: Point) -> str:
    given = _as_arguments(point)
    entry = FromFamily(configuration(point.inputs))
    options = {name: getattr(given, name) for name in OPTIONS}
    places = entry.places if entry.counts else ()
    size = given.workers, given.microbatches
    made = passes.generate(given.family, "schedule", *size, options, places)
    export = f"--export-report {passes.timing_options(given, given.disturbance)}"
    given.optimizer_step = entry.point.optimizer_step
    attached = passes.attach_costs(given, times_by_schedule([("schedule", entry)]), entry.costs)
    made += [*attached, *passes.end_step(given)]
    return passes.command_line(made, export=export) + "\n"


def _show_passes(arguments: argparse.Namespace, grid: Grid) -> int:
    points = grid.points()
    if arguments.point:
        points = [point for point in points if point.key.startswith(arguments.point)]
        if len(points) != 1:
            raise PipeSchedError(f"{len(points)} points have the key {arguments.point!r}")
    write_text("".join(map(_passes, points)), arguments.output)
    return 0


# Running


def _evaluate(arguments: argparse.Namespace, grid: Grid, file: str | None) -> list[str]:
    """The rows as JSON. After Ctrl-C, says whether the same command can continue."""
    done = total = 0

    def note(finished: int, of: int) -> None:
        nonlocal done, total
        done, total = finished, of
        show(finished, of)

    try:
        with progress() as show:
            return lines_of(grid, file=file, processes=arguments.jobs, progress=note)
    except KeyboardInterrupt:
        if file:
            say(f"{file} has {done:,} of {total:,} points; the same command goes on from there")
        else:
            say("nothing is kept; with -o FILE.jsonl the same command can go on")
        raise


def run(arguments: argparse.Namespace) -> int:
    """Evaluates the grid; fails if no point has a schedule."""
    grid, view = _grid_of(arguments), view_of(arguments)
    _check_files(arguments, grid)
    cases = _cases(arguments, grid)
    work = _check_times(grid, cases, arguments.rank_by)
    if arguments.show_passes:
        return _show_passes(arguments, grid)
    if arguments.point:
        raise UsageError("--point goes with --show-passes")
    kept = arguments.output if (arguments.output or "").endswith(".jsonl") else None
    lines = _evaluate(arguments, grid, kept)
    rows = rows_of(lines)
    slots = _slots_differ(rows, cases, arguments.rank_by)
    above = [*work, *slots, *_unlike_steps(rows, cases, arguments.rank_by), *_assume(grid, rows)]
    if arguments.format not in TABLES:
        say_lines(above)
        text = other_text(arguments.format, rows, ())
    else:
        ranked = _per_stage(rows) if slots and arguments.rank_by == "step" else rows
        _check_ranked(ranked, arguments.rank_by)
        text = _text(arguments, grid, ranked, above, view)
    write_text(text, None if kept else arguments.output)
    return 0 if any(row["error"] is None for row in rows) else 1
