"""An embedding in shards in tables that the optimizer has found."""

from __future__ import annotations

from typing import Any

import pytest
from pipesched import Schedule, problem

TIMES = "F=3us,B=7us,I=4us,W=3us,R=2us,D=2us,U=2us,S=1us,T=1us,E=100ns,V=100ns,comm=1us"


@pytest.fixture(
    scope="module",
    params=[{}, {"offload": True}, {"recompute": "full"}],
    ids=["split", "offloaded", "recomputed"],
)
def optimized(request: pytest.FixtureRequest) -> Schedule:
    given: Any = request.param
    asked = problem(workers=3, microbatches=6)
    timed = asked.transform(f'pipe-attach-profile{{times="{TIMES}"}}')
    return timed.optimize(memory=3, time_limit=2, **given).schedule


def cells(schedule: Schedule, worker: int, phases: str) -> list[tuple[str, int]]:
    """The phases and microbatches of the cells of a row that have one of some phases."""
    frame = schedule.to_frame()
    row = frame[(frame.worker == worker) & frame.phase.isin(list(phases))]
    return list(zip(row.phase, row.microbatch, strict=True))


def test_optimized_tables_keep_their_order(optimized: Schedule) -> None:
    spread = optimized.transform("pipe-spread-vocabulary")
    looked_up = optimized.transform("pipe-spread-vocabulary{embedding=true}")
    looked_up.verify("unbounded")
    held = 0
    for phase, _ in cells(looked_up, 0, "EF"):
        held += 1 if phase == "E" else -1
        assert 0 <= held <= 2
    for worker in range(3):
        others = "FBIWRDUSTXYZ"
        assert cells(looked_up, worker, others) == cells(spread, worker, others)
        for phase in "EACV":
            assert len(cells(looked_up, worker, phase)) == 6
            # All workers meet in one order.
            if phase in "AC":
                assert cells(looked_up, worker, phase) == cells(looked_up, 0, phase)


def test_lookups_cost_what_they_take(optimized: Schedule) -> None:
    """Twelve cells of 100 ns on each worker, in addition to its earlier cells."""
    busy = [
        optimized.transform(f"pipe-spread-vocabulary{options}").simulate().execution.busy_ps
        for options in ("", "{embedding=true}")
    ]
    assert [after - before for before, after in zip(*busy, strict=True)] == [1_200_000] * 3
