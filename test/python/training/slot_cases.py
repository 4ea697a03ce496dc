"""Receives at fixed addresses, in real processes: see module_cases.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from beside import Beside, layer, line, off
from case_runs import case
from memory_cases import Wide, wide_batch
from module_cases import CUTS, Skipping, tied
from pipesched import Schedule, generate
from pipesched.torch import PipelineRuntime, split_model, split_sequential
from runtime_cases import COUNT, batch
from runtime_census import Storages
from runtime_models import SAMPLES, WIDTH, Plain, loss_of
from torch import Tensor, nn


class Noting(nn.Module):
    """Notes where its input and the gradient of its output lie."""

    def __init__(self, number: int, found: list[int]) -> None:
        super().__init__()
        self.layer = layer(number)
        self.found = found

    def forward(self, x: Tensor) -> Tensor:
        self.found.append(x.data_ptr())
        result: Tensor = self.layer(x).tanh()
        return result


def noting(count: int, found: list[int]) -> Callable[[], nn.Sequential]:
    return lambda: nn.Sequential(*(Noting(number, found) for number in range(count)))


def addresses(runtime: PipelineRuntime) -> list[list[int]]:
    return runtime.slots.addresses


def fixed(schedule: Schedule, **options: Any) -> list[float]:
    """How far steps with slots are from the whole model; how many addresses have changed after the
    first step, and how many inputs of first layers of stages lay outside of slots.
    """
    found: list[int] = []
    count = schedule.blocks
    both = Beside(schedule, noting(count, found), receive_slots=True, **options)
    known: list[Any] = []
    seen: list[list[int]] = []
    for seed in range(4):
        found.clear()
        both.runtime.step(*batch(seed))
        places = {place for each in addresses(both.runtime) for place in each}
        seen.append([place for place in found if place in places])
        both.runtime.zero_grad()
        both.step(seed)
        both.update()
        known.append(addresses(both.runtime))
    slots = both.runtime.slots
    begun = known[0 if both.runtime._parts.messages.has_tags else 1]
    moved = sum(each != begun for each in known[1:]) + sum(each != seen[1] for each in seen[2:])
    inputs = {m for p in slots.pools if p.kind == "input" for each in p.slots for m in each}
    unused = sum(0 in each for each in known[-1])
    return [both.finish(), moved, max(0, len(inputs) - len(seen[-1])), unused, len(slots.pools)]


KINDS = {
    "1f1b": ("1f1b", ""),
    "gpipe": ("gpipe", ""),
    "zb-v": ("zb-v", ""),
    "interleaved-zb": ("interleaved-zb", ""),
    "recomputed": ("zb-v", "pipe-add-recompute{ahead=1}"),
    "offloaded": ("gpipe", "pipe-add-offload{memory=2}"),
    "both": ("zb-v", "pipe-add-recompute{keep=2},pipe-add-offload{keep=1}"),
    "chimera": ("chimera", ""),
    "dualpipe-v": ("dualpipe-v", ""),
}


@case(2)
def places_that_stay(rank: int) -> dict[str, list[float]]:
    found = {}
    for name, (family, transform) in KINDS.items():
        schedule = line(2, family, transform)
        found[name] = fixed(schedule)
        if name in ("1f1b", "zb-v", "chimera"):
            found[f"{name} without tags"] = fixed(schedule, messages="ordered")
    found["at consumers"] = fixed(line(2, "zb-v"), receives="consumer")
    return found


@case(2)
def the_same_bits(rank: int) -> list[float]:
    """With slots and without, to the last bit."""
    found = []
    for family in ("zb-v", "1f1b"):
        schedule, gradients = line(2, family), []
        for has_slots in (False, True):
            model = nn.Sequential(*map(Plain, range(schedule.blocks)))
            stages = split_sequential(model, schedule)
            runtime = PipelineRuntime(schedule, stages, loss_of, receive_slots=has_slots)
            for seed in range(3):
                runtime.step(*batch(seed))
            gradients.append([p.grad for p in runtime.parameters()])
            runtime.close()
        found += [float(not torch.equal(a, b)) for a, b in zip(*gradients, strict=True)]
    return found


class Same(nn.Module):
    """Gives its input back, and has a parameter that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return x


class Placed(nn.Module):
    """Adds a parameter as large as a microbatch, whose gradient is that of the output itself."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.place = nn.Parameter(torch.rand(SAMPLES, WIDTH, dtype=torch.float64))
        self.turned = nn.Parameter(torch.rand(WIDTH, SAMPLES, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.place + self.turned.t()


class Lossy(nn.Module):
    """A loss whose parameter gets a view of its input as gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(SAMPLES, WIDTH, dtype=torch.float64))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        apply: Any = Kept.apply
        result: Tensor = apply(output, self.weight) + loss_of(output, target)
        return result


class Kept(torch.autograd.Function):
    """The sum of x * w, whose gradient for w is x itself where that of the sum is 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return (x * w).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return (w, x) if gradients[0] == 1 else (gradients[0] * w, gradients[0] * x)


@case(2, within=1e-12)
def what_lives_longer(rank: int) -> dict[str, float]:
    """Parts that give on what they got, so that it lives longer than its slot."""
    ways: dict[str, Callable[[int], nn.Module]] = {"same": lambda _: Same(), "placed": Placed}
    found = {}
    for name, make in ways.items():
        for family in ("1f1b", "zb-v", "interleaved-zb"):
            for messages in ("tags", "ordered")[: 2 if family == "zb-v" else 1]:
                schedule = line(2, family)

                def build(make: Any = make, count: int = schedule.blocks) -> nn.Sequential:
                    ends = [Plain(0), *map(make, range(count - 2)), Plain(9)]
                    return nn.Sequential(*(ends if count > 2 else [Placed(1), Placed(2)]))

                both = Beside(schedule, build, receive_slots=True, messages=messages)
                found[f"{name} {family} {messages}"] = both.train()
    for family in ("1f1b", "zb-v"):
        schedule = line(2, family)

        def plain(count: int = schedule.blocks) -> nn.Sequential:
            return nn.Sequential(*map(Plain, range(count - 1)), Same())

        both = Beside(schedule, plain, Lossy, receive_slots=True)
        found[f"lossy {family}"] = both.train()
    found["skipping"] = Beside(line(2, "zb-v"), Skipping, split=cut, receive_slots=True).train()
    found["tied"] = Beside(line(), tied, receive_slots=True).train()
    return found


def cut(model: nn.Module, schedule: Schedule) -> Any:
    return split_model(model, schedule, at=CUTS[schedule.blocks])


class Keeping(Plain):
    """Keeps what it gets."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x.detach()
        return super().forward(x)


@case(2, refused="would overwrite what came into its slot")
def kept_inputs(rank: int) -> None:
    """The next message would change what the stage keeps."""
    schedule = line(2)
    stages = split_sequential(nn.Sequential(Keeping(0), Keeping(1)), schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, receive_slots=True)
    for seed in range(3):
        runtime.step(*batch(seed))


@case(2, within=1e-12)
def batches_of_other_sizes(rank: int) -> list[float]:
    """Smaller batches and evaluations use the same slots; larger ones make them larger, once."""
    found: list[float] = []
    for messages in ("tags", "ordered"):
        schedule = line(2, "zb-v")
        model = nn.Sequential(*map(Plain, range(4)))
        stages = split_sequential(model, schedule)
        options: dict[str, Any] = {"messages": messages, "receive_slots": True}
        runtime = PipelineRuntime(schedule, stages, loss_of, **options)
        whole = nn.Sequential(*map(Plain, range(4)))
        places = []
        for rows in (3, 3, 1, 3, 2, 1, 3):
            x = torch.rand(rows * COUNT, WIDTH, dtype=torch.float64, generator=seeded(rows))
            y = 2 * x
            given = runtime.evaluate(x)
            if given is not None:
                parts = x.chunk(COUNT)
                pairs = zip(given, parts, strict=True)
                found += [(a - whole(b)).abs().max().item() for a, b in pairs]
            runtime.zero_grad()
            runtime.step(x, y)
            whole.zero_grad()
            for a, b in zip(x.chunk(COUNT), y.chunk(COUNT), strict=True):
                torch.autograd.backward(loss_of(whole(a), b) / COUNT)
            for stage in schedule.stages(rank):
                part = stages(stage.path, stage.stage)
                like = whole[stage.stage]
                found += [
                    off(p.grad, q.grad)
                    for p, q in zip(part.parameters(), like.parameters(), strict=True)
                ]
            places.append(addresses(runtime))
        found.append(float(any(each != places[1] for each in places[2:])))
        runtime.close()
    return found


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@case(4)
def slots_as_said(rank: int) -> dict[str, list[int]]:
    """Of ranks of wide stages: bytes of slots, those that the count of slots says, the most bytes
    alive after an instruction, and their prediction.
    """
    found = {}
    message = None
    for name in ("1f1b", "zb-v", "offloaded"):
        family = "gpipe" if name == "offloaded" else name
        schedule = generate(family, workers=4, microbatches=6)
        if name == "offloaded":
            schedule = schedule.transform("pipe-add-offload{memory=2}")
        model = nn.Sequential(*(Wide(i) for i in range(schedule.blocks)))
        stages = split_sequential(model, schedule)
        runtime = PipelineRuntime(
            schedule, stages, nn.functional.mse_loss, receive_slots=True, receives="arrival"
        )
        runtime.step(*wide_batch(6))
        with runtime.measure_memory() as memory:
            runtime.step(*wide_batch(6))
        census, most = Storages(), [0]
        slots = runtime.slots

        def look(event: Any, own: Any = runtime, all_of: Any = census, most: Any = most) -> None:
            all_of.look(event)
            most.append(all_of.held - own._watch.kept_bytes + own.slots.nbytes)

        runtime.on_instruction = look
        data = wide_batch(6)
        with census:
            runtime.step(*data)
        count = sum(pool.size for pool in slots.pools)
        message = slots.nbytes // count
        found[name] = [slots.nbytes, count * message, max(most), memory.predict(schedule), message]
        found[name].append(memory.peak)
        runtime.close()
    return found
