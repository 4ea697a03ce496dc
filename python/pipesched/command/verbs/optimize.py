"""`pipesched optimize`: the best schedule for given times and memory, and its quality."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pipesched
from pipesched import Costs, Diagnostic, Optimization, PipeSchedError, Schedule, _core
from pipesched.costs.division import pass_of
from pipesched.costs.layer_times import names_layers
from pipesched.costs.stage_times import has_phases
from pipesched.schedule.optimize import DEFAULT_TIME_LIMIT, Alternative, OptimizeOptions, the_pass
from pipesched.support.options import PlacementName, names_of
from pipesched.support.text import gib, readable
from pipesched.support.units import bytes_of, seconds_of

from ..explain import assumptions
from ..explain.rows import ending_of, memory_of, saved, without_ending
from ..options import files, passes, table
from ..options.arguments import (
    UsageError,
    add_costs,
    add_family_options,
    canonical,
    read_costs,
    read_own_options,
    tell_settings,
)
from ..options.entries import FromFile, times_by_schedule
from ..options.table import COSTS, RARE, Rare, positive, some_of, yes_or_no
from ..render.output import (
    FORMATS,
    Column,
    add_output,
    percent,
    progress,
    say,
    say_lines,
    seconds,
    write_rows,
    write_text,
)

EXAMPLE = """  pipesched optimize --pp 2 --microbatches 4 --activations 2 --offload \\
      --times F=10ms,I=12ms,W=8ms,D=14ms,U=14ms --time 5s -o best.mlir
  pipesched optimize schedule.mlir --times F=1ms,I=1ms,W=1ms --activations 4 --time 2s"""

INTERRUPTED = 130

DEFAULT_WAVES = 2
"""The default number of waves of the placement `wave`, as in `pipe-optimize`."""

COLUMNS = (
    Column("schedule", "schedule", left=True),
    Column("step", "makespan_s", seconds),
    Column("period", "period_s", seconds),
    Column("lower bound", "lower_bound_s", seconds),
    Column("gap", "gap", percent),
    Column("status", "status", left=True),
    Column("bound by", "bound", left=True),
    Column("found by", "origin", left=True, wraps=True),
    Column("before", "before_s", seconds),
    Column("placement", "placement", left=True),
    Column("B", "microbatch_size"),
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description} Ctrl-C ends the search and keeps the best so far."
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE|FAMILY",
        help="a problem or a schedule to start from: IR, bytecode or CSV; - for standard input; or"
        " a family",
    )
    table.add(parser, "name")
    add_family_options(parser)
    _add_freedoms(parser)
    chosen = [name for name in COSTS if name != "recompute"]
    add_costs(parser, chosen, many=("microbatch_size",), rare=_RARE)
    parser.set_defaults(recompute="none", schedule=None)
    _add_limits(parser)
    add_output(parser, FORMATS, columns=False)


_RARE = {
    "memory_times": RARE["memory_times"],
    "objective": RARE["objective"],
    "waves": Rare("a number: waves of the placement wave", positive),
    "split_backward": Rare("true|false: search cells of input and weight gradients", yes_or_no),
}


def _add_freedoms(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the search may do")
    table.add(group, "memory", "offload", "recompute", recompute=_CELLS)
    kinds = some_of(names_of(PlacementName))
    group.add_argument("--placements", type=kinds, metavar="LIST", help="try such as linear,v")


_CELLS = {"dest": "recompute_cells", "default": "none"}


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how long")
    table.add(group, "time", "seed", "threads")
    group.add_argument("--gap", type=_part, help="stop so near to the bound, such as 1%%")
    group.add_argument("--max-evaluations", type=positive, metavar="K", help="and after so many")
    group.add_argument("--cache", metavar="DIR", help="where the best schedules are kept")
    parser.set_defaults(folders={"cache": (".txt",)})


def _part(text: str) -> float:
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = -1
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a part below 100 %, such as 1%, found {text!r}")
    return value


# The problem


def _read(arguments: argparse.Namespace) -> tuple[files.Origin, Schedule]:
    sizes = ("workers", "microbatches", "schedule", "slices")
    given = [name for name in sizes if getattr(arguments, name) is not None]
    if arguments.own_options and not arguments.schedule:
        raise UsageError("--option is about the family to start from; none is given")
    if arguments.file:
        if given:
            raise UsageError(f"give either a file or {arguments.shown.get(given[0], given[0])}")
        origin, schedules = files.read(arguments)
        read = files.only(arguments, schedules)
        if read.kind == "program":
            where = files.show_path(arguments.file)
            raise PipeSchedError(f"{where}: {read.name} is a program; optimize takes schedules")
        return origin, read
    if arguments.name:
        raise UsageError("--name chooses from a file; none is given")
    if not arguments.workers or not arguments.microbatches:
        raise UsageError("give a file, or --pp and --microbatches")
    size = {"workers": arguments.workers, "microbatches": arguments.microbatches}
    if arguments.schedule:
        given_size = {**size, **_read_family(arguments)}
        return files.Origin(), pipesched.generate(arguments.schedule, name="schedule", **given_size)
    if arguments.slices:
        size["slices"] = arguments.slices
    return files.Origin(), pipesched.problem(name="schedule", **size)


def _read_family(arguments: argparse.Namespace) -> dict[str, Any]:
    cut = {"slices": arguments.slices} if arguments.slices else {}
    return {**cut, **read_own_options(arguments)}


def _check_work(arguments: argparse.Namespace) -> list[str]:
    """Placements under times of one stage do different amounts of work."""
    kinds = set(arguments.placements or ())
    if _is_by_placement(arguments):
        return []  # the same layers
    if len(kinds) < 2 or not arguments.times or not has_phases(arguments.times):
        return []
    if arguments.times_of != "stage":
        raise UsageError(
            f"the placements {', '.join(arguments.placements)} have different numbers of stages per"
            " worker, so that under times of one stage their steps do different amounts of work;"
            " give --set times-of=stage to search nevertheless, or times of layers (--set"
            " times-of=layer)"
            " or --model and --system, which divide the same layers"
        )
    return [
        "work differs: times are those of one stage, and placements with more stages per worker do"
        " more work in a step"
    ]


def _is_by_placement(arguments: argparse.Namespace) -> bool:
    """Whether placements are searched one by one, since times of layers are divided among them."""
    if not arguments.placements or not arguments.times:
        return False
    return arguments.times_of == "layer" or names_layers(arguments.times)


def _attach(arguments: argparse.Namespace, schedule: Schedule) -> list[str]:
    costs = read_costs(arguments)  # reports errors before a pass does
    entry = FromFile(files.Origin(), schedule, costs, {})
    is_placed = not arguments.placements or _is_by_placement(arguments)
    placed = [pass_of(entry.counts)] if is_placed and entry.counts is not None else []
    times = times_by_schedule([(schedule.name, entry)])
    return [*placed, *passes.attach_costs(arguments, times)]


def _place(arguments: argparse.Namespace, schedule: Schedule) -> dict[PlacementName, list[str]]:
    """By placement, the passes that place a problem and attach the times of the stages."""
    if not schedule.is_problem:
        raise UsageError(
            "the schedule has rows, which another placement would move; give --pp and"
            " --microbatches alone to search placements under times of layers, or leave"
            " --placements out"
        )
    sizes: dict[str, dict[str, Any]] = {
        "interleaved": {"chunks": arguments.chunks or passes.DEFAULT_CHUNKS},
        "wave": {"waves": arguments.waves or DEFAULT_WAVES},
    }
    found: dict[PlacementName, list[str]] = {}
    for kind in arguments.placements:
        place = passes.one_pass(f"pipe-place-{kind}", sizes.get(kind))
        found[kind] = [place, *_attach(arguments, schedule.transform(place))]
    return found


def _budget(arguments: argparse.Namespace) -> str | None:
    """The memory that schedules may take: bytes, or activations."""
    if arguments.activations is None:
        memory: str | None = arguments.memory
        return memory
    if arguments.memory is not None:
        raise UsageError("give either --activations or --memory, which are two budgets of memory")
    return str(arguments.activations)


def _options(arguments: argparse.Namespace) -> OptimizeOptions:
    given: dict[str, Any] = {
        "time_limit": seconds_of("time", arguments.time) if arguments.time else None,
        "offload": True if arguments.offload else None,
        "recompute": None if arguments.recompute_cells == "none" else arguments.recompute_cells,
    }
    for name in ("memory_times", "split_backward", "objective", "placements", "chunks"):
        given[name] = getattr(arguments, name)
    given["memory"] = _budget(arguments)  # in the order of the pass
    for name in ("waves", "microbatch_sizes", "gap", "max_evaluations", "seed", "threads", "cache"):
        given[name] = getattr(arguments, name)
    return cast(OptimizeOptions, {k: v for k, v in given.items() if v is not None})


# The budget

_EACH = re.compile(r"(.*?)\s*/\s*(gpu|accelerator)", re.IGNORECASE)
"""A budget may say that it holds for each accelerator, as it always does."""


def _scale_to_worker(options: OptimizeOptions, accelerators: int | None) -> OptimizeOptions:
    """The options with memory of a worker instead of each accelerator; without a system that is
    one.
    """
    given = str(options.get("memory", "")).strip()
    if not given[:1].isdigit() or given.isdigit():
        return options
    each = _EACH.fullmatch(given)
    if each is None and (accelerators or 1) == 1:
        return options
    size = bytes_of("memory", each[1] if each else given)
    return {**options, "memory": f"{size * (accelerators or 1)}B"}


def _budget_text(options: OptimizeOptions, accelerators: int | None) -> str:
    """The budget as text, also per accelerator if a worker has several."""
    if "memory" not in options:
        return ""
    given = str(options["memory"])
    if given.isdigit():
        return f", memory {given}"
    if not given[:1].isdigit():
        return f", memory of the {given}"
    size = bytes_of("memory", given)
    several = ""
    if accelerators is not None and accelerators > 1:
        several = f" of {accelerators} accelerators, {gib(size / accelerators)} each"
    return f", memory {gib(size)} a worker{several}"


# The search


def _limit_options(options: OptimizeOptions) -> OptimizeOptions:
    """The options for one of the placements: an equal part of the limits."""
    parts = len(options["placements"])
    rest = {k: v for k, v in options.items() if k not in ("placements", "chunks", "waves")}
    rest["time_limit"] = options.get("time_limit", DEFAULT_TIME_LIMIT) / parts
    if options.get("max_evaluations"):
        rest["max_evaluations"] = max(1, options["max_evaluations"] // parts)
    return cast(OptimizeOptions, rest)


def _reason(error: PipeSchedError) -> str:
    return error.diagnostics[0].message.removeprefix("'pipe.schedule' op ")


def _search_each(
    starts: Mapping[PlacementName, Schedule], options: OptimizeOptions, interrupted: Sequence[bool]
) -> Optimization:
    """Searches on each placement by itself. The lower bound is the lowest of all."""
    found: dict[PlacementName, Optimization] = {}
    failed: dict[PlacementName, PipeSchedError] = {}
    for kind, start in starts.items():
        if interrupted:
            failed[kind] = PipeSchedError("not searched")
            continue
        try:
            found[kind] = start.optimize(**options)
        except PipeSchedError as error:
            failed[kind] = error
    if not found:
        raise next(iter(failed.values()))
    best = min(found, key=lambda kind: found[kind].objective_ps)
    least = min(found.values(), key=lambda each: each.lower_bound_ps)
    is_proven = found[best].objective_ps == least.lower_bound_ps
    others = [
        Alternative(kind, None, each.objective_ps, False, None)
        for kind, each in found.items()
        if kind != best
    ]
    others += [
        Alternative(kind, None, None, False, _reason(error)) for kind, error in failed.items()
    ]
    status = found[best].status
    return replace(
        found[best],
        lower_bound_ps=least.lower_bound_ps,
        bound=least.bound,
        status="limit" if status == "optimal" and not is_proven else status,
        placement=best,
        others=tuple(others),
    )


def _search(
    arguments: argparse.Namespace, schedule: Schedule, options: OptimizeOptions
) -> tuple[Optimization, float | None, bool]:
    """The result, the step before the search, and whether Ctrl-C ended it."""
    limit = options.get("time_limit", DEFAULT_TIME_LIMIT)
    if _is_by_placement(arguments):
        placing = _place(arguments, schedule)
        starts = {kind: schedule.transform(",".join(made)) for kind, made in placing.items()}
        with keep_result() as interrupted, show_time(limit):
            found = _search_each(starts, _limit_options(options), interrupted)
        return found, None, bool(interrupted)
    attaching = _attach(arguments, schedule)
    start = schedule.transform(",".join(attaching)) if attaching else schedule
    before = _time_start(start)
    with keep_result() as interrupted, show_time(limit):
        found = start.optimize(**options)
    return found, before, bool(interrupted)


# The answer


def _time_start(schedule: Schedule) -> float | None:
    """The step of the rows that the search starts from."""
    if schedule.is_problem:
        return None
    return schedule.simulate(transport="delay").execution.makespan_ps / 1e12


def _row(found: Optimization, before: float | None) -> dict[str, Any]:
    report = found.schedule.simulate(transport="delay")
    step = report.execution.makespan_ps / 1e12
    is_period = found.objective == "period"
    return {
        "schedule": found.schedule.name,
        "workers": found.schedule.workers,
        "microbatches": found.schedule.microbatches,
        "objective": found.objective,
        "makespan_s": step,
        "period_s": found.objective_ps / 1e12 if is_period else None,
        "lower_bound_s": found.lower_bound_ps / 1e12,
        "gap": found.gap,
        "status": found.status,
        "bound": found.bound,
        "origin": found.origin,
        "before_s": before,
        "placement": found.placement,
        "microbatch_size": found.microbatch_size,
        "peak_bytes": memory_of(report, None)["peak_bytes"],
        "without_s": {n: None if ps is None else ps / 1e12 for n, ps in found.without.items()},
        "others": [
            {
                "placement": other.placement,
                "microbatch_size": other.microbatch_size,
                "objective_s": None if other.objective_ps is None else other.objective_ps / 1e12,
                "is_bound": other.is_bound,
                "reason": other.reason,
            }
            for other in found.others
        ],
    }


def _longer(objective_s: float | None, best_s: float, at_least: str = "") -> str:
    if objective_s is None:
        return "nothing fits"
    longer = objective_s / best_s - 1
    how = f"{percent(longer)} longer" if longer >= 5e-5 else "as long"
    return f"{seconds(objective_s)}{at_least}, {how}"


def _remarks(found: Optimization) -> list[str]:
    best = found.objective_ps / 1e12
    lines = [""]
    for name, without in found.without.items():
        other = None if without is None else without / 1e12
        lines.append(f"- without {name.replace('_', ' ')}: {_longer(other, best)}")
    for each in found.others:
        choice: list[str] = [each.placement] if each.placement else []
        choice += [f"microbatches of {each.microbatch_size}"] if each.microbatch_size else []
        if each.objective_ps is None:
            said = each.reason or "no schedule"
        else:
            at_least = " at least" if each.is_bound else ""
            said = _longer(each.objective_ps / 1e12, best, at_least)
        lines.append(f"- with {', '.join(choice)}: {said}")
    return lines if len(lines) > 1 else []


def _sizes(
    arguments: argparse.Namespace, costs: Costs | None, schedule: Schedule
) -> assumptions.Sizes:
    """The size of microbatches that the model's own batch gives, if no others are searched."""
    if costs is None or not costs.model or arguments.microbatch_sizes:
        return ()
    batch, pipelines = _core.sizes(costs._raw)["global_batch"], costs.data_parallel
    size, rest = divmod(batch, schedule.microbatches * pipelines)
    return [(schedule.microbatches, size)] if size and not rest else ()


def _defaults(
    arguments: argparse.Namespace, costs: Costs | None, schedule: Schedule, own: bool
) -> dict[str, str]:
    """The budget and the limits of the search, unless they are given."""
    if _budget(arguments) is not None:
        found = {"memory_times": "any"}
    elif (costs is not None and costs.model and costs.system) or (
        own and schedule._facts["has_system"]
    ):
        found = {"memory": "what the system has"}
    else:
        found = {"memory": "unlimited"}
    kinds = arguments.placements or ()
    if "interleaved" in kinds:
        found["chunks"] = str(passes.DEFAULT_CHUNKS)
    if "wave" in kinds:
        found["waves"] = str(DEFAULT_WAVES)
    if arguments.max_evaluations is None:
        found["time"] = f"at most {DEFAULT_TIME_LIMIT}s"
    return found


def _head_lines(arguments: argparse.Namespace, schedule: Schedule) -> list[str]:
    given, costs = assumptions.was_given(arguments), read_costs(arguments)
    entry = FromFile(files.Origin(), schedule, costs, {})
    own = costs is None and entry.has_own_costs()
    sizes, sliced = _sizes(arguments, costs, schedule), schedule.slices > 1
    facts = {} if own else assumptions.assume_costs(costs, given, sizes, sliced=sliced)
    is_placed = not arguments.placements and schedule.kind == "schedule"
    layers = assumptions.assume_layers([(costs, entry.counts)] if is_placed else [], given)
    free = {**_defaults(arguments, costs, schedule, own), "offload": "no", "recompute": "none"}
    timing = {**assumptions.assume_timing(free, given), **assumptions.assume_memory(costs, given)}
    work = [*_check_work(arguments), *tell_settings(arguments)]
    return [*work, *assumptions.head_lines({**facts, **layers, **timing}, [costs])]


def _accelerators(arguments: argparse.Namespace, schedule: Schedule) -> int | None:
    """The accelerators of a worker, by the options or else by the file; None if not known."""
    costs = read_costs(arguments)
    if costs is not None and costs.system:
        return costs._accelerators
    return saved(schedule).accelerators


def _tell_ending(ending: str | None, arguments: argparse.Namespace) -> list[str]:
    """The note on the end of the step that the rows of a file had."""
    if ending is None:
        return []
    added = ", and added again to what was written" if arguments.output else ""
    return [f"- the end of the step was taken off for the search{added}; times are without it"]


def _title(schedule: Schedule, options: OptimizeOptions, accelerators: int | None) -> str:
    budget = _budget_text(options, accelerators)
    sizes = f"{schedule.workers} workers, {schedule.microbatches} microbatches"
    return f"{sizes}{budget}, transport delay"


def _passes(
    arguments: argparse.Namespace,
    origin: files.Origin,
    schedule: Schedule,
    options: OptimizeOptions,
) -> str:
    made: list[str] = []
    if not arguments.file and arguments.schedule:
        family = canonical(arguments.schedule)
        size = schedule.workers, schedule.microbatches
        made = passes.generate(family, "schedule", *size, _read_family(arguments))
    elif not arguments.file:
        sizes = {
            "workers": schedule.workers,
            "microbatches": schedule.microbatches,
            "slices": arguments.slices,
        }
        made = [passes.one_pass("pipe-create", {"name": "schedule", **sizes})]
    ways = [_attach(arguments, schedule)]
    if _is_by_placement(arguments):
        ways = list(_place(arguments, schedule).values())
        options = _limit_options(options)
    lines = (passes.command_line([*made, *way, the_pass(options)], origin) for way in ways)
    return "\n".join(lines)


def _suffix(output: str | None) -> str | None:
    """The ending of the file to write, checked before the search."""
    if output is None:
        return None
    suffix = os.path.splitext(output)[1]
    if suffix not in files.ENDINGS:
        known = ", ".join(files.ENDINGS)
        raise PipeSchedError(f"cannot tell from {output!r} what to write; known endings: {known}")
    return suffix


def _for_people(found: Diagnostic) -> Diagnostic:
    """The diagnostic with sizes as people read them."""
    notes = tuple(map(_for_people, found.notes))
    return replace(found, message=readable(found.message), notes=notes)


def run(arguments: argparse.Namespace) -> int:
    """Searches, writes the schedule and prints its quality; 130 after Ctrl-C."""
    sizes = arguments.microbatch_size or []
    arguments.microbatch_size = sizes[0] if len(sizes) == 1 else None
    arguments.microbatch_sizes = sizes if len(sizes) > 1 else None
    if arguments.file:
        own, named = files.split_words([arguments.file])
        if len(named) > 1 or (named and arguments.schedule):
            raise UsageError("give one family to start from")
        arguments.file = own[0] if own else None
        arguments.schedule = named[0] if named else arguments.schedule
    (origin, schedule), options = _read(arguments), _options(arguments)
    options = _scale_to_worker(options, _accelerators(arguments, schedule))
    above, suffix = _head_lines(arguments, schedule), _suffix(arguments.output)
    ending = ending_of(schedule) if schedule.kind == "schedule" else None
    if arguments.show_passes:
        if ending is not None:
            raise PipeSchedError(
                f"{schedule.name} ends in optimizer steps, which no pass takes off; run without"
                " --show-passes"
            )
        write_text(_passes(arguments, origin, schedule, options) + "\n", None)
        return 0
    if ending is not None:
        schedule = without_ending(schedule)
    try:
        found, before, is_interrupted = _search(arguments, schedule, options)
    except PipeSchedError as error:
        say_lines(above)  # an assumption may be the reason why nothing was found
        raise PipeSchedError([*map(_for_people, error.diagnostics)]) from None
    if arguments.output and suffix:
        whole = found.schedule
        if ending is not None and suffix != ".csv":
            whole = whole.transform(ending)
        write_text(whole._contents(suffix), arguments.output)
    row = _row(found, before)
    answer = argparse.Namespace(format=arguments.format, output=None)
    title = _title(found.schedule, options, _accelerators(arguments, schedule))
    below = [*_remarks(found), *_tell_ending(ending, arguments)]
    write_rows(answer, [row], COLUMNS, title=title, above=above, remarks=below)
    if is_interrupted:
        say("interrupted; this is the best so far")
        return INTERRUPTED
    return 0


# Progress, and Ctrl-C


@contextlib.contextmanager
def keep_result() -> Iterator[list[bool]]:
    """Within this block Ctrl-C once ends the search with its result; the list records it."""
    seen: list[bool] = []

    def note(*_: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def show_time(limit: float) -> Iterator[None]:
    """Shows a bar of the time."""
    ended, begin = threading.Event(), time.monotonic()
    with progress() as show:

        def tick() -> None:
            while not ended.wait(0.2):
                show(min(limit, time.monotonic() - begin), limit)

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
