"""What this rank sees of the whole model although other ranks train it: changes of its children,
and parameters that its own stages use without holding them.

Nothing here keeps the model alive, of which a rank may let the parts of others go.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from ._errors import PipelineError


class Whole:
    """A model that was divided by its children."""

    def __init__(self, model: nn.Sequential) -> None:
        self._model: Callable[[], nn.Sequential | None] = weakref.ref(model)
        self._children = _children(model)

    def check(self) -> None:
        """Refuses a model of which a child was replaced: the stages have the old one."""
        model = self._model()
        if model is None or (now := _children(model)) == self._children:
            return
        names = [*self._children, *now]
        other = next(name for name in names if now.get(name) != self._children.get(name))
        raise PipelineError(
            f"child {other!r} of the model was replaced, added or removed after the model was "
            "divided, and the stages do not have that; divide the model again, or change what is "
            "inside of its children"
        )


def _children(model: nn.Module) -> dict[str, int]:
    return {name: id(child) for name, child in model._modules.items()}


class Elsewhere:
    """The parameters of the model that this rank does not hold, as far as it sees them."""

    def __init__(self, named: Iterable[tuple[str, Tensor]], held: Iterable[Tensor]) -> None:
        own = {id(parameter) for parameter in held}
        untyped: Any = WeakIdKeyDictionary
        self._names = untyped()
        for name, parameter in named:
            if id(parameter) not in own:
                self._names[parameter] = name

    def __bool__(self) -> bool:
        return len(self._names) > 0

    def name_of(self, parameter: Tensor) -> str | None:
        """What the model calls a parameter of other ranks; None for all others."""
        found: str | None = self._names.get(parameter)
        return found
