"""Explains a plan in sentences with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...results.batch import findings as compared
from ...support.text import gib as gib
from ...support.text import readable
from ..candidate import OPTIMIZED
from ..search.bounds import splits_backward
from ..search.moves import told
from .order import undecided
from .vocabulary import shards

if TYPE_CHECKING:
    from ..candidate import Candidate
    from ..proposals import Help, Plan, Proposal
    from ..search.optimizer import Attempt, Made

NOTHING = 0.0005
"""The difference of two times, as a ratio, that prints as 0.0 %."""

MOST_DIFFERENCES = 3
"""The maximal number of sentences on schedules that formula or table rank differently."""


def percent(ratio: float) -> str:
    """`12.3 %`."""
    return f"{100 * ratio:.1f} %"


def plural(count: int, noun: str) -> str:
    """`1 stage`, `2 stages`."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


def at_consumers(candidate: Candidate) -> str:
    """Where receives stand, if that is not where messages arrive."""
    return ", receives at their consumers" if candidate.receives == "consumer" else ""


def described(candidate: Candidate) -> str:
    """A short description of a configuration."""
    shape, chunks = candidate.shape, candidate.chunks
    batch = plural(shape.microbatches, "microbatch")
    cut = f" in {candidate.slices} slices" if candidate.slices > 1 else ""
    by = f" by {candidate.vocabulary}" if "vocabulary" in dict(candidate.options) else ""
    parts = [
        f"{candidate.schedule}{by} on {plural(shape.pipeline, 'worker')}"
        + (f" of {chunks} stages each" if chunks > 1 else "")
        + at_consumers(candidate),
        f"tensor {shape.tensor}",
        *([f"context {shape.context} by {shape.exchange}"] if shape.context > 1 else []),
        *([f"expert {shape.expert}"] if shape.expert > 1 else []),
        f"data {shape.data}",
        f"{batch} of {plural(shape.microbatch_size, 'sequence')}{cut}",
        f"recompute {shape.recompute}",
    ]
    if not candidate.is_even:
        parts.insert(1, f"layers {candidate.layers_text}")
    if candidate.schedule == OPTIMIZED:
        free = dict(candidate.options)
        parts[-1:] = [
            *(["offload in part"] if free.get("offload") else []),
            f"recompute {free['recompute']} in part" if "recompute" in free else parts[-1],
        ]
    return ", ".join(parts)


# The best


def _time(best: Proposal) -> str:
    causes = best.causes()
    idle = best.report.execution.idle_ratio
    return (
        f"of its {best.step_s:.4g} s workers compute {percent(1 - idle)}; they idle"
        f" {percent(causes['fill_ratio'] + causes['drain_ratio'])} by fill and drain,"
        f" {percent(causes['dependency_ratio'])} by dependency,"
        f" {percent(causes['queue_order_ratio'])} by queue order,"
        f" {percent(causes['communication_ratio'])} by communication;"
        f" reducing gradients and the optimizer add {best.update_s:.3g} s"
    )


def _slow(plan: Plan) -> Iterator[str]:
    """The step under the disturbances, if plans are ranked by it."""
    best = plan.fitting[0]
    if plan.slow is not None and best.disturbed_step_s is not None:
        what = plan.slow.name(best.costs, best.shape.pipeline)
        yield (
            f"steps are compared under {what}, with which its step takes"
            f" {best.disturbed_step_s:.4g} s in place of {best.step_s:.4g} s"
        )


def _memory(proposal: Proposal) -> str:
    memory = proposal.report.memory
    if memory is None:
        return "without a model its memory is not known"
    worker = memory.bottleneck_worker
    made_of = memory.composition
    accelerators = proposal.shape.worker
    parts = ", ".join(
        f"{name} {gib(int(sizes[worker]) / accelerators)}"
        for name, sizes in (
            ("weights", made_of.weight_bytes),
            ("gradients", made_of.gradient_bytes),
            ("optimizer", made_of.optimizer_bytes),
            ("activations", made_of.activation_bytes),
        )
    )
    at = f" at {proposal.peak_cell}" if proposal.peak_cell else ""
    return (
        f"worker {worker} is the fullest, {gib(proposal.peak_bytes)} of"
        f" {gib(proposal.request.usable_bytes)} an accelerator{at}: {parts}"
    )


def about(proposal: Proposal) -> list[str]:
    """The sentences on one configuration."""
    return [described(proposal.candidate), _time(proposal), _memory(proposal)]


def _too_short(best: Proposal) -> list[str]:
    """Own times that no accelerator can reach."""
    if best.request.times is None or (best.mfu or 0) <= 1:
        return []
    return [
        f"the times are shorter than the accelerators allow, {percent(best.mfu or 0)} of their"
        " peak: look at their units, and at what they are said to be measured for"
    ]


def _against(best: Proposal, other: Proposal) -> str:
    """How far another proposal is behind the best."""
    behind = other.ranked_s / best.ranked_s - 1
    far = "as fast" if behind < NOTHING else f"{percent(behind)} behind"
    return f"{far}: {described(other.candidate)}"


def _next(plan: Plan) -> Iterator[str]:
    """The best other schedule on the same shape, and the best on another shape."""
    best = plan.fitting[0]
    schedules = [p for p in plan.alike if p.schedule != best.schedule and p.fits]
    if schedules:
        yield f"next on the same shape, {_against(best, schedules[0])}"
    degrees = [p for p in plan.fitting if p.shape != best.shape]
    if degrees:
        yield f"next of another shape, {_against(best, degrees[0])}"


def _levels(plan: Plan) -> Iterator[str]:
    """Sentences on schedules of the same shape that formula or table rank differently from
    execution.
    """
    if len(plan.alike) < 2:
        return
    differing = [
        finding.text
        for finding in compared(p.report for p in plan.alike)
        if finding.kind == "ranking"
    ]
    yield from (f"on the same shape, {text}" for text in differing[:MOST_DIFFERENCES])


# What does not fit


def helped(help: Help) -> str:
    """The effect of one change."""
    change = help.change if help.allowed else f"{help.change}, which is not searched,"
    if help.fits:
        return f"with {change} it fits, {help.step_s:.4g} s and {gib(help.peak_bytes)}"
    return f"with {change} {gib(help.missing_bytes)} are still missing"


def _missing(proposal: Proposal, plan: Plan) -> str:
    faster = ""
    if plan.fitting and proposal.ranked_s < plan.fitting[0].ranked_s:
        ahead = 1 - proposal.ranked_s / plan.fitting[0].ranked_s
        far = "as fast as" if ahead < NOTHING else f"{percent(ahead)} faster than"
        faster = f" would be {far} the best that fits but"
    at = f" at {proposal.peak_cell}" if proposal.peak_cell else ""
    changes = [h for h in proposal.help if h.fits][:4] or list(proposal.help[:2])
    ways = "; ".join(map(helped, changes)) or "no single change helps"
    return (
        f"{described(proposal.candidate)}{faster} misses {gib(proposal.missing_bytes)} on worker"
        f" {proposal.worst_worker}{at}: {ways}"
    )


# What was optimized


def _rows(made: Made, plan: Plan, given: Candidate) -> str:
    """The quality of rows that the optimizer found."""
    outcome, optimized = made
    found = optimized.found
    step = outcome.step_ps / 1e12
    families = [p.ranked_s for p in plan.fitting if p.schedule != OPTIMIZED]
    against = ""
    if families:
        ahead = 1 - step / families[0]
        less = "less" if ahead >= 0 else "more"
        against = f", {percent(abs(ahead))} {less} than that of the best family"
        if abs(ahead) < NOTHING:
            against = ", as long as that of the best family"
    missing = outcome.peak_bytes - plan.request.usable_bytes
    fits = "" if missing <= 0 else f", but misses {gib(missing)}"
    moved = [
        f"{verb} {count:,}"
        for verb, count in (("offloads", optimized.offloads), ("recomputes", optimized.recomputes))
        if count
    ]
    means = f"it {' and '.join(moved)} of {optimized.activations:,} activations"
    if not moved:
        means = "nothing but the order of its cells is new"
        if optimized.counts.get("W") and not splits_backward(given.schedule, given.options):
            means = "its backwards are split, and the order of its cells is new"
    above = "are proven to take the least time"
    if found.gap >= NOTHING:
        above = f"take at most {percent(found.gap)} more than the least time"
    elif found.gap > 0:
        above = "take at most 0.1 % more than the least time"
    return f"a step of {step:.4g} s{against}{fits}; {means}; under delay its cells {above}"


def _optimized(attempt: Attempt, plan: Plan) -> Iterator[str]:
    if attempt.reason:
        yield f"{described(attempt.candidate)} was not found: {readable(attempt.reason)}"
    for made in attempt.results:
        yield f"{described(made[0].candidate)}: {_rows(made, plan, attempt.candidate)}"


def _counts(plan: Plan) -> str:
    counts = plan.counts
    return (
        f"of {plural(counts.shapes, 'division')} of accelerators and batch, {counts.left_out:,}"
        " cannot hold a microbatch or have more work than the best take; of the others'"
        f" {plural(counts.considered, 'configuration')}, {counts.too_large:,} cannot hold one,"
        f" {counts.too_slow:,} have more work, {counts.evaluated:,} were evaluated"
    )


def findings(plan: Plan) -> list[str]:
    """All sentences of a plan."""
    found = []
    if plan.fitting:
        best = plan.fitting[0]
        found += [f"best: {described(best.candidate)}", *_slow(plan), _time(best), _memory(best)]
        found += _too_short(best)
        if plan.moved:
            found.append(told(plan.moved))
        found += [*undecided(plan), *_next(plan), *_levels(plan), *shards(plan)]
    else:
        found.append(f"nothing fits into {gib(plan.request.usable_bytes)} an accelerator")
    found += [_missing(proposal, plan) for proposal in plan.missing]
    for attempt in plan.attempts:
        found += _optimized(attempt, plan)
    return [*found, _counts(plan)]
