"""Facts that the executor finds once: its instructions, its boxes, and ways into the backward."""

from __future__ import annotations

from collections.abc import Sequence

import pipesched
import pytest
from pipesched import Cell, Instruction, Schedule

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import PipelineError
from pipesched.torch.autograd.activation import Inputs
from pipesched.torch.autograd.backward import WeightBackward, input_backward, whole_backward
from pipesched.torch.comm.messages import Boxes
from pipesched.torch.core.program import Pair, early_receives, needs, prepare_passes
from pipesched.torch.core.values import TENSOR, Packet
from pipesched.torch.vocab_parallel.head import FORWARD
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

OVERLAPPED = "dualpipe"
FAMILIES = ["1f1b", "zb-v", "interleaved-1f1b", OVERLAPPED]


def schedule_of(family: str) -> Schedule:
    return pipesched.generate(family, workers=4, microbatches=8)


def pair_of(cells: Sequence[Cell]) -> Pair | None:
    return (cells[0], cells[1]) if len(cells) == 2 else None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_runs_its_part_of_the_program(family: str) -> None:
    schedule = schedule_of(family)
    pairs = 0
    for worker in range(schedule.workers):
        program = schedule.program(worker)
        early = early_receives(program)
        trained = prepare_passes(program, early, lambda _: True, pair_of)
        assert [each.instruction for each in trained] == list(program)
        assert [list(each.awaited) for each in trained] == [needs(i, program) for i in program]
        begun = [each for work in trained for each in work.early]
        assert {i.index for i in begun} == {i.index for i in program if i.kind == "recv"}
        pairs += sum(work.pair is not None for work in trained)
        evaluated = prepare_passes(program, early, lambda cell: cell.phase in FORWARD, pair_of)
        forwards = [c for i in program for c in i.cells if c.phase == "F"]
        assert [cell for work in evaluated for cell in work.cells] == forwards
        assert all(work.pair is None for work in evaluated)
        # A receive of a forward keeps its place in the run, and receives of gradients are gone.
        kept = [i for work in evaluated for i in work.early]
        assert kept == [i for i in begun if i.cell.phase == "F"]
        places = {work.instruction.index: n for n, work in enumerate(evaluated)}
        for n, work in enumerate(evaluated):
            for receive in work.early:
                assert n <= places[receive.index]
    assert (pairs > 0) == (family == OVERLAPPED)


def test_an_instruction_of_backwards_begins_receives_of_forwards() -> None:
    program = schedule_of("1f1b").program(3)
    backward = next(i for i in program if i.kind == "compute" and i.cell.phase == "B")
    receive = next(i for i in program if i.kind == "recv" and i.index > backward.index)
    early = {backward.index: [receive]}
    found = prepare_passes(program, early, lambda cell: cell.phase == "F", pair_of)
    (work,) = [work for work in found if work.instruction == backward]
    assert work.cells == () and work.early == [receive]


def packet(value: float = 0.0) -> Packet:
    return Packet([torch.full((2,), value)], [True], TENSOR)


def cell_of(stage: int, phase: str, program: Sequence[Instruction]) -> Cell:
    cells = [cell for i in program for cell in i.cells]
    return next(cell for cell in cells if (cell.stage, cell.phase) == (stage, phase))


def test_boxes_pass_on_to_stages_here_and_to_messages() -> None:
    program = schedule_of("interleaved-1f1b").program(1)
    boxes = Boxes()
    forward, further = cell_of(1, "F", program), cell_of(5, "F", program)
    backward = cell_of(5, "B", program)
    here, away, up = packet(1.0), packet(2.0), packet(3.0)
    boxes.give(forward, here)
    boxes.give(further, away)
    boxes.give(backward, up)
    assert boxes.behind(forward) == (here, "output")
    assert boxes.behind(further) == (away, "output")
    assert boxes.behind(backward) == (up, "upward")
    assert {float(t[0]) for t in boxes.tensors()} == {1.0, 2.0, 3.0}
    assert boxes.pop_sent(further) is away and boxes.pop_sent(backward) is up
    following = forward._replace(stage=2)
    assert boxes.take(following) is here
    with pytest.raises(PipelineError, match="runs 2F0 before what it needs"):
        boxes.take(following)
    with pytest.raises(PipelineError, match="runs 5B0 before what it needs"):
        boxes.pop_sent(backward)
    boxes.give(forward, here)
    boxes.give(backward, up)
    assert boxes.take(following) is here
    assert boxes.take(backward._replace(stage=4)) is up


@pytest.mark.parametrize("has_edges", [False, True])
def test_inputs_get_gradients_and_may_be_changed(has_edges: bool) -> None:
    made = torch.rand(3, 2, dtype=torch.float64)
    sent = Packet([made, torch.arange(3)], [True, False], TENSOR)
    inputs = Inputs.of(sent, True, has_edges)
    assert len(inputs.edges) == has_edges and inputs.wanted == [0]
    x = inputs.tensors[0]
    assert x.data_ptr() == made.data_ptr() and not x._is_view() and x.requires_grad
    before = made.detach().clone(), made._version
    inputs.tell()
    assert made._version == before[1]
    inputs = Inputs.of(sent, True, has_edges)
    x = inputs.tensors[0]
    x.mul_(2)
    inputs.tell()  # the producer of the tensor hears of the change
    assert made._version > before[1]
    weight = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    root = get_gradient_edge((x * weight).sum()), torch.tensor(1.0, dtype=torch.float64)
    if has_edges:
        found, rest = input_backward([root], inputs.edges)
        assert weight.grad is None
        rest.run()
    else:
        whole_backward([root])
        found = inputs.gradients()
    assert found[0] is not None and torch.equal(found[0], torch.full_like(made, 6.0))
    assert weight.grad is not None and torch.equal(weight.grad, 2 * before[0].sum())


@pytest.mark.parametrize("is_sparse", [False, True])
def test_gradients_of_any_layout_arrive(is_sparse: bool) -> None:
    leaf = nn.Parameter(torch.zeros(4, 2))
    dense = torch.tensor([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    gradient = dense.to_sparse() if is_sparse else dense
    whole_backward([(get_gradient_edge(leaf.clone()), gradient)])
    assert leaf.grad is not None
    found: Tensor = leaf.grad.to_dense() if is_sparse else leaf.grad
    assert leaf.grad.is_sparse == is_sparse and torch.equal(found, dense)


def test_gradients_of_another_shape_are_refused() -> None:
    leaf = nn.Parameter(torch.zeros(4, 2))
    with pytest.raises(RuntimeError, match="shape"):
        whole_backward([(get_gradient_edge(leaf * 2), torch.zeros(3, 2))])
    assert leaf.grad is None
    whole_backward([])
    WeightBackward().run()  # no nodes are left, so none runs
    assert leaf.grad is None
