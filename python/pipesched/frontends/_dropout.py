"""Dropout whose masks follow only from numbers: a mask is the same wherever it is computed.

A bit of a mask is a function of the seed, the step, the microbatch, the number of the dropout in
the forward of the model, and the number of the element. So nothing is drawn or kept between a
forward, its recomputation and its backward, and masks do not depend on workers, stages or the order
of cells. The function is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
as easy as 1, 2, 3" (SC11).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import FrontendError

aten = torch.ops.aten

LOW = (1 << 32) - 1
"""The lower half of 64 bits."""
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
"""Constants added to the two halves of the key from round to round."""
ROUNDS = 10

_OTHERS = {
    functional.alpha_dropout: False,
    functional.dropout1d: True,
    functional.dropout2d: True,
    functional.dropout3d: True,
    functional.feature_alpha_dropout: False,
}
"""Kinds of dropout without a mask here, and the default of their argument `training`."""


def module_name() -> str:
    """Returns the name and type of the module whose forward runs, for errors; empty if it is
    unknown.
    """
    found: Mapping[str, str] = fx_traceback.current_meta.get("custom", {})
    return describe(found)


MODULE, KIND = "pipesched_module", "pipesched_kind"
"""Keys of the notes that tracing leaves at a node: the module of the node, and the type of that
module.
"""


def describe(noted: Mapping[str, str]) -> str:
    """`the module '1.drop' (Dropout)` from the notes, empty without a name."""
    name, kind = noted.get(MODULE, ""), noted.get(KIND, "")
    return f"the module {name!r}" + (f" ({kind})" if kind else "") if name else ""


# Masks


def threshold_of(p: float) -> int:
    """Returns the smallest 32-bit word for which an element is dropped, if elements are dropped
    with probability `p`.
    """
    if not 0 <= p <= 1:
        raise FrontendError(f"a dropout has probability {p}; wanted one from 0 to 1")
    return round((1 - p) * (LOW + 1))


def check_seed(seed: int) -> int:
    """The seed as a signed number of 64 bits. Raises FrontendError if it has more."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise FrontendError(f"the seed of dropout is {seed}; wanted one of 64 bits")
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


def _words(counter: tuple[Tensor, Tensor, Tensor, Tensor], seed: Tensor) -> Tensor:
    """The first word of Philox4x32-10, in int64, for four words that broadcast and a key of 64
    bits.
    """
    c0, c1, c2, c3 = (each & LOW for each in counter)
    k0, k1 = seed & LOW, (seed >> 32) & LOW
    for _ in range(ROUNDS):
        # Products of 64 bits wrap around, and their upper halves come down with the sign.
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c2 = ((second >> 32) & LOW) ^ c1 ^ k0, ((first >> 32) & LOW) ^ c3 ^ k1
        c1, c3 = second & LOW, first & LOW
        k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
    return c0


@torch.library.custom_op("pipesched::dropout_mask", mutates_args=())
def _mask(
    key: Tensor, microbatch: Tensor, step: Tensor, site: int, threshold: int, shape: Sequence[int]
) -> Tensor:
    """The elements that are kept; `key` is the seed and the first dropout of the stage."""
    elements = torch.arange(math.prod(shape), device=key.device).reshape(list(shape))
    words = _words((elements, key[1] + site, microbatch, step), key[0])
    return words < threshold


@_mask.register_fake
def _mask_like(
    key: Tensor, microbatch: Tensor, step: Tensor, site: int, threshold: int, shape: Sequence[int]
) -> Tensor:
    return key.new_empty(list(shape), dtype=torch.bool)


MASK = torch.ops.pipesched.dropout_mask.default


def dropout_mask(
    shape: Sequence[int], p: float, *, site: int, step: int, microbatch: int, seed: int = 0
) -> Tensor:
    """The mask of one dropout in exported models: true for an element that is kept and divided by 1
    - p.

    shape: of the tensor of one microbatch, of at most 2^32 elements. p: the probability that an
    element is dropped, from 0 to 1, to 2^-32. site: the number of the dropout among all that a
    forward of the model runs, from 0. step, microbatch: from 0, modulo 2^32; a microbatch has the
    same number on all paths. seed: an integer of 64 bits, as for `export`.

    Philox4x32-10 gets the counter (e, site, microbatch, step) and the key (lower, upper half of the
    seed). Element e, in the order of memory, is kept if the first word of the result is less than
    round((1 - p) 2^32).
    """
    key = torch.tensor([check_seed(seed), site])
    made: Tensor = _mask(
        key, torch.tensor(microbatch), torch.tensor(step), 0, threshold_of(p), _sizes(shape)
    )
    return made


def _sizes(shape: Sequence[int]) -> list[int]:
    if math.prod(shape) > LOW + 1:
        raise FrontendError(
            f"a dropout has a tensor of shape {list(shape)}; masks have at most 2^32 elements"
        )
    return list(shape)


# Forwards with these masks

_DispatchMode: Any = TorchDispatchMode  # Its methods have no types.


@dataclass
class Masks:
    """The inputs from which a forward computes its masks."""

    key: Tensor
    """Two int64: the seed, and the number of the first dropout."""
    microbatch: Tensor
    step: Tensor
    count: int = 0


def is_random(operation: Any) -> bool:
    """Whether an operation of PyTorch draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(operation, "tags", ())


class Draws(_DispatchMode):  # type: ignore[misc]
    """Notes whether code inside of it draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found |= is_random(func)
        return func(*args, **(kwargs or {}))


class _Drops(_DispatchMode):  # type: ignore[misc]
    """Gives each dropout its mask."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self.masks = masks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not aten.native_dropout.default or args[2] is False:
            return func(*args, **(kwargs or {}))
        x, p = args[:2]
        masks = self.masks
        kept = MASK(
            masks.key, masks.microbatch, masks.step, masks.count, threshold_of(p), _sizes(x.shape)
        )
        masks.count += 1
        scale = 1 / (1 - p) if p < 1 else 0.0
        return x * kept.to(x.dtype) * scale, kept


class _Calls(TorchFunctionMode):
    """Replaces in-place dropout, which draws differently, by a copy of the result of plain dropout;
    refuses kinds of dropout without a mask here.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _OTHERS and _draws(args, kwargs, _OTHERS[func]):
            place = module_name()
            raise FrontendError(
                f"{func.__name__}{f' of {place}' if place else ''} drops whole channels or changes "
                "mean and variance, for which there are no masks; wanted dropout, or p = 0"
            )
        is_in_place = func is torch.dropout_ or (
            func is functional.dropout and kwargs.get("inplace", False)
        )
        if not is_in_place or not _draws(args, kwargs, usual=True):
            return func(*args, **kwargs)
        kwargs.pop("inplace", None)
        plain = torch.dropout if func is torch.dropout_ else func
        return args[0].copy_(plain(*args, **kwargs))


def _draws(args: Sequence[Any], kwargs: Mapping[str, Any], usual: bool) -> bool:
    """Whether a call (input, p, training) of a dropout draws; `usual` is training if it is not
    given.
    """
    given = dict(zip(("input", "p", "training"), args, strict=False)) | dict(kwargs)
    return bool(given.get("training", given.get("train", usual))) and given.get("p", 0.5) > 0


@contextlib.contextmanager
def drawing(masks: Masks) -> Iterator[None]:
    """Makes all forwards in this block use these masks."""
    with enable_python_dispatcher(), _Drops(masks), _Calls():
        yield


@contextlib.contextmanager
def dropout_masks(
    *, step: int, microbatch: int, seed: int = 0, device: torch.device | str = "cpu"
) -> Iterator[None]:
    """A forward of a model inside of it has the masks of the exported model, so that a training in
    PyTorch has the losses of the compiled one.

        for number, (x, y) in enumerate(microbatches):
            with dropout_masks(step=step, microbatch=number, seed=0):
                output = model(x)
            (loss(output, y) / len(microbatches)).backward()

    It covers one forward of the whole model; a forward that runs again in the backward
    (`torch.utils.checkpoint`) has other masks there. `step`, `microbatch`, `seed`: as for
    `dropout_mask`. `device`: the model's. Raises FrontendError for other kinds of dropout.
    """
    key = torch.tensor([check_seed(seed), 0], device=device)
    counts = (torch.tensor(number, device=device) for number in (microbatch, step))
    with drawing(Masks(key, next(counts), next(counts))):
        yield


# Code


def mask_code(name: str, node_arguments: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The lines of MLIR that compute a mask as the value `name`, a tensor of i1.

    node_arguments: site, threshold and shape of the operation. names: of the values of the key (a
    tensor of two i64), of the microbatch and of the step (i64).
    """
    site, threshold, shape = node_arguments
    key, microbatch, step = names
    code = _Code(f"{name}_")
    zero, one = code.put("arith.constant 0 : index"), code.put("arith.constant 1 : index")
    low, half = code.number(LOW), code.number(32)
    seed = code.put(f"tensor.extract {key}[{zero}] : tensor<2xi64>")
    first = code.put(f"tensor.extract {key}[{one}] : tensor<2xi64>")
    place = code.binary("andi", code.binary("addi", first, code.number(site)), low)
    counts = [code.binary("andi", each, low) for each in (microbatch, step)]
    keys = [(code.binary("andi", seed, low), code.binary("shrui", seed, half))]
    for _ in range(ROUNDS - 1):
        halves = (
            code.binary("andi", code.binary("addi", each, code.number(added)), low)
            for each, added in zip(keys[-1], WEYL, strict=True)
        )
        keys.append((next(halves), next(halves)))
    factors = [code.number(each) for each in MULTIPLIERS]
    bound = code.number(threshold)
    sizes = [code.number(size) for size in shape]
    start = code.number(0)
    kind = f"tensor<{''.join(f'{size}x' for size in shape)}i1>"
    dimensions = ", ".join(f"d{number}" for number in range(len(shape)))
    loops = ", ".join('"parallel"' for _ in shape)
    empty = code.put(f"tensor.empty() : {kind}")
    maps = f"affine_map<({dimensions}) -> ({dimensions})>"
    head = f"indexing_maps = [{maps}], iterator_types = [{loops}]"
    code.lines += [
        f"{name} = linalg.generic {{{head}}} outs({empty} : {kind}) {{",
        f"^bb0(%{code.prefix[1:]}unused: i1):",
    ]
    element = start
    for number, size in enumerate(sizes):
        index = code.put(f"linalg.index {number} : index")
        index = code.put(f"arith.index_cast {index} : index to i64")
        element = code.binary("addi", code.binary("muli", element, size), index)
    word = code.rounds([element, place, *counts], keys, factors, low, half)
    kept = code.put(f"arith.cmpi ult, {word}, {bound} : i64")
    code.lines += [f"linalg.yield {kept} : i1", f"}} -> {kind}"]
    return code.lines


class _Code:
    """Lines of MLIR, with names that start alike."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.lines: list[str] = []

    def put(self, operation: str) -> str:
        """Adds an operation; returns the name of its result."""
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {operation}")
        return name

    def binary(self, operation: str, left: str, right: str) -> str:
        """An operation of `arith` on two i64."""
        return self.put(f"arith.{operation} {left}, {right} : i64")

    def number(self, value: int) -> str:
        return self.put(f"arith.constant {value} : i64")

    def rounds(
        self,
        counter: list[str],
        keys: Sequence[tuple[str, str]],
        factors: Sequence[str],
        low: str,
        half: str,
    ) -> str:
        """The first word after the rounds, as `_words` computes it."""
        c0, c1, c2, c3 = counter
        for k0, k1 in keys:
            first, second = self.binary("muli", c0, factors[0]), self.binary("muli", c2, factors[1])
            upper = [self.binary("shrui", each, half) for each in (second, first)]
            mixed = [
                self.binary("xori", self.binary("xori", high, word), key)
                for high, word, key in zip(upper, (c1, c3), (k0, k1), strict=True)
            ]
            c0, c2 = mixed
            c1, c3 = (self.binary("andi", each, low) for each in (second, first))
        return c0
