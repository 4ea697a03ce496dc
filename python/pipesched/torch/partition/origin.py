"""The model from which stages were made, for a runtime that gets these stages by other code.

The modules of the model are found again as objects, wherever a stage holds them. So a rank sees
changes of the model's children, parameters that its stages use without holding them, and parameters
that share memory. Nothing here keeps the model alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from ..core.errors import PipelineError
from ..core.values import have_common


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
        found: str | None = self._names.get(parameter)
        return found


Name = tuple[int, str]
"""A block of the model, and a name in it."""
Kind = Literal["_parameters", "_buffers"]
_weak: Any = WeakIdKeyDictionary
_origins: Any = _weak()
"""The origin of each module that was divided, the last one if it was divided several times."""


def join_names(*names: str) -> str:
    return ".".join(filter(None, names))


class Origin:
    """The state of a model when it was divided into blocks."""

    def __init__(self, blocks: Sequence[nn.Module], model: nn.Sequential | None = None) -> None:
        """model: the whole, if its children are the children of blocks."""
        self._model = weakref.ref(model) if model is not None else lambda: None
        self._children = {} if model is None else _children(model)
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

    def check(self) -> None:
        """Refuses a model with a replaced child: the stages have the old one."""
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

    def _named(self, kind: Kind) -> Iterator[tuple[Name, Tensor]]:
        """Yields the parameters or buffers of the modules that still exist."""
        for find, (block, name) in self._modules:
            if (module := find()) is not None:
                for own, tensor in getattr(module, kind).items():
                    if tensor is not None:
                        yield (block, join_names(name, own)), tensor

    def groups(self, kind: Kind) -> list[list[Name]]:
        """Returns the names of each parameter or buffer that several blocks have now."""
        names: dict[int, list[Name]] = {}
        for known, tensor in self._named(kind):
            names.setdefault(id(tensor), []).append(known)
        return [found for found in names.values() if len({block for block, _ in found}) > 1]

    def ties(self) -> list[list[Name]]:
        """Returns the names of each parameter that several blocks had, or have now."""
        return self._ties + self.groups("_parameters")

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        for (block, name), parameter in self._named("_parameters"):
            yield f"{name} of block {block}", parameter

    def names_of(self, parameter: Tensor) -> list[Name]:
        now = [known for known, each in self._named("_parameters") if each is parameter]
        return list(dict.fromkeys([*self._first.get(parameter, ()), *now]))

    def places_of(self, module: nn.Module) -> list[Name]:
        return list(self._names.get(module, ()))


def origin_of(module: nn.Module) -> Origin | None:
    found: Origin | None = _origins.get(module)
    return found


def origins_of(stages: Iterable[nn.Module]) -> list[Origin]:
    """Returns the origins of all modules that stages hold, however they hold them."""
    found = (origin_of(part) for stage in stages for part in stage.modules())
    return list(dict.fromkeys(origin for origin in found if origin is not None))


class Held(NamedTuple):
    name: str
    module: nn.Module
    workers: frozenset[int]


def check_made(name: str, tensor: Any) -> None:
    """Refuses parameters and buffers of lazy modules that have not seen a batch yet."""
    if is_lazy(tensor):
        raise PipelineError(
            f"{name!r} has no shape yet, as those of lazy modules before their first forward: run "
            "the model on a microbatch before it is divided, and before optimizers are made"
        )


class _Piece(NamedTuple):
    begin: int
    end: int
    tensor: Tensor
    whole: Tensor
    name: str
    workers: frozenset[int]


def _pieces(parts: Iterable[Held]) -> Iterator[_Piece]:
    for part in parts:
        named: dict[str, Any] = dict(part.module.named_parameters(remove_duplicate=False))
        named.update(part.module.named_buffers(remove_duplicate=False))
        for name, whole in named.items():
            check_made(f"{part.name}{name}", whole)
            tensor = whole.detach()
            tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            if tensor.layout == torch.strided and tensor.numel() and not tensor.is_meta:
                sizes = zip(tensor.shape, tensor.stride(), strict=True)
                last = sum((length - 1) * abs(step) for length, step in sizes)
                begin = tensor.data_ptr()
                end = begin + (last + 1) * tensor.element_size()
                yield _Piece(begin, end, tensor, whole, f"{part.name}{name}", part.workers)


def refuse_shared(parts: Iterable[Held]) -> None:
    """Raises if parts of different ranks share elements of a parameter that are not one object."""
    near: list[_Piece] = []
    for piece in sorted(_pieces(parts), key=lambda piece: piece[:2]):
        near = [other for other in near if other.end > piece.begin]
        for other in near:
            if other.whole is piece.whole or other.workers == piece.workers:
                continue
            if not any(isinstance(each.whole, nn.Parameter) for each in (other, piece)):
                continue
            if other.tensor.device == piece.tensor.device and have_common(
                other.tensor, piece.tensor
            ):
                raise PipelineError(
                    f"{other.name!r} and {piece.name!r} share memory but are not one parameter, "
                    f"and ranks {sorted(other.workers ^ piece.workers)} hold only one of them, so "
                    "that a step would change them apart; make them one object, which ties them, "
                    "or clone one"
                )
        near.append(piece)
