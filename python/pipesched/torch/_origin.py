"""The model from which stages were made, for a runtime that gets these stages by other code: by a
function that wraps, shards or compiles them, or by a mapping of the stages of one rank.

The modules of the model are found again as objects, wherever a stage holds them. Nothing here keeps
the model alive, of which a rank may let the parts of others go.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from ._whole import Whole

Name = tuple[int, str]
"""A block of the model, and a name in it."""
Kind = Literal["_parameters", "_buffers"]

_weak: Any = WeakIdKeyDictionary
_origins: Any = _weak()
"""The origin of each module that was divided, the last one if it was divided several times."""


def joined(*names: str) -> str:
    """A name from its parts, of which some may be empty."""
    return ".".join(filter(None, names))


class Origin:
    """What a model was when it was divided into blocks."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self.whole: Whole | None = None
        """The model, if its children are the children of blocks."""
        self._modules: list[tuple[Callable[[], nn.Module | None], Name]] = []
        self._names = _weak()
        self._first = _weak()
        for block, root in enumerate(blocks):
            for name, module in root.named_modules(remove_duplicate=False):
                self._modules.append((weakref.ref(module), (block, name)))
                self._names.setdefault(module, []).append((block, name))
                _origins[module] = self
        # Later the identity of parameters may be lost, for example by `fully_shard`.
        for known, parameter in self._named("_parameters"):
            self._first.setdefault(parameter, []).append(known)
        self._ties = self.groups("_parameters")
        self.buffers = self.groups("_buffers")
        """The buffers that several blocks had."""

    def check(self) -> None:
        """Refuses a model of which a child was replaced: the stages have the old one."""
        if self.whole is not None:
            self.whole.check()

    def _named(self, kind: Kind) -> Iterator[tuple[Name, Tensor]]:
        """The parameters or buffers of the modules that still exist."""
        for find, (block, name) in self._modules:
            if (module := find()) is not None:
                for own, tensor in getattr(module, kind).items():
                    if tensor is not None:
                        yield (block, joined(name, own)), tensor

    def groups(self, kind: Kind) -> list[list[Name]]:
        """The names of each parameter or buffer that several blocks have now."""
        names: dict[int, list[Name]] = {}
        for known, tensor in self._named(kind):
            names.setdefault(id(tensor), []).append(known)
        return [found for found in names.values() if len({block for block, _ in found}) > 1]

    def ties(self) -> list[list[Name]]:
        """The names of each parameter that several blocks had, or have now."""
        return self._ties + self.groups("_parameters")

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """All parameters, with names for messages."""
        for (block, name), parameter in self._named("_parameters"):
            yield f"{name} of block {block}", parameter

    def names_of(self, parameter: Tensor) -> list[Name]:
        """The names that a parameter had, or has now."""
        now = [known for known, each in self._named("_parameters") if each is parameter]
        return list(dict.fromkeys([*self._first.get(parameter, ()), *now]))

    def places_of(self, module: nn.Module) -> list[Name]:
        """The places that a module of the model had."""
        return list(self._names.get(module, ()))


def origin_of(module: nn.Module) -> Origin | None:
    """The origin of one module."""
    found: Origin | None = _origins.get(module)
    return found


def origins_of(stages: Iterable[nn.Module]) -> list[Origin]:
    """The origins of all modules that stages hold, however they hold them."""
    found = (origin_of(part) for stage in stages for part in stage.modules())
    return list(dict.fromkeys(origin for origin in found if origin is not None))
