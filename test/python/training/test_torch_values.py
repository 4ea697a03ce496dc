"""Values that pass between stages and come with a batch, in one process."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from pipesched import Schedule

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import Arguments, PipelineError, PipelineRuntime, split_sequential
from pipesched.torch.core.values import HOST, TENSOR, Packet, Spec, flatten, read, unflatten
from runtime_models import Plain, loss_of
from test_torch_parts import COUNT, batch, local
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("one_rank")


def test_structures_differ_by_types() -> None:
    """So that a receiver never takes one value for another that is equal in Python."""
    values = [1, True, 1.0, "1", 0.0, -0.0, None, "", (1,), [1], {1: 1}, {"1": 1}]
    structures = [flatten(value)[1] for value in values]
    for i, one in enumerate(structures):
        for j, two in enumerate(structures):
            assert (one == two) == (i == j)
        assert repr(unflatten([], one)) == repr(values[i])
    nan = float("nan")
    assert flatten(nan)[1] == flatten(-nan * 2 / 2)[1]  # Not equal in Python, but sent as equal.


def test_values_survive_messages() -> None:
    value = {
        "x": torch.rand(2, 3).t(),
        7: (torch.arange(5, dtype=torch.int16), None, [torch.tensor(True)]),
        "half": torch.rand(3).bfloat16(),
        "none": torch.rand(0, 4, dtype=torch.complex64),
        "number": -0.25,
    }
    tensors, structure = flatten(value)
    packet = Packet(tensors, [tensor.is_floating_point() for tensor in tensors], structure)
    spec = packet.spec()
    header = Spec.from_bytes(spec.to_bytes())
    assert header == spec and str(header) == str(spec)
    found = read(packet.pack(spec, HOST), header)
    assert found.wants == packet.wants
    for one, two in zip(found.tensors, tensors, strict=True):
        assert one.dtype == two.dtype and torch.equal(one, two)
    assert flatten(unflatten(found.tensors, found.structure))[1] == structure


Pair = namedtuple("Pair", "left right")


@dataclass
class Result(OrderedDict[str, Any]):
    """As the outputs of models of transformers are."""

    hidden: Tensor
    more: Any = None

    def __post_init__(self) -> None:
        self.update((name, value) for name, value in vars(self).items() if value is not None)


def test_known_headers_are_found_without_making_them() -> None:
    x = torch.rand(2, 3)
    packets = [
        Packet([x], [True], TENSOR),
        Packet([x], [False], TENSOR),
        Packet([x.double()], [True], TENSOR),
        Packet([x.reshape(3, 2)], [True], TENSOR),
        Packet([x.t()], [True], TENSOR),
        Packet([x.t().contiguous()], [True], TENSOR),
        Packet([x], [True], flatten([x])[1]),
        Packet([x, x], [True, True], flatten([x, x])[1]),
        Packet([x, x], [True, True], flatten([x, x])[1], (0, 1)),
        Packet([], [], flatten(1)[1]),
        Packet([], [], flatten(2)[1]),
    ]
    headers = [packet.spec() for packet in packets]
    for packet in packets:
        strided = any(not tensor.is_contiguous() for tensor in packet.tensors)
        for header in (*headers, *(Spec.from_bytes(each.to_bytes()) for each in headers)):
            # A tensor in another order of memory is left to the header itself.
            assert packet.fits(header) == (packet.spec() == header and not strided)
    sparse = Packet([x.to_sparse()], [True], TENSOR)
    assert not any(sparse.fits(header) for header in headers)
    with pytest.raises(PipelineError, match="plain dense tensors can be sent"):
        sparse.spec()


def test_objects_survive_messages() -> None:
    """Between processes, which find their classes by name."""
    one, two, three = torch.rand(2), torch.rand(3), torch.rand(4)
    value = Arguments(one, Result(two, more=Pair(three, None)), mask=OrderedDict(b=1, a=2))
    tensors, structure = flatten(value)
    header = Spec.from_bytes(Packet(tensors, [True] * 3, structure).spec().to_bytes())
    assert header.structure == structure
    found = unflatten(tensors, header.structure)
    assert type(found) is Arguments and list(found.kwargs["mask"].items()) == [("b", 1), ("a", 2)]
    result = found.args[1]
    assert type(result) is Result and result["hidden"] is two and result.hidden is two
    assert type(result.more) is Pair and result.more == (three, None)
    result["other"] = one
    with pytest.raises(PipelineError, match="found a Result between stages with 'other', which is"):
        flatten(result)

    @dataclass
    class Inner:
        x: Tensor

    tensors, structure = flatten(Inner(one))
    assert type(unflatten(tensors, structure)) is Inner
    with pytest.raises(PipelineError, match="define its class in a module, so that the other rank"):
        Packet(tensors, [True], structure).spec().to_bytes()
    for name in ("os:system", "builtins:dict", "no.such:Thing", "pytest:raises"):
        header_bytes = json.dumps([["class", {"class": name}, []], [], []]).encode()
        with pytest.raises(PipelineError, match="is no dataclass or named tuple in the module"):
            Spec.from_bytes(header_bytes)


def test_orders_of_memory_survive_messages() -> None:
    """Channels last stays so; memory with gaps or repetitions becomes contiguous."""
    image = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    tensors = [image, torch.rand(4, 5).t(), torch.rand(4, 6)[:, ::2], torch.rand(1, 3).expand(2, 3)]
    packet = Packet(tensors, [True] * 4, flatten(tuple(tensors))[1])
    spec = Spec.from_bytes(packet.spec().to_bytes())
    found = read(packet.pack(packet.spec(), HOST), spec).tensors
    assert all(torch.equal(one, two) for one, two in zip(found, tensors, strict=True))
    assert [each.stride() for each in found] == [image.stride(), (1, 5), (3, 1), (3, 1)]


def test_received_tensors_change_by_themselves() -> None:
    packet = Packet([torch.rand(3), torch.zeros(2)], [True, False], flatten((None, 1))[1])
    one, two = read(packet.pack(packet.spec(), HOST), packet.spec()).tensors
    before = one._version
    two.add_(1)
    assert one._version == before


def test_targets_are_placed_as_inputs_are() -> None:
    def loss(output: Tensor, target: dict[str, Tensor]) -> Tensor:
        assert output.device == target["y"].device == torch.device("meta")
        return loss_of(output, target["y"])

    schedule = local()
    model = nn.Sequential(*(Plain(i) for i in range(3))).to("meta")
    runtime = PipelineRuntime(schedule, split_sequential(model, schedule), loss)
    inputs, targets = batch()
    assert runtime.evaluate(inputs, {"y": targets}) is not None


class Telling(Plain):
    """Returns a buffer that each forward changes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return super().forward(x), self.calls


class Told(Plain):
    def forward(self, given: Any) -> Any:
        return super().forward(given[0]) * given[1]


STAGE_BY_STAGE = """
exec.program @stage_by_stage workers 1 microbatches 3 {
  worker 0 {
    %a0 = compute 0F0
    %a1 = compute 0F1
    %a2 = compute 0F2
    %b0 = compute 1F0 after %a0
    %b1 = compute 1F1 after %a1
    %b2 = compute 1F2 after %a2
    %c0 = compute 1B0 after %b0
    %c1 = compute 1B1 after %b1
    %c2 = compute 1B2 after %b2
    %d0 = compute 0B0 after %c0
    %d1 = compute 0B1 after %c1
    %d2 = compute 0B2 after %c2
  }
}
"""


def test_a_buffer_that_is_an_output_is_that_of_its_microbatch() -> None:
    """GPipe runs all microbatches through a stage before the next stage reads the first."""
    schedule = Schedule.from_text(STAGE_BY_STAGE)
    model = nn.Sequential(Telling(0), Told(1))
    runtime = PipelineRuntime(schedule, split_sequential(model, schedule), loss_of)
    inputs, targets = batch()
    found = runtime.step(inputs, targets)
    like = nn.Sequential(Telling(0), Told(1))
    parts = zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True)
    wanted = [loss_of(like(x), y).item() for x, y in parts]
    assert found is not None and abs(found.item() - sum(wanted) / COUNT) < 1e-12
