"""The first row of a plan: the simplest that a framework runs and is as fast as the fastest."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from pipesched import plan
from pipesched.planning.candidate import Candidate, Shape
from pipesched.planning.proposals import OWN_RUNTIME
from pipesched.planning.request import Request
from pipesched.planning.search.choice import choose, simplicity
from pipesched.planning.search.search import EQUAL, Outcome, Search, by_step
from pipesched.planning.space.space import Space

PLAIN = Shape(1, 2, 4, 1, 8, "none", "none")


def outcome(
    step: int,
    schedule: str = "1f1b",
    layers: tuple[int, ...] = (4, 4),
    peak: int = 100,
    **changed: Any,
) -> Outcome:
    workers = tuple(stage % 2 for stage in range(len(layers)))
    shape = PLAIN._replace(**changed)
    return Outcome(Candidate(shape, schedule, (), (workers,), (layers,), 0), step, peak)


IN_ORDER = [
    outcome(1),
    outcome(1, sharding="optimizer", peak=101),
    outcome(1, pipeline=4, layers=(4, 4, 4, 4), peak=50),
    outcome(1, tensor=2),
    outcome(1, recompute="selective", sharding="optimizer"),
    outcome(1, sharding="gradients", recompute="none"),
    outcome(1, sharding="full"),
    outcome(1, context=2),
    outcome(1, layers=(2, 2, 2, 2)),
    outcome(1, layers=(5, 3)),
    outcome(1, "interleaved-1f1b", layers=(2, 2, 2, 2)),
    outcome(1, "zb-h1"),
]
"""Each is simpler than the ones after it (docs/Planning.md, "The order")."""


def test_simpler_ones_come_first() -> None:
    mixed = IN_ORDER[::2] + IN_ORDER[1::2]
    assert sorted(mixed, key=simplicity) == IN_ORDER


def test_the_simplest_within_the_error() -> None:
    near, far = outcome(1020), outcome(1021)
    fast = outcome(1000, "zb-h1")
    for others in permutations([fast, near, outcome(1100, tensor=2)]):
        found = choose(sorted(others, key=by_step), 5, lambda o: o.step_ps)
        assert found.rows == [near, fast, others[others.index(outcome(1100, tensor=2))]]
        assert found.fastest == fast
    assert choose([fast, far], 5, lambda o: o.step_ps).rows == [fast, far]
    # By the steps that are to be expected.
    slowly = {"zb-h1": 1.1}
    found = choose([fast, far], 5, lambda o: o.step_ps * slowly.get(o.candidate.schedule, 1))
    assert found.rows == [far, fast] and found.fastest == far


def test_each_row_is_listed_once() -> None:
    neighbours = [outcome(1000 + i, layers=(4 + i, 4 - i)) for i in range(3)]
    found = choose([*neighbours, outcome(1200, data=8)], 5, lambda o: o.step_ps)
    assert found.rows == [neighbours[0], outcome(1200, data=8)]
    assert choose(neighbours, 1, lambda o: o.step_ps).rows == neighbours[:1]


def test_the_best_of_all_candidates() -> None:
    """Trying everything finds no simpler one that a framework runs and is as fast."""
    given: dict[str, Any] = {"gpus": 8, "global_batch": 8, "pp": [1, 2, 4], "chunks": [2, 4]}
    made = plan("llama3-8b", "dgx-a100", **given)
    space = Space(Request(model="llama3-8b", system="dgx-a100", **given))
    search = Search(space, None, None)
    every = search.evaluate(search.space.candidates())
    run = [o for o in every if o.peak_bytes <= search.usable and search.is_listed(o.candidate)]
    assert len(run) < len(every)
    fastest = min(o.step_ps for o in run)
    equal = [o for o in run if o.step_ps <= (1 + EQUAL) * fastest]
    best = min(equal, key=simplicity)
    assert made.fitting[0].candidate == best.candidate
    assert all(each.runs_in != (OWN_RUNTIME,) for each in made.proposals)


def test_what_no_framework_runs_is_one_line() -> None:
    given: dict[str, Any] = {"gpus": 8, "global_batch": 32, "pp": [8], "tp": [1], "cp": [1]}
    made = plan("llama3-8b", "dgx-h100", **given, sharding=["none"], memory="120GiB")
    assert made.elsewhere is not None and made.elsewhere.runs_in == (OWN_RUNTIME,)
    gain = 1 - made.elsewhere.expected_s / made.fitting[0].expected_s
    (line,) = (text for text in made.why() if f"faster with {OWN_RUNTIME}: " in text)
    assert gain > 0 and line.startswith(f"{100 * gain:.1f} % faster")
    assert made.to_dicts()[0]["elsewhere"]["expected_s"] == made.elsewhere.expected_s
    named = plan("llama3-8b", "dgx-h100", **given, memory="120GiB", schedules=["hanayo"])
    assert named.fitting[0].runs_in == (OWN_RUNTIME,) and named.elsewhere is None


@pytest.mark.parametrize(("gpus", "batch"), [(16, 64), (64, 256)])
def test_the_best_does_not_depend_on_how_many_are_shown(gpus: int, batch: int) -> None:
    bests = {
        plan("llama3-70b", "dgx-b200", gpus=gpus, global_batch=batch, top=top).fitting[0].candidate
        for top in (1, 3, 20)
    }
    assert len(bests) == 1
