"""Proofs and reality: real processes over gloo finish exactly where `verify` says so.

Every family at 4 workers and 8 microbatches, with both placements of receives and four message
layers (ranks.py), runs in the same four processes.
"""

import importlib.util
from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest
from pipesched import PipeSchedError, Schedule, generate
from points import WHOLE
from ranks import Layer, Outcome, Ranks, Receives

WORKERS, MICROBATCHES = 4, 8
LAYERS: tuple[Layer, ...] = get_args(Layer)
RECEIVES: tuple[Receives, ...] = get_args(Receives)
STEPS = {"eager": "chimera", "end": "dualpipe"}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is missing, whose processes run the programs: pip install torch==2.13.0",
)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    started = Ranks(WORKERS, tmp_path_factory.mktemp("ranks"))
    yield started
    started.close()


@cache
def made(name: str) -> Schedule:
    """A family, or a family with all-reduces and optimizer steps ("eager", "end")."""
    schedule = generate(STEPS.get(name, name), workers=WORKERS, microbatches=MICROBATCHES)
    if name in STEPS:
        return schedule.transform(f"pipe-add-optimizer{{all-reduce={name}}}")
    return schedule


def proof(schedule: Schedule, receives: Receives, layer: Layer) -> bool:
    """Whether it finishes, by the proofs of the schedule and of its program."""

    def holds(proved: Schedule, placement: Receives | None) -> bool:
        try:
            proved.verify(layer, receive_placement=placement)
        except PipeSchedError as error:
            assert "deadlocks in a cycle" in str(error) or "waits" in str(error), error
            return False
        return True

    program = schedule.transform(f"convert-pipe-to-exec{{receive-placement={receives}}}")
    verdict = holds(schedule, receives)
    assert holds(program, None) == verdict
    return verdict


def compare(ranks: Ranks, schedule: Schedule, receives: Receives, layer: Layer) -> Outcome:
    """Runs it, and compares its end with the proof."""
    outcome = ranks.run(schedule, receives, layer)
    no = "wrong" if layer == "fifo" else "stuck"
    expected = "finished" if proof(schedule, receives, layer) else no
    assert outcome.ending == expected, "\n".join(outcome.reasons)
    return outcome


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("receives", RECEIVES)
@pytest.mark.parametrize("name", [*WHOLE, *STEPS])
def test_processes_end_as_proved(ranks: Ranks, name: str, receives: Receives, layer: Layer) -> None:
    compare(ranks, made(name), receives, layer)


def test_both_verdicts_occur() -> None:
    """Without this, a layer that never stops would agree with a proof that always succeeds."""
    for layer in ("fifo", "rendezvous", "batched"):
        verdicts = {
            proof(made(family), receives, layer) for family in WHOLE for receives in RECEIVES
        }
        assert verdicts == {True, False}, layer
