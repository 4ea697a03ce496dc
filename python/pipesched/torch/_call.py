"""How stages are called."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pipesched import Cell

from ._errors import PipelineError
from ._placement import named
from ._values import Arguments


def arguments_of(module: nn.Module, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a stage is given for a value. An nn.Sequential takes a tuple as it is, as
    its children do.
    """
    if isinstance(value, Arguments):
        return tuple(value.args), dict(value.kwargs)
    is_named = hasattr(type(value), "_fields")
    if isinstance(value, tuple) and not (is_named or isinstance(module, nn.Sequential)):
        return tuple(value), {}
    return (value,), {}


def call(module: nn.Module, value: Any) -> Any:
    """Runs a stage."""
    if isinstance(value, Tensor):
        return module(value)
    args, kwargs = arguments_of(module, value)
    return module(*args, **kwargs)


def explain(error: RuntimeError, cell: Cell) -> None:
    """Explains an error of autograd about a leaf, which is the input of a stage here, and one about
    hooks.
    """
    if "support saved tensor hooks" in str(error) and not cell.recomputed:
        raise PipelineError(
            f"{named((cell.path, cell.stage))} uses a transform of torch.func ({cell}), which "
            "PyTorch does not run under the hooks of autograd that offload (D and U), a memory "
            "budget in bytes and measure_memory need"
        ) from error
    if "leaf Variable that requires grad" in str(error) and "in-place" in str(error):
        raise PipelineError(
            f"{named((cell.path, cell.stage))} changes its input, or a parameter, in place "
            f"({cell}): autograd cannot go back through that; make a new tensor, for example of a "
            "clone of the input"
        ) from error
