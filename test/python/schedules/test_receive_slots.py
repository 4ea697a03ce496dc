"""How many buffers hold all that a worker receives."""

from __future__ import annotations

from typing import Any

import pytest
from pipesched import Schedule, generate


def counts(schedule: Schedule, kind: str, receives: Any = None) -> list[int]:
    """The slots of each rank."""
    ranks = range(schedule.workers)
    pools = [schedule.receive_slots(rank, receives=receives) for rank in ranks]
    return [sum(pool.size for pool in each if kind in ("", pool.kind)) for each in pools]


@pytest.mark.parametrize("microbatches", [8, 16])
def test_slots_of_pytorchs_order(microbatches: int) -> None:
    """ZB-V on 4 ranks with one pool per stage and direction, as counted in PyTorch's pull request
    196465.
    """
    schedule = generate("zb-v", workers=4, microbatches=microbatches)
    assert counts(schedule, "", "pytorch") == [5, 14, 16, 8]
    assert counts(schedule, "input", "pytorch") == [2, 10, 10, 5]
    assert counts(schedule, "gradient", "pytorch") == [3, 4, 6, 3]


@pytest.mark.parametrize("family", ["1f1b", "gpipe", "zb-v", "interleaved-zb", "dualpipe-v"])
@pytest.mark.parametrize("receives", ["arrival", "consumer", "pytorch"])
def test_slots_are_as_few_as_can_be(family: str, receives: Any) -> None:
    """Messages of a slot do not overlap, and a pool has as many slots as messages overlap."""
    schedule = generate(family, workers=4, microbatches=8)
    for worker in range(4):
        order: Any = receives if receives != "pytorch" else "arrival"
        program = schedule.program(worker, receives=order)
        begins = {i.message or 0: i.index for i in program if i.kind == "recv"}
        found = schedule.receive_slots(worker, receives=receives)
        messages = [m for pool in found for slot in pool.slots for m in slot]
        assert sorted(messages) == sorted(begins)
        if receives == "pytorch":
            continue
        for pool in found:
            lives = {}
            for message in (m for slot in pool.slots for m in slot):
                cell = program[begins[message]].cell
                phases = "FBIW" if pool.kind == "input" else "BIW"
                last = max(
                    i.index
                    for i in program
                    for c in i.cells
                    if i.kind == "compute" and c.phase in phases
                    if (c.path, c.stage, c.microbatch) == (pool.path, pool.stage, cell.microbatch)
                )
                lives[message] = (begins[message], last)
            for slot in pool.slots:
                pairs = zip(slot, slot[1:], strict=False)
                assert all(lives[one][1] < lives[other][0] for one, other in pairs)
            spans, ends = list(lives.values()), range(len(program))
            assert pool.size == max(sum(a <= at <= b for a, b in spans) for at in ends)


def test_an_offload_gives_a_slot_back() -> None:
    whole = generate("gpipe", workers=4, microbatches=8)
    away = whole.transform("pipe-add-offload{memory=2}")
    again = whole.transform("pipe-add-recompute")
    assert counts(whole, "input") == counts(again, "input") == [0, 8, 8, 8]
    assert counts(away, "input") == [0, 3, 3, 3]
    assert counts(away, "gradient") == counts(whole, "gradient")
