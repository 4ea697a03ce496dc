"""Explains errors of autograd in forwards, and finds what a forward leaves on its modules."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn

from pipesched import Cell

from ..core.errors import PipelineError
from ..core.values import tensors_in
from ..partition.placement import StageKey, show


def explain(error: RuntimeError, cell: Cell) -> None:
    """Explains an error of autograd about a leaf or about hooks."""
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
    except RuntimeError:  # something that cannot be walked
        return False


class Left:
    """Looks at the first forward of each stage."""

    def __init__(self) -> None:
        self._seen: set[StageKey] = set()

    def watch(self, cell: Cell, module: nn.Module, is_on: bool) -> AbstractContextManager[None]:
        """Warns if a forward leaves a graph on a module; weights computed of parameters do not
        count.
        """
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
