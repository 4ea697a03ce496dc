"""Gradients that are reduced under the last backward: docs/CostModel.md, "Under the backward"."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipesched import Configuration, Costs, FamilyOptions, PipeSchedError
from test_training_step import MODEL as SMALL
from test_training_step import SYSTEM as ROUND

SYSTEM = {name: part for name, part in ROUND.items() if name != "link"}
MODEL = {**SMALL, "layers": 4}


def step_ps(step: Any, family: str = "1f1b", **given: Any) -> int:
    """The makespan of a step that ends so."""
    sizes: dict[str, Any] = {"workers": 1, "microbatches": 2, "options": FamilyOptions()}
    sizes |= {name: given.pop(name) for name in sizes if name in given}
    costs: dict[str, Any] = {"model": MODEL, "system": SYSTEM}
    costs |= {"microbatch_size": 1, "data_parallel": 4}
    point = Configuration(family, costs=Costs(**(costs | given)), optimizer_step=step, **sizes)
    return point.simulate().execution.makespan_ps


def test_messages_do_not_wait_for_gradients() -> None:
    """Chunks whose gradients take long, on a network on which messages are slow too."""
    chunks: dict[str, Any] = {"workers": 2, "microbatches": 4, "options": FamilyOptions(chunks=2)}
    for network in (1, 10, 100):
        system = {**SYSTEM, "network": {"bandwidth_gb_per_s": network}}
        given = {**chunks, "model": {**MODEL, "layers": 8}, "system": system}
        steps = [
            step_ps(step, "interleaved-1f1b", **given, gradient_buckets=buckets)
            for step, buckets in (
                ("exposed", "auto"),
                ("overlapped", "whole"),
                ("overlapped", "layers"),
            )
        ]
        assert steps[0] > steps[1] > steps[2]


def test_nothing_is_hidden_in_the_row() -> None:
    options: dict[str, Any] = {"microbatch_size": 1, "data_parallel": 4, "sharding": "none"}
    costs = Costs(model=MODEL, system=SYSTEM, **options)
    makespans = [
        Configuration("1f1b", 1, 2, costs=costs, transport="blocking", optimizer_step=step)
        .simulate()
        .execution.makespan_ps
        for step in ("overlapped", "exposed")
    ]
    assert makespans[0] == makespans[1]


def test_pieces_are_named() -> None:
    with pytest.raises(PipeSchedError, match="gradient_buckets is one of auto, whole, layers"):
        step_ps("overlapped", gradient_buckets="each")


FAMILIES = {
    "gpipe": [FamilyOptions()],
    "1f1b": [FamilyOptions()],
    "interleaved-1f1b": [FamilyOptions(chunks=2), FamilyOptions(chunks=4)],
    "zb-h1": [FamilyOptions()],
    "zb-v": [FamilyOptions()],
    "dualpipe-v": [FamilyOptions()],
    "hanayo": [FamilyOptions(waves=1), FamilyOptions(waves=2)],
    **{
        family: [FamilyOptions()]
        for family in ("chimera", "dualpipe", "v-half", "v-min", "zb-h2", "looped-bfs", "greedy")
    },
}
EVEN = ("chimera", "dualpipe", "dualpipe-v")
"""Families of an even number of workers, whose paths hold the same blocks."""


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    network=st.sampled_from([0.1, 1, 10, 100, 1000]),
    latency=st.sampled_from([0, 0.001, 1]),
    peers=st.sampled_from([1, 2, 3, 8, 64]),
    sharding=st.sampled_from(["none", "optimizer", "gradients", "full-kept", "full"]),
    vocabulary=st.sampled_from([0, 64, 4096]),
    transport=st.sampled_from(["overlap", "delay"]),
)
def test_overlapped_is_never_slower(
    data: st.DataObject,
    network: float,
    latency: float,
    peers: int,
    sharding: Any,
    vocabulary: int,
    transport: Any,
) -> None:
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    options = data.draw(st.sampled_from(FAMILIES[family]))
    workers = data.draw(st.sampled_from([2, 4] if family in EVEN else [1, 2, 4]))
    link = {"bandwidth_gb_per_s": network, "latency_us": latency}
    costs = Costs(
        model={**MODEL, "layers": 16, **({"vocabulary": vocabulary} if vocabulary else {})},
        system={**SYSTEM, "network": link},
        microbatch_size=1,
        data_parallel=peers,
        sharding=sharding,
    )
    steps = [
        Configuration(
            family, workers, 8, options, costs=costs, transport=transport, optimizer_step=step
        )
        .simulate()
        .execution.makespan_ps
        for step in ("overlapped", "exposed")
    ]
    assert steps[0] <= steps[1]
