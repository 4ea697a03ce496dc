"""`pipesched plan`: the configuration to run on a number of accelerators, and why."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pipesched
from pipesched import Configuration, Costs
from pipesched.costs import deployment as _deployment
from pipesched.costs.costs import Description
from pipesched.costs.division import SPREAD
from pipesched.costs.frameworks import FRAMEWORKS, LauncherName, bytes_text
from pipesched.planning import Limits, Plan, Proposal, Request
from pipesched.planning.expenses import expense_lines
from pipesched.planning.launch.launchers import needs_csv
from pipesched.planning.launch.passes import ENDING, attach_costs, place
from pipesched.planning.layer_times import header_lines
from pipesched.planning.request import FIELDS
from pipesched.planning.space.heads import spread_by
from pipesched.planning.space.space import may_overlap, may_slice
from pipesched.results.disturbances import steps_of
from pipesched.schedule.schedule import Schedule
from pipesched.support.options import Recompute, VocabularyKind, names_of, raw_options
from pipesched.support.units import reserve_text

from ..explain import answers, assumptions, disturbances
from ..options import passes, table
from ..options.arguments import UsageError, passes_error, read_descriptions, tell_settings
from ..options.entries import Size
from ..options.table import RARE, some_of
from ..render import drawings, page
from ..render.output import (
    TABLES,
    add_output,
    json_text,
    progress,
    say,
    view_of,
    write_rows,
    write_text,
)
from ..render.plans import COLUMNS, PAGE_COLUMNS, drop_alike, same_line

EXAMPLE = """  pipesched plan --model llama3-70b --system dgx-h100 --gpus 64 --global-batch 256
  pipesched plan --model llama3-8b --system dgx-h100 --gpus 16 --global-batch 64 \\
      --schedules 1f1b,VPP,zb-v --recompute none,full --top 3 --format json"""


def _add_costs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("costs")
    table.add(
        group,
        *("times", "transport", "precision", "rates", "memory", "reserve"),
        transport={"default": "overlap"},
        precision={"default": "bf16"},
        rates={"default": "auto"},
    )
    names = ("times_of", "attention", "sequence_parallel", *_deployment.HELD)
    rare = {name: RARE[name] for name in names}
    # By default the framework's, or all that it has.
    exchange = RARE["context_exchange"]
    rare |= {
        "context_exchange": replace(exchange, default=None),
        "pair_order": replace(RARE["pair_order"], default=None),
        "vocabulary": replace(RARE["vocabulary"], type=some_of(names_of(VocabularyKind))),
    }
    table.add_set(parser, group, rare)


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description} The exit status is 1 if nothing fits."
    required = {"required": True}
    table.add(
        parser,
        *("model", "system", "gpus", "global_batch", "sequence"),
        system=required,
        gpus=required,
        global_batch=required,
    )
    _add_choices(parser)
    _add_costs(parser)
    table.add(
        parser, "framework", framework={"dest": "launcher", "choices": names_of(LauncherName)}
    )
    parser.add_argument(
        "--optimize",
        metavar="TIME",
        help="also look for better rows for the best settings, such as 30s in all",
    )
    parser.add_argument("--explain", action="store_true", help="why, for each of them")
    table.add(parser, "tokens", "price", tokens={"dest": "total_tokens"})
    table.add(parser, "top", "save", top={"default": 10})
    drawings.add_draw(parser, ("html",))
    parser.set_defaults(folders={"save": (".mlir", ".svg", ".csv", ".json", ".sh")})
    disturbances.add(parser)
    add_output(parser)


CHOICES = (
    *("schedules", "tensor", "workers", "context_parallel", "expert_parallel"),
    *("microbatch_size", "chunks", "recompute", "sharding"),
)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "what to choose from", "Lists; by default all that makes sense."
    )
    table.add(
        group,
        *CHOICES,
        many=CHOICES,
        workers={"dest": "pp"},
        context_parallel={"dest": "context"},
        expert_parallel={"dest": "expert"},
        recompute={"default": list(names_of(Recompute))},
    )


# The plan


def _limits(arguments: argparse.Namespace) -> Limits:
    names_of_limits = {*Limits.__annotations__, *_deployment.HELD} - {"set"}
    given = {name: getattr(arguments, FIELDS.get(name, name)) for name in names_of_limits}
    return cast(Limits, given)


def _plan(arguments: argparse.Namespace) -> Plan:
    if not arguments.model and not arguments.times:
        raise UsageError("give --model, or --times of layers")
    if arguments.show_passes and arguments.settings:
        raise passes_error(arguments, "system")
    model, system = read_descriptions(arguments)
    with progress() as show:
        return pipesched.plan(
            model,
            cast(Description, system),
            gpus=arguments.gpus,
            global_batch=arguments.global_batch,
            top=arguments.top,
            optimize=arguments.optimize,
            progress=show,
            **disturbances.plan_options(arguments),
            **_limits(arguments),
        )


# Files


def _whole_step(proposal: Proposal, schedule: Schedule) -> Schedule:
    if proposal.optimized:
        return proposal.optimized.step
    with TemporaryDirectory() as folder:  # for descriptions without a name and a file
        attached = attach_costs(proposal.costs, proposal.candidate, folder)
        return schedule.transform(",".join([*attached, ENDING]))


def _save(plan: Plan, folder: Path) -> None:
    """Writes IR, timeline and numbers of every proposal, and CSV if it is needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for proposal in plan.fitting:
        schedule = proposal.generate()
        files: dict[str, str] = {
            ".mlir": _whole_step(proposal, schedule).to_text(),
            ".svg": proposal.report.to_svg(),
            ".json": json_text([proposal.to_dict(str(folder))]),
        }
        if needs_csv(proposal.candidate) and proposal.launchers().torchtitan.lines:
            files[".csv"] = schedule.to_csv()
        for suffix, text in files.items():
            write_text(text, str(folder / f"{proposal.name}{suffix}"))
        for launcher, script in proposal.scripts().items():
            path = folder / f"{proposal.name}.{launcher}.sh"
            write_text(script, str(path))
            path.chmod(path.stat().st_mode | path.stat().st_mode >> 2 & 0o111)
    say(f"wrote {len(plan.fitting)} proposals to {folder}")
    for timed, names in _find_timings(plan).items():
        say(f"simulate gives the step of {', '.join(names)} with {timed}")


def _find_timings(plan: Plan) -> dict[str, list[str]]:
    """The options of timing beyond IR that are not defaults, with their proposals."""
    found: dict[str, list[str]] = {}
    for proposal in plan.fitting:
        receives = proposal.candidate.receives
        timed = (
            ("transport", proposal.request.transport, Configuration.transport),
            ("receive-placement", receives, Configuration.receive_placement),
        )
        options = [f"--{name} {value}" for name, value, usual in timed if value != usual]
        if options:
            found.setdefault(" ".join(options), []).append(proposal.name)
    return found


def _page(plan: Plan, rows: list[dict[str, Any]], title: str) -> str:
    found = "".join(f"{sentence}\n" for sentence in plan.why())
    groups: dict[Size, list[page.Pair]] = {}
    for proposal, row in zip(plan.proposals, drop_alike(rows), strict=True):
        size = proposal.shape.pipeline, proposal.shape.microbatches
        groups.setdefault(size, []).append((row, proposal.report))
    return page.comparison(title, groups, PAGE_COLUMNS, {next(iter(groups)): found})


class _Timed(NamedTuple):
    """A proposal as `disturbances.Timed`."""

    label: str
    size: Size
    costs: Costs
    steps: Callable[[Sequence[str]], Sequence[int]]


def _timed(proposal: Proposal) -> _Timed:
    size = proposal.shape.pipeline, proposal.shape.microbatches
    if proposal.configuration is not None:
        steps = steps_of(proposal.configuration)
    else:
        assert proposal.optimized is not None
        rows, transport = proposal.optimized.step, proposal.request.transport

        def steps(texts: Sequence[str]) -> Sequence[int]:
            timed = (rows.simulate(transport=transport, disturbance=text) for text in texts)
            return [each.execution.makespan_ps for each in timed]

    return _Timed(proposal.name, size, proposal.costs, steps)


# Passes


def _passes(proposal: Proposal) -> str:
    shape = proposal.shape
    configuration = proposal.configuration
    chosen = {} if configuration is None else configuration.made_options
    options = ",".join(f"{name}={value}" for name, value in raw_options(chosen))
    made = [
        passes.one_pass(
            "pipe-create",
            {
                "name": proposal.name,
                "workers": shape.pipeline,
                "microbatches": shape.microbatches,
                "slices": proposal.candidate.slices if proposal.optimized else None,
            },
        ),
        place(proposal.candidate),
    ]
    attached = attach_costs(proposal.costs, proposal.candidate)
    if proposal.optimized:
        made += [*attached, proposal.optimized.the_pass(), ENDING]
    else:
        filling = {"family": proposal.schedule, "options": options or None}
        made += [passes.one_pass("pipe-schedule", filling), *attached, ENDING]
    export = f"--export-report --transport={proposal.request.transport}"
    if proposal.candidate.receives != "arrival":
        export += f" --receive-placement={proposal.candidate.receives}"
    return passes.command_line(made, export=export)


# Text


def _launcher_lines(proposal: Proposal, folder: str) -> list[str]:
    lines = []
    launchers = proposal.launchers(folder)
    for name, framework in FRAMEWORKS.items():
        if proposal.request.launcher not in (None, name):
            continue
        launcher = getattr(launchers, name)
        title = f"{proposal.name} for {framework.described}:"
        if launcher.lines:
            lines += [title, *(f"  {line}" for line in launcher.lines)]
            lines += [*(f"  # {note}" for note in launcher.notes), ""]
        else:
            lines += [f"{title} {launcher.reason}", ""]
    return lines[:-1]


def _remarks(plan: Plan, arguments: argparse.Namespace) -> list[str]:
    remarks = ["", *(f"- {sentence}" for sentence in plan.why())]
    if arguments.explain:
        for proposal in plan.proposals:
            remarks += ["", f"{proposal.name}:", *(f"- {line}" for line in proposal.why())]
    if plan.fitting:
        remarks += ["", *_launcher_lines(plan.fitting[0], arguments.save or "")]
    return remarks


def _title(arguments: argparse.Namespace) -> str:
    given = assumptions.was_given(arguments)
    transport = f", transport {arguments.transport}" if given("transport") else ""
    if arguments.launcher:
        transport += f", for {FRAMEWORKS[arguments.launcher].title}"
    return (
        f"{arguments.model or arguments.times} on {arguments.gpus} accelerators of"
        f" {arguments.system}, {arguments.global_batch} sequences a step{transport}"
    )


def _head_lines(arguments: argparse.Namespace, plan: Plan) -> list[str]:
    facts = assume_plan(plan.request, assumptions.was_given(arguments))
    own = [*header_lines(plan.request), *expense_lines(plan.request), *tell_settings(arguments)]
    return [*own, *assumptions.head_lines(facts, [plan.request.described])]


def run(arguments: argparse.Namespace) -> int:
    """Plans; fails if nothing fits, after suggesting remedies."""
    plan = _plan(arguments)
    if arguments.show_passes:
        write_text("".join(f"{_passes(p)}\n" for p in plan.proposals), arguments.output)
        return 0 if plan.fitting else 1
    rows = plan.to_dicts(arguments.save or "")
    timed = [*map(_timed, plan.proposals)]
    disturbed = disturbances.rows(arguments, timed, across_sizes=True)
    if disturbed:
        disturbances.add_to(rows, disturbed, ("name",))
    above = [*_head_lines(arguments, plan), *answers.moving_lines(rows)]
    if arguments.save:
        _save(plan, Path(arguments.save))
    if arguments.html:
        title = "; ".join([_title(arguments), *above])
        write_text(_page(plan, rows, title), arguments.html)
        say(f"wrote {arguments.html}")
    remarks = _remarks(plan, arguments) if arguments.format == "text" else []
    remarks[:0] = disturbances.remarks(disturbed, view_of(arguments).width)
    shown = drop_alike(rows) if arguments.format in TABLES else rows
    if arguments.format == "text" and view_of(arguments).width is not None:
        above += same_line(shown)
    write_rows(arguments, shown, COLUMNS, title=_title(arguments), above=above, remarks=remarks)
    return 0 if plan.fitting else 1


# Assumptions of a plan


def assume_plan(request: Request, is_given: assumptions.Given) -> assumptions.Facts:
    found: assumptions.Facts = {}
    if request.model is not None:
        found = assumptions.assume_model(request.described, is_given)
        found.pop("recompute", None)  # the plan chooses
        found["precision"] = request.precision
    if request.times is not None and assumptions.are_messages_free(request.described):
        found["messages"] = "free (no comm)"
    listed = spread_by(request) if request.schedules is None else request.schedules
    searches_both = any(family in SPREAD for family in listed)
    receives = "arrival or consumer" if searches_both else "arrival"
    found |= {"transport": request.transport, "receive placement": receives, "runtime": "table"}
    if request.model is not None:
        found["reserve"] = reserve_text(request.reserve_text, request.has_experts)
        found |= _assume_division(request)
    found = {n: value for n, value in found.items() if not is_given(n.replace(" ", "_"))}
    moved = sorted({*(request.sharding or ())} & {*assumptions.MOVED_IN_CELLS})
    if request.times is not None and request.model is not None and moved:
        found["times"] = f"without what sharding={'|'.join(moved)} moves in cells"
    if request.model is not None and request.own_bytes is None and not is_given("for"):
        kinds = map(request.parameter_bytes, request.sharding or ())
        found["memory as in"] = f"{request.framework.title} ({bytes_text(kinds)})"
    if request.model is not None:
        found |= assumptions.assume_rates(request.described)
    return found


def _assume_division(request: Request) -> assumptions.Facts:
    """How configurations divide tensors, sequences and experts, if they may."""
    found: assumptions.Facts = {}
    if request.gpus == 1:
        return found
    if request.spares:
        whole = request.sizes["accelerators_per_node"]
        found["used per node"] = f"{request.node} of {whole} accelerators"
    if request.tensor != (1,):
        found["sequence parallelism"] = "on" if request.sequence_parallel else "off"
    some_experts = bool(request.experts) and request.expert != (1,)
    are_divided = {
        "experts": some_experts,
        "expert_parallel": some_experts,
        "slices": may_slice(request),
        "pairs": some_experts and may_overlap(request),
    }
    held = cast(Mapping[str, Any], request.held)
    for name, option in _deployment.HELD.items():
        # Habits of a framework are listed only if they differ.
        is_habit = name in _deployment.HABITS and held[name] != option.unsaid
        if are_divided.get(option.matters, is_habit or option.matters != "given"):
            found[option.title] = assumptions.show_value(held[name])
    return found
