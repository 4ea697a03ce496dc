"""Other numbers of accelerators, if the number of a plan divides badly: fewer that are faster, and
the best just above.

An estimate chooses the numbers that are worth a search: the accelerators times the part of a step
in which workers of 1F1B on equal stages compute. It needs no evaluation, so a number that divides
well costs no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import gcd

from ...errors import PipeSchedError
from ...support.options import TimesOf
from ..request import Request, divisors
from ..space.space import Space
from .disturbances import Slow
from .search import Outcome, Search, by_step

MOST_TRIED = 2
"""The number of smaller numbers to search for."""

WITHOUT_RECOMPUTE = 3 / 4
"""The work of a step without recomputation, as a part of that with full recomputation."""


def _computing(request: Request, gpus: int) -> float:
    """The estimated number of accelerators that compute, in the mean over a step."""
    layers, heads = request.sizes["layers"], request.sizes["key_value_heads"]
    pairs, batch = request.sizes["sequence"] // 2, request.global_batch
    best = 0.0
    for tensor in divisors(gcd(heads, gpus)):
        for pipeline in divisors(gpus // tensor):
            rest = gpus // (tensor * pipeline)
            data = gcd(rest, batch)
            context = rest // data
            if pipeline <= layers and (context == 1 or pairs % context == 0):
                count = batch // data
                even = layers / (pipeline * -(-layers // pipeline))
                best = max(best, even * count / (count + pipeline - 1))
    return gpus * best


def _fills_nodes(request: Request, gpus: int) -> bool:
    """Whether all nodes use equally many accelerators, at least half of theirs."""
    whole = request.sizes["accelerators_per_node"]
    return gpus <= whole or 2 * max(d for d in divisors(gpus) if d <= whole) >= whole


def _tried(request: Request, best: Outcome, idle_ratio: Callable[[], float]) -> Iterator[list[int]]:
    """Smaller numbers that may be faster than the best step, and then the best just above."""
    computing = {g: _computing(request, g) for g in range(request.gpus // 2, request.gpus + 1)}
    given = computing.pop(request.gpus)
    fewer = [g for g in computing if computing[g] > given and _fills_nodes(request, g)]
    if fewer:
        work = request.gpus * (1 - idle_ratio())
        if best.candidate.shape.recompute == "full":
            work *= WITHOUT_RECOMPUTE
        fewer = [g for g in fewer if g > work]
    fewer.sort(key=lambda gpus: (-computing[gpus], gpus))
    yield fewer[:MOST_TRIED]
    above = range(request.gpus + 1, request.gpus + 1 + request.sizes["accelerators_per_node"])
    more = {g: _computing(request, g) for g in above if _fills_nodes(request, g)}
    yield [gpus for gpus in more if more[gpus] > 0.9 * gpus][:1]


def find_nearby(
    request: Request,
    best: Outcome,
    idle_ratio: Callable[[], float],
    threads: int | None,
    slow: Slow | None,
    seeds: int,
) -> list[tuple[Space, Outcome]]:
    """The best of fewer accelerators, if it is faster, and then the best of the number above. The
    idle part of the best step is asked for only if fewer may be faster.
    """
    found: list[tuple[Space, Outcome]] = []
    times_of: TimesOf | None = None if request.times is None else "layer"
    for numbers in _tried(request, best, idle_ratio):
        made = []
        for gpus in numbers:
            try:
                space = Space(replace(request, gpus=gpus, times_of=times_of))
                fitting = Search(space, threads, None, slow, seeds).run(1, 0).fitting
            except PipeSchedError:  # the limits of the request allow no such number
                continue
            made += [(space, outcome) for outcome in fitting if outcome.step_ps < best.step_ps]
        if not made:
            break
        found.append(min(made, key=lambda each: by_step(each[1])))
    return found
