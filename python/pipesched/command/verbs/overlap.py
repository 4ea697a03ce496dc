"""`pipesched simulate --order`: a forward and a backward whose layers overlap part by part."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pipesched
from pipesched import Costs, Pair, PipeSchedError, _core
from pipesched.costs.pairs import says_nothing_gained
from pipesched.costs.segments import LayerSegments, factor, read_segments, segments_of
from pipesched.schedule.megatron import PARTS, Hidden, hidden_in, plain, trace_of
from pipesched.support.options import PairOrder, names_of

from ..explain import assumptions
from ..options import table
from ..options.arguments import (
    UsageError,
    read_costs,
    read_descriptions,
    read_own_options,
    tell_settings,
)
from ..render.output import Column, percent, seconds, write_rows, write_text

ORDERS = tuple(order for order in names_of(PairOrder) if order != "fluid")

COLUMNS = (
    Column("order", "order", left=True),
    Column("pair", "pair_s", seconds),
    Column("gain", "gain", percent),
    Column("compute", "compute_s", seconds),
    Column("exchange", "exchange_s", seconds),
    Column("hidden", "hidden", percent),
    Column("seen", "exposed_s", seconds),
    Column("dispatch F", "hidden_dispatch_f", percent, detail=1),
    Column("dispatch I", "hidden_dispatch_i", percent, detail=1),
    Column("combine F", "hidden_combine_f", percent, detail=1),
    Column("combine I", "hidden_combine_i", percent, detail=1),
    Column("bound", "bound_s", seconds, detail=2),
    Column("shown best", "is_optimal", lambda best: "yes" if best else "no", detail=2),
)


STEPS = (
    Column("schedule", "schedule", left=True),
    Column("step", "step_s", seconds),
    Column("exchange", "exchange_s", seconds),
    Column("hidden", "hidden", percent),
    Column("seen", "seen_s", seconds),
    Column("warm-up", "hidden_warm_up", percent, detail=1),
    Column("steady", "hidden_steady", percent, detail=1),
    Column("drain", "hidden_drain", percent, detail=1),
)
"""Exchanges are the sum over workers."""


def _orders(text: str) -> list[str]:
    """Parses `deepseek,best`, or an order of parts, `combine.I,attention.F,...`."""
    if "." in text:
        return [text]
    if text == "all":
        return list(ORDERS)
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if name not in ORDERS:
            from ..options.names import closest_choice

            near = closest_choice(name, ORDERS)
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(ORDERS)}, or parts of layers, found {name!r}{near}"
            )
    return found


def _range(text: str) -> tuple[int, int]:
    """Parses `12`, the first layers, or `12:24`, layers from 12 to before 24."""
    first, separator, end = text.partition(":")
    try:
        return (int(first), int(end)) if separator else (0, int(first))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected layers such as 12:24, found {text!r}") from None


def _factors(text: str) -> tuple[float, float]:
    """Parses `1.1` or `1.1,1.05`."""
    parts = text.split(",")
    try:
        found = [factor("", float(part)) for part in parts]
    except (ValueError, PipeSchedError):
        found = []
    if len(found) not in (1, 2):
        raise argparse.ArgumentTypeError(
            f"expected factors from 1 to 10 in hundredths, such as 1.1,1.05, found {text!r}"
        )
    return found[0], found[-1] if len(found) == 2 else 1.0


RARE = {
    "layers": table.Rare("N|A:B: layers of both cells of --order; all by default", _range),
    "forward": table.Rare("N|A:B: layers of the forward of --order", _range),
    "backward": table.Rare("N|A:B: layers of the backward of --order", _range),
    "whole_backward": table.Rare(
        "true|false: W is not apart from I in --order, as in Megatron without"
        " --delay-wgrad-compute",
        table.yes_or_no,
        False,
    ),
    "contention": table.Rare(
        "C[,X]: under --order compute takes C times as long during an exchange, an exchange X"
        " times during compute",
        _factors,
    ),
}


def add_order(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--order",
        type=_orders,
        metavar="NAMES|PARTS|all",
        help="time a forward and a backward whose layers overlap, of the layers of --model or of a"
        " file of measured parts (docs/schemas/layer-segments.schema.json), by orders of issue:"
        f" some of {', '.join(ORDERS)}, or the parts, combine.I,attention.F,...; with --pp also"
        " the steps of stages that all hold these layers",
    )


def _costs(arguments: argparse.Namespace) -> Costs | None:
    """The costs of a model, whose layers are overlapped if there is no file."""
    has_model = bool(arguments.model or arguments.system)
    if arguments.times or arguments.times_of:
        raise UsageError("--times has times of whole cells; give the parts of layers as a file")
    if bool(arguments.file) == has_model:
        raise UsageError("give a file of segments, or --model and --system")
    if arguments.file:
        return None
    costs = read_costs(arguments)
    assert isinstance(costs, Costs)
    if costs.expert_exposed != 100:
        raise UsageError("--set expert-exposed says what a pair hides; --order finds it")
    return costs


def _facts(
    arguments: argparse.Namespace, costs: Costs | None, read: LayerSegments, pair: Pair
) -> assumptions.Facts:
    """The assumptions of the parts of layers, and of the pair."""
    facts: assumptions.Facts = {}
    if costs is not None:
        given = assumptions.was_given(arguments)
        count = arguments.microbatches
        batch = _core.sizes(costs._raw)["global_batch"]
        size = batch // (count * costs.data_parallel)
        facts = assumptions.assume_costs(costs, given, [(count, size)]) | assumptions.assume_rates(
            costs
        )
    if arguments.contention is None and read.contention is None:
        compute, exchange = pair.contention
        facts["contention"] = f"{compute:g},{exchange:g}"
    return facts


def _row(pair: Pair) -> dict[str, Any]:
    hidden: Mapping[str, tuple[int, int]] = pair.hidden_by_part()
    parts = {
        f"hidden_{name.replace('.', '_').lower()}": part / ran if ran else None
        for name, (ran, part) in hidden.items()
    }
    return {
        "order": pair.order,
        "pattern": ",".join(pair.pattern),
        "whole_backward": pair.whole_backward,
        "contention_compute": pair.contention[0],
        "contention_exchange": pair.contention[1],
        "pair_s": pair.pair_ps / 1e12,
        "in_turn_s": pair.in_turn_ps / 1e12,
        "forward_s": pair.forward_ps / 1e12,
        "backward_s": pair.backward_ps / 1e12,
        "gain": pair.gain,
        "output_s": pair.output_ps / 1e12,
        "gradient_s": pair.gradient_ps / 1e12,
        "compute_s": pair.compute_ps / 1e12,
        "exchange_s": pair.exchange_ps / 1e12,
        "exposed_s": pair.exposed_ps / 1e12,
        "hidden": pair.hidden if pair.exchange_ps else None,
        **parts,
        "bound_s": pair.bound_ps / 1e12,
        "is_optimal": pair.is_optimal,
        "orders_timed": pair.orders_timed,
        "orders_cut": pair.orders_cut,
        "times": pair.times(),
    }


def _title(
    arguments: argparse.Namespace, costs: Costs | None, read: LayerSegments, pair: Pair
) -> list[str]:
    count = {phase: len({r.layer for r in pair.runs if r.phase == phase}) for phase in "FI"}
    kind = "whole backwards" if pair.whole_backward else "weight gradients apart"
    return [
        f"forward of {count['F']} layers beside backward of {count['I']}, {read.place}; {kind}",
        *assumptions.head_lines(_facts(arguments, costs, read, pair), [costs]),
        *tell_settings(arguments),
    ]


def _tell_waits(pair: Pair) -> str:
    """The weight gradients that run after the messages of a pair to neighbouring stages."""
    behind = pair.pair_ps - pair.gradient_ps
    if pair.whole_backward:
        return (
            "the gradient for the stage before is there when W of all layers has run, so that"
            " no W hides its message"
        )
    share = behind / pair.pair_ps if pair.pair_ps else 0.0
    return (
        f"the gradient for the stage before is there {seconds(behind / 1e12)} ({percent(share)})"
        " before the pair ends: W of the first layer runs behind it, and hides as much of its"
        " message"
    )


def _remarks(pairs: list[Pair]) -> list[str]:
    last = pairs[-1]
    lines = [""]
    for pair in pairs:
        if pair.order == "best":
            shown = (
                "which no other order beats"
                if pair.is_optimal
                else "the best of those that are the same in all layers"
            )
            lines.append(
                f"- best: {','.join(pair.pattern)}, {shown}; orders timed:"
                f" {pair.orders_timed}, left out by bounds: {pair.orders_cut}"
            )
    overlapped = [pair for pair in pairs if pair.order != "in-turn"]
    if overlapped and (nothing := says_nothing_gained(min(overlapped, key=lambda p: p.pair_ps))):
        lines.append(f"- {nothing}")
    if overlapped:
        lines.append(f"- {overlapped[-1].order}: {_tell_waits(overlapped[-1])}")
    lines.append(f"- times of such stages, {last.order}: --times {last.times()}")
    return lines


def _make_combined(arguments: argparse.Namespace) -> pipesched.Schedule:
    return pipesched.generate(
        "combined-1f1b",
        workers=arguments.workers,
        microbatches=arguments.microbatches,
        name="combined_1f1b",
        chunks=arguments.chunks or 1,
        group=arguments.group,
    )


def _steps(arguments: argparse.Namespace, pair: Pair) -> list[Hidden]:
    """The step without and with pairs, and DualPipe-V if it has the same stages."""
    workers, chunks, microbatches = arguments.workers, arguments.chunks or 1, arguments.microbatches
    found = [
        plain(pair, workers, microbatches, chunks, arguments.group),
        hidden_in(_make_combined(arguments), pair),
    ]
    if chunks == 2 and microbatches >= 2 * workers and not pair.whole_backward:
        made = pipesched.generate(
            "dualpipe-v", workers=workers, microbatches=microbatches, name="dualpipe_v"
        )
        found.append(hidden_in(made, pair))
    return found


def _step_row(step: Hidden) -> dict[str, Any]:
    is_plain = not any(step.hidden_ps.values())
    parts = {f"hidden_{p}": None if is_plain else step.share(p) for p in PARTS}
    return {
        "schedule": step.name.replace("_", "-"),
        "step_s": step.makespan_ps / 1e12,
        "exchange_s": sum(step.exchange_ps.values()) / 1e12,
        "hidden": step.share(),
        "seen_s": step.seen_ps / 1e12,
        **parts,
    }


def _write_steps(
    arguments: argparse.Namespace, costs: Costs | None, read: LayerSegments, pair: Pair
) -> None:
    steps = _steps(arguments, pair)
    saved = 1 - steps[1].makespan_ps / steps[0].makespan_ps
    remarks = [
        "",
        f"- pairs, by the order {pair.order}, make the step {percent(saved)} shorter; messages"
        " between stages, embedding and head are left out",
    ]
    if arguments.workers > 1 and (arguments.chunks or 1) == 1:
        remarks.append(
            "- Megatron-LM has no combined 1F1B of one chunk on several workers: give --vpp"
        )
    if nothing := says_nothing_gained(pair):
        remarks.append(f"- {nothing}")
    if arguments.trace:
        write_text(trace_of(_make_combined(arguments), pair), arguments.trace)
    above = _title(arguments, costs, read, pair)
    write_rows(arguments, list(map(_step_row, steps)), STEPS, above=above, remarks=remarks)


def _only(arguments: argparse.Namespace, name: str) -> Any:
    """The one value of an option that takes several elsewhere."""
    values = getattr(arguments, name)
    if values is not None and len(values) > 1:
        raise UsageError(f"{arguments.shown[name]} takes one value with --order")
    return values[0] if values else None


def _settle(arguments: argparse.Namespace) -> None:
    """Makes single values of options that take several elsewhere; refuses further options."""
    for name in ("schedules", "slices", "memory", "activations", "html", "svg", "png", "pdf"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"{arguments.shown[name]} does not go with --order")
    arguments.file = _only(arguments, "files")
    for name in ("system", "chunks", "microbatches"):
        setattr(arguments, name, _only(arguments, name))
    arguments.microbatches = arguments.microbatches or 1
    own = read_own_options(arguments)
    arguments.group = own.pop("group", None)
    if own:
        raise UsageError(f"--option {next(iter(own))} does not go with --order")


def run(arguments: argparse.Namespace) -> int:
    _settle(arguments)
    if arguments.show_passes:
        raise UsageError("--show-passes: a pair of layers is not the work of passes")
    read_descriptions(arguments)  # refuses settings without a model
    costs = _costs(arguments)
    if costs is None:
        read = read_segments(arguments.file)
    else:
        read = segments_of(costs, arguments.microbatches)
    forward = arguments.forward or arguments.layers
    backward = arguments.backward or arguments.layers
    pairs = [
        pipesched.overlap(
            read,
            order=order,
            forward=forward,
            backward=backward,
            whole_backward=arguments.whole_backward,
            contention=arguments.contention,
        )
        for order in arguments.order
    ]
    if (arguments.chunks or arguments.group) and not arguments.workers:
        raise UsageError("--vpp and --option group are about a schedule; give --pp")
    if arguments.workers and forward != backward:
        raise UsageError("stages of a schedule hold the same layers; give --set layers")
    if arguments.workers:
        named = {pair.order: pair for pair in pairs}
        _write_steps(arguments, costs, read, named.get("megatron", pairs[-1]))
        return 0
    if arguments.trace:
        write_text(pairs[-1].trace(), arguments.trace)
    write_rows(
        arguments,
        [_row(pair) for pair in pairs],
        COLUMNS,
        above=_title(arguments, costs, read, pairs[0]),
        remarks=_remarks(pairs),
    )
    return 0
