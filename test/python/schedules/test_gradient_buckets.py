"""Gradients that are reduced under the last backward, and weights that are gathered under the first
forward (docs/CostModel.md, "Under the backward and the forward").
"""

from itertools import accumulate
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


def cell_ps(phase: str) -> int:
    """What a cell of the stage takes."""
    costs = Costs(model=MODEL, system=SYSTEM, microbatch_size=1, data_parallel=4)
    frame = Configuration("1f1b", 1, 1, costs=costs).simulate().to_frame()
    return int((frame.end_ps - frame.start_ps)["FB".index(phase)])


def reduced_after(computed: list[float], reduced: list[float]) -> float:
    """How long behind the last of some equal layers its gradients are reduced, one by one."""
    end = 0.0
    for ready, took in zip(accumulate(computed), reduced, strict=True):
        end = max(end, ready) + took
    return end - sum(computed)


@pytest.mark.parametrize("network", [10, 100, 1000, 10000])
def test_layers_go_when_they_are_there(network: int) -> None:
    """Against a queue that is walked layer by layer. Four layers, and nothing else: each computes
    and moves a quarter.
    """
    system = {**SYSTEM, "network": {"bandwidth_gb_per_s": network}}
    exposed = step_ps("exposed", system=system)
    whole = step_ps("overlapped", system=system, gradient_buckets="whole")
    assert exposed == whole  # a stage for each worker: G stands at the same place
    layers = step_ps("overlapped", system=system)
    # A ring of four members sends 2 * 3 quarters of 4 * 784 * 2 bytes.
    moved = 6 * 4 * (12 * 64 + 2 * 8) * 2 // 4 * 1000 // network
    hidden = moved - reduced_after([cell_ps("B") / 4] * 4, [moved / 4] * 4)
    assert exposed - layers == pytest.approx(hidden, abs=2)
    assert exposed > layers
    assert layers == step_ps("overlapped", system=system, gradient_buckets="layers")


def test_weights_are_gathered_one_layer_ahead() -> None:
    """With divided state half of what G moves is weights, under the first forward."""
    system = {**SYSTEM, "network": {"bandwidth_gb_per_s": 500}}
    half = 3 * 4 * (12 * 64 + 2 * 8) * 2 // 4 * 2
    forward, backward = cell_ps("F"), cell_ps("B")
    exposed = half / 4 + 3 * max(0, half / 4 - forward / 4)
    left = exposed + reduced_after([backward / 4] * 4, [half / 4] * 4)
    for sharding in ("optimizer", "full-kept"):
        options: dict[str, Any] = {"sharding": sharding, "system": system}
        moved = step_ps("exposed", **options) - step_ps("overlapped", **options)
        assert moved == pytest.approx(2 * half - left, abs=2)


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
    costs = Costs(model=MODEL, system=SYSTEM, microbatch_size=1, data_parallel=4)
    makespans = [
        Configuration(
            "1f1b", 1, 2, costs=costs, transport="blocking", optimizer_step=step
        ).simulate().execution.makespan_ps
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
        ).simulate().execution.makespan_ps
        for step in ("overlapped", "exposed")
    ]
    assert steps[0] <= steps[1]
