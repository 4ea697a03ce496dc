"""Further events in `pipesched.torch` in real processes: failures above all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pipesched.torch
import torch
import torch.distributed as dist
from case_runs import case
from pipesched import Schedule, generate
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_models import SAMPLES, WIDTH, Plain, loss_of
from torch import Tensor, nn

COUNT = 4


class Failing(nn.Module):
    def __init__(self, at: int, action: Callable[[], Any]) -> None:
        super().__init__()
        self.layer = Plain(1)
        self.at, self.action, self.calls = at, action, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.at:
            self.action()
        result: Tensor = self.layer(x)
        return result


def broken() -> None:
    raise ValueError("broken")


def line(ranks: int, microbatches: int = COUNT) -> Schedule:
    return generate("1f1b", workers=ranks, microbatches=microbatches)


def batch(seed: int = 0, count: int = COUNT) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = torch.randn((2, SAMPLES * count, WIDTH), generator=generator, dtype=torch.float64)
    return both[0], both[1]


def whole(count: int, seed: int = 0) -> nn.Sequential:
    return nn.Sequential(*(Plain(seed + i) for i in range(count)))


def made(schedule: Schedule, group: Any = None, **options: Any) -> PipelineRuntime:
    stages = split_sequential(whole(schedule.blocks), schedule)
    return PipelineRuntime(schedule, stages, loss_of, group, **options)


def with_middle(rank: int, at: int, action: Callable[[], Any], **options: Any) -> PipelineRuntime:
    module = Failing(at, action) if rank == 1 else Plain(rank)
    return PipelineRuntime(line(3), {(0, rank): module}, loss_of, **options)


# Failures


@case(3)
def exception_in_a_stage(rank: int) -> None:
    runtime = with_middle(rank, 3, broken)
    try:
        runtime.step(*batch())
    finally:
        if rank == 0:
            try:
                runtime.step(*batch())
            except RuntimeError as error:
                assert "rank 1 failed" in str(error), error


@case(3)
def exception_in_the_second_step(rank: int) -> None:
    runtime = with_middle(rank, COUNT + 1, broken)
    runtime.step(*batch())
    runtime.step(*batch())


@case(3)
def killed(rank: int) -> None:
    runtime = with_middle(rank, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
    runtime.step(*batch())


@case(3)
def time_limit(rank: int) -> None:
    runtime = with_middle(rank, 2, lambda: time.sleep(6), timeout=1.5)
    runtime.step(*batch())


@case(3)
def stage_missing(rank: int) -> None:
    stages = {(0, rank): Plain(rank)} if rank != 1 else {(0, 2): Plain(2)}
    PipelineRuntime(line(3), stages, loss_of)


@case(3)
def rank_that_does_not_come(rank: int) -> None:
    if rank == 2:
        time.sleep(3)
        return
    made(line(3), timeout=1)


@case(2, refused="the schedule has 3 workers, the process group 2 ranks")
def too_few_ranks(rank: int) -> None:
    made(line(3))


@case(2, refused="has another schedule, or other options, than this rank")
def other_schedule(rank: int) -> None:
    made(line(2, COUNT + rank))


@case(2, refused="[[[12, 6], ")
def replicas_of_other_shapes(rank: int) -> None:
    schedule = generate("chimera", workers=2, microbatches=COUNT)
    stages = {(0, rank): Plain(rank), (1, 1 - rank): nn.Linear(WIDTH, WIDTH, dtype=torch.float64)}
    PipelineRuntime(schedule, stages, loss_of)


@case(2, refused="its parameters have other values on rank")
def replicas_of_other_values(rank: int) -> None:
    schedule = generate("chimera", workers=2, microbatches=COUNT)
    stages = split_sequential(whole(2, seed=rank), schedule)
    PipelineRuntime(schedule, stages, loss_of).step(*batch())


@case(2)
def no_inputs(rank: int) -> None:
    made(line(2)).step(None, batch()[1])


class Growing(Plain):
    """Repeats its samples from the second step on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        result = super().forward(x)
        return result if self.calls <= COUNT else torch.cat([result, result])


@case(2)
def shapes_that_change_without_tags(rank: int) -> None:
    stages = {(0, rank): Plain(1) if rank else Growing(0)}
    runtime = PipelineRuntime(line(2), stages, lambda o, t: o.sum(), messages="ordered")
    for _ in range(2):
        runtime.step(*batch())


@case(2, within=1e-12)
def smaller_batches_without_tags(rank: int) -> float:
    """The batch at the end of an epoch has fewer samples, in training and in validation."""
    runtime, model = made(line(2), messages="ordered"), whole(2)
    worst = 0.0
    for count in (COUNT, 2 * COUNT, COUNT, 2 * COUNT):
        for call in (runtime.step, runtime.evaluate):
            inputs, targets = batch(count=count)
            found: Any = call(inputs, targets)
            if found is not None:
                worst = max(worst, abs(found - loss_of(model(inputs), targets)).item())
    return worst


@case(3, refused="the schedule has 2 workers, the process group 3 ranks")
def too_many_ranks(rank: int) -> None:
    made(line(2))


class Refusing(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        raise ArithmeticError("no step")


@case(2)
def exception_in_an_optimizer(rank: int) -> None:
    schedule = line(2).transform("pipe-add-optimizer")
    kind = Refusing if rank == 1 else torch.optim.SGD
    runtime = made(schedule, optimizer=lambda parameters: kind(parameters, lr=0.1))
    for _ in range(2):  # Nothing in a step waits for the O of another rank.
        runtime.step(*batch())


@case(3)
def stopped(rank: int) -> None:
    """A rank that is stopped, not killed, and continues after the limit of the others."""
    if rank == 1:
        multiprocessing.get_context("fork").Process(target=wake, args=(os.getpid(),)).start()
    runtime = with_middle(rank, 2, lambda: os.kill(os.getpid(), signal.SIGSTOP), timeout=1.5)
    runtime.step(*batch())


def wake(process: int) -> None:
    time.sleep(9)
    os.kill(process, signal.SIGCONT)


@case(2, refused="backend 'fake' is not known here: say messages='tags' if its messages")
def backend_that_is_not_known(rank: int) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    store: Any = FakeStore()
    dist.init_process_group("fake", store=store, rank=rank, world_size=2)
    made(line(2))


@case(2)
def backends_by_device(rank: int) -> Any:
    """A group that has a backend for each kind of device uses the one of the device."""
    group = dist.new_group([0, 1], backend="cpu:gloo")
    stages = split_sequential(whole(2), line(2))
    runtime = PipelineRuntime(line(2), stages, loss_of, group)
    runtime.step(*batch())
    return type(runtime._setup.messages).__name__


HANGING = """
exec.program @hanging workers 2 microbatches 1 {
  worker 0 {
    %f = compute 0F0
    %g = recv 1B0 from 1
    %s = send 0F0 to 1 after %f
    %b = compute 0B0 after %f, %g
  }
  worker 1 {
    %a = recv 0F0 from 0
    %f = compute 1F0 after %a
    %b = compute 1B0 after %f
    %s = send 1B0 to 0 after %b
  }
}
"""


@case(2, refused="recv 1B0 from 1 on worker 0 waits for send 1B0 to 0 on worker 1")
def program_that_hangs(rank: int) -> None:
    made(Schedule.from_text(HANGING))


@case(2, refused="found by their order alone (messages=batched)")
def order_that_hangs_without_tags(rank: int) -> None:
    schedule = generate("looped-bfs", workers=2, microbatches=COUNT, chunks=2)
    made(schedule, receives="consumer", messages="ordered")


# Working cases


@case(2)
def overflow(rank: int) -> list[Any]:
    """One rank has gradients that are not finite: both skip the step and lower the scale."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    schedule = line(2)
    stages = split_sequential(whole(2), schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, scaler=scaler)
    parameters = list(stages(0, rank).parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    found: list[Any] = []
    handle: Any = None
    for step in range(3):
        if rank == 0 and step == 1:
            register: Any = parameters[0].register_hook
            handle = register(lambda gradient: gradient * float("inf"))
        before = parameters[-1].detach().clone()
        loss = runtime.step(*batch())
        scaler.unscale_(optimizer)
        gradient = parameters[-1].grad
        assert gradient is not None
        size = gradient.abs().max().item()
        scaler.step(optimizer)
        scaler.update()
        is_same = bool((before == parameters[-1]).all())
        found.append([None if loss is None else loss.item(), is_same, scaler.get_scale(), size])
        runtime.zero_grad()
        if handle is not None:
            handle.remove()
            handle = None
    return found


@case(2)
def exception_in_an_exchange(rank: int) -> None:
    """While the other rank waits to hear of overflows."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    if rank:
        untyped: Any = scaler
        untyped.get_scale = broken
    made(line(2), scaler=scaler).step(*batch())


@case(2)
def mixed_precision(rank: int) -> list[float]:
    """Autocast to bfloat16 with a scaler, in messages too, as without a pipeline."""
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    schedule = generate("zb-v", workers=2, microbatches=COUNT)
    model, reference = (
        nn.Sequential(*(Narrow(number) for number in range(schedule.blocks))) for _ in range(2)
    )
    stages = split_sequential(model, schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, scaler=scaler)
    inputs, targets = (each.float() for each in batch())
    with torch.autocast("cpu", torch.bfloat16):
        loss = runtime.step(inputs, targets)
    total = 0.0
    for x, target in zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True):
        with torch.autocast("cpu", torch.bfloat16):
            each = loss_of(reference(x), target)
        (256 * each / COUNT).backward()  # type: ignore[no-untyped-call]
        total += each.item() / COUNT
    worst = 0.0 if loss is None else abs(loss.item() - total)
    sizes = []
    for mine, like in zip(model.parameters(), reference.parameters(), strict=True):
        if mine.grad is not None and like.grad is not None:
            worst = max(worst, (mine.grad - like.grad).abs().max().item())
            sizes.append(like.grad.abs().max().item())
    return [worst, max(sizes)]


class Narrow(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.layer(x)
        assert hidden.dtype == torch.bfloat16
        return torch.tanh(hidden) + x.bfloat16()


@case(2)
def evaluation(rank: int) -> list[Any]:
    """Forwards without backwards give the outputs and the loss of the model, between two steps."""
    found: list[Any] = []
    for options in ({}, {"messages": "ordered"}):
        for family in ("interleaved-zb", "chimera"):
            schedule = generate(family, workers=2, microbatches=COUNT)
            runtime = made(schedule, **options)
            model = whole(schedule.blocks)
            inputs, targets = batch()
            runtime.step(inputs, targets)
            for _ in range(2):
                outputs = runtime.evaluate(inputs)
                loss = runtime.evaluate(inputs, targets)
                parts = list(zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True))
                for number, (x, target) in enumerate(parts):
                    output = None if outputs is None else outputs[number]
                    if output is not None:
                        assert not output.requires_grad
                        assert (output - model(x)).abs().max() < 1e-12
                        assert abs(loss_of(output, target) - loss_of(model(x), target)) < 1e-12
                found.append([outputs is not None, loss is not None])
            runtime.step(inputs, targets)
            runtime.close()
    return found


@case(4, within=1e-12)
def two_pipelines(rank: int) -> float:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    schedule = generate("chimera", workers=2, microbatches=COUNT)
    model, reference = whole(2), whole(2)
    stages = split_sequential(model, schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, groups[rank // 2])
    inputs, targets = batch(rank // 2)
    runtime.step(inputs, targets)
    loss_of(reference(inputs), targets).backward()  # type: ignore[no-untyped-call]
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    return max((a.grad - b.grad).abs().max().item() for a, b in pairs)  # type: ignore[operator]


@case(2)
def modules_of_a_step(rank: int) -> list[str]:
    """Lists the modules of the package that a step after the first one enters."""
    runtime, folder = made(line(2)), str(Path(pipesched.torch.__file__).parent)
    runtime.step(*batch())
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := frame.f_code.co_filename).startswith(folder):
            entered.add(file.removeprefix(folder))

    sys.setprofile(note)
    runtime.step(*batch())
    sys.setprofile(None)
    return sorted(entered)
