"""States of random generators, and forwards in which a drawn number is its mean."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class RandomState:
    """The states of PyTorch's, Python's and NumPy's random generators before a forward."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._host = torch.get_rng_state()
        is_cuda = device.type == "cuda"
        self._cuda = torch.cuda.get_rng_state(device) if is_cuda else None
        self._python: Any = random.getstate()
        self._numpy: Any = np.random.get_state()

    def is_now(self) -> bool:
        if self._cuda is not None:
            if not torch.equal(self._cuda, torch.cuda.get_rng_state(self._device)):
                return False
        numpy: Any = np.random.get_state()
        return (
            torch.equal(self._host, torch.get_rng_state())
            and self._python == random.getstate()
            and np.array_equal(self._numpy[1], numpy[1])
            and self._numpy[2:] == numpy[2:]
        )

    def restore(self) -> None:
        torch.set_rng_state(self._host)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda, self._device)


def random_states() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def set_random_states(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["cpu"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)


_OFF = {"dropout_p": 0.0, "dropout": 0.0, "train": False, "training": False}
"""The arguments of operations that drop elements, and the values that turn it off."""
_MEANS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "bernoulli": lambda given: given.get("p", given.get("self")),
    "exponential": lambda given: 1 / given["lambd"],
    "geometric": lambda given: 1 / given["p"],
    "normal": lambda given: given["mean"],
    "poisson": lambda given: given["self"],
    "rand": lambda given: 0.5,
    "rand_like": lambda given: 0.5,
    "randn": lambda given: 0.0,
    "randn_like": lambda given: 0.0,
    "uniform": lambda given: (given["from"] + given["to"]) / 2,
}
"""The mean of the draws of an operation, from its arguments."""


class _Calm(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.replaced, self.left = False, ""
        """Whether it has replaced random numbers, and an operation whose it has not."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)  # which operations of higher order do not have
        name = "" if schema is None else str(schema.name).removeprefix("aten::")
        is_random = torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())
        if name == "random_" or (is_random and not self._replaces(func, name)):
            self.left = name
        elif is_random:
            self.replaced = True
            return self._replace(func, name, args, kwargs)
        return func(*args, **kwargs)

    def _replaces(self, func: Any, name: str) -> bool:
        names = {argument.name for argument in func._schema.arguments}
        return bool(names & _OFF.keys()) or name.rstrip("_") in {*_MEANS, "_fused_dropout"}

    def _replace(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        arguments = func._schema.arguments
        given = {each.name: each.default_value for each in arguments if each.has_default_value()}
        given |= dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
        if name == "_fused_dropout":  # `p` is the part that is kept
            return given["self"].clone(), torch.ones_like(given["self"], dtype=torch.uint8)
        if given.keys() & _OFF.keys():
            given |= {key: off for key, off in _OFF.items() if key in given}
            plain = [given.pop(each.name) for each in arguments if not each.kwarg_only]
            return func(*plain, **given)
        mean = _MEANS[name.rstrip("_")](given)
        mean = mean.clone() if isinstance(mean, torch.Tensor) else mean
        made = func(*args, **kwargs)
        if isinstance(mean, torch.Tensor):
            return made.copy_(mean)
        return made.fill_(mean)


@contextmanager
def calm() -> Iterator[_Calm]:
    """Runs the block without random numbers of PyTorch, and without compiled code."""
    mode = _Calm()
    untyped: Any = torch.compiler
    with untyped.set_stance("force_eager"), mode:
        yield mode
