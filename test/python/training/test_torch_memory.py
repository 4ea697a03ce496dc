"""The memory of workers, by the storages of PyTorch, equals the analysis of their schedule."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import pipesched
import pytest
from pipesched import Instruction, Path, PipeSchedError, Schedule
from points import WHOLE
from runtime_runs import Job, Result, made, smallest, train

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import MemoryBudgetError, PipelineRuntime, split_sequential
from pipesched.torch.grad_sync.reduce import Shared, checksum
from runtime_census import Census, Marked, Storages
from runtime_models import batch_of, loss_of
from torch import nn

pytestmark = pytest.mark.usefixtures("one_rank")

ASYMMETRIC = [
    Path([0, 1, 2, 3], takes=[range(0, 9, 3)]),
    Path([3, 2, 1, 0], takes=[range(1, 9, 3), range(2, 9, 3)]),
]


def optimized(memory: int) -> Schedule:
    times = "pipe-attach-profile{times=F=10ms,I=12ms,W=8ms,D=9ms,U=9ms}"
    problem = pipesched.problem(workers=3, microbatches=5).transform(times)
    found = problem.optimize(memory=memory, offload=True, threads=1, max_evaluations=500)
    return found.schedule


@cache
def resident() -> dict[str, Schedule]:
    found = {family: smallest(family) for family in WHOLE}
    found |= {
        "chimera of two pairs": made("chimera", 4, 8, pairs=2),
        "asymmetric": made("greedy", 4, 9, paths=ASYMMETRIC, gradient_after="I"),
        "recomputed": made("zb-v", 4, 9, "pipe-add-recompute{ahead=1}"),
        "recomputed in part": made("1f1b", 4, 7, "pipe-add-recompute{keep=1}"),
        "recomputed on paths": made("chimera", 4, 8, "pipe-add-recompute"),
        "stepped": made("interleaved-zb", 2, 6, "pipe-add-optimizer"),
    }
    return found


@cache
def offloaded() -> dict[str, Schedule]:
    return {
        "to a memory": made("zb-h1", 4, 8, "pipe-add-offload{memory=4}"),
        "to a small memory": made("1f1b", 4, 8, "pipe-add-offload{memory=2}"),
        "half": made("interleaved-1f1b", 2, 6, "pipe-add-offload{amount=half}"),
        "but one": made("zb-v", 2, 6, "pipe-add-offload{keep=1}"),
        "late": made("1f1b", 4, 8, "pipe-add-offload{ahead=0}"),
        "beside recomputation": made(
            "zb-v", 2, 6, "pipe-add-recompute{keep=2},pipe-add-offload{keep=1}"
        ),
        "optimized for 1": optimized(1),
        "optimized for 2": optimized(2),
    }


def steps_of(program: Any) -> Iterator[tuple[Instruction, int, int]]:
    """Yields each instruction, and the numbers of activations that it adds and frees at once."""
    for instruction in program:
        if instruction.kind not in ("compute", "offload", "reload"):
            continue
        cells = instruction.cells
        added = sum(c.phase in "RU" or (c.phase == "F" and not c.recomputed) for c in cells)
        yield instruction, added, sum(c.phase in "BWD" for c in cells)


def peak_in_order(program: Any) -> int:
    held = peak = 0
    for _, added, freed in steps_of(program):
        held += added - freed
        peak = max(peak, held)
    return peak


def peak_at_any_times(program: Any) -> int:
    """The most that is held if an offload frees its activation only when something waits for it."""
    held = peak = 0
    leaving: dict[int, int] = {}
    for instruction in program:
        for index in instruction.waits:
            held -= leaving.pop(index, 0)
        for step, added, freed in steps_of([instruction]):
            if step.kind == "offload":
                leaving[step.index] = freed
                continue
            held += added
            peak = max(peak, held)
            held -= freed
    return peak


@cache
def jobs() -> list[Job]:
    both = {**resident(), **{f"offloaded {n}": s for n, s in offloaded().items()}}
    found = [Job(name, schedule, "marked") for name, schedule in both.items()]
    budgets = {"memory_budget": 4}
    found.append(Job("within a budget", offloaded()["to a memory"], "marked", budgets))
    return found


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    return train(jobs(), tmp_path_factory.mktemp("memory"))


@pytest.mark.parametrize("name", list(resident()))
def test_peaks_are_those_of_the_analysis(counted: dict[str, list[Result]], name: str) -> None:
    table = resident()[name].simulate().table
    assert table is not None
    schedule = resident()[name]
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    found = [result.peak for result in counted[name]]
    assert found == [peak_in_order(program) for program in programs]
    # Within an overlapped pair the table counts both cells; after it one of them is free.
    assert [peak_at_any_times(p) for p in programs] == list(table.peak_activations)
    if not any(len(i.cells) > 1 for program in programs for i in program):
        assert found == list(table.peak_activations)
    assert [result.left for result in counted[name]] == [0] * schedule.workers


@pytest.mark.parametrize("name", list(offloaded()))
def test_peaks_with_offload(counted: dict[str, list[Result]], name: str) -> None:
    """Here a copy ends at once; at any times the bound of the proof holds."""
    schedule = offloaded()[name]
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    results = counted[f"offloaded {name}"]
    assert [result.peak for result in results] == [peak_in_order(p) for p in programs]
    assert [result.left for result in results] == [0] * schedule.workers
    most = max(peak_at_any_times(program) for program in programs)
    assert most >= max(result.peak for result in results)
    schedule.verify(memory=most)
    with pytest.raises(PipeSchedError):
        schedule.verify(memory=most - 1)


def test_offloads_save_memory(counted: dict[str, list[Result]]) -> None:
    """Without this, a schedule without offloads would do."""
    one, two = (counted[f"offloaded optimized for {memory}"] for memory in (1, 2))
    assert max(result.peak for result in one) == 1 < max(result.peak for result in two)


def test_a_budget_of_the_peak_at_any_times(counted: dict[str, list[Result]]) -> None:
    assert max(result.peak for result in counted["within a budget"]) <= 4


# Besides activations


def test_a_checksum_needs_little_memory() -> None:
    """And depends only on the values, not on the order in memory."""
    values = torch.arange(1 << 21, dtype=torch.float32).sin().view(1 << 10, 1 << 11)
    with Storages() as made:
        found = tuple(checksum([nn.Parameter(values)]))
    assert made.peak < values.nbytes // 4
    assert tuple(checksum([nn.Parameter(values.t().clone().t())])) == found
    other = values.clone()
    other[5, 7], other[9, 3] = values[9, 3], values[5, 7]
    assert tuple(checksum([nn.Parameter(other)])) != found
    assert found[0] == pytest.approx(values.double().sum().item(), rel=1e-9)


def test_large_gradients_are_summed_where_they_are() -> None:
    parameters = [nn.Parameter(torch.ones(size)) for size in (1 << 20, 10, 1 << 18, 0)]
    done: Any = SimpleNamespace(wait=lambda: None)

    def doubled(tensor: torch.Tensor) -> Any:
        tensor.mul_(2)
        return done

    watch: Any = SimpleNamespace(
        start_call=lambda call, _: call(), wait_for=lambda tensor, work, _: work.wait()
    )
    shared = Shared("all", lambda: parameters, doubled, (0, 1), lambda _: None)
    shared.begin()
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 3.0)
    with Storages() as made:
        shared.start(watch)
        shared.finish(watch, lambda: "all")
    assert made.peak < 1 << 10
    for parameter in parameters:
        assert parameter.grad is not None and bool((parameter.grad == 6).all())


# Budgets of one worker


def step(schedule: Schedule, budget: int | str, look: Any = None) -> None:
    stages = split_sequential(nn.Sequential(*map(Marked, range(schedule.blocks))), schedule)
    options: dict[str, Any] = {"memory_budget": budget, "on_instruction": look}
    runtime = PipelineRuntime(schedule, stages, loss_of, **options)
    runtime.step(*batch_of("plain", 0, schedule.microbatches, False))
    runtime.close()


TRANSFORMS = ["", "pipe-merge-backward", "pipe-add-recompute{keep=1}", "pipe-add-offload{ahead=0}"]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_budget_is_kept_at_the_peak_and_not_below(transform: str) -> None:
    schedule = made("greedy", 1, 4, transform, paths=[[0, 0, 0]], gradient_after="I")
    census = Census()
    with census:
        step(schedule, 100, census.look)
    program = schedule.program(0)
    assert census.peak == peak_in_order(program)
    # Between its start and its end a cell holds the bytes that it adds; on a CPU there are no
    # copies in flight.
    held, first = 0, ""
    for instruction, added, freed in steps_of(program):
        held += added
        if held == census.peak and not first:
            first = str(next(c for c in instruction.cells if c.phase in "FRU"))
        held -= freed
    step(schedule, census.peak)
    wanted = f"^{first} makes this rank hold {census.peak} activations; the budget is "
    with pytest.raises(MemoryBudgetError, match=f"{wanted}{census.peak - 1}\n"):
        step(schedule, census.peak - 1)


def kept_bytes(module: nn.Module, x: torch.Tensor, spared: list[torch.Tensor]) -> int:
    """The storages that autograd keeps of a forward, by hooks, except storages of `spared`."""
    known = {t.untyped_storage()._cdata: 0 for t in (*module.parameters(), *spared)}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        known.setdefault(storage._cdata, storage.nbytes())
        alive.append(tensor)  # So that no other storage gets its address.
        return tensor

    alive: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        module(x).sum()
    return sum(known.values())


def test_a_budget_of_bytes_is_kept_at_the_peak_and_not_below() -> None:
    """For a pipeline of one stage, whose activations are all equal; with their losses."""
    schedule = made("gpipe", 1, 4)
    inputs, targets = batch_of("plain", 0, 4, False)
    block = nn.Sequential(Marked(0))

    class Lossy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return loss_of(self.block(x), targets[0])

    peak = 4 * kept_bytes(Lossy(), inputs[0], [inputs[0], targets[0]])
    assert peak > 4 * 8 * 1237
    step(schedule, f"{peak}B")
    with pytest.raises(MemoryBudgetError, match=f"^0F3 makes this rank hold {peak} bytes of act"):
        step(schedule, f"{peak - 1}B")
