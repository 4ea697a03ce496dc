"""Costs of schedules: models, systems and profiles."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache, partial
from typing import Any, cast

from .. import _core
from ..errors import PipeSchedError, WrongType
from ..support.options import (
    Attention,
    Balance,
    Precision,
    Rates,
    RawTiming,
    Recompute,
    TimesOf,
    TimingOptions,
    code_of,
    integer,
    path_of,
    raw_timing,
    text_of,
)
from ..support.text import valid
from . import deployment as _deployment
from . import stage_times as _times_of
from .deployment import Deployment, DeploymentOptions
from .division import Division
from .frameworks import (
    OWN_BYTES,
    UNSAID_BYTES,
    FrameworkName,
    LauncherName,
    ParameterBytes,
    habits,
    parameter_bytes,
    records_graphs,
    used_of,
)
from .layer_times import LayerTimes, names_layers

Time = str | int
"""`"18.5ms"`, or a number of picoseconds."""

PhaseTimes = Mapping[str, Time | Sequence[Time] | Sequence[Sequence[Time]]]
"""Times by phase: one, a list, or lists by stage and microbatch."""

NamedTimes = Mapping[str, Time | Sequence[Time] | PhaseTimes]

Times = str | NamedTimes | os.PathLike[str]
"""`"F=18.5ms,B=27.4ms"`, the same as a mapping, or the path of a JSON file. `layers`, `embedding`
and `head` may have mappings by phase, with the times of each, and `microbatches` one with a list of
a time for each microbatch, or such a list for each stage.
"""

Description = str | Mapping[str, Any] | os.PathLike[str]
"""The name of a description that ships, its fields, or the path of a JSON file."""


class CostOptions(DeploymentOptions, total=False):
    """The arguments of `Costs`, for functions that pass them on."""

    times: Times | None
    times_of: TimesOf
    model: Description | None
    system: Description | None
    microbatch_size: int | None
    global_batch: int | None
    sequence: int | None
    boundary_bytes: int | None
    parameter_bytes: ParameterBytes | LauncherName | None
    accelerators: int | None
    recompute: Recompute
    attention: Attention | None
    sequence_parallel: bool
    precision: Precision
    balance: Balance
    rates: Rates
    framework: FrameworkName


class SimulationOptions(CostOptions, TimingOptions, total=False):
    """The options of a simulation: the arguments of `Costs`, `transport` (overlap, delay, pairs or
    blocking), `receive_placement` (arrival or consumer), `forward_sends` (async or sync), `runtime`
    (table or torch) and `disturbance` (`"worker3=1.3,stage5=1.2,jitter=5%,seed=7"`).
    """


# The numbers by which the library knows the kinds of sources.
_NAME, _FILE, _JSON, _TIMES = (
    _core.enums()["source"].index(kind) for kind in ("name", "file", "json", "times")
)
_Source = tuple[int, str] | None


def _looks_like_path(text: str) -> bool:
    return text.endswith(".json") or os.sep in text


def _number_or(what: str, value: int | None, least: int, default: int) -> int:
    return default if value is None else integer(what, value, least)


def _parameter_bytes(costs: Costs) -> ParameterBytes | None:
    given = costs.parameter_bytes
    if given is None:
        if costs.model is None or costs.framework == "none" or own_bytes(costs.model):
            return None
        given = costs.framework
    if isinstance(given, str):
        code_of(LauncherName, "parameter_bytes", given)
        return parameter_bytes(given, costs.precision, costs.sharding)
    if not isinstance(given, Sequence) or len(given) != 3:
        raise PipeSchedError(
            "parameter_bytes are three numbers, those of weight, gradient and optimizer state, or"
            " the name of a framework;"
            f" got {given!r}"
        )
    weight, gradient, state = (integer("parameter_bytes", cast(int, size), 0) for size in given)
    return weight, gradient, state


def fields_of(model: Description) -> Mapping[str, Any]:
    """The fields of a description that are given or in a file. Shipped ones have names."""
    if isinstance(model, Mapping):
        return model
    if isinstance(model, str) and not _looks_like_path(model):
        return {}
    try:
        with open(model, encoding="utf-8-sig") as contents:
            read = json.load(contents)
    except (OSError, ValueError):
        return {}  # the library reports the error
    return read if isinstance(read, Mapping) else {}


def own_bytes(model: Description | None) -> ParameterBytes | None:
    """Returns the bytes of a parameter that the model file itself states, which hold for every
    verb; None if it states none of the three.
    """
    fields = {} if model is None else fields_of(model)
    if not any(name in fields for name in OWN_BYTES):
        return None
    weight, gradient, state = map(fields.get, OWN_BYTES, UNSAID_BYTES)
    return weight, gradient, state  # the library checks them


def recomputed_layers(model: Description | None, layers: int) -> tuple[int, ...]:
    """Returns the layers of which a model says that forwards keep only the input."""
    given = {} if model is None else fields_of(model).get("recomputed_layers")
    if isinstance(given, Mapping):
        return tuple(range(given.get("first", 0), layers, given.get("every", 1))) if given else ()
    return tuple(given or ())


def has_experts(costs: Costs | None) -> bool:
    """Returns whether the costs are those of a model with experts."""
    if costs is None or costs.model is None:
        return False
    return bool(costs.model_summary()["expert_parameters"])


def _path(file: str | os.PathLike[str]) -> str:
    path = path_of("the file of a description", file)
    if valid(path) != path:
        raise PipeSchedError(f"{path}: the path of a description has to be UTF-8")
    return path


def _description(source: Description | None) -> _Source:
    if source is None:
        return None
    if isinstance(source, Mapping):
        return _JSON, _fields_text(source)
    if isinstance(source, str) and not _looks_like_path(source):
        return _NAME, text_of("a model or system", source)
    if not isinstance(source, (str, os.PathLike)):
        raise WrongType(f"a model or system is a name, a mapping or a path; got {source!r}")
    return _FILE, _path(source)


def _fields_text(fields: Mapping[str, Any]) -> str:
    """The fields of a description as JSON."""
    try:
        return json.dumps(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongType(f"a description has fields as JSON has them: {error}") from None


def _time(time: Time) -> str:
    if isinstance(time, int) and not isinstance(time, bool):
        return f"{time}ps"
    return text_of("a time", time)


def _times_text(times: NamedTimes) -> str:
    """Times of stages as text. Only times by microbatch are nested."""

    def value(given: Any) -> str:
        if isinstance(given, (str, int)):
            return _time(given)
        if not isinstance(given, (list, tuple)):
            raise WrongType(f"times of stages are times or lists of times; got {given!r}")
        return f"[{','.join(map(value, given))}]"

    flat = _times_of.flatten(times)
    return ",".join(f"{name}={value(given)}" for name, given in flat.items())


def _times(times: Times | None) -> _Source:
    if times is None:
        return None
    if isinstance(times, Mapping):
        return _TIMES, _times_text(times)
    if isinstance(times, str) and not _looks_like_path(times):
        return _TIMES, text_of("times", times)
    if not isinstance(times, (str, os.PathLike)):
        raise WrongType(f'times are text such as "F=1ms,B=2ms", a mapping or a path; got {times!r}')
    return _FILE, _path(times)


@dataclass(frozen=True, kw_only=True, repr=False)
class Costs(Deployment):
    """The costs of schedules, read once for any number of them.

    `times` has the times of messages and of the phases of a stage: one time for all stages, or one
    per stage. With `times_of="worker"` they belong to a worker, which its stages divide, with
    `times_of="layer"` to each layer, of the embedding and of the head, which the stages add
    up (docs/CostModel.md, "Times of layers"). `model` and `system` give costs by the roofline
    model; if all three are given, `times` have priority. Without any of them, one slot is 1 us and
    messages are free.

    `balance` gives the layers of the stages of a path that does not say so itself. `auto`: equally
    many, or if that is impossible as for `cost`; `cost`: numbers that keep all workers equally
    busy; `exact`: equally many, or an error.

    A microbatch has `microbatch_size` sequences, or otherwise its share of `global_batch`, the
    batch of all `data_parallel` pipelines. The defaults of `global_batch`, `sequence` and
    `attention` come from the model. `boundary_bytes` replaces the size of messages between stages,
    `parameter_bytes` the bytes of a parameter's weight, gradient and optimizer state, or names a
    framework ("megatron", "torchtitan"). The `accelerators` of a worker share its work:
    `context_parallel` of them divide the sequence, and the rest is tensor parallelism. Each
    `expert_parallel` consecutive accelerators divide the experts. `sharding` names the state that
    pipelines divide: nothing, the state of the optimizer (ZeRO-1), gradients too (ZeRO-2), or
    weights as well (FSDP). docs/CostModel.md explains these and the other options.

    `rates` chooses the rates of accelerators: `auto` takes rates under the load of a training if
    the system has them, `load` requires them, `data-sheet` takes the peaks. With a model and a
    system, `sharding`, `tensor_overlap`, `expert_dispatch`, `kernel_launch`, `used_per_node`,
    `attention` and `parameter_bytes` have the defaults of the `framework` ("megatron",
    "torchtitan"); with "none" the defaults of the passes: nothing sharded or hidden.

    >>> Costs(times={"F": "18.522ms", "I": "18.086ms", "W": "9.337ms", "comm": "0.601ms"})
    Costs(times={'F': '18.522ms', 'I': '18.086ms', 'W': '9.337ms', 'comm': '0.601ms'})
    >>> Costs(model="paper-gpt", system="dgx-h100", recompute="full")
    Costs(model='paper-gpt', system='dgx-h100', recompute='full')
    """

    times: Times | None = None
    times_of: TimesOf = "stage"
    model: Description | None = None
    system: Description | None = None
    microbatch_size: int | None = None
    global_batch: int | None = None
    sequence: int | None = None
    boundary_bytes: int | None = None
    parameter_bytes: ParameterBytes | LauncherName | None = None
    accelerators: int | None = None
    recompute: Recompute = "none"
    attention: Attention | None = None
    sequence_parallel: bool = True
    precision: Precision = "bf16"
    balance: Balance = "auto"
    rates: Rates = "auto"
    framework: FrameworkName = "megatron"
    _assumed: dict[str, Any] = field(init=False, compare=False, default_factory=dict)
    """The framework's values for arguments that were not given."""
    _raw: _core.Costs = field(init=False, compare=False)
    """The costs without times of layers, which depend on the stages."""
    _of_stages: dict[str, Costs] = field(init=False, compare=False, default_factory=dict)
    """For given times of stages, the costs with these times."""
    _division: Division = field(init=False, compare=False)

    def __post_init__(self) -> None:
        code_of(TimesOf, "times_of", self.times_of)
        code_of(Balance, "balance", self.balance)
        code_of(FrameworkName, "framework", self.framework)
        cut = _deployment.OPTIONS["slice_cut"].text(self.slice_cut)
        object.__setattr__(self, "slice_cut", cut)
        if self.times is None and self.times_of != "stage":
            raise PipeSchedError("times_of is about times; none are given")
        if self.times is not None and self.times_of != "layer" and names_layers(self.times):
            if self.times_of == "worker":
                raise PipeSchedError("the times name layers, so that they are not of a worker")
            object.__setattr__(self, "times_of", "layer")
        raw = self._read()
        object.__setattr__(self, "_raw", raw)
        object.__setattr__(self, "_division", self._read_division(raw))

    def _read(self) -> _core.Costs:
        """Reads the descriptions, with the framework's habits as defaults."""
        has_habits = self.model is not None and self.system is not None
        if has_habits and self.framework != "none":
            integer("data_parallel", self.data_parallel, 1)
            shares = self.data_parallel * integer("context_parallel", self.context_parallel, 1)
            self._assume(habits(self.framework, shares))
        raw = self._read_as_given()
        if has_habits and self.framework != "none":
            sizes = _core.sizes(raw)
            node = sizes["accelerators_per_node"]
            further: dict[str, Any] = {}
            if used_of(node) != node:
                further["used_per_node"] = used_of(node)
            if sizes["has_cudnn_rates"]:
                further["attention"] = "cudnn"
            if records_graphs(self.framework, sizes):
                further["kernel_launch"] = "graphs"
            raw = self._read_as_given() if self._assume(further) else raw
        self._assume({name: _deployment.OPTIONS[name].unsaid for name in _deployment.HABITS})
        return raw

    def _assume(self, habits: Mapping[str, Any]) -> bool:
        """Takes values for arguments that are not given. Returns whether there are any."""
        found = {name: v for name, v in habits.items() if getattr(self, name) is None}
        for name, value in found.items():
            object.__setattr__(self, name, value)
        self._assumed.update(found)
        return bool(found)

    def _read_as_given(self) -> _core.Costs:
        attention = self.attention
        numbers = (
            _number_or("microbatch_size", self.microbatch_size, 1, 0),
            _number_or("global_batch", self.global_batch, 1, 0),
            _number_or("sequence", self.sequence, 1, 0),
            _number_or("boundary_bytes", self.boundary_bytes, 0, -1),
            _number_or("accelerators", self.accelerators, 1, 0),
        )
        choices = (
            code_of(Recompute, "recompute", self.recompute),
            0 if attention is None else code_of(Attention, "attention", attention),
            code_of(Precision, "precision", self.precision),
            int(not self.sequence_parallel),
            code_of(Rates, "rates", self.rates),
        )
        return _core.Costs(
            model=_description(self.model),
            system=_description(self.system),
            profile=None if self.times_of == "layer" else _times(self.times),
            numbers=numbers,
            choices=choices,
            deployment=_deployment.raw(self),
            parameter_bytes=_parameter_bytes(self),
        )

    def _read_division(self, raw: _core.Costs) -> Division:
        layers = int(_core.sizes(raw)["layers"]) if self.model is not None else 0
        if self.times_of == "layer":
            read = LayerTimes.read(self.times, layers)
            return Division(raw, self.balance, read.count, layer_times=read)
        entries: _times_of.Entries = {}
        if self.times is not None and self.times_of == "stage":
            entries = _times_of.entries_of(self.times)
        has_costs = self.model is not None and self.system is not None
        has_groups = bool(has_costs and not self.times and _core.sizes(raw)["group_unit"])
        return Division(raw, self.balance, layers, None, entries, has_costs, has_groups)

    def _for(self, places: Sequence[_times_of.Place]) -> Costs:
        """The same costs for a schedule on some paths, with all times as times of stages."""
        if not places:
            return self
        if self.times_of == "worker":
            times = _times_of.divided(self.times, places)
        else:
            layer_times = self._division.times_on(places)
            if layer_times is None:
                return self
            times = layer_times.text_on(places)
        if times not in self._of_stages:
            self._of_stages[times] = self.with_(times=times, times_of="stage")
        return self._of_stages[times]

    def check_form(self) -> None:
        """Raises an error if passes cannot attach the system."""
        if _core.sizes(self._raw)["group_unit"]:
            raise PipeSchedError("the system has groups of nodes, which IR has no form for")

    @property
    def bytes_per_parameter(self) -> ParameterBytes | None:
        """The bytes of a parameter's weight, gradient and optimizer state, if they are given or
        come from the framework; None if the model's description has them.
        """
        return _parameter_bytes(self)

    @property
    def _has_times_to_divide(self) -> bool:
        """Whether the given times depend on the paths."""
        return bool(self.times_of != "stage" or self._division.entries)

    @property
    def _is_divided(self) -> bool:
        """Whether times, or the layers of stages, depend on the paths."""
        return bool(self._has_times_to_divide or self._division.layers)

    @property
    def _timed_names(self) -> set[str]:
        """The phases and messages that have times."""
        if self.times is None:
            return set()
        given = self._division.layer_times
        if given is not None:
            return {*given.layers, *given.messages}
        return {name.rpartition(".")[2] for name in _times_of.entries_of(self.times)}

    @property
    def _accelerators(self) -> int | None:
        """The accelerators of a worker; None without a system."""
        return _core.sizes(self._raw)["accelerators"] or None

    def model_summary(self) -> dict[str, Any]:
        """Returns the blocks, parameters and FLOPs per token of the model, as `pipesched show
        --model` prints them.

        >>> Costs(model="llama3-8b").model_summary()["parameters"]
        8030261248
        """
        found: dict[str, Any] = json.loads(self._raw.model())
        return found

    def _options(self) -> dict[str, Any]:
        options = ((f, getattr(self, f.name)) for f in argument_fields())
        return {
            f.name: value
            for f, value in options
            if value != f.default and f.name not in self._assumed
        }

    def with_(self, **changes: Any) -> Costs:
        """Returns the same costs with other arguments and new assumptions.

        >>> Costs(model="llama3-8b", system="h100").with_(recompute="full").recompute
        'full'
        """
        return Costs(**{**self._options(), **changes})

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in self._options().items())
        return f"Costs({', '.join(options)})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Costs, **self._options()), ()


@cache
def argument_fields() -> tuple[Field[Any], ...]:
    """The arguments of `Costs`, with its base last."""
    given = (f for f in fields(Costs) if f.init)
    return tuple(sorted(given, key=lambda f: f.name in _deployment.OPTIONS))


def read_simulation(
    costs: Costs | None, options: SimulationOptions
) -> tuple[Costs | None, RawTiming]:
    """Reads costs (from `costs` or its arguments, or none) and timing."""
    if costs is not None and not isinstance(costs, Costs):
        raise WrongType(f"costs are a Costs; got {costs!r}")
    timing: TimingOptions = {}
    given: CostOptions = {}
    for name, value in options.items():
        chosen = timing if name in TimingOptions.__annotations__ else given
        chosen[name] = value  # type: ignore[literal-required]
    if costs is not None and given:
        raise WrongType(f"give costs or {', '.join(given)}, not both")
    if given:
        costs = Costs(**given)
    return costs, raw_timing(timing)


NATURAL_BALANCE = 1.58
"""The rows of the fullest rank divided by the mean, if the router chooses freely. Fitted to one of
four measured slowdowns of Qwen3-235B with EP 8, without and with forced balance;
`studies/routing.py` predicts the other three.
"""


def with_natural_routing(costs: Costs | None) -> Costs | None:
    """Returns the same costs with an unequal distribution of rows over experts, as routers choose
    it. Returns None if experts are not sharded, if a balance is given, or if times are measured and
    so hold for any balance.
    """
    if costs is None or costs.model is None or costs.system is None or costs.times is not None:
        return None
    if costs.expert_parallel == 1 or costs.expert_balance != 1:
        return None
    return costs.with_(expert_balance=NATURAL_BALANCE)
