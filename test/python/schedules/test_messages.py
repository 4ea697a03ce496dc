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
    """Runs it, and holds how it ends against the proof."""
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


CROSSED = """
exec.program @crossed workers 4 microbatches 2 {
  worker 0 {
    %f = compute 0F0
    %s = send 0F0 to 1 after %f
    %r = recv 1F1 from 1
  }
  worker 1 {
    %f = compute 1F1
    %s = send 1F1 to 0 after %f
    %r = recv 0F0 from 0
  }
  worker 2 {
    %f = compute 2F0
  }
  worker 3 {
    %f = compute 3F0
  }
}
"""

SWAPPED = """
exec.program @swapped workers 4 microbatches 2 {
  worker 0 {
    %f0 = compute 0F0
    %f1 = compute 0F1
    %s0 = send 0F0 to 1 after %f0
    %s1 = send 0F1 to 1 after %f1
  }
  worker 1 {
    %r1 = recv 0F1 from 0
    %r0 = recv 0F0 from 0
    %f0 = compute 1F0 after %r0
  }
  worker 2 {
    %f = compute 2F0
  }
  worker 3 {
    %f = compute 3F0
  }
}
"""


@pytest.mark.parametrize(
    ("layer", "ending"),
    [("unbounded", "finished"), ("rendezvous", "stuck"), ("batched", "finished")],
)
def test_a_send_waits_for_its_receive(ranks: Ranks, layer: Layer, ending: str) -> None:
    """Two workers that send to each other first: gloo keeps a waited send until it is received."""
    outcome = ranks.run(Schedule.from_text(CROSSED), None, layer, still_seconds=2)
    assert outcome.ending == ending
    if ending == "stuck":
        assert outcome.reasons == (
            "1: send 0F0 to 1 of rank 0 waits for 2: recv 0F0 from 0 of rank 1",
            "1: send 1F1 to 0 of rank 1 waits for 2: recv 1F1 from 1 of rank 0",
        )


def test_an_order_without_tags_is_seen(ranks: Ranks) -> None:
    """A receiver that takes two messages in the other order gets the wrong ones."""
    schedule = Schedule.from_text(SWAPPED)
    outcome = ranks.run(schedule, None, "fifo")
    assert outcome == Outcome(
        "wrong",
        (
            "rank 1: 0: recv 0F1 from 0 got 0, wanted 1",
            "rank 1: 1: recv 0F0 from 0 got 1, wanted 0",
        ),
    )
    assert ranks.run(schedule, None, "unbounded").ending == "finished"
    assert ranks.run(schedule, None, "rendezvous").ending == "stuck"
