"""`pipesched compare`: schedules side by side, ranked, and why they differ."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pipesched import Configuration, Costs, FamilyOptions, PipeSchedError, Simulation, _core
from pipesched._batch import findings
from pipesched._options import OptimizerStep, names_of

from . import page, passes
from .arguments import (
    Verbs,
    add_costs,
    add_family_options,
    add_timing,
    add_verb,
    canonical,
    given_costs,
    given_family_options,
    integers,
    names,
    options_for,
    positive,
)
from .output import (
    Column,
    add_output,
    announce_cells,
    progress,
    results,
    say,
    write_rows,
    write_text,
)

EXAMPLE = """  pipesched compare --stages 8 --microbatches 24,32 --schedules 1f1b,zb-h1 \\
      --times F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms --transport delay"""

COLUMNS = (
    Column("N", "microbatches"),
    Column("rank", "rank"),
    Column("schedule", "schedule", left=True),
    *results(),
    Column("why not", "error", left=True),
)


def add(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "compare",
        run,
        summary="Schedules side by side, ranked by step time for each number of microbatches.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "--schedules",
        type=names,
        metavar="FAMILIES",
        default=["gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v"],
        help="families or their other names, such as 1f1b,VPP",
    )
    parser.add_argument(
        "--stages",
        type=positive,
        required=True,
        metavar="D",
        help="size of the pipeline, in workers",
    )
    parser.add_argument(
        "--microbatches",
        type=integers,
        required=True,
        metavar="N",
        help="8,16,32, or ranges with their end, first:last:step, such as 8:64:8",
    )
    add_family_options(parser)
    add_costs(parser)
    add_timing(parser)
    parser.add_argument(
        "--optimizer-step",
        choices=names_of(OptimizerStep),
        default="none",
        help="end the step with gradient all-reduces, beside compute or behind it, and O cells",
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page with aligned timelines")
    add_output(parser)


# Points


def _points(arguments: argparse.Namespace, costs: Costs | None) -> list[Configuration]:
    given = given_family_options(arguments)
    families = list(dict.fromkeys(canonical(name) for name in arguments.schedules))
    _check_options_apply(given, families)
    return [
        Configuration(
            family,
            arguments.stages,
            microbatches,
            options_for(family, given),
            costs=costs,
            transport=arguments.transport,
            receive_placement=arguments.receive_placement,
            runtime=arguments.runtime,
            optimizer_step=arguments.optimizer_step,
        )
        for microbatches in dict.fromkeys(arguments.microbatches)
        for family in families
    ]


def _check_options_apply(given: FamilyOptions, families: list[str]) -> None:
    """Refuses an option that none of the families has."""
    for option in given:
        if not any(option in options_for(family, given) for family in families):
            flag = option.replace("_", "-")
            raise PipeSchedError(f"none of {', '.join(families)} has the option --{flag}")


# Rows


def _causes(simulation: Simulation) -> dict[str, float]:
    execution = simulation.execution
    return execution.idle_by_cause_ps.ratios(execution.makespan_ps)


def _levels(simulation: Simulation) -> dict[str, Any]:
    execution, table = simulation.execution, simulation.table
    formula = simulation.formula
    return {
        "step_s": execution.makespan_ps / 1e12,
        "idle_ratio": execution.idle_ratio,
        "span_bubble_ratio": execution.span_bubble_ratio,
        "formula_bubble_ratio": formula.bubble_ratio if formula else None,
        "table_bubble_ratio": table.bubble_ratio if table else None,
        **_causes(simulation),
        "peak_activations": int(table.peak_activations.max()) if table else None,
    }


def _memory(simulation: Simulation) -> dict[str, Any]:
    memory = simulation.memory
    if memory is None:
        return {"peak_bytes": None, "worst_worker": None, "fits": None}
    worst = memory.bottleneck_worker
    return {
        "peak_bytes": int(memory.peak_bytes[worst]),
        "worst_worker": worst,
        "fits": memory.fits,
    }


def _rates(point: Configuration, simulation: Simulation) -> dict[str, Any]:
    """Tokens per second, and the model's FLOPs divided by the peak FLOPs."""
    unknown = {"tokens_per_s": None, "mfu": None}
    size = int(_core.summaries([simulation._evaluation])["microbatch_size"][0])
    if not point.costs or not point.costs.model or size <= 0:
        return unknown
    model = json.loads(point.costs._raw.model())
    if not model.get("sequence") or not simulation.execution.makespan_ps:
        return unknown
    pipelines = point.costs.data_parallel
    tokens = pipelines * point.microbatches * size * int(model["sequence"])
    per_s = tokens * 1e12 / simulation.execution.makespan_ps
    peak = point.costs._raw.peak_flops * point.workers * pipelines
    flops = model.get("flops_per_token")
    return {"tokens_per_s": per_s, "mfu": per_s * flops / peak if peak and flops else None}


def _row(point: Configuration) -> tuple[dict[str, Any], Simulation | None]:
    row: dict[str, Any] = {
        "schedule": point.family,
        "stages": point.workers,
        "workers": point.workers,
        "microbatches": point.microbatches,
    }
    try:
        simulation = point.simulate()
    except PipeSchedError as error:
        reason = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        return {**row, "rank": None, "error": reason}, None
    numbers = {**_levels(simulation), **_rates(point, simulation), **_memory(simulation)}
    return {**row, "rank": None, **numbers}, simulation


def _rank(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by number of microbatches, then by step time; equal times share a rank."""
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["microbatches"]].append(row)
    ranked = []
    for group in groups.values():
        group.sort(key=lambda row: row.get("step_s", float("inf")))
        for row in group:
            if "step_s" in row:
                row["rank"] = 1 + sum(
                    other.get("step_s", float("inf")) < row["step_s"] for other in group
                )
        ranked += group
    return ranked


# Output


def _findings(simulations: list[Simulation]) -> dict[int, str]:
    """The findings of the library, by number of microbatches."""
    groups: dict[int, list[Simulation]] = defaultdict(list)
    for simulation in simulations:
        groups[simulation.microbatches].append(simulation)
    return {
        n: "".join(f"{finding.text}\n" for finding in findings(group))
        for n, group in groups.items()
    }


def _remarks(simulations: list[Simulation]) -> list[str]:
    return [
        f"- {microbatches} microbatches: {line}"
        for microbatches, text in _findings(simulations).items()
        for line in text.splitlines()
    ]


def _unlike(arguments: argparse.Namespace, simulations: list[Simulation]) -> list[str]:
    """A remark if the times of one stage stand for different amounts of work."""
    per_worker = {
        simulation.family: simulation.stages // simulation.workers for simulation in simulations
    }
    if arguments.model or len(set(per_worker.values())) < 2:
        return []
    counts = ", ".join(f"{family} {count}" for family, count in per_worker.items())
    return [
        "- times are those of one stage: with more stages per worker"
        f" ({counts}) there is more work in a step; compare idle, or give --model and --system"
    ]


def _passes(arguments: argparse.Namespace, points: list[Configuration]) -> str:
    made = []
    for point in points:
        name = f"{point.family}-{point.microbatches}"
        made += passes.generating(
            point.family, name, point.workers, point.microbatches, point.options
        )
    timing = passes.timing(arguments)
    export = f"--export-report {timing}"
    made += [*passes.attaching(arguments), *passes.stepping(arguments)]
    return passes.command_line(made, export=export)


def _title(arguments: argparse.Namespace) -> str:
    costs = arguments.times or " on ".join(filter(None, (arguments.model, arguments.system)))
    priced = costs or "unit slots of 1 us"
    runtime = "" if arguments.runtime == "table" else f", runtime {arguments.runtime}"
    return f"{arguments.stages} workers, {priced}, transport {arguments.transport}{runtime}"


def run(arguments: argparse.Namespace) -> int:
    """Times every family at every size; fails if none could be timed."""
    points = _points(arguments, given_costs(arguments))
    announce_cells((point.workers, point.microbatches) for point in points)
    pairs = [_row(point) for point in progress(points)]
    if arguments.show_passes:
        possible = [point for point, (_, made) in zip(points, pairs, strict=True) if made]
        write_text(_passes(arguments, possible) + "\n", arguments.output)
        return 0 if possible else 1
    rows = _rank(row for row, _ in pairs)
    simulations = [simulation for _, simulation in pairs if simulation]
    remarks = (
        ["", *_remarks(simulations), *_unlike(arguments, simulations)]
        if arguments.format == "text"
        else []
    )
    if arguments.html:
        write_text(
            page.comparison(_title(arguments), rows, COLUMNS, simulations, _findings(simulations)),
            arguments.html,
        )
        say(f"wrote {arguments.html}")
    write_rows(arguments, rows, COLUMNS, title=_title(arguments), remarks=remarks)
    return 0 if simulations else 1
