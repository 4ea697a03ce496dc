"""Cutting an `nn.Sequential` into the stages of a schedule."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipesched import Schedule

from ..core.errors import PipelineError
from ..core.groups import from_first
from ..core.random import RandomState
from ..core.values import flatten, unflatten
from .origin import Held, Origin, refuse_shared


class SequentialStage(nn.Sequential):
    """A stage of a split `nn.Sequential`: one child per block, named by its number."""

    def whole_name(self, name: str) -> str:
        """Returns the name of a parameter or buffer of the stage in the whole module."""
        return name.partition(".")[2]


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def check_plain(module: nn.Sequential, what: str) -> None:
    """Refuses an `nn.Sequential` that does more than call its children in turn, as stages do."""
    check_own(module, what)
    kind, untyped = type(module), cast(Any, module)
    found = []
    for name in ("forward", "__call__", "_call_impl"):
        if getattr(kind, name) is not getattr(nn.Sequential, name) or name in vars(module):
            found.append(f"a method {name!r} of its own")
    found += [f"hooks in {name!r}" for name in HOOKS if getattr(untyped, name, None)]
    if getattr(untyped, "_compiled_call_impl", None) is not None:
        found.append("a compiled call (compile its children instead)")
    if found:
        raise _lost(module, what, found[0])


def check_own(module: nn.Module, what: str) -> None:
    """Refuses a module with parameters, buffers or hooks besides its children."""
    for name, value in (*module._parameters.items(), *module._buffers.items()):
        if value is not None:
            kind = "parameter" if isinstance(value, nn.Parameter) else "buffer"
            raise _lost(module, what, f"a {kind} {name!r} of its own")


def _lost(module: nn.Module, what: str, found: str) -> PipelineError:
    return PipelineError(
        f"{what} is a {type(module).__qualname__} with {found}, which its parts would lose: they "
        "are its children, one after the other; move it into a child"
    )


class SequentialStages:
    """The stages of a split model, as a function of (path, stage)."""

    kind: type[SequentialStage] = SequentialStage

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        schedule: Schedule,
        sizes: Sequence[int],
        model: nn.Sequential | None = None,
    ) -> None:
        self.sizes = tuple(sizes)
        """The number of children of each block."""
        self._blocks = blocks
        self._spans = {
            (stage.path, stage.stage): stage.blocks
            for worker in range(schedule.workers)
            for stage in schedule.stages(worker)
        }
        self._made: dict[range, SequentialStage] = {}
        self.origin = Origin(blocks, model)
        workers = [set[int]() for _ in blocks]
        for worker in range(schedule.workers):
            for block in (block for stage in schedule.stages(worker) for block in stage.blocks):
                workers[block].add(worker)
        refuse_shared(
            Held(f"block {number}: ", block, frozenset(ranks))
            for number, (block, ranks) in enumerate(zip(blocks, workers, strict=True))
        )

    def __call__(self, path: int, stage: int) -> SequentialStage:
        span = self._spans[path, stage]
        if span not in self._made:
            parts: OrderedDict[str, nn.Module] = OrderedDict()
            parts.update((str(block), self._blocks[block]) for block in span)
            self._made[span] = self.kind(parts)
        return self._made[span]


def split_sequential(
    module: nn.Sequential,
    schedule: Schedule,
    *,
    sizes: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
) -> SequentialStages:
    """Returns the stages of a schedule, as a function of (path, stage).

    The children of the module are divided in order among the `schedule.blocks` blocks: `sizes`
    gives the number of each. With `times`, one for each child in any unit (`measure_children`), the
    slowest block is as fast as possible, and then the sum of the squares of the blocks' times is
    least; a block has at least one child. By default the numbers of children are as equal as
    possible, the first ones larger. A schedule counts every block as one unit of time.

    A stage is an `nn.Sequential` with one child per block, named by its number, whose children are
    the children of the module, the same objects under their own names. Stages of the same blocks
    are one object. All ranks must divide the module in the same way. Children and parameters that
    occur several times are tied. A module that does more than call its children in turn is refused.
    """
    if not isinstance(module, nn.Sequential):
        raise PipelineError(f"the module is a {type(module).__name__}; wanted an nn.Sequential")
    check_plain(module, "the module")
    count, children = schedule.blocks, len(module)
    sizes = sizes_of(children, count, sizes, times, ("child", "children"))
    # Not `named_children`, which leaves out repeated children.
    named = list(module._modules.items())
    ends = itertools.accumulate(sizes)
    blocks = [
        nn.Sequential(OrderedDict(named[end - size : end]))
        for size, end in zip(sizes, ends, strict=True)
    ]
    return SequentialStages(blocks, schedule, sizes, module)


def sizes_of(
    parts: int,
    count: int,
    sizes: Sequence[int] | None,
    times: Sequence[float] | None,
    names: tuple[str, str],
) -> Sequence[int]:
    if sizes is not None and times is not None:
        raise PipelineError("both `sizes` and `times` are given; wanted one of them")
    if times is not None and len(times) != parts:
        raise PipelineError(
            f"`times` has {len(times)} entries; wanted {parts}, one per {names[0]} of the module"
        )
    if sizes is None:
        if parts < count:
            raise PipelineError(
                f"the module has {parts} {names[1]}, and the placement {count} blocks; at "
                f"least one {names[0]} per block is needed"
            )
        least, more = divmod(parts, count)
        even = [least + (block < more) for block in range(count)]
        sizes = even if times is None else divide_times(times, count)
    if len(sizes) != count or sum(sizes) != parts or min(sizes) < 0:
        raise PipelineError(
            f"sizes {list(sizes)} divide {sum(sizes)} {names[1]} among {len(sizes)} blocks; the "
            f"module has {parts} {names[1]}, and the placement {count} blocks"
        )
    return sizes


def divide_times(times: Sequence[float], count: int) -> list[int]:
    """Returns the sizes of `count` parts, in order and none empty: the slowest as fast as possible,
    then the sum of squares least, then the first parts largest.
    """
    for number, time in enumerate(times):
        if not (math.isfinite(time) and time >= 0):
            raise PipelineError(f"`times` has {time!r} for child {number}; wanted a time >= 0")
    total = len(times)
    sums = [0.0, *itertools.accumulate(map(float, times))]
    # slowest[i]: the slowest part in the best division of the first i children into the parts so
    # far.
    slowest = [0.0, *[math.inf] * total]
    for part in range(1, count + 1):
        slowest = _one_more(slowest, sums, part)
    limit = slowest[total] * (1 + 1e-12)
    squares = [0.0, *[math.inf] * total]
    cuts: list[list[int]] = []
    for part in range(1, count + 1):
        found, cut = [math.inf] * (total + 1), [0] * (total + 1)
        for end in range(part, total + 1):
            for begin in range(end - 1, part - 2, -1):
                time = sums[end] - sums[begin]
                if time > limit:
                    break
                square = squares[begin] + time * time
                if square < found[end]:
                    found[end], cut[end] = square, begin
        squares = found
        cuts.append(cut)
    ends = [total]
    for cut in reversed(cuts):
        ends.append(cut[ends[-1]])
    return [end - begin for begin, end in itertools.pairwise(reversed(ends))]


def _one_more(slowest: list[float], sums: list[float], part: int) -> list[float]:
    """Adds one part: the time of the slowest for each end. The best start grows with the end."""
    found = [math.inf] * len(slowest)
    begin = part - 1
    for end in range(part, len(slowest)):

        def time(at: int, end: int = end) -> float:
            return max(slowest[at], sums[end] - sums[at])

        while begin + 1 < end and time(begin + 1) <= time(begin):
            begin += 1
        found[end] = time(begin)
    return found


# Times of children


def measure_children(
    module: nn.Sequential, example: Any, *, repeats: int = 5, group: dist.ProcessGroup | None = None
) -> list[float]:
    """Returns the seconds that each child takes for a forward and a backward, for
    `split_sequential`.

    example: a microbatch, as the first child takes it. Each child runs on the result of the one
    before it, with gradients of ones. repeats: the number of runs of the whole module, after a
    warm-up; the result is the median of each child. group: its first rank measures, and all get its
    times, so that they divide the module in the same way.

    Gradients, buffers and random states of the module stay as they were.
    """
    if repeats < 1:
        raise PipelineError(f"`repeats` is {repeats}; wanted at least 1")
    if group is None:
        return _measure(module, example, repeats)
    times: list[float] = from_first(lambda: _measure(module, example, repeats), group)
    return times


def _measure(module: nn.Sequential, example: Any, repeats: int) -> list[float]:
    tensors, _ = flatten(example)
    device = tensors[0].device if tensors else torch.device("cpu")
    passes = []
    with _keep_state(module, device), torch.enable_grad():
        for _ in range(repeats + 1):
            value, times = example, []
            for child in module:
                seconds, value = _run(child, value, device)
                times.append(seconds)
            passes.append(times)
    return [statistics.median(runs) for runs in zip(*passes[1:], strict=True)]


@contextmanager
def _keep_state(module: nn.Module, device: torch.device) -> Iterator[None]:
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    random = RandomState(device)
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for buffer, old in buffers:
            buffer.data.copy_(old)
        random.restore()


def _run(child: nn.Module, value: Any, device: torch.device) -> tuple[float, Any]:
    """Returns the seconds of a forward and a backward, and the output."""
    tensors, structure = flatten(value)
    leaves = [t.detach().requires_grad_(t.is_floating_point() or t.is_complex()) for t in tensors]
    _settle(device)
    begin = perf_counter()
    outputs, made = flatten(child(unflatten(leaves, structure)))
    roots = [output for output in outputs if output.requires_grad]
    ones: Sequence[Tensor] = [torch.ones_like(root) for root in roots]
    if roots:
        torch.autograd.backward(roots, ones)
    _settle(device)
    seconds = perf_counter() - begin
    return seconds, unflatten([output.detach() for output in outputs], made)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
