"""Forwards that R runs again: whether R gives the values of F, and which F keep their graph.

R has the random states and the buffers of its F. A stage that keeps other state from forward to
forward, such as a counter, would compute gradients of another output; so the first step compares
numbers of F's output with R's.

F keeps no graph, by hooks of autograd. A stage that uses transforms of torch.func, which refuse
hooks, or computes gradients in its forward, keeps its graph until the end of its F.

R needs the unchanged input. In the first step each F that R repeats gets a copy, which shows the
stages that change their input in place; later only these stages get one, in F and in R.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from pipesched import Cell

from ..core.errors import PipelineError
from ..core.random import RandomState
from ..core.values import local, map_tensors, tensors_in
from ..partition.placement import Placement, StageKey, show
from .activation import Activation, Buffers, Inputs, Recomputation


def explain(error: RuntimeError, cell: Cell) -> None:
    if "support saved tensor hooks" in str(error) and not cell.recomputed:
        raise PipelineError(
            f"{show((cell.path, cell.stage))} uses a transform of torch.func ({cell}), which "
            "PyTorch does not run under the hooks of autograd that offload (D and U), a memory "
            "budget in bytes and measure_memory need"
        ) from error
    if "leaf Variable that requires grad" in str(error) and "in-place" in str(error):
        raise PipelineError(
            f"{show((cell.path, cell.stage))} changes its input, or a parameter, in place "
            f"({cell}): autograd cannot go back through that; make a new tensor, for example of a "
            "clone of the input"
        ) from error


NOTHING = nullcontext()


def _with_graph(module: nn.Module) -> set[tuple[str, str]]:
    """Returns the attributes of a module and its parts that have a tensor with a graph."""
    return {
        (name, key)
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, (Tensor, list, tuple, dict)) and _has_graph(value)
    }


def _has_graph(value: Any) -> bool:
    try:
        return any(tensor.grad_fn is not None for tensor in tensors_in(value))
    except RuntimeError:  # an object that cannot be walked
        return False


class Left:
    """Looks for graphs that the first forward of a stage leaves on modules."""

    def __init__(self) -> None:
        self._seen: set[StageKey] = set()

    def watch(self, cell: Cell, module: nn.Module, is_on: bool) -> AbstractContextManager[None]:
        """Warns if a forward leaves a graph on a module, except weights computed of parameters."""
        if not is_on or (key := (cell.path, cell.stage)) in self._seen:
            return NOTHING
        self._seen.add(key)
        return self._compare(key, module)

    @contextmanager
    def _compare(self, key: StageKey, module: nn.Module) -> Iterator[None]:
        before = _with_graph(module)
        yield
        found = sorted(_with_graph(module) - before)
        if found:
            names = ", ".join(repr(f"{name}.{each}".lstrip(".")) for name, each in found[:5])
            warnings.warn(
                f"{show(key)} keeps a tensor of its graph beyond its forward, in {names}: a loss "
                "that reads it there gets that of another microbatch, and its gradient is lost; "
                "return it from the stage, and pass it between stages, up to the loss",
                stacklevel=2,
            )


NEAR = {torch.float64: 1e-9, torch.float32: 1e-4}
"""How near the numbers must be, relative to their size: devices may add in another order."""
OF_OTHERS = 1e-2
Result = TypeVar("Result")


def numbers_of(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Returns for each output the size of its elements, and two sums of them."""
    with torch.no_grad():
        return [_numbers(local(each.detach())) for each in outputs if each.layout == torch.strided]


def _numbers(values: Tensor) -> Tensor:
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    flat = values.reshape(-1).double()
    weights = torch.arange(flat.numel(), device=flat.device).remainder_(1021).add_(1)
    return torch.stack([(flat.abs() * weights).sum(), (flat * weights).sum(), flat.sum()])


def compare(cell: Cell, outputs: Sequence[Tensor], again: Recomputation) -> None:
    """Refuses a stage whose R does not give the output of its F."""
    if again.numbers is None:
        return
    found = numbers_of(outputs)
    plain = [each for each in outputs if each.layout == torch.strided]
    is_alike = len(found) == len(again.numbers)
    for output, one, other in zip(plain, found, again.numbers, strict=False):
        size = torch.maximum(one[0].abs(), other[0].abs()) * NEAR.get(output.dtype, OF_OTHERS)
        is_near = ((one - other).abs() <= size) | (one == other) | (one.isnan() & other.isnan())
        is_alike = is_alike and bool(is_near.all())
    if not is_alike:
        raise PipelineError(
            f"{show((cell.path, cell.stage))}: {cell} does not give what its F gave, so that its "
            "gradients would be those of another output: the stage keeps something between "
            "forwards that is no buffer and no random state of PyTorch, Python or NumPy, such as "
            "a counter or a generator of its own; make it a buffer, or do not recompute the stage"
        )


class Again:
    """The forwards of a rank that R runs again."""

    def __init__(self, placement: Placement, device: torch.device) -> None:
        self._placement, self._device = placement, device
        self._keeping: set[StageKey] = set()
        """The stages whose F keeps its graph while it runs."""
        self._changing: set[StageKey] = set()
        """The stages that change their input in place."""
        self._is_first = True

    def end_step(self) -> None:
        self._is_first = False

    @contextmanager
    def copy_input(self, cell: Cell, activation: Activation) -> Iterator[None]:
        """Runs an F that R repeats, or R, on a copy of the input if that may be needed."""
        key = cell.path, cell.stage
        if not ((self._is_first and cell.phase == "F") or key in self._changing):
            yield
            return
        kept, copies = activation.value, list[Tensor]()

        def copy(tensor: Tensor) -> Tensor:
            copies.append(tensor.clone())
            return copies[-1]

        activation.value = map_tensors(kept, copy)
        before = [tensor._version for tensor in copies]
        yield
        activation.value = kept
        changed = [i for i, tensor in enumerate(copies) if tensor._version != before[i]]
        activation.inputs.check_apart(changed)
        if changed:
            self._changing.add(key)

    def note(self, outputs: Sequence[Tensor], again: Recomputation) -> None:
        """Notes the output of an F in the first step."""
        if self._is_first:
            again.numbers = numbers_of(outputs)

    def remember(self, cell: Cell, inputs: Inputs) -> Recomputation:
        """Returns the state that R needs besides the inputs, before its F."""
        versions = [tensor._version for tensor in inputs.tensors]
        module, loss = self._placement.modules[cell.path, cell.stage], self._placement.loss
        if loss is not None and cell.stage == self._placement.last[cell.path]:
            module = nn.ModuleList([module, loss])  # R runs the loss again too
        return Recomputation(RandomState(self._device), Buffers(module), versions)

    def run(self, cell: Cell, again: Recomputation, call: Callable[[], Result]) -> Result:
        """Runs an F without its graph."""
        key = cell.path, cell.stage
        if key not in self._keeping:
            try:
                with torch.autograd.graph.saved_tensors_hooks(lambda _: None, _refuse):
                    return call()
            except RuntimeError as error:
                if not (isinstance(error, _Needed) or refuses_hooks(error)):
                    raise
            self._keeping.add(key)
            again.random.restore()
            again.buffers.restore()
        return call()


class _Needed(PipelineError):
    """A forward needs a tensor that it has kept for its backward."""


def _refuse(_: Any) -> Tensor:
    raise _Needed("a stage computes gradients inside of its forward, whose graph is not kept there")


def refuses_hooks(error: BaseException) -> bool:
    return "support saved tensor hooks" in str(error)
