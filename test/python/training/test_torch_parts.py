"""The runtime in one process: a pipeline of one worker with several stages."""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import pytest
from pipesched import Path, Schedule, generate

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
from pipesched.torch import Event, PipelineError, PipelineRuntime, split_sequential
from pipesched.torch.autograd.activation import Saved
from pipesched.torch.core.batch import cut
from pipesched.torch.core.program import early_receives
from runtime_models import WIDTH, Counted, Doubling, Dropped, Plain, Shared, loss_of
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

COUNT = 3


pytestmark = pytest.mark.usefixtures("one_rank")


def local(transform: str = "", stages: int = 3, **options: Any) -> Schedule:
    paths = options.pop("paths", [[0] * stages])
    options.setdefault("gradient_after", "I")
    schedule = generate("greedy", workers=1, microbatches=COUNT, paths=paths, **options)
    return schedule.transform(transform) if transform else schedule


def runtime_of(schedule: Schedule, *blocks: nn.Module, **options: Any) -> PipelineRuntime:
    stages = split_sequential(nn.Sequential(*blocks), schedule)
    return PipelineRuntime(schedule, stages, loss_of, **options)


def batch(dtype: Any = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shape = (2, 2 * COUNT, WIDTH)
    both = torch.randn(shape, generator=generator, dtype=dtype or torch.float64)
    return both[0], both[1]


# Stages that are not trained


def test_a_forward_only_schedule_evaluates() -> None:
    blocks = [Plain(i) for i in range(3)]
    with_backward = runtime_of(local(), *blocks)
    runtime = runtime_of(local(paths=[Path([0] * 3, forward_only=True)]), *blocks)
    assert torch.equal(runtime.evaluate(*batch()), with_backward.evaluate(*batch()))
    with pytest.raises(PipelineError, match=r"the schedule has no backwards: call evaluate\(\)"):
        runtime.step(*batch())


def test_frozen_stages_have_no_trained_parameters() -> None:
    schedule = local(paths=[Path([0] * 3, frozen=[1])])
    blocks = [Plain(i) for i in range(3)]
    runtime = runtime_of(schedule, *blocks)
    with pytest.raises(PipelineError, match="path 0, stage 1 is frozen in the schedule, but its"):
        runtime.step(*batch())
    blocks[1].requires_grad_(False)
    runtime = runtime_of(schedule, *blocks)
    runtime.step(*batch())
    assert [all(p.grad is None for p in block.parameters()) for block in blocks] == [0, 1, 0]


# Arguments


def test_names_of_experts_are_checked() -> None:
    schedule, blocks = local(), [Plain(i) for i in range(3)]
    with pytest.raises(PipelineError, match="'[*].inner.[*]'; wanted a list of patterns of names"):
        runtime_of(schedule, *blocks, expert_parallel="*.inner.*")
    with pytest.raises(PipelineError, match="divide, and no `data_parallel` says which ranks"):
        runtime_of(schedule, *blocks, expert_parallel=["*.inner.*"])
    options: dict[str, Any] = {"data_parallel": torch.distributed.group.WORLD}
    with pytest.raises(PipelineError, match="has 'inner', which is the name of no parameter in a"):
        runtime_of(schedule, *blocks, expert_parallel=["*.inner.*", "inner"], **options)
    runtime = runtime_of(schedule, *blocks, expert_parallel=["*.inner.*"], **options)
    runtime.step(*batch())
    runtime.close()


# Splitting


def test_split_sequential() -> None:
    schedule = generate("chimera", workers=2, microbatches=4)
    model = nn.Sequential(*(Plain(i) for i in range(5)))
    stages = split_sequential(model, schedule)
    first, last = stages(0, 0).get_submodule("0"), stages(0, 1).get_submodule("1")
    assert list(first.children()) == [model[0], model[1], model[2]]
    assert list(last.children()) == [model[3], model[4]]
    assert stages(1, 0) is stages(0, 0)
    assert "0.2.inner.weight" in stages(0, 0).state_dict()
    last = split_sequential(model, schedule, sizes=[1, 4])(0, 1).get_submodule("1")
    assert len(list(last.children())) == 4
    with pytest.raises(PipelineError, match="sizes .1, 2. divide 3 children among 2 blocks; the"):
        split_sequential(model, schedule, sizes=[1, 2])
    with pytest.raises(PipelineError, match="has 1 children, and the placement 2 blocks"):
        split_sequential(nn.Sequential(Plain(0)), schedule)


def test_cutting() -> None:
    x = torch.arange(6)
    assert [part.tolist() for part in cut(x, 3, "x")] == [[0, 1], [2, 3], [4, 5]]
    parts = cut((x, {"a": 2 * x, "b": None}), 2, "x")
    assert parts[1][0].tolist() == [3, 4, 5] and parts[1][1]["a"].tolist() == [6, 8, 10]
    assert cut([1, 2], 2, "x") == [1, 2]
    with pytest.raises(PipelineError, match="x has 3 entries, wanted 2, one per microbatch"):
        cut([1, 2, 3], 2, "x")
    with pytest.raises(PipelineError, match="x has no tensors"):
        cut(3, 2, "x")


# Messages


@pytest.mark.parametrize(("family", "ahead"), [("1f1b", 2), ("zb-v", 4)])
def test_receives_begin_early(family: str, ahead: int) -> None:
    """Two computes ahead, four where backwards are split, from the first compute on."""
    program = generate(family, workers=4, microbatches=8).program(1, receives="consumer")
    early = early_receives(program)
    begun = {r.index: index for index, receives in early.items() for r in receives}
    assert sorted(begun) == [i.index for i in program if i.kind == "recv"]
    for place, begin in begun.items():
        computes = [i.index for i in program if i.index < place and i.kind == "compute"]
        assert begin == (computes[-ahead] if len(computes) >= ahead else 0)


def test_receives_wait() -> None:
    """A receive does not start before the instructions that it waits for."""
    text = HELD.replace("BEHIND", "after %g")
    held = Schedule.from_text(text).program(0)
    assert early_receives(held) == {4: [held[4]]}
    assert early_receives(Schedule.from_text(HELD.replace("BEHIND", "")).program(0)) == {
        2: [held[4]._replace(waits=())]
    }


HELD = """
exec.program @held workers 2 microbatches 2 {
  worker 0 {
    %f = compute 0F0
    %s = send 0F0 to 1 after %f
    %e = compute 0F1
    %g = compute 0B1 after %e
    %r = recv 1B0 from 1 BEHIND
    %b = compute 0B0 after %f, %r
  }
  worker 1 {
    %r = recv 0F0 from 0
    %f = compute 1F0 after %r
    %b = compute 1B0 after %f
    %s = send 1B0 to 0 after %b
  }
}
"""

# Gradients and memory


class Watched(torch.autograd.Function):
    """Counts the graphs that are alive."""

    alive: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()

    class Marker:
        pass

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.marker = Watched.Marker()
        Watched.alive.add(ctx.marker)
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        result: Tensor = gradients[0] * x.cos()
        return result


class WatchedLayer(Plain):
    def forward(self, x: Tensor) -> Tensor:
        apply: Any = Watched.apply
        result: Tensor = super().forward(apply(x))
        return result


TRANSFORMS = ["", "pipe-merge-backward", "pipe-add-recompute", "pipe-add-offload{ahead=0}"]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_graphs_are_freed_in_time(transform: str) -> None:
    """Without the help of the garbage collector; and never more are alive than activations."""
    schedule = local(transform)
    alive: list[int] = []

    def look(event: Event) -> None:
        alive.append(len(Watched.alive))

    # PyTorch itself leaves the collector a function whose input needs no gradient.
    blocks = [Plain(0), WatchedLayer(1), WatchedLayer(2)]
    runtime = runtime_of(schedule, *blocks, on_instruction=look)
    table = schedule.simulate().table
    assert table is not None
    peak = table.peak_activations[0]
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            runtime.step(*batch())
            assert len(Watched.alive) == 0
        assert 0 < max(alive) <= (peak if "offload" not in transform else 2 * COUNT)
        runtime.evaluate(batch()[0])
        assert len(Watched.alive) == 0
    finally:
        gc.enable()


def test_offload_moves_storages() -> None:
    parameter = nn.Parameter(torch.rand(WIDTH, WIDTH, dtype=torch.float64))
    batch_storage = torch.rand(4, WIDTH, dtype=torch.float64)
    spared = {t.untyped_storage()._cdata for t in (parameter, batch_storage)}
    saved = Saved(spared, torch.device("cpu"))

    def run() -> tuple[Tensor, Any]:
        x = batch_storage[1:3]
        with saved.collecting():
            hidden = torch.tanh(x @ parameter)
            wide = hidden.expand(2, 2, WIDTH)
            output = (wide * wide.transpose(0, 1)).sum() + (hidden[:, 1:3] ** 2).sum()
        return output, weakref.ref(hidden.untyped_storage())

    output, storage = run()
    assert saved.nbytes >= 2 * WIDTH * 8 and not saved.is_away
    saved.offload(None)
    assert saved.is_away and storage() is None
    with pytest.raises(PipelineError, match="in host memory at its backward: no U"):
        torch.autograd.backward(output, retain_graph=True)
    saved.reload(None)
    torch.autograd.backward(output)
    found, parameter.grad = parameter.grad, None
    torch.autograd.backward(run()[0])
    assert torch.equal(found, parameter.grad)


def test_saved_tensors_may_not_change() -> None:
    weight = torch.rand(3, requires_grad=True)
    for moves in (False, True):
        saved = Saved(set(), torch.device("cpu"))
        with saved.collecting():
            hidden = weight * 2
            output = (hidden * hidden).sum()
        with torch.no_grad():
            hidden.add_(1)
        with pytest.raises(PipelineError, match="changed in place: version 1, wanted 0"):
            saved.offload(None) if moves else torch.autograd.backward(output)


class Keeping(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).exp()


def test_a_change_of_what_the_stage_before_keeps_is_noticed() -> None:
    """As without a pipeline, where both are stages of one rank."""
    inputs, targets = batch()
    model = nn.Sequential(Keeping(0), Adding(), Plain(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss_of(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        runtime_of(local(), *model).step(inputs, targets)
    runtime_of(local(), Plain(0), Adding(), Plain(2)).step(inputs, targets)


class Adding(nn.Module):
    """Changes its input, from some forward on."""

    def __init__(self, begin: int = 0) -> None:
        super().__init__()
        self.left = begin

    def forward(self, x: Tensor) -> Tensor:
        self.left -= 1
        changed: Tensor = x + 1 if self.left >= 0 else x.add_(1)
        return changed


def test_an_input_may_not_change_before_its_recomputation() -> None:
    """Unless its stage shows in the first step that it changes it: then R gets a copy."""
    schedule = local("pipe-add-recompute")
    found = []
    for stage in (Adding(), Adding(99)):
        blocks = Plain(1), Plain(2)
        runtime_of(schedule, stage, *blocks).step(*batch())
        found.append([p.grad for block in blocks for p in block.parameters()])
    for one, other in zip(*found, strict=True):
        assert one is not None and other is not None and torch.equal(one, other)
    runtime = runtime_of(schedule, Adding(2 * COUNT), Plain(1), Plain(2))
    runtime.step(*batch())
    with pytest.raises(PipelineError, match="the input of 0R. was changed in place"):
        runtime.step(*batch())


class CountingAlways(Plain):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) + self.calls


@pytest.mark.parametrize("kind", [Counted, CountingAlways])
def test_a_recomputation_counts_nothing_twice(kind: Any) -> None:
    """Also where parts train in a stage that is in evaluation mode as a whole."""
    found = []
    for transform in ("", "pipe-add-recompute"):
        schedule = local(transform)
        blocks = [kind(number) for number in range(3)]
        stages = split_sequential(nn.Sequential(*blocks), schedule)
        for stage in range(3):
            stages(0, stage).training = False
            stages(0, stage)[0].training = False
        runtime = PipelineRuntime(schedule, stages, loss_of)
        for _ in range(2):
            runtime.step(*batch())
        state = nn.Sequential(*blocks).state_dict()
        found.append([*state.values(), *(p.grad for b in blocks for p in b.parameters())])
    for one, two in zip(*found, strict=True):
        assert one is not None and two is not None and torch.equal(one, two)


class Checkpointed(Plain):
    """Computes its forward again in the backward, by itself."""

    def __init__(self, number: int, is_reentrant: bool) -> None:
        super().__init__(number)
        self.is_reentrant = is_reentrant

    def inside(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.2)

    def forward(self, x: Tensor) -> Tensor:
        function: Any = checkpoint
        result: Tensor = function(self.inside, x, use_reentrant=self.is_reentrant)
        return result


def test_checkpoints_inside_of_stages() -> None:
    found = []
    for transform in TRANSFORMS:
        blocks = [Checkpointed(number, False) for number in range(3)]
        runtime = runtime_of(local(transform), *blocks)
        torch.manual_seed(3)
        runtime.step(*batch())
        found.append([p.grad for block in blocks for p in block.parameters()])
    for gradients in found[1:]:
        for one, two in zip(found[0], gradients, strict=True):
            assert one is not None and two is not None and torch.equal(one, two)


def test_reentrant_checkpoints_are_refused_in_split_backwards() -> None:
    blocks = [Plain(0), Checkpointed(1, True), Plain(2)]
    with pytest.raises(RuntimeError, match="When use_reentrant=True, torch.utils.checkpoint is in"):
        runtime_of(local(), *blocks).step(*batch())


@pytest.mark.parametrize("transform", ["", "pipe-add-recompute"])
def test_autocast(transform: str) -> None:
    """Forwards, also in R, run in the autocast of the caller; backwards outside of it."""

    class Mixed(nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            torch.manual_seed(number)
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            hidden: Tensor = self.layer(x)
            assert hidden.dtype == torch.bfloat16
            return x + torch.tanh(hidden.float())

    blocks = [Mixed(i) for i in range(3)]
    runtime = runtime_of(local(transform), *blocks)
    inputs, targets = batch(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = runtime.step(inputs, targets)
    found = [p.grad for block in blocks for p in block.parameters()]
    runtime.zero_grad()
    total = 0.0
    for x, target in zip(inputs.chunk(COUNT), targets.chunk(COUNT), strict=True):
        with torch.autocast("cpu", torch.bfloat16):
            wanted = loss_of(nn.Sequential(*blocks)(x), target) / COUNT
        torch.autograd.backward(wanted)
        total += wanted.item()
    assert loss is not None and abs(loss.item() - total) < 1e-6
    for gradient, block in zip(found, [p for b in blocks for p in b.parameters()], strict=True):
        assert gradient is not None and block.grad is not None
        assert torch.allclose(gradient, block.grad, rtol=1e-5, atol=1e-7)


def test_hooks_of_parameters_run_once_for_each_backward() -> None:
    blocks = [Shared(i) for i in range(3)]
    calls: list[Any] = []
    for block in blocks:
        weight: Any = block.layer.weight
        weight.register_post_accumulate_grad_hook(calls.append)
    runtime_of(local(), *blocks).step(*batch())
    assert len(calls) == 3 * COUNT


# Functions for users


class ScaledLayer(Plain):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.scale = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        apply: Any = Doubling.apply
        result: Tensor = super().forward(apply(x, self.scale))
        return result


def test_a_node_that_gives_all_gradients_runs_once() -> None:
    runtime = runtime_of(local(), *(ScaledLayer(number) for number in range(3)))
    Doubling.runs = 0
    runtime.step(*batch())
    assert Doubling.runs == 3 * COUNT


def test_record() -> None:
    schedule = local()
    runtime = runtime_of(schedule, *(Plain(i) for i in range(3)))
    runtime.step(*batch())
    with runtime.record() as events:
        runtime.step(*batch())
    assert [event.instruction for event in events] == list(schedule.program(0))
    times = [time for event in events for time in event[2:]]
    assert times == sorted(times) and {event.step for event in events} == {1}


def test_an_output_can_be_the_loss() -> None:
    class Squared(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mean: Tensor = (x**2).mean()
            return mean

    schedule = local()
    stages = split_sequential(nn.Sequential(Plain(0), Plain(1), Squared()), schedule)
    loss = PipelineRuntime(schedule, stages).step(batch()[0])
    assert loss is not None and loss.item() > 0


def test_evaluation_is_in_evaluation_mode() -> None:
    blocks = [Dropped(i) for i in range(3)]
    blocks[1].eval()
    runtime = runtime_of(local(), *blocks)
    inputs, targets = batch()
    assert runtime.evaluate(inputs, targets) == runtime.evaluate(inputs, targets)
    assert [block.training for block in blocks] == [True, False, True]


# Errors


TWICE = [Path([0], takes=[range(2)]), Path([0], takes=[range(2, 3)])]


def test_blocks_of_two_paths_are_one_module() -> None:
    schedule = local(paths=TWICE)
    with pytest.raises(PipelineError, match="path 0, stage 0 and path 1, stage 0 hold block 0 on"):
        PipelineRuntime(schedule, lambda path, stage: Plain(0), loss_of)
    runtime_of(schedule, Plain(0)).step(*batch())


def test_a_stage_is_a_module() -> None:
    wrong: Any = lambda path, stage: "no"
    with pytest.raises(PipelineError, match="gives 'no' for path 0, stage 0; wanted an nn.Module"):
        PipelineRuntime(local(), wrong, loss_of)


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def test_optimizers_that_do_not_fit() -> None:
    blocks = [Plain(i) for i in range(3)]
    with pytest.raises(PipelineError, match="the schedule has no O cells on this rank"):
        runtime_of(local(), *blocks, optimizer=sgd)
    steps = local("pipe-add-optimizer")
    with pytest.raises(PipelineError, match="`optimizer` has none for path 0, stage"):
        runtime_of(steps, *blocks, optimizer={})
    all_parameters = [p for block in blocks for p in block.parameters()]
    optimizers = {(0, stage): sgd(all_parameters) for stage in range(3)}
    with pytest.raises(PipelineError, match="steps parameters that this stage does not own"):
        runtime_of(steps, *blocks, optimizer=optimizers)
    stages: Any = split_sequential(nn.Sequential(*blocks), steps)
    same = {(0, 0): stages(0, 0), (0, 1): stages(0, 1), (0, 2): stages(0, 0)}
    with pytest.raises(PipelineError, match="belongs to several stages of this rank"):
        PipelineRuntime(steps, same, loss_of, optimizer=sgd)


def test_optimizers_by_stage() -> None:
    blocks = [Plain(i) for i in range(3)]
    optimizers = {(0, i): sgd(block.parameters()) for i, block in enumerate(blocks)}
    runtime = runtime_of(local("pipe-add-optimizer"), *blocks, optimizer=optimizers)
    before = [block.inner.weight.detach().clone() for block in blocks]
    runtime.step(*batch())
    assert runtime.optimizers == optimizers
    for block, old in zip(blocks, before, strict=True):
        gradient = block.inner.weight.grad
        assert gradient is not None
        assert torch.allclose(block.inner.weight, old - 0.1 * gradient, rtol=0, atol=1e-15)


def test_ties_that_do_not_fit() -> None:
    blocks = [Plain(i) for i in range(3)]
    with pytest.raises(PipelineError, match="no rank holds such a stage"):
        runtime_of(local(), *blocks, tied=[[(7, "a"), (0, "a")]])
    with pytest.raises(PipelineError, match="'a' of path 0, stage 0, which has 0.0.inner.weight"):
        runtime_of(local(), *blocks, tied=[[(0, "a"), (1, "a")]])


@pytest.mark.parametrize("budget", ["3", "3 apples", "GB"])
def test_budgets_have_units(budget: str) -> None:
    with pytest.raises(PipelineError, match="wanted a number of activations, or bytes with a unit"):
        runtime_of(local(), *(Plain(i) for i in range(3)), memory_budget=budget)


def test_what_cannot_be_sent() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return {"x": x, "odd": object()}

    with pytest.raises(PipelineError, match="found object between stages; tensors, None, numbers"):
        runtime_of(local(), Odd(), Plain(1), Plain(2)).step(*batch())


def test_losses_are_scalars() -> None:
    schedule = local()
    stages = split_sequential(nn.Sequential(*(Plain(i) for i in range(3))), schedule)
    runtime = PipelineRuntime(schedule, stages, lambda output, target: output)
    with pytest.raises(PipelineError, match="is 'a tensor of shape .2, 6.'; wanted a scalar"):
        runtime.step(*batch())
    with pytest.raises(PipelineError, match="this runtime has failed before"):
        runtime.step(*batch())


FORWARD_ONLY = """
exec.program @forwards workers 1 microbatches 1 {
  worker 0 {
    %f = compute 0F0
  }
}
"""


def test_programs_without_backwards_do_not_train() -> None:
    with pytest.raises(PipelineError, match="does not run forward and backward through path 0, st"):
        runtime_of(Schedule.from_text(FORWARD_ONLY), Plain(0))
