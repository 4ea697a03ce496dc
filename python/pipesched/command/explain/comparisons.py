"""Gains of slices of sequences and shards of a vocabulary, and their causes: sentences below a
comparison.

Each comparison of sliced and whole schedules under costs of a model is repeated at other lengths of
sequences. Context parallelism is also tried on the same accelerators: half the workers, each
of twice as many, which divide the sequences.

A head that takes as long as several layers can be divided among the workers, or the worker that has
it can have fewer layers: which of both wins.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipesched import Configuration, Costs, PipeSchedError, Simulation, _core, simulate_batch
from pipesched.costs.deployment import OPTIONS
from pipesched.costs.division import SPREAD
from pipesched.results.configuration import head_in_layers
from pipesched.support.text import gib

from ..options.entries import Entry, FromFamily, Size
from ..render.output import seconds
from .ranking import Pair, where_of

SHORTEST = 1024
"""The shortest sequence that is tried, in tokens."""

LONGEST = 2**20
"""The longest, unless a longer one was asked for."""

NEAR = 0.005
"""Steps nearer than this, as a part, are as fast."""


@dataclass(frozen=True)
class _Timed:
    """A schedule of a family, and its report."""

    name: str
    point: Configuration
    report: Simulation

    @property
    def step_ps(self) -> int:
        return int(self.report.execution.makespan_ps)

    @property
    def busy_ps(self) -> float:
        """The time in which cells of the busiest worker run."""
        return float(self.report.execution.cells_ps.max())

    @property
    def memory(self) -> str:
        """The peak of an accelerator of the fullest worker, if it is known."""
        found, costs = self.report.memory, self.point.costs
        if found is None or costs is None:
            return ""
        accelerators = int(_core.sizes(costs._raw)["accelerators"]) or 1
        return gib(int(found.peak_bytes.max()) // accelerators)


def _timed_groups(entries: Sequence[Entry], pairs: Sequence[Pair]) -> dict[Size, list[_Timed]]:
    """Schedules timed with a model's costs, by size."""
    found: dict[Size, list[_Timed]] = defaultdict(list)
    for entry, (_, report) in zip(entries, pairs, strict=True):
        if report is None or not isinstance(entry, FromFamily):
            continue
        costs = entry.point.costs
        if costs is not None and costs.model is not None and costs.times is None:
            found[entry.size].append(_Timed(entry.label, entry.point, report))
    return found


def _sentences(
    entries: Sequence[Entry], pairs: Sequence[Pair], sentence: Callable[[list[_Timed]], str]
) -> Iterator[str]:
    """The sentences of `sentence` about the sizes, without empty ones."""
    groups = _timed_groups(entries, pairs)
    for size, group in groups.items():
        if text := sentence(group):
            yield f"{where_of(size, groups)} {text}"


def _sequence(costs: Costs) -> int:
    return int(_core.sizes(costs._raw)["sequence"])


def _lengths(sequence: int) -> list[int]:
    """The sequence divided by powers of two, and multiplied by them, in ascending order."""
    shorter = [sequence >> k for k in range(sequence.bit_length()) if sequence % (1 << k) == 0]
    longer = [sequence << k for k in range(1, 21)]
    most = max(sequence, LONGEST)
    return sorted(n for n in {*shorter, *longer} if SHORTEST <= n <= most or n == sequence)


def _set_sequence(point: Configuration, sequence: int) -> Configuration:
    assert point.costs is not None
    cut = _scale_cut(point.costs, sequence)
    return replace(point, costs=replace(point.costs, sequence=sequence, slice_cut=cut))


def _scale_cut(costs: Costs, sequence: int) -> str:
    """The cut for sequences of another length: given sizes keep their proportions if they stay
    whole.
    """
    option, cut = OPTIONS["slice_cut"], str(costs.slice_cut)
    if cut in option.choices:
        return cut
    shares = [int(size) * sequence for size in cut.split(",")]
    whole = _sequence(costs)
    if any(share % whole for share in shares):
        return cut
    return ",".join(str(share // whole) for share in shares)


def _least(points: Iterable[Configuration]) -> list[float]:
    """The step of each point, infinite if it cannot be timed."""
    frame = simulate_batch(list(points))
    known = frame.makespan_ps.astype("Float64").fillna(math.inf)
    return [float(value) for value in known]


def _find_gains(
    whole: Sequence[_Timed], sliced: Sequence[_Timed], lengths: Sequence[int]
) -> list[tuple[int, int]]:
    """First and last of each run of lengths at which slices are faster than all that is whole."""
    points = [_set_sequence(each.point, n) for n in lengths for each in (*whole, *sliced)]
    steps = iter(_least(points))
    found: list[tuple[int, int]] = []
    gained = False
    for length in lengths:
        best_whole = min(next(steps) for _ in whole)
        best_sliced = min(next(steps) for _ in sliced)
        if math.isinf(best_sliced) or math.isinf(best_whole):
            continue
        if best_sliced < best_whole:
            found = [*found[:-1], (found[-1][0], length)] if gained else [*found, (length, length)]
        gained = best_sliced < best_whole
    return found


def _lengths_text(runs: Sequence[tuple[int, int]], lengths: Sequence[int]) -> str:
    """`slices gain from sequences of 2,048 tokens on`."""
    if not runs:
        return f"slices gain at none of the lengths tried, {lengths[0]:,} to {lengths[-1]:,} tokens"
    if len(runs) == 1 and runs[0][1] == lengths[-1]:
        tried = ", the shortest tried" if runs[0][0] == lengths[0] else ""
        return f"slices gain from sequences of {runs[0][0]:,} tokens on{tried}"
    texts = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in runs]
    return f"of the lengths tried slices gain at {' and at '.join(texts)} tokens"


def _fastest(points: Sequence[Configuration], of: Sequence[_Timed]) -> tuple[float, str]:
    """The step of the fastest of some variants of schedules, and its name."""
    return min(zip(_least(points), [each.name for each in of], strict=True))


def _tell_equal_work(best: _Timed, sliced: Sequence[_Timed]) -> str:
    """The step with slices of equal work, if slices of equal tokens are slower."""
    costs = best.point.costs
    assert costs is not None
    if costs.slice_cut == "work":
        return ""
    points = [replace(each.point, costs=replace(costs, slice_cut="work")) for each in sliced]
    step, name = _fastest(points, sliced)
    if step >= best.step_ps:
        return ""
    taken = seconds(step / 1e12)
    return f"; cut into slices of equal work (--set slice-cut=work) {name} takes {taken}"


def _with_context(each: _Timed) -> Configuration | None:
    """The schedule on half of the workers, whose accelerators are twice as many and divide the
    sequences.
    """
    point, costs = each.point, each.point.costs
    assert costs is not None
    if point.workers % 2 or point.paths is not None or costs.system is None:
        return None
    accelerators = int(_core.sizes(costs._raw)["accelerators"])
    divided = costs.with_(
        accelerators=2 * accelerators, context_parallel=2 * costs.context_parallel
    )
    return replace(point, workers=point.workers // 2, costs=divided)


def _tell_context(whole: Sequence[_Timed], best: _Timed) -> str:
    tried = [(each, made) for each in whole if (made := _with_context(each)) is not None]
    steps = _least(made for _, made in tried) if tried else []
    if not steps or math.isinf(step := min(steps)):
        return ""
    each, made = tried[steps.index(step)]
    assert made.costs is not None
    verdict = "faster" if best.step_ps < step else "slower"
    return (
        f"; with context parallelism of {made.costs.context_parallel} on {made.workers} workers of"
        f" twice the accelerators {each.name} takes {seconds(step / 1e12)}, so that slices are"
        f" {verdict}"
    )


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _memory(one: _Timed, other: _Timed) -> str:
    held = one.memory, other.memory
    return f", with {held[0]} in place of {held[1]} an accelerator" if all(held) else ""


def _why(whole: _Timed, sliced: _Timed) -> str:
    """The cost and the savings of slices."""
    more = sliced.busy_ps / whole.busy_ps - 1
    cost = f"take {_percent(abs(more))} {'longer' if more > 0 else 'less'}"
    if abs(more) < 5e-4:
        cost = "take as long"
    idle = [_percent(1 - each.busy_ps / each.step_ps) for each in (sliced, whole)]
    return (
        f"the cells {cost} (every slice launches its kernels and reads the weights), and the"
        f" busiest worker waits {idle[0]} of the step in place of {idle[1]}{_memory(sliced, whole)}"
    )


def _tell_slices(group: Sequence[_Timed]) -> str:
    whole = [each for each in group if each.report.slices == 1]
    sliced = [each for each in group if each.report.slices > 1]
    if not whole or not sliced:
        return ""
    fastest, best = (min(part, key=lambda each: each.step_ps) for part in (whole, sliced))
    assert best.point.costs is not None
    sequence = _sequence(best.point.costs)
    if sequence == 0:
        return ""
    lengths = _lengths(sequence)
    start = _lengths_text(_find_gains(whole, sliced, lengths), lengths)
    return (
        f"{start}; at {sequence:,} tokens {best.name} takes {seconds(best.step_ps / 1e12)} and"
        f" {fastest.name} {seconds(fastest.step_ps / 1e12)}: {_why(fastest, best)}"
        f"{_tell_equal_work(best, sliced)}{_tell_context(whole, best)}"
    )


# Shards of the vocabulary


def _make_uneven(whole: _Timed) -> _Timed | None:
    """The schedule with layers divided by their costs."""
    point = whole.point
    if point.paths is not None or point.costs is None or point._counts is not None:
        return None
    try:
        made = replace(point, costs=replace(point.costs, balance="cost"))
        counts = made._counts
        if counts is None or len({layers for path in counts for layers in path}) == 1:
            return None
        return _Timed(f"{whole.name} of uneven layers", made, made.simulate())
    except PipeSchedError:
        return None


def _verdict(best: _Timed, rest: Sequence[_Timed]) -> str:
    """The fastest, and its lead."""
    other = min(rest, key=lambda each: each.step_ps)
    ahead = other.step_ps / best.step_ps - 1
    if abs(ahead) < NEAR:
        return "the vocabulary in shards is as fast"
    if ahead > 0:
        return f"the vocabulary in shards wins, {_percent(ahead)} ahead"
    return f"{other.name} wins, {_percent(1 - other.step_ps / best.step_ps)} ahead of shards"


def _tell_consumers(best: _Timed, spread: Sequence[_Timed]) -> str:
    """The step of shards with receives before their users, if shards are slower."""
    points = [replace(each.point, receive_placement="consumer") for each in spread]
    step, name = _fastest(points, spread)
    if math.isinf(step) or step > best.step_ps * (1 - NEAR):
        return ""
    return (
        f"; with receives in front of their consumers (--receive-placement consumer) {name} takes"
        f" {seconds(step / 1e12)}"
    )


def _tell_shards(group: Sequence[_Timed]) -> str:
    spread = [each for each in group if each.point.family in SPREAD]
    whole = [each for each in group if each.point.family not in SPREAD and each.report.slices == 1]
    if not spread or not whole:
        return ""
    best = min(spread, key=lambda each: each.step_ps)
    assert best.point.costs is not None
    weight = head_in_layers(best.point.costs)
    heavy = "" if weight is None else f"the head takes as long as {weight:.1f} layers; "
    fastest = min(whole, key=lambda each: each.step_ps)
    rest = [fastest]
    texts = [f"{best.name} takes {seconds(best.step_ps / 1e12)}"]
    texts.append(f"{fastest.name} {seconds(fastest.step_ps / 1e12)}")
    uneven = [made for each in whole if (made := _make_uneven(each)) is not None]
    if uneven:
        rest.append(least_uneven := min(uneven, key=lambda each: each.step_ps))
        texts.append(f"{least_uneven.name} {seconds(least_uneven.step_ps / 1e12)}")
    memory = _memory(best, min(rest, key=lambda each: each.step_ps))
    listed = ", ".join(texts[:-1]) + f" and {texts[-1]}"
    return f"{heavy}{listed}: {_verdict(best, rest)}{memory}{_tell_consumers(best, spread)}"


def remarks(entries: Sequence[Entry], pairs: Sequence[Pair]) -> Iterator[str]:
    """Yields sentences for each size, on slices and on shards of a vocabulary."""
    for sentence in (_tell_slices, _tell_shards):
        yield from _sentences(entries, pairs, sentence)
