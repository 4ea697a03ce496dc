"""Explains a plan in sentences with numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...bands import UNORDERED, Order, Step, order_keys, order_of, tell
from ...costs.division import SPREAD
from ...results.batch import evaluate_points
from ...results.batch import findings as compared
from ...results.configuration import head_in_layers
from ...support.text import gib, plural, readable
from ..candidate import OPTIMIZED, Candidate, describe
from ..search.groups import Groups
from ..search.moves import Moved
from ..search.search import EQUAL
from ..space.heads import SHARDS
from ..space.schedules import splits_backward
from ..space.space import Space

if TYPE_CHECKING:
    from ...results.report import Memory
    from ..proposals import Help, Plan, Proposal
    from ..search.disturbances import Slow
    from ..search.optimizer import Attempt, Made

NOTHING = 0.0005
"""The difference of two times, as a ratio, that prints as 0.0 %."""

MOST_DIFFERENCES = 3
"""The maximal number of sentences on schedules that formula or table rank differently."""

HEAVY = 1.0
"""From this many layers' time on a head is heavy."""

NEAR = 0.005
"""Steps nearer than this, as a part, are as fast."""

UNLAUNCHED = "no launcher of a framework runs shards of the vocabulary"


def percent(ratio: float) -> str:
    """`12.3 %`."""
    return f"{100 * ratio:.1f} %"


# The best


def _time(best: Proposal) -> str:
    causes = best.causes()
    idle = best.report.execution.idle_ratio
    ramps = causes.pop("fill_ratio") + causes.pop("drain_ratio")
    by = [f"{percent(ramps)} by fill and drain"]
    by += [
        f"{percent(ratio)} by {name.removesuffix('_ratio').replace('_', ' ')}"
        for name, ratio in causes.items()
        if ratio >= NOTHING
    ]
    return (
        f"of its {best.expected_s:.4g} s workers compute {percent(1 - idle)}; they idle"
        f" {', '.join(by)}; reducing gradients and the optimizer add {best.update_s:.3g} s"
    )


def _shared(slow: Slow, best: Proposal) -> float:
    """The step if the workers shared the work of the best without idle time, by their speeds."""
    speeds = slow.speeds(best.costs, best.shape.pipeline)
    work = sum(map(int, best.report.execution.cells_ps)) / 1e12
    return work * best.middle / sum(1 / factor for factor in speeds)


def _slow(plan: Plan) -> Iterator[str]:
    """The step under the disturbances, if plans are ranked by it."""
    best = plan.fitting[0]
    if plan.slow is not None and best.disturbed_step_s is not None:
        what = plan.slow.name(best.costs, best.shape.pipeline)
        yield (
            f"steps are compared under {what}, with which its step takes"
            f" {best.disturbed_step_s * best.middle:.4g} s in place of {best.expected_s:.4g} s;"
            f" shared by speed, its work takes at least {_shared(plan.slow, best):.4g} s"
        )


def _groups(plan: Plan) -> Iterator[str]:
    """The groups of the workers of the best plan, and the distance of its step to the bound."""
    if plan.groups is not None:
        best = plan.fitting[0]
        above = percent(best.step_s / plan.groups.least_s - 1)
        lie = plan.groups.along(plan.request, best.shape)
        along = (f"{plural(count, 'worker')} on {name}" for name, count in lie)
        yield (
            f"along its pipeline: {', then '.join(along)}; no step is below"
            f" {plan.groups.least_s:.4g} s, which the groups would take if they shared its work by"
            f" speed without messages or idle time: this one takes {above} more"
        )
        yield from _within(plan, plan.groups)


def _within(plan: Plan, groups: Groups) -> Iterator[str]:
    """The step of pipelines within groups."""
    within = groups.within
    if within is not None:
        step, change = within.step_s, within.step_s / plan.fitting[0].step_s - 1
        each = zip(groups.names, within.pipelines, within.microbatches, strict=True)
        dealt = (f"{n} in each of {plural(pipes, 'pipeline')} on {name}" for name, pipes, n in each)
        candidate = within.candidate
        yield (
            f"with whole pipelines in each group and microbatches by speed a step would take"
            f" {step:.4g} s, {percent(abs(change))} {'less' if change < 0 else 'more'}, by"
            f" {candidate.schedule} on {plural(candidate.shape.pipeline, 'worker')} of"
            f" {plural(candidate.shape.worker, 'accelerator')},"
            f" microbatches of {plural(candidate.shape.microbatch_size, 'sequence')}:"
            f" {', '.join(dealt)}"
        )


def composition(memory: Memory, accelerators: int) -> dict[str, float]:
    """The bytes of an accelerator of the fullest worker, by purpose."""
    made_of = memory.composition
    held = {
        "weights": made_of.weight_bytes,
        "gradients": made_of.gradient_bytes,
        "optimizer state": made_of.optimizer_bytes,
        "activations": made_of.activation_bytes,
    }
    worker = memory.bottleneck_worker
    return {name: int(sizes[worker]) / accelerators for name, sizes in held.items()}


def _memory(proposal: Proposal) -> str:
    memory = proposal.report.memory
    if memory is None:
        return "without a model its memory is not known"
    held = composition(memory, proposal.shape.worker)
    parts = ", ".join(f"{name} {gib(size)}" for name, size in held.items())
    at = f" at {proposal.peak_cell}" if proposal.peak_cell else ""
    return (
        f"worker {memory.bottleneck_worker} is the fullest, {gib(proposal.peak_bytes)} of"
        f" {gib(proposal.request.usable_bytes)} an accelerator{at}: {parts}"
    )


def explain_proposal(proposal: Proposal) -> list[str]:
    """The sentences on one configuration."""
    return [describe(proposal.candidate), _time(proposal), _memory(proposal)]


def _too_short(best: Proposal) -> list[str]:
    """Own times that no accelerator can reach."""
    if best.request.times is None or (best.mfu or 0) <= 1:
        return []
    return [
        f"the times are shorter than the accelerators allow, {percent(best.mfu or 0)} of their"
        " peak: check their units, and the sizes for which they were measured"
    ]


def _describe(plan: Plan, candidate: Candidate) -> str:
    """The configuration, with its context if the contexts of the plan differ."""
    contexts = {each.shape.context for each in (*plan.proposals, *plan.alike)}
    return describe(candidate, len(contexts) > 1)


def _against(best: Proposal, other: Proposal) -> str:
    """How much slower or faster another proposal is than the best."""
    behind = other.ranked_s * other.middle / (best.ranked_s * best.middle) - 1
    if abs(behind) < NOTHING:
        return "as fast"
    return f"{percent(abs(behind))} {'slower' if behind > 0 else 'faster'}"


def _simpler(plan: Plan) -> Iterator[str]:
    """Names the fastest proposal if a simpler one is the best."""
    if (fastest := plan.fastest) is not None:
        far, text = _against(plan.fitting[0], fastest), _describe(plan, fastest.candidate)
        yield f"it is the simplest of those within {100 * EQUAL:g} % of the fastest, {far}: {text}"


def _elsewhere(plan: Plan) -> Iterator[str]:
    """Names the fastest proposal that no framework runs unchanged."""
    if (other := plan.elsewhere) is not None:
        far = _against(plan.fitting[0], other)
        text = _describe(plan, other.candidate)
        yield f"{far} with {', '.join(other.runs_in)}: {text}"


def _next(plan: Plan) -> Iterator[str]:
    """The best other schedule on the same shape, and the best on another shape."""
    best, said = plan.fitting[0], plan.fastest and plan.fastest.candidate
    same = [p for p in plan.alike if p.schedule != best.schedule and p.fits]
    other = [
        p for p in plan.fitting if p.shape.degrees != best.shape.degrees and p.candidate != said
    ]
    for place, found in (("on the same shape", same), ("of another shape", other)):
        if found:
            text = _describe(plan, found[0].candidate)
            yield f"next {place}, {_against(best, found[0])}: {text}"


def _nearby(plan: Plan) -> Iterator[str]:
    """Fewer accelerators that are faster, and the next number that divides well."""
    if plan.nearby:
        best, gpus = plan.fitting[0], plan.request.gpus
        steps = [
            f"{p.shape.gpus} take {p.expected_s:.4g} s,"
            f" {percent(1 - p.ranked_s * p.middle / best.ranked_s / best.middle)} less"
            for p in plan.nearby
        ]
        yield f"fewer accelerators are faster than {gpus}: {'; '.join(steps)}"


def _levels(plan: Plan) -> Iterator[str]:
    """Sentences on schedules of the same shape that formula or table rank differently."""
    if len(plan.alike) < 2:
        return
    differing = [
        finding.text
        for finding in compared(p.report for p in plan.alike)
        if finding.kind == "ranking"
    ]
    yield from (f"on the same shape, {text}" for text in differing[:MOST_DIFFERENCES])


# Which may be the fastest


def _order(plan: Plan) -> tuple[list[Step], Order] | None:
    """The steps of proposals that fit, and their order; None if they do not predict a training."""
    banded = [(each, each.band) for each in plan.fitting if each.band is not None]
    if not banded or len(banded) < len(plan.fitting):
        return None
    steps = [Step(p.name, p.ranked_s, p.shape, band.traits) for p, band in banded]
    return steps, order_of(steps)


def keys_of_orders(plan: Plan) -> list[dict[str, Any]]:
    """For each proposal: whether it may be the fastest that fits and needs a run, or None."""
    found = _order(plan)
    keys: list[dict[str, Any]] = [dict(UNORDERED) for _ in plan.proposals]
    if found is not None:
        keys[: len(plan.fitting)] = (order_keys(found[1], i) for i in range(len(plan.fitting)))
    return keys


# A heavy head


class _Made(NamedTuple):
    step_s: float
    peak_bytes: int
    candidate: Candidate


def _spread(best: Proposal) -> Iterator[_Made]:
    """The schedules of `--vocabulary` on the same shape, if they can be timed."""
    space = Space(replace(best.request, vocabulary=SHARDS))
    candidates = [c for c in space.candidates_of(best.shape) if c.vocabulary != "whole"]
    found = evaluate_points([space.configuration(each) for each in candidates])
    columns = (found.columns[name].tolist() for name in ("makespan_ps", "peak_bytes"))
    for candidate, error, step, peak in zip(candidates, found.errors, *columns, strict=True):
        if error is None:
            yield _Made(step / 1e12, -(-peak // best.shape.worker), candidate)


def _name(candidate: Candidate) -> str:
    by = f" by {candidate.vocabulary.capitalize()}" if candidate.options else ""
    return f"{candidate.schedule}{by}"


def _searched_heads(plan: Plan) -> list[str]:
    """The schedules with shards that were searched."""
    kinds = {each.schedule in SPREAD: each for each in reversed(plan.alike)}
    if len(kinds) < 2:
        return []
    shards, whole = kinds[True], kinds[False]
    first, second = sorted((shards, whole), key=lambda each: each.ranked_s)
    layers = "even" if whole.candidate.is_even else whole.candidate.layers_text
    who = "shards of the vocabulary win" if first is shards else "a whole head wins"
    return [
        f"on the same shape {who}, {percent(second.ranked_s / first.ranked_s - 1)} ahead:"
        f" {shards.schedule} takes {shards.ranked_s * shards.middle:.4g} s, {whole.schedule} of"
        f" layers {layers} {whole.ranked_s * whole.middle:.4g} s"
    ]


def _head(plan: Plan) -> list[str]:
    """The sentence on shards of the vocabulary, for the shape of the best plan."""
    best = plan.fitting[0]
    request = plan.request
    if any(each.schedule in SPREAD for each in plan.alike):
        return _searched_heads(plan)
    given = (request.schedules, request.launcher, request.vocabulary)
    is_asked = all(each is None for each in given) and plan.slow is None
    if not is_asked or best.configuration is None or best.configuration.costs is None:
        return []
    if best.shape.pipeline < 2:
        return []
    weight = head_in_layers(best.configuration.costs)
    if weight is None or weight < HEAVY:
        return []
    fitting = [made for made in _spread(best) if made.peak_bytes <= request.usable_bytes]
    if not fitting:
        return []
    made = min(fitting, key=lambda each: (each.step_s, each.peak_bytes, each.candidate.order))
    name = _name(made.candidate)
    layers = "even layers" if best.candidate.is_even else f"layers {best.candidate.layers_text}"
    step_s = made.step_s * best.middle
    heavy = f"the head takes as long as {weight:.1f} layers"
    if made.step_s > best.step_s * (1 - NEAR):
        return [f"{heavy}; {layers} win: with the vocabulary in shards {name} takes"
                f" {step_s:.4g} s"]  # fmt: skip
    return [
        f"{heavy}; with the vocabulary in shards {name} would take {step_s:.4g} s and"
        f" {gib(made.peak_bytes)}, {percent(best.step_s / made.step_s - 1)} ahead of {layers}:"
        f" {UNLAUNCHED}, so that it is not searched; pipesched.torch does, and"
        f" --vocabulary {made.candidate.vocabulary} searches it"
    ]


# Plans that do not fit


def _effect(help: Help, middle: float) -> str:
    change = help.change if help.allowed else f"{help.change}, which is not searched,"
    if help.fits:
        return f"with {change} it fits, {help.step_s * middle:.4g} s and {gib(help.peak_bytes)}"
    return f"with {change} {gib(help.missing_bytes)} are still missing"


def _missing(proposal: Proposal, plan: Plan) -> str:
    faster = ""
    if plan.fitting and proposal.ranked_s < plan.fitting[0].ranked_s:
        ahead = 1 - proposal.ranked_s / plan.fitting[0].ranked_s
        far = "as fast as" if ahead < NOTHING else f"{percent(ahead)} faster than"
        faster = f" would be {far} the best that fits but"
    at = f" at {proposal.peak_cell}" if proposal.peak_cell else ""
    changes = [h for h in proposal.help if h.fits][:4] or list(proposal.help[:2])
    effects = "; ".join(_effect(change, proposal.middle) for change in changes)
    ways = effects or "no single change helps"
    missing = gib(proposal.missing_bytes)
    return (
        f"{_describe(plan, proposal.candidate)}{faster} misses {missing} on worker"
        f" {proposal.worst_worker}{at}: {ways}"
    )


# Moved and optimized configurations


def _tell_move(move: Moved, middle: float) -> str:
    step = move.outcome.step_ps
    ratio = step / move.before_ps - 1
    result = f"{percent(abs(ratio))} {'less' if ratio < 0 else 'more'}"
    if abs(ratio) < NOTHING:
        result = "as long"
    best = "" if ratio < 0 else "at best "
    return (
        f"its worker of {move.stage} computes the longest, {percent(move.above_mean)} above the"
        f" mean: {best}with {move.change} a step takes {step * middle / 1e12:.4g} s, {result}"
    )


def _middle(plan: Plan) -> float:
    """The median of measured steps like the best, in terms of the computed one."""
    return plan.fitting[0].middle if plan.fitting else 1.0


def _rows(made: Made, plan: Plan, given: Candidate) -> str:
    """The quality of rows that the optimizer found."""
    outcome, optimized = made
    found = optimized.found
    step = outcome.step_ps / 1e12
    families = [p.ranked_s for p in plan.fitting if p.schedule != OPTIMIZED]
    against = ""
    if families:
        ahead = 1 - step / min(families)
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
    takes = f"a step of {step * _middle(plan):.4g} s{against}{fits}"
    return f"{takes}; {means}; under delay its cells {above}"


def _tell_attempt(attempt: Attempt, plan: Plan) -> Iterator[str]:
    if attempt.reason:
        text = _describe(plan, attempt.candidate)
        yield f"{text} was not found: {readable(attempt.reason)}"
    for made in attempt.results:
        yield f"{_describe(plan, made[0].candidate)}: {_rows(made, plan, attempt.candidate)}"


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
        found += [f"best: {_describe(plan, best.candidate)}", *_simpler(plan), *_elsewhere(plan)]
        found += [*_slow(plan), *_groups(plan), _time(best), _memory(best)]
        found += _too_short(best)
        if plan.moved:
            found.append(_tell_move(plan.moved, _middle(plan)))
        if ordered := _order(plan):
            found += tell(*ordered)
        found += [*_next(plan), *_levels(plan), *_head(plan), *_nearby(plan)]
    else:
        found.append(f"nothing fits into {gib(plan.request.usable_bytes)} an accelerator")
    found += [_missing(proposal, plan) for proposal in plan.missing]
    for attempt in plan.attempts:
        found += _tell_attempt(attempt, plan)
    return [*found, _counts(plan)]
