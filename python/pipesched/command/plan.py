"""`pipesched plan`: what to run on a number of accelerators, and why."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pipesched
from pipesched import _deployment
from pipesched._options import (
    Attention,
    ContextExchange,
    Precision,
    Recompute,
    Sharding,
    TimesOf,
    Transport,
    names_of,
)
from pipesched._schedule import Schedule
from pipesched._times_of import places_of
from pipesched.planning import Limits, Plan, Proposal
from pipesched.planning._frameworks import FRAMEWORKS, LauncherName
from pipesched.planning._launchers import needs_csv
from pipesched.planning._own_times import attaching as attaching_times
from pipesched.planning._own_times import said
from pipesched.planning._passes import ENDING, attaching, placing
from pipesched.planning._why import gib

from . import assumed, page, passes
from .arguments import TIMES_OF, UsageError, add_deployment, integers, names, positive, source
from .entries import Size
from .output import (
    Column,
    add_output,
    gibibytes,
    percent,
    say,
    seconds,
    thousands,
    write_rows,
    write_text,
)

EXAMPLE = """  pipesched plan --model llama3-70b --system dgx-h100 --gpus 64 --global-batch 256
  pipesched plan --model llama3-8b --system dgx-h100 --gpus 16 --global-batch 64 \\
      --schedules 1f1b,VPP,zb-v --recompute none,full --top 3 --format json"""

COLUMNS = (
    Column("", "name", left=True),
    Column("step", "step_s", seconds),
    Column("tokens/s/GPU", "tokens_per_s_per_gpu", thousands),
    Column("MFU", "mfu", percent),
    Column("memory/GPU", "peak_bytes_per_gpu", gibibytes),
    Column("missing/GPU", "missing_bytes_per_gpu", lambda size: gib(size) if size else "-"),
    Column("tensor", "tensor"),
    Column("context", "context"),
    Column("exchange", "context_exchange", left=True),
    Column("stages", "pipeline"),
    Column("data", "data"),
    Column("expert", "expert"),
    Column("B", "microbatch_size"),
    Column("N", "microbatches"),
    Column("chunks", "chunks"),
    Column("layers", "uneven_layers", left=True),
    Column("placement", "placement", left=True),
    Column("recompute", "recompute", left=True),
    Column("free in", "free_in", left=True),
    Column("sharding", "sharding", left=True),
    Column("idle", "idle_ratio", percent),
)
PAGE_COLUMNS = (
    Column("schedule", "schedule", left=True),
    *COLUMNS[1:],
)


def _add_costs(parser: argparse.ArgumentParser) -> None:
    """Adds the options for costs, and for the memory that may be used."""
    group = parser.add_argument_group("costs")
    group.add_argument(
        "--times",
        metavar="TIMES",
        help="measured ones of layers, F=1ms,B=2ms,head.F=3ms,head.B=6ms, or a JSON file, which"
        " hold for one --tensor, --microbatch-size and --recompute",
    )
    group.add_argument("--times-of", choices=names_of(TimesOf), help=TIMES_OF)
    group.add_argument("--transport", choices=names_of(Transport), default="overlap")
    group.add_argument("--precision", choices=names_of(Precision), default="bf16")
    group.add_argument("--attention", choices=names_of(Attention), help="kernels of attention")
    group.add_argument(
        "--context-exchange",
        choices=names_of(ContextExchange),
        help="of keys and values among parts of a sequence; by default all that the framework has",
    )
    add_deployment(group, _deployment.HELD)
    group.add_argument("--memory", metavar="BYTES", help="of an accelerator, such as 80GiB")
    group.add_argument(
        "--reserve",
        metavar="BYTES|PART",
        help="kept free of it, such as 4GiB or 2GiB+5%%; by default 15%%, 0 for nothing",
    )


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `plan`."""
    parser.description = f"{parser.description} The exit status is 1 if nothing fits."
    parser.add_argument("--model", metavar="NAME|FILE", help="may be left out with --times")
    parser.add_argument("--system", required=True, metavar="NAME|FILE")
    parser.add_argument("--gpus", type=positive, required=True, metavar="N", help="accelerators")
    parser.add_argument(
        "--global-batch", type=positive, required=True, metavar="G", help="sequences per step"
    )
    parser.add_argument("--sequence", type=positive, metavar="S", help="tokens of a sequence")
    _add_choices(parser)
    _add_costs(parser)
    parser.add_argument(
        "--for",
        dest="launcher",
        choices=names_of(LauncherName),
        help="who runs the plan: what it holds in memory, and what it can run",
    )
    parser.add_argument("--top", type=positive, default=10, metavar="K", help="how many that fit")
    parser.add_argument(
        "--optimize",
        metavar="TIME",
        help="also look for better rows for the best settings, such as 30s in all",
    )
    parser.add_argument("--explain", action="store_true", help="why, for each of them")
    parser.add_argument("--html", metavar="FILE", help="also write a page with timelines")
    parser.add_argument(
        "--save", metavar="DIR", help="also write each one as IR, picture and PyTorch's CSV"
    )
    parser.set_defaults(folders={"save": (".mlir", ".svg", ".csv")})
    add_output(parser)


def _kinds(choices: object) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        given, known = names(text), names_of(choices)
        for name in given:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"expected some of {', '.join(known)}, found {name!r}"
                )
        return given

    return read


def _add_choices(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to choose from; all that makes sense by default")
    group.add_argument("--schedules", type=names, metavar="FAMILIES", help="such as 1f1b,VPP")
    group.add_argument(
        "--tensor", type=integers, metavar="T", help="degrees of tensor parallelism, such as 1,2,4"
    )
    group.add_argument(
        "--stages", type=integers, metavar="D", help="sizes of the pipeline, in workers"
    )
    group.add_argument(
        "--context", type=integers, metavar="C", help="parts of a sequence, such as 1,2,4"
    )
    group.add_argument(
        "--expert",
        type=integers,
        metavar="E",
        help="accelerators that divide the experts of a stage, such as 1,8,64",
    )
    group.add_argument(
        "--microbatch-size", type=integers, metavar="B", help="sequences of a microbatch"
    )
    group.add_argument("--chunks", type=integers, metavar="C", help="stages per worker")
    group.add_argument(
        "--recompute",
        type=_kinds(Recompute),
        metavar="KINDS",
        default=list(names_of(Recompute)),
        help="some of none,selective,full",
    )
    group.add_argument(
        "--sharding",
        type=_kinds(Sharding),
        metavar="KINDS",
        help=f"over replicas: some of {','.join(names_of(Sharding))}; by default optimizer, for"
        " torchtitan what FSDP2 does",
    )


# The plan


def _limits(arguments: argparse.Namespace) -> Limits:
    names_of_limits = {**Limits.__annotations__, **_deployment.HELD}
    given = {name: getattr(arguments, name) for name in names_of_limits}
    return cast(Limits, given)


def _plan(arguments: argparse.Namespace) -> Plan:
    if not arguments.model and not arguments.times:
        raise UsageError("give --model, or --times of layers")
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        return pipesched.plan(
            source(arguments.model, pipesched.models),
            str(source(arguments.system, pipesched.systems)),
            gpus=arguments.gpus,
            global_batch=arguments.global_batch,
            top=arguments.top,
            optimize=arguments.optimize,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **_limits(arguments),
        )


# Files


def _whole_step(proposal: Proposal, schedule: Schedule) -> Schedule:
    if proposal.optimized:
        return proposal.optimized.step
    return schedule.transform(",".join(_attached(proposal)))


def _save(plan: Plan, folder: Path) -> None:
    """Writes IR and timeline of every proposal, and CSV if it is needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for proposal in plan.fitting:
        schedule = proposal.generate()
        files: dict[str, str] = {
            ".mlir": _whole_step(proposal, schedule).to_text(),
            ".svg": proposal.report.to_svg(),
        }
        if needs_csv(proposal.candidate) and proposal.launchers().torchtitan.lines:
            files[".csv"] = schedule.to_csv()
        for suffix, text in files.items():
            write_text(text, str(folder / f"{proposal.name}{suffix}"))
    say(f"wrote {len(plan.fitting)} proposals to {folder}")


def _page(plan: Plan, rows: list[dict[str, Any]], title: str) -> str:
    found = "".join(f"{sentence}\n" for sentence in plan.why())
    groups: dict[Size, list[page.Pair]] = {}
    for proposal, row in zip(plan.proposals, _told_apart(rows), strict=True):
        size = proposal.shape.pipeline, proposal.shape.microbatches
        groups.setdefault(size, []).append((row, proposal.report))
    return page.comparison(title, groups, PAGE_COLUMNS, {next(iter(groups)): found})


# Passes


def _attached(proposal: Proposal) -> list[str]:
    return [*_costs_of(proposal), ENDING]


def _costs_of(proposal: Proposal) -> list[str]:
    """The passes that attach the model, the system and the times of stages."""
    attached = attaching(proposal.request, proposal.shape)
    if proposal.request.times is not None:
        costs = proposal.costs
        attached += attaching_times(costs, places_of(proposal.candidate.raw_paths))
    return attached


def _passes(proposal: Proposal) -> str:
    shape = proposal.shape
    options = ",".join(f"{name}={value}" for name, value in proposal.candidate.options)
    made = [
        passes.one_pass(
            "pipe-create",
            {
                "name": proposal.name,
                "workers": shape.pipeline,
                "microbatches": shape.microbatches,
            },
        ),
        placing(proposal.candidate),
    ]
    if proposal.optimized:
        found = proposal.optimized.the_pass()
        made += [*_costs_of(proposal), found, ENDING]
    else:
        filling = {"family": proposal.schedule, "options": options or None}
        made += [passes.one_pass("pipe-schedule", filling), *_attached(proposal)]
    export = f"--export-report --transport={proposal.request.transport}"
    return passes.command_line(made, export=export)


# Text


def _launcher_lines(proposal: Proposal, folder: str) -> list[str]:
    """The lines of the launcher that was named, or of all."""
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
    given = assumed.was_given(arguments)
    transport = f", transport {arguments.transport}" if given("transport") else ""
    if arguments.launcher:
        transport += f", for {FRAMEWORKS[arguments.launcher].title}"
    return (
        f"{arguments.model or arguments.times} on {arguments.gpus} accelerators of"
        f" {arguments.system}, {arguments.global_batch} sequences a step{transport}"
    )


def _above(arguments: argparse.Namespace, plan: Plan) -> list[str]:
    """What was assumed."""
    facts = assumed.of_plan(plan.request, assumed.was_given(arguments))
    return [*said(plan.request), *assumed.above(facts, [plan.request.described])]


def _told_apart(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the columns that tell them apart: layers if stages differ in them, degrees if
    some are not 1, and the techniques of optimized rows.
    """
    uneven = any("+" in row["layers"] for row in rows)
    alike = {key: None for key in ("context", "expert") if all(row[key] == 1 for row in rows)}
    exchanges = {row.get("context_exchange") for row in rows} - {None}
    if len(exchanges) < 2:
        alike["context_exchange"] = None
    return [
        {
            **row,
            **alike,
            "uneven_layers": row["layers"] if uneven else None,
            "free_in": row["optimized"] and _freedoms(row["optimized"]["freedoms"]),
        }
        for row in rows
    ]


def _freedoms(freedoms: dict[str, Any]) -> str:
    recompute = freedoms["recompute"]
    found = ["offload"] if freedoms["offload"] else []
    found += [f"recompute {recompute}"] if recompute != "none" else []
    return ", ".join(["order", *found])


def run(arguments: argparse.Namespace) -> int:
    """Plans; fails if nothing fits, after saying what would help."""
    plan = _plan(arguments)
    if arguments.show_passes:
        write_text("".join(f"{_passes(p)}\n" for p in plan.proposals), arguments.output)
        return 0 if plan.fitting else 1
    rows = plan.to_dicts(arguments.save or "")
    above = _above(arguments, plan)
    if arguments.save:
        _save(plan, Path(arguments.save))
    if arguments.html:
        title = "; ".join([_title(arguments), *above])
        write_text(_page(plan, rows, title), arguments.html)
        say(f"wrote {arguments.html}")
    remarks = _remarks(plan, arguments) if arguments.format == "text" else []
    is_text = arguments.format == "text"
    shown = _told_apart(rows) if is_text else rows
    write_rows(
        arguments, shown, COLUMNS, title=_title(arguments), above=above, remarks=remarks
    )
    return 0 if plan.fitting else 1
