"""The task of a plan, checked before the search."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar, cast

from .. import _core
from ..costs.costs import (
    Costs,
    Description,
    Times,
    _looks_like_path,
    fields_of,
    own_bytes,
    recomputed_layers,
)
from ..costs.deployment import HELD, OPTIONS, DeploymentOptions, Held, HeldOptions
from ..costs.frameworks import (
    DEFAULT,
    FRAMEWORKS,
    Framework,
    LauncherName,
    ParameterBytes,
    default_sharding,
    exchanges_of,
    pair_order_of,
    parameter_bytes,
)
from ..costs.settings import read_system
from ..errors import PipeSchedError, WrongType
from ..schedule.families import canonical
from ..support.options import (
    Attention,
    ContextExchange,
    Precision,
    Rates,
    Recompute,
    Sharding,
    TimesOf,
    Transport,
    VocabularyKind,
    code_of,
    integer,
    list_of,
    names_of,
    number_of,
    text_of,
)
from ..support.text import closest
from ..support.units import DEFAULT_RESERVE as DEFAULT_RESERVE
from ..support.units import bytes_of as bytes_of
from ..support.units import count_of
from ..support.units import reserve_of as reserve_of
from . import layer_times as _own_times
from .candidate import Shape

MOST_GPUS = 2**20
MOST_BATCH = 2**31 - 1

WHOLE_NODE = OPTIONS["used_per_node"].unsaid

RECURRENCES = (None, "gated_delta", "mamba2", "mamba", "convolution")
"""The kinds of recurrences by their numbers in the sizes of the library."""

T = TypeVar("T")


class Limits(HeldOptions, total=False):
    """Restrictions on the choices of a plan, by the names of the options of `pipesched plan`.
    A key that is not given allows all sensible values.

    `schedules`, `tp`, `pp` (workers of a pipeline), `cp`, `ep`, `microbatch_size` and `vpp` (stages
    of a worker) list the allowed values, `recompute` (none, selective, full) and `sharding` (none,
    optimizer, gradients, full-kept, full) the allowed kinds. `vocabulary` lists the allowed
    placements of the head: whole, or in shards by vocab-1, vocab-2 and interlaced, which are
    searched only if they or their schedules are named. `launcher` (megatron, torchtitan), which is
    `--for`, names the framework that is to run the plan: memory is counted as it holds weights,
    gradients and optimizer state, and only runnable configurations are chosen. Without it memory is
    that of Megatron-LM. `memory` replaces the memory of an accelerator, `reserve` keeps some of it
    free; both take `"80GiB"`, the latter also `"10%"` and sums, such as `"2GiB+10%"`; by default it
    is `"parts"`, the sum of known uses. `sequence`, `attention`, `precision` (bf16, fp8, nvfp4),
    `rates`, `sequence_parallel`, `transport`, `context_exchange` (by default all that the framework
    has), `expert_balance` and `expert_dispatch` are as for `Costs` and `Schedule.simulate`. `times`
    and `times_of` are measured ones (`plan`). `set` changes fields of the system and the model, as
    `["network.bandwidth=0.5x"]`. `tokens` of the training (`"2T"`) and the `price` of an
    accelerator for an hour, in dollars, give days, cost and energy.
    """

    sequence: int | None
    attention: Attention | None
    precision: Precision
    rates: Rates
    sequence_parallel: bool
    transport: Transport
    context_exchange: ContextExchange | None
    schedules: Sequence[str] | None
    tp: Sequence[int] | None
    pp: Sequence[int] | None
    cp: Sequence[int] | None
    ep: Sequence[int] | None
    microbatch_size: Sequence[int] | None
    vpp: Sequence[int] | None
    vocabulary: Sequence[VocabularyKind] | None
    recompute: Sequence[Recompute]
    sharding: Sequence[Sharding] | None
    launcher: LauncherName | None
    memory: int | str | None
    reserve: int | str | None
    times: Times | None
    times_of: TimesOf | None
    set: Sequence[str]
    tokens: int | float | str | None
    price: float | None


FIELDS = {
    **{"tp": "tensor", "cp": "context", "ep": "expert", "vpp": "chunks"},
    **{"workers": "pp", "stages": "pp", "for": "launcher", "tokens": "total_tokens"},
}
"""The fields of a request for arguments of a plan with other names."""


def renew(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a plan by the fields of a request, whose names the previous version
    had too.
    """
    return {FIELDS.get(name, name): value for name, value in given.items()}


def check_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the limits by the fields of a request; refuses unknown and repeated ones."""
    known = {*Limits.__annotations__, *HELD, *FIELDS, *FIELDS.values()}
    for name in limits:
        if name not in known:
            raise PipeSchedError(f"plan takes no argument {name!r}{closest(name, sorted(known))}")
    if len(found := renew(limits)) < len(limits):
        same = [name for name in limits if FIELDS.get(name, name) in {*limits} - {name}]
        raise PipeSchedError(f"plan takes {same[0]} as {FIELDS[same[0]]} too; give one of them")
    return found


def _numbers(what: str, given: Sequence[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    values = list_of(what, "[1, 2, 4]", given)
    if not values:
        raise PipeSchedError(f"{what} has no values to choose from")
    return tuple(sorted({integer(what, value, 1, MOST_BATCH) for value in values}))


def _choices(choices: object, what: str, given: Sequence[T]) -> tuple[T, ...]:
    given = list_of(what, f"{[names_of(choices)[0]]}", given)
    if not given:
        raise PipeSchedError(f"{what} has no values to choose from")
    order: tuple[T, ...] = names_of(choices)
    for value in given:
        code_of(choices, what, cast(str, value))
    return tuple(value for value in order if value in given)


def _for_json(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): _for_json(each) for name, each in value.items()}
    return [*map(_for_json, value)] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, kw_only=True)
class Request(Held):
    """A model, a system, the number of accelerators and sequences, and the limits on choices."""

    model: Description | None
    system: Description
    gpus: int
    global_batch: int
    sequence: int | None = None
    attention: Attention | None = None
    precision: Precision = "bf16"
    rates: Rates = "auto"
    sequence_parallel: bool = True
    transport: Transport = "overlap"
    context_exchange: ContextExchange | None = None
    pair_order: Any = None
    """A `PairOrder`; by default the order of the framework whose memory is counted."""
    schedules: Sequence[str] | None = None
    tensor: Sequence[int] | None = None
    pp: Sequence[int] | None = None
    context: Sequence[int] | None = None
    expert: Sequence[int] | None = None
    microbatch_size: Sequence[int] | None = None
    chunks: Sequence[int] | None = None
    vocabulary: Sequence[VocabularyKind] | None = None
    recompute: Sequence[Recompute] = names_of(Recompute)
    sharding: Sequence[Sharding] | None = None
    launcher: LauncherName | None = None
    memory: int | str | None = None
    reserve: int | str | None = None
    times: Times | None = None
    """The times of layers, once the times are checked."""
    times_of: TimesOf | None = None
    """The unit (stage, worker or layer) of the times when they were given."""
    total_tokens: int | None = None
    """Tokens of the training, for its days, money and energy."""
    price: float | None = None
    """Dollars of an accelerator for an hour."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if self.system is None:
            raise WrongType("system is a name, a mapping or a path; got None")
        integer("gpus", self.gpus, 1, MOST_GPUS)
        integer("global_batch", self.global_batch, 1, MOST_BATCH)
        code_of(Precision, "precision", self.precision)
        code_of(Transport, "transport", self.transport)
        for name in ("tensor", "pp", "context", "expert", "microbatch_size", "chunks"):
            put(name, _numbers(name, getattr(self, name)))
        put("recompute", _choices(Recompute, "recompute", self.recompute))
        if self.recompute == names_of(Recompute):
            put("recompute", self.kinds_of_recompute)
        if self.vocabulary is not None:
            put("vocabulary", _choices(VocabularyKind, "vocabulary", self.vocabulary))
        if self.launcher is not None:
            code_of(LauncherName, "launcher", self.launcher)
        if self.pair_order is None:
            put("pair_order", pair_order_of(self.framework.name))
        self._check_exchange()
        if not isinstance(self.sequence_parallel, bool):
            raise WrongType(f"sequence_parallel is True or False; got {self.sequence_parallel!r}")
        if self.launcher == "torchtitan" and not self.sequence_parallel:
            # Its `apply_tp` always divides norms (torchtitan/models/llama3/parallelize.py).
            raise PipeSchedError(
                "torchtitan always has sequence parallelism; plan for megatron, or leave it on"
            )
        if self.launcher == "torchtitan" and self.precision == "nvfp4":
            raise PipeSchedError("torchtitan has no NVFP4; plan for megatron, or in fp8")
        if self.total_tokens is not None:
            put("total_tokens", count_of("tokens", self.total_tokens))
        if self.price is not None:
            put("price", number_of("price", self.price, 0.0))
        if self.sharding is None:
            put("sharding", default_sharding(self.framework.name))
        else:
            put("sharding", _choices(Sharding, "sharding", self.sharding))
        if self.schedules is not None:
            listed = list_of("schedules", "['1f1b', 'zb-v']", self.schedules)
            known = (canonical(text_of("a schedule", name)) for name in listed)
            put("schedules", tuple(dict.fromkeys(known)))
            if not self.schedules:
                raise PipeSchedError("schedules has no values to choose from")
        self._check_times(put)
        self._check_capacity()
        self._check_nodes()

    def _check_times(self, put: Callable[[str, object], None]) -> None:
        if self.model is None and self.times is None:
            raise PipeSchedError("give a model, or times")
        kind = _own_times.kind_of(self.times, self.times_of)
        put("times_of", kind)
        if self.times is None or kind is None:
            return
        layers = Costs(model=self.model)._division.layers if self.model is not None else 0
        put("times", _own_times.to_layers(self.times, kind, layers, self.pp))
        for name, values in _own_times.fix_choices(self).items():
            put(name, values)

    def to_dict(self) -> dict[str, Any]:
        """The arguments that make this request again, for JSON, with absolute paths."""
        given = ((each, getattr(self, each.name)) for each in fields(self))
        found = {f.name: _for_json(value) for f, value in given if value != f.default}
        for name in ("model", "system", "times"):
            if isinstance(found.get(name), str) and _looks_like_path(found[name]):
                found[name] = os.path.abspath(found[name])
        if self.times is not None:
            found["times_of"] = "layer"  # as they are already divided
        return found

    @property
    def framework(self) -> Framework:
        """The framework whose memory is counted."""
        return FRAMEWORKS[self.launcher or DEFAULT]

    @property
    def exchanges(self) -> tuple[ContextExchange, ...]:
        """How the parts of a sequence may exchange keys and values."""
        if self.context_exchange is not None:
            return (self.context_exchange,)
        return exchanges_of(self.framework.name)

    def deployment(self, shape: Shape) -> DeploymentOptions:
        """How a training of this shape is divided."""
        return {
            "data_parallel": shape.data,
            "sharding": shape.sharding,
            "rank_order": "data",
            "context_parallel": shape.context,
            "expert_parallel": shape.expert,
            "context_exchange": shape.exchange,
            "used_per_node": self.node if self.spares else WHOLE_NODE,
            **self.held,
        }

    @cached_property
    def held(self) -> HeldOptions:
        """The options that hold for all configurations, as the framework has them if not given."""
        given = {name: getattr(self, name) for name in HELD}
        usual = self.described
        found = {n: getattr(usual, n) if v is None else v for n, v in given.items()}
        return cast(HeldOptions, found)

    @property
    def kinds_of_recompute(self) -> tuple[Recompute, ...]:
        """All kinds that the model can have: full recomputation leaves no layers to a model that
        names some of them.
        """
        some = self.model is not None and fields_of(self.model).get("recomputed_layers")
        return names_of(Recompute)[: -1 if some else None]

    @cached_property
    def recomputed_layers(self) -> tuple[int, ...]:
        """The layers of which the model says that forwards keep only the input."""
        return recomputed_layers(self.model, self.sizes["layers"])

    @cached_property
    def own_bytes(self) -> ParameterBytes | None:
        """The bytes of a parameter that the model states itself."""
        return own_bytes(self.model)

    def parameter_bytes(self, sharding: Sharding) -> ParameterBytes:
        """The bytes of a parameter: stated by the model, else of this framework."""
        framework = parameter_bytes(self.framework.name, self.precision, sharding)
        return self.own_bytes or framework

    def _check_exchange(self) -> None:
        for name, option in HELD.items():
            if getattr(self, name) is not None:
                option.text(getattr(self, name))
        if self.context_exchange is None:
            return
        code_of(ContextExchange, "context_exchange", self.context_exchange)
        if self.context_exchange not in exchanges_of(self.framework.name):
            raise PipeSchedError(
                f"{self.framework.described} has no context exchange {self.context_exchange};"
                f" give {' or '.join(exchanges_of(self.framework.name))}"
            )

    def _check_capacity(self) -> None:
        if self.capacity_bytes == 0:
            raise PipeSchedError("the system does not say how much memory there is; give memory")
        if self.usable_bytes <= 0:
            raise PipeSchedError(
                f"a reserve of {self.reserve_text} leaves nothing of {self.capacity_bytes} bytes"
            )

    def _check_nodes(self) -> None:
        grouped = self.sizes["accelerators_of_groups"]
        if grouped not in (0, self.gpus):
            raise PipeSchedError(
                f"the groups of the system have {grouped} accelerators in all; found gpus"
                f" {self.gpus}"
            )
        if grouped and self.times is not None:
            raise PipeSchedError(
                "times are those of one kind of accelerator; a system with groups has several"
            )
        whole = self.sizes["accelerators_per_node"]
        if 2 * self.node < min(whole, self.gpus):
            below, above = self.gpus // whole * whole, -(-self.gpus // whole) * whole
            raise PipeSchedError(
                f"{self.gpus} accelerators are no whole number of nodes of {whole}, and not equally"
                f" many on nodes that use at least half of theirs; the nearest that are whole:"
                f" {below} and {above}"
            )

    @cached_property
    def described(self) -> Costs:
        """The costs of model and system as described, for their sizes."""
        return _own_times.make_costs(
            self,
            model=self.model,
            system=self.system,
            sequence=self.sequence,
            attention=self.attention,
            microbatch_size=1,
        )

    @cached_property
    def no_link(self) -> str | None:
        """Why a worker has one accelerator; None if it may have more."""
        try:
            _own_times.make_costs(
                self, model=self.model, system=self.system, accelerators=2, microbatch_size=1
            )
        except PipeSchedError as error:
            return error.diagnostics[0].message
        return None

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Layers, heads, accelerators of a node, memory of an accelerator."""
        sizes = _core.sizes(self.described._raw)
        if self.model is None:
            sizes["layers"] = self.described._division.layers
            sizes["sequence"] = self.sequence or 0
        return sizes

    @cached_property
    def _summary(self) -> dict[str, Any]:
        if self.model is None:
            return {"flops_per_token": None, "attention": None}
        return self.described.model_summary()

    @property
    def flops_per_token(self) -> int | None:
        """FLOPs of the model per token, forward and backward."""
        flops: int | None = self._summary["flops_per_token"]
        return flops

    @property
    def has_tied_head(self) -> bool:
        """Whether the head shares the embedding's weights, which a pipeline holds twice."""
        parameters = self._summary.get("parameters")
        return bool(parameters and self._summary["weight_bytes"] % parameters)

    @property
    def attention_kernels(self) -> Attention:
        """The kernels of attention: the requested ones, or the model's."""
        kernels: Attention = self._summary["attention"]
        return kernels

    @cached_property
    def peak_flops(self) -> float:
        """FLOP/s of an accelerator in the precision of the linear layers."""
        if self.precision != "bf16":
            return self.sizes[f"{self.precision}_flops_per_s"]
        return self.described._raw.peak_flops / self.sizes["accelerators"]

    @property
    def node(self) -> int:
        """The accelerators of a node that the training uses: the largest divisor, 64 of 72 for 256
        accelerators. Tensor parallelism spans at most this many.
        """
        whole = self.sizes["accelerators_per_node"]
        if self.gpus <= whole:
            return whole
        return max(d for d in divisors(self.gpus) if d <= whole)

    @property
    def spares(self) -> bool:
        """Whether nodes have more accelerators than the training uses."""
        return self.node < self.sizes["accelerators_per_node"]

    @cached_property
    def groups(self) -> tuple[dict[str, Any], ...]:
        """The groups of nodes of the system, with the fields of their systems; none if all nodes
        are equal.
        """
        if not self.sizes["group_unit"]:
            return ()
        return tuple(read_system(self.system, self.rates)["groups"])

    def groups_of(self, shape: Shape) -> list[int]:
        """The group of each worker of a shape. A worker with replicas on several counts for the
        slowest.
        """
        ends = [*accumulate(group["accelerators"] for group in self.groups)]
        ranks = (worker * shape.stage for worker in range(1, shape.pipeline + 1))
        return [min(bisect_left(ends, last), len(ends) - 1) for last in ranks]

    @property
    def experts(self) -> int:
        """The number of experts of a layer; 0 if there are none."""
        return self.sizes["experts"]

    @property
    def recurrence(self) -> str | None:
        """The kind of recurrence that some layers have in place of attention; None if none has."""
        return RECURRENCES[self.sizes["recurrence"]]

    @property
    def tokens(self) -> int:
        return self.global_batch * self.sizes["sequence"]

    @property
    def capacity_bytes(self) -> int:
        if self.memory is not None:
            return bytes_of("memory", self.memory)
        return self.sizes["memory_bytes"]

    @property
    def usable_bytes(self) -> int:
        """The part of that memory that a training may use."""
        return self.capacity_bytes - self.reserve_bytes

    @property
    def reserve_text(self) -> int | str:
        """The reserve as text, as it was given or by default."""
        return DEFAULT_RESERVE if self.reserve is None else self.reserve

    def expert_ranks(self, expert: int) -> int:
        """The accelerators that hold each expert once, at a degree of expert parallelism."""
        return expert * self.held["expert_tensor"] if expert > 1 else 1

    def expert_on(self, expert: int, stage: int) -> int:
        """The largest degree of expert parallelism that divides this one and the accelerators of a
        stage.
        """
        whole, over = divmod(stage, self.held["expert_tensor"])
        return 1 if over else math.gcd(expert, whole)

    @property
    def has_experts(self) -> bool:
        return bool(self._summary.get("expert_parameters"))

    @property
    def reserve_bytes(self) -> int:
        """The bytes of an accelerator's memory that are kept free."""
        return reserve_of(self.reserve_text, self.capacity_bytes, self.has_experts)


def divisors(number: int) -> list[int]:
    """
    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


Progress = Callable[[int, int], object]
"""Called with the number of finished configurations and the number of all."""
