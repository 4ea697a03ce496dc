"""What slices of sequences gain, from which length on and why: sentences below a comparison.

Each comparison of sliced and whole schedules under costs of a model is repeated at other lengths of
sequences. Context parallelism is tried beside them on the same accelerators: half the workers, each
of twice as many, which divide the sequences.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipesched import Configuration, Costs, Simulation, _core, simulate_batch
from pipesched.costs.deployment import OPTIONS
from pipesched.support.text import gib

from ..options.entries import Entry, FromFamily, Size
from ..render.output import seconds
from .ranking import Pair

SHORTEST = 1024
"""The shortest sequence that is tried, in tokens."""

LONGEST = 2**20
"""The longest, unless a longer one was asked for."""


@dataclass(frozen=True)
class Timed:
    """A schedule of a family, and its report."""

    name: str
    point: Configuration
    report: Simulation

    @property
    def step_ps(self) -> int:
        """The step time."""
        return int(self.report.execution.makespan_ps)

    @property
    def busy_ps(self) -> float:
        """What the busiest worker computes."""
        return float(self.report.execution.busy_ps.max())

    @property
    def memory(self) -> str:
        """The peak of an accelerator of the fullest worker, if it is known."""
        found, costs = self.report.memory, self.point.costs
        if found is None or costs is None:
            return ""
        accelerators = int(_core.sizes(costs._raw)["accelerators"]) or 1
        return gib(int(found.peak_bytes.max()) // accelerators)


def _timed_groups(entries: Sequence[Entry], pairs: Sequence[Pair]) -> dict[Size, list[Timed]]:
    """What was timed with a model's costs, by size."""
    found: dict[Size, list[Timed]] = defaultdict(list)
    for entry, (_, report) in zip(entries, pairs, strict=True):
        if report is None or not isinstance(entry, FromFamily):
            continue
        costs = entry.point.costs
        if costs is not None and costs.model is not None and costs.times is None:
            found[entry.size].append(Timed(entry.label, entry.point, report))
    return found


def sentences(
    entries: Sequence[Entry], pairs: Sequence[Pair], sentence: Callable[[list[Timed]], str]
) -> Iterator[str]:
    """What `sentence` says of each size, if it says something."""
    groups = _timed_groups(entries, pairs)
    several = len({workers for workers, _ in groups}) > 1
    for (workers, microbatches), group in groups.items():
        if text := sentence(group):
            size = f"{workers} workers, " if several else ""
            yield f"- {size}{microbatches} microbatches: {text}"


def _sequence(costs: Costs) -> int:
    return int(_core.sizes(costs._raw)["sequence"])


def _lengths(sequence: int) -> list[int]:
    """The sequence divided by powers of two, and multiplied by them, in ascending order."""
    shorter = [sequence >> k for k in range(sequence.bit_length()) if sequence % (1 << k) == 0]
    longer = [sequence << k for k in range(1, 21)]
    most = max(sequence, LONGEST)
    return sorted(n for n in {*shorter, *longer} if SHORTEST <= n <= most or n == sequence)


def _at(point: Configuration, sequence: int) -> Configuration:
    assert point.costs is not None
    cut = _scaled(point.costs, sequence)
    return replace(point, costs=replace(point.costs, sequence=sequence, slice_cut=cut))


def _scaled(costs: Costs, sequence: int) -> str:
    """The cut for sequences of another length: sizes that are given keep their proportions, if
    they stay whole.
    """
    option, cut = OPTIONS["slice_cut"], str(costs.slice_cut)
    if cut in option.choices:
        return cut
    shares = [int(size) * sequence for size in cut.split(",")]
    whole = _sequence(costs)
    return (
        cut
        if any(share % whole for share in shares)
        else (",".join(str(share // whole) for share in shares))
    )


def least(points: Iterable[Configuration]) -> list[float]:
    """The step of each point, infinite where it cannot be timed."""
    frame = simulate_batch(list(points))
    known = frame.makespan_ps.astype("Float64").fillna(math.inf)
    return [float(value) for value in known]


def _gaining(
    whole: Sequence[Timed], sliced: Sequence[Timed], lengths: Sequence[int]
) -> list[tuple[int, int]]:
    """First and last of each run of lengths at which some slices are faster than all that is whole.
    Lengths at which neither can be timed, or slices cannot be cut, belong to the run before them.
    """
    points = [_at(each.point, n) for n in lengths for each in (*whole, *sliced)]
    steps = iter(least(points))
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


def _of_equal_work(best: Timed, sliced: Sequence[Timed]) -> str:
    """What slices of equal work would take, if those of equal tokens are slower."""
    costs = best.point.costs
    assert costs is not None
    if costs.slice_cut == "work":
        return ""
    points = [replace(each.point, costs=replace(costs, slice_cut="work")) for each in sliced]
    step, name = min(zip(least(points), [each.name for each in sliced], strict=True))
    if step >= best.step_ps:
        return ""
    taken = seconds(step / 1e12)
    return f"; cut into slices of equal work (--set slice-cut=work) {name} takes {taken}"


def _with_context(each: Timed) -> Configuration | None:
    """The schedule on half of the workers, whose accelerators are twice as many and divide the
    sequences; nothing if workers are odd or a system has none to divide.
    """
    point, costs = each.point, each.point.costs
    assert costs is not None
    if point.workers % 2 or point.paths is not None or costs.system is None:
        return None
    accelerators = int(_core.sizes(costs._raw)["accelerators"])
    divided = replace(
        costs, accelerators=2 * accelerators, context_parallel=2 * costs.context_parallel
    )
    return replace(point, workers=point.workers // 2, costs=divided)


def _beside_context(whole: Sequence[Timed], best: Timed) -> str:
    tried = [(each, made) for each in whole if (made := _with_context(each)) is not None]
    steps = least(made for _, made in tried) if tried else []
    found = [(step, each, made) for step, (each, made) in zip(steps, tried, strict=True)]
    if not found or math.isinf(first := min(step for step, _, _ in found)):
        return ""
    step, each, made = next(one for one in found if one[0] == first)
    assert made.costs is not None
    verdict = "faster" if best.step_ps < step else "slower"
    return (
        f"; with context parallelism of {made.costs.context_parallel} on {made.workers} workers of"
        f" twice the accelerators {each.name} takes {seconds(step / 1e12)}, so that slices are"
        f" {verdict}"
    )


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _why(whole: Timed, sliced: Timed) -> str:
    """What slices cost, and what they save."""
    more = sliced.busy_ps / whole.busy_ps - 1
    cost = (
        "cells take as long"
        if abs(more) < 5e-4
        else (f"cells take {_percent(abs(more))} {'longer' if more > 0 else 'less'}")
    )
    idle = [_percent(1 - each.busy_ps / each.step_ps) for each in (sliced, whole)]
    held = [each.memory for each in (sliced, whole)]
    memory = f", with {held[0]} in place of {held[1]} an accelerator" if all(held) else ""
    return (
        f"the {cost} (every slice launches its kernels and reads the weights), and the busiest"
        f" worker waits {idle[0]} of the step in place of {idle[1]}{memory}"
    )


def _sentence(group: Sequence[Timed]) -> str:
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
    start = _lengths_text(_gaining(whole, sliced, lengths), lengths)
    return (
        f"{start}; at {sequence:,} tokens {best.name} takes {seconds(best.step_ps / 1e12)} and"
        f" {fastest.name} {seconds(fastest.step_ps / 1e12)}: {_why(fastest, best)}"
        f"{_of_equal_work(best, sliced)}{_beside_context(whole, best)}"
    )


def remarks(entries: Sequence[Entry], pairs: Sequence[Pair]) -> Iterator[str]:
    """One sentence for each size at which slices are compared with whole microbatches."""
    return sentences(entries, pairs, _sentence)
