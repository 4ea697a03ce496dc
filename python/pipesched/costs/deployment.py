"""How a training is divided on a system: the options of the library's table.

The table is `include/PipeSched/Facts/Deployment.def`; arguments of `Costs`, options of verbs, axes
of sweeps and settings of plans are made from it. The lists of names and types are only for type
checkers, and a test compares them with the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from .. import _core
from ..errors import PipeSchedError, WrongType
from ..support.options import (
    ContextExchange,
    ExpertDispatch,
    GradientBuckets,
    KernelLaunch,
    PairOrder,
    RankOrder,
    Sharding,
    SliceCut,
    SliceExchange,
    TensorOverlap,
    code_of,
    integer,
    number_of,
)


class HeldOptions(TypedDict, total=False):
    """Options that hold for all configurations of a plan."""

    expert_balance: float
    expert_dispatch: ExpertDispatch
    kernel_launch: KernelLaunch
    tensor_exposed: int
    expert_exposed: int
    gradient_buckets: GradientBuckets
    slice_cut: SliceCut | str | Sequence[int]
    slice_exchange: SliceExchange
    pair_order: PairOrder
    expert_tensor: int
    shard_groups: int
    tensor_overlap: TensorOverlap


class DeploymentOptions(HeldOptions, total=False):
    """How a training is divided."""

    data_parallel: int
    sharding: Sharding
    rank_order: RankOrder
    context_parallel: int
    expert_parallel: int
    context_exchange: ContextExchange
    used_per_node: int


class Option(NamedTuple):
    """A row of the table, which explains the columns."""

    name: str
    kind: str
    unsaid: Any
    most: int
    unit: str
    title: str
    matters: str
    summary: str
    flag: str
    """Its name on the command line and in passes."""
    choices: tuple[str, ...]
    """The names of its values, of a choice."""
    hint: Any
    """The type of its values."""

    @property
    def phrase(self) -> str:
        """The summary, for the middle of a sentence."""
        return self.summary[:1].lower() + self.summary[1:]

    def check(self, value: Any) -> Any:
        """Checks a number: it is in the range of the option."""
        try:
            if self.kind == "count":
                return integer(self.name, value, 1, self.most)
            return number_of(self.name, value, 1.0, self.most)
        except WrongType:
            raise
        except PipeSchedError as error:
            unit = " percent" if self.unit == "percent" else ""
            usual = "what the framework does" if self.name in HABITS else f"{self.unsaid}{unit}"
            found = error.diagnostics[0].message
            raise PipeSchedError(f"{found}; leave it out for {usual}") from None

    def text(self, value: Any) -> str:
        """The value as the library reads it. Raises an error for one that cannot be a value."""
        if self.kind in ("count", "ratio"):
            return repr(self.check(value))
        if self.kind == "sizes":
            return self._sizes_text(value)
        code_of(self.hint, self.name, value)
        return str(value)

    def _sizes_text(self, value: Any) -> str:
        """Returns a name, or sizes, as text. Sizes are a text with commas or a sequence of
        integers.
        """
        if isinstance(value, str):
            if value in self.choices:
                return value
            value = [_whole(part.strip()) for part in value.split(",")]
        try:
            sizes = list(value)
        except TypeError:
            sizes = []
        if sizes and all(type(size) is int for size in sizes):
            return ",".join(str(integer(self.name, size, 1)) for size in sizes)
        raise PipeSchedError(
            f"expected {self.name} to be {', '.join(self.choices)} or the {self.unit} of each"
            f" slice, such as 4930,4238,3776,3440, found {value!r}"
        )


def _whole(text: str) -> int | str:
    return int(text) if text.isdecimal() and text.isascii() else text


def _read(flag: str, kind: str, unsaid: str, most: int, *words: str) -> Option:
    unit, title, matters, summary = words
    choices = _core.enums().get(flag, ()) if kind in ("choice", "sizes") else ()
    hint: Any = Literal[choices] if choices else {"count": int, "ratio": float}[kind]
    if kind == "sizes":
        hint = hint | str | Sequence[int]
    value = unsaid if choices else hint(unsaid)
    name, matters = flag.replace("-", "_"), matters.replace("-", "_")
    title = title or flag.replace("-", " ")
    return Option(name, kind, value, most, unit, title, matters, summary, flag, choices, hint)


OPTIONS: dict[str, Option] = {o.name: o for o in (_read(*row) for row in _core.deployment())}
"""The options by their names in Python, in the order of the table."""

_CHOSEN = {*DeploymentOptions.__annotations__} - {*HeldOptions.__annotations__}
"""Options that a plan chooses by itself, or takes from the framework that runs it."""

HELD = {name: option for name, option in OPTIONS.items() if name not in _CHOSEN}

HABITS = ("sharding", "expert_dispatch", "kernel_launch", "tensor_overlap", "used_per_node")
"""Options whose default depends on the framework. Their fields are None only until the framework is
known.
"""

if TYPE_CHECKING:

    @dataclass(frozen=True, kw_only=True)
    class Held:
        """The options of `HELD` as fields."""

        expert_balance: float = 1.0
        expert_dispatch: ExpertDispatch = "all-to-all"
        kernel_launch: KernelLaunch = "single"
        tensor_exposed: int = 100
        expert_exposed: int = 100
        gradient_buckets: GradientBuckets = "auto"
        slice_cut: SliceCut | str | Sequence[int] = "tokens"
        slice_exchange: SliceExchange = "none"
        pair_order: PairOrder = "deepseek"
        expert_tensor: int = 1
        shard_groups: int = 1
        tensor_overlap: TensorOverlap = "none"

    @dataclass(frozen=True, kw_only=True)
    class Deployment(Held):
        """All options as fields."""

        data_parallel: int = 1
        sharding: Sharding = "none"
        rank_order: RankOrder = "data"
        context_parallel: int = 1
        expert_parallel: int = 1
        context_exchange: ContextExchange = "ring"
        used_per_node: int = 65536

else:

    def _fields(name: str, options: Iterable[Option]) -> type:
        fields = [(o.name, o.hint, None if o.name in HABITS else o.unsaid) for o in options]
        return make_dataclass(name, fields, frozen=True, kw_only=True)

    Held = _fields("Held", HELD.values())
    Deployment = _fields("Deployment", OPTIONS.values())


def unlike(values: Mapping[str, Any], *, effective: bool = False) -> dict[str, Any]:
    """Returns the options, by flag, whose values differ from the defaults; with `effective` only
    options that have an effect together with the others.
    """
    return {
        option.flag: option.text(values[name]) if option.kind == "sizes" else values[name]
        for name, option in OPTIONS.items()
        if values.get(name) not in (None, option.unsaid)
        and not (effective and values.get(option.matters) == 1)
    }


def raw(deployment: Deployment) -> list[tuple[str, str]]:
    """The options in the form that the library takes."""
    given = ((o, getattr(deployment, o.name)) for o in OPTIONS.values())
    texts = [(o, o.text(value)) for o, value in given if value is not None]
    return [(option.flag, text) for option, text in texts if text != str(option.unsaid)]
