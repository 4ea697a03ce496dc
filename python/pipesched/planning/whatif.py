"""Evaluates changes of a plan: a `Case` is a request with one candidate and its disturbances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any

from ..costs.division import SPREAD
from ..costs.settings import settings, with_settings
from ..errors import PipeSchedError, WrongType, said_by
from ..results.configuration import Configuration
from ..results.disturbances import SEEDS
from ..results.simulation import Simulation
from ..support.options import (
    ContextExchange,
    ReceivePlacement,
    Recompute,
    Sharding,
    VocabularyKind,
    code_of,
    integer,
    integers,
    list_of,
    mapping_of,
    one_pass,
    text_of,
)
from ..support.text import closest, gib, plural
from . import layer_times as _own_times
from .candidate import ALONE, INTERLACED, Candidate, Shape
from .expenses import expenses
from .explain.reasons import composition
from .launch.launchers import why_not_tensor
from .launch.passes import ENDING, attach_costs
from .proposals import Proposal
from .request import Request, renew
from .search.disturbances import Slow
from .space.divisions import ALONE_EXCHANGE, nearest_divisors
from .space.heads import kinds_of
from .space.space import Space

OFFLOADS = ("all", "half")
NOTHING = 0.0005
"""The share of the step below which a difference is not mentioned."""

MOST_REASONS = 3

Changed = Callable[["Case"], "Case"]


@dataclass(frozen=True)
class Case:
    """A candidate under a request, with its disturbances and offloads."""

    request: Request
    candidate: Candidate
    slow: Slow = Slow()
    offload: str | None = None

    @property
    def shape(self) -> Shape:
        return self.candidate.shape

    @property
    def configuration(self) -> Configuration:
        """The whole training step."""
        return Space(self.request).configuration(self.candidate)


@dataclass(frozen=True)
class Change:
    """One change: its name in tables, and its effect on a case."""

    text: str
    apply: Changed


@dataclass(frozen=True)
class Result:
    """The numbers of a case; bytes are per accelerator."""

    case: Case
    step_s: float
    """As computed; tables show the expected one."""
    parts_s: dict[str, float]
    """The uses of the time of a mean worker: compute, and idle time by cause."""
    peak_bytes: int | None
    held: dict[str, float]
    """The parts of the memory of the fullest accelerator."""

    @cached_property
    def proposal(self) -> Proposal:
        """The case as a row of a plan."""
        case, peak = self.case, self.peak_bytes or 0
        return Proposal(1, case.request, case.candidate, case.configuration, self.step_s, peak)

    @property
    def tokens_per_s(self) -> float | None:
        each = self.proposal.tokens_per_s_per_gpu
        return each and each * self.case.request.gpus

    @property
    def expenses(self) -> dict[str, Any]:
        """Estimates of days, money and energy."""
        return expenses(
            self.case.request, self.tokens_per_s, 1 - self.parts_s["compute"] / self.step_s
        )


# Evaluation


def _offload(case: Case, folder: str) -> Callable[[str], Simulation]:
    """Reports of the rows of a case whose activations are offloaded."""
    configuration, request = case.configuration, case.request
    assert configuration.costs is not None
    attached = attach_costs(configuration.costs, case.candidate, folder)
    passes = [*attached, one_pass("pipe-add-offload", {"amount": case.offload}), ENDING]
    made = configuration.generate(case.candidate.schedule).transform(",".join(passes))
    return lambda text: made.simulate(transport=request.transport, disturbance=text)


def _simulate(case: Case, seeds: int) -> tuple[Simulation, float]:
    """The report of the slowest pipeline, and the mean step over all draws in seconds."""
    with TemporaryDirectory() as folder:
        if case.offload:
            simulate = _offload(case, folder)
        else:
            configuration = case.configuration

            def simulate(text: str) -> Simulation:
                return replace(configuration, disturbance=text).simulate()

        drawn = [
            max(map(simulate, texts), key=lambda found: found.execution.makespan_ps)
            for texts in case.slow.draws(case.configuration.costs, case.shape.pipeline, seeds)
        ]
    steps = [found.execution.makespan_ps for found in drawn]
    middle = sorted(drawn, key=lambda found: found.execution.makespan_ps)[len(drawn) // 2]
    return middle, sum(steps) / len(steps) / 1e12


def evaluate(case: Case, seeds: int = SEEDS) -> Result:
    report, step = _simulate(case, seeds)
    execution, worker = report.execution, case.shape.worker
    causes = execution.idle_by_cause_ps.ratios(execution.makespan_ps)
    parts = {"compute": (1 - execution.idle_ratio) * step}
    for name, ratio in causes.items():
        parts[name.removesuffix("_ratio").replace("_", " ")] = ratio * step
    memory = report.memory
    if memory is None or case.request.model is None:
        return Result(case, step, parts, None, {})
    peak = -(-int(memory.peak_bytes[memory.bottleneck_worker]) // worker)
    return Result(case, step, parts, peak, composition(memory, worker))


# Why


def _show_signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '-'}{abs(seconds):.3g} s"


def _differences(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - before.get(name, 0.0) for name in after}


def _shape_changes(old: Case, new: Case) -> list[str]:
    """Other differences from the plan, such as `data 8 to 7`."""
    one, other = old.shape._asdict(), new.shape._asdict()
    names = {"pipeline": "pp", "microbatch_size": "microbatch size"}
    found = []
    heads = old.candidate.vocabulary, new.candidate.vocabulary
    if old.candidate.schedule != new.candidate.schedule:
        found.append(new.candidate.schedule)
    if heads[0] != heads[1]:
        found.append(f"vocabulary {heads[0]} to {heads[1]}")
    if old.candidate.layers != new.candidate.layers:
        found.append(f"layers {new.candidate.layers_text}")
    for name, value in one.items():
        if other[name] != value:
            found.append(f"{names.get(name, name)} {value} to {other[name]}")
    prices = old.request.price, new.request.price
    if prices[0] != prices[1]:
        found.append(f"price {'none' if prices[0] is None else f'{prices[0]:g}'} to {prices[1]:g}")
    idle = new.request.gpus - new.shape.gpus
    if idle:
        found.append(f"{plural(idle, 'accelerator')} without work")
    return found


def why(plan: Result, found: Result) -> str:
    """The reason why a step differs from the plan's, in a few words with numbers."""
    said = _shape_changes(plan.case, found.case)
    times = _differences(plan.parts_s, found.parts_s)
    worth = [n for n in times if abs(times[n]) > NOTHING * plan.step_s]
    worth.sort(key=lambda name: -abs(times[name]))
    said += [f"{name} {_show_signed(times[name])}" for name in worth[:MOST_REASONS]]
    sizes = _differences(plan.held, found.held)
    largest = max(sizes, key=lambda name: abs(sizes[name]), default=None)
    if largest is not None and abs(sizes[largest]) > NOTHING * (plan.peak_bytes or 1):
        sign = "+" if sizes[largest] > 0 else "-"
        said.append(f"{largest} {sign}{gib(abs(sizes[largest]))}")
    if missing := found.proposal.missing_bytes:
        said.append(f"misses {gib(missing)}")
    return ", ".join(said) or "no difference"


# Changes


def set_fields(texts: Sequence[str]) -> Changed:
    """Changes fields of the system or of the model."""
    chosen = settings(texts)

    def apply(case: Case) -> Case:
        request = case.request
        if request.model is None and any(each.what == "model" for each in chosen):
            raise PipeSchedError("set is about a model, and the plan has only times of layers")
        model = request.model and with_settings("model", request.model, chosen)
        system = with_settings("system", request.system, chosen, request.rates)
        changed = replace(request, model=model, system=system)
        if changed.sizes["layers"] != request.sizes["layers"]:
            return _place(replace(case, request=changed), case.candidate.schedule)
        return replace(case, request=changed)

    return apply


def change_request(**changes: Any) -> Changed:
    """Changes fields of the request that move no accelerators: system, precision, memory, ..."""
    return lambda case: replace(case, request=replace(case.request, **changes))


def slow_down(slow: Slow) -> Changed:
    return lambda case: replace(case, slow=case.slow | slow)


def offload(amount: str) -> Changed:
    """Sends activations to the host."""
    if amount not in OFFLOADS:
        raise PipeSchedError(f"offload: unknown value {amount!r}{closest(amount, OFFLOADS)}")
    return lambda case: replace(case, offload=amount)


def _whole(what: str, number: int, parts: int, of: str) -> int:
    """The quotient, which has to be whole."""
    if parts and number % parts == 0:
        return number // parts
    raise PipeSchedError(
        f"{what}: {number} {of} cannot be divided by {parts}; nearest that divide them:"
        f" {nearest_divisors(number, parts)}"
    )


def _reshape(case: Case, **changes: Any) -> Case:
    """The case with another shape; microbatches, experts and sharding follow."""
    request, shape = case.request, case.shape._replace(**changes)
    batch, rows = request.global_batch, shape.data * shape.microbatch_size
    if rows == 0 or batch % rows:
        each = f"{shape.data} pipeline{'s' * (shape.data != 1)}"
        if batch % shape.data:
            _whole("microbatches", batch, shape.data, f"sequences of a step among {each}")
        of = "sequences of a pipeline"
        _whole("microbatches", batch // shape.data, shape.microbatch_size, of)
    count = batch // rows
    expert = request.expert_on(shape.expert, shape.stage)
    shape = shape._replace(microbatches=count, expert=expert)
    space = Space(request)
    kinds = space.divisions.shardings(shape.pipeline, shape.data, shape.context)
    if shape.sharding not in kinds:
        if "sharding" in changes or not kinds:
            reasons = "; ".join(space.left_out) or "one replica has nothing to shard over"
            raise PipeSchedError(f"sharding {shape.sharding}: {reasons}")
        shape = shape._replace(sharding=kinds[0])
    return replace(case, candidate=case.candidate._replace(shape=shape))


def _place(case: Case, schedule: str, chunks: int | None = None) -> Case:
    """The fastest division of layers for a schedule on the shape, preferring fitting ones."""
    request = replace(
        case.request, schedules=(schedule,), chunks=None if chunks is None else (chunks,)
    )
    return _fastest(case, request, schedule, chunks is None and schedule == case.candidate.schedule)


def _fastest(case: Case, request: Request, named: str, keeps: bool = False) -> Case:
    """The fastest on the shape of the case that fits; with `keeps`, of its variant if there are
    any.
    """
    space = Space(request)
    candidates = list(space.candidates_of(case.shape))
    same = [c for c in candidates if c.variant == case.candidate.variant]
    if keeps and same:
        candidates = same
    if not candidates:
        reasons = "; ".join(space.left_out) or "no schedule is defined for these sizes"
        raise PipeSchedError(f"{named}: {reasons}")
    found: list[Result] = []
    for each in candidates:
        try:
            found.append(evaluate(replace(case, candidate=each), 1))
        except PipeSchedError:  # such as receives before consumers, which may wait for each other
            if each is candidates[-1] and not found:
                raise
    best = min(found, key=lambda each: (each.proposal.missing_bytes, each.step_s))
    return replace(case, candidate=best.case.candidate)


def change_shape(**changes: Any) -> Changed:
    """Changes degrees, microbatches, recomputation or sharding; replicas take the remaining
    accelerators.
    """

    def apply(case: Case) -> Case:
        request, shape = case.request, case.shape._replace(**changes)
        _own_times_hold(request, case.shape, changes)
        _check_degrees(request, shape)
        if "sharding" in changes:
            request = replace(request, sharding=(changes["sharding"],))
        group = shape.worker * shape.pipeline
        data = _whole("data", request.gpus, group, "accelerators")
        if "expert" in changes:
            _check_experts(request, shape._replace(data=data))
        made = _reshape(replace(case, request=request), data=data, **changes)
        if shape.pipeline != case.shape.pipeline:
            return _place(made, case.candidate.schedule)
        return made

    return apply


def _own_times_hold(request: Request, shape: Shape, changes: Mapping[str, Any]) -> None:
    """Refuses changes for which measured times do not hold."""
    for name, what in _own_times.NAMES.items():
        if request.times is not None and changes.get(name, getattr(shape, name)) != getattr(
            shape, name
        ):
            raise PipeSchedError(f"the times of the plan hold for one {what} alone")


def _check_degrees(request: Request, shape: Shape) -> None:
    """Refuses degrees that the model does not allow. A node need not hold whole workers."""
    heads = request.sizes["key_value_heads"]
    if why_not_tensor(request, shape.tensor):
        _whole("tensor", heads, shape.tensor, "key-value heads")
    tokens = request.sizes["sequence"]
    if shape.context > 1 and tokens % (2 * shape.context):
        _whole("context", tokens // 2, shape.context, "pairs of tokens")
    if shape.pipeline > request.sizes["layers"]:
        raise PipeSchedError(
            f"pp: {shape.pipeline} workers are more than {request.sizes['layers']} layers"
        )


def _check_experts(request: Request, shape: Shape) -> None:
    """Refuses a number of accelerators that cannot share the experts of a stage."""
    if not request.experts and shape.expert > 1:
        raise PipeSchedError("expert: the model has no experts")
    if request.experts:
        _whole("expert", request.experts, shape.expert, "experts")
    _whole("expert", shape.stage, request.expert_ranks(shape.expert), "accelerators of a stage")


def change_schedule(schedule: str | None, chunks: int | None = None) -> Changed:
    """Another schedule on the same shape."""
    return lambda case: _place(case, schedule or case.candidate.schedule, chunks)


WHOLE = {"vocab-1f1b": ALONE, "vocab-v-half": "v-half", INTERLACED: ALONE}
"""The schedules with a whole head from which schedules with shards are made."""


def change_vocabulary(kind: VocabularyKind) -> Changed:
    """The head whole or in shards: the schedule of the case if it is one, else the fastest."""

    def apply(case: Case) -> Case:
        schedule = case.candidate.schedule
        if kind in kinds_of(schedule):
            names: list[str] = [schedule]
        elif kind == "whole":
            names = [WHOLE[schedule]]
        else:
            names = [family for family in SPREAD if kind in kinds_of(family)]
        request = replace(case.request, vocabulary=(kind,))
        request = replace(request, schedules=tuple(names), chunks=None)
        return _fastest(case, request, " or ".join(names))

    return apply


def change_batch(global_batch: int) -> Changed:
    """Another number of sequences per step."""

    def apply(case: Case) -> Case:
        request = replace(case.request, global_batch=global_batch)
        return _reshape(replace(case, request=request))

    return apply


def change_accelerators(gpus: int) -> Changed:
    """More or fewer accelerators, and replicas with them."""

    def apply(case: Case) -> Case:
        changed = replace(case, request=replace(case.request, gpus=gpus))
        return change_shape()(changed)

    return apply


def count_remaining(request: Request, nodes: Sequence[int]) -> int:
    """The accelerators that are left when nodes are lost."""
    count = -(-request.gpus // request.node)
    for node in nodes:
        if not 0 <= node < count:
            raise PipeSchedError(f"there is no node {node} to lose; nodes are 0 to {count - 1}")
    left = request.gpus - len(set(nodes)) * request.node
    if left <= 0:
        raise PipeSchedError("all nodes are lost, so that nothing is left to train on")
    return left


def lose_nodes(nodes: Sequence[int]) -> Changed:
    """Keeps as many whole pipelines as the other nodes hold and as divide the batch."""

    def apply(case: Case) -> Case:
        request, shape = case.request, case.shape
        left = count_remaining(request, nodes)
        batch, group = request.global_batch, shape.worker * shape.pipeline
        fitting = [
            data
            for data in range(1, left // group + 1)
            if batch % (data * shape.microbatch_size) == 0
        ]
        if not fitting:
            raise PipeSchedError(
                f"the {left} accelerators that are left hold no pipeline of {group}"
            )
        changed = replace(case, request=replace(request, gpus=left))
        return _reshape(changed, data=fitting[-1])

    return apply


# Rows of plans

LIMITS = (
    *("schedules", "tensor", "pp", "context", "expert", "microbatch_size", "chunks"),
    *("vocabulary", "recompute", "sharding"),
)
"""The fields of a request that only limit the choices of a plan."""


_KINDS = {"recompute": Recompute, "sharding": Sharding}
_MOST = 2**31 - 1


def _shape(row: Mapping[str, Any]) -> Shape:
    """The shape of a row, whose degrees and sizes are at least 1."""
    found: dict[str, Any] = {}
    for name in (name for name in Shape._fields if name != "exchange"):
        if name in _KINDS:
            code_of(_KINDS[name], name, row[name])
            found[name] = row[name]
        else:
            found[name] = integer(name, row[name], 1, _MOST)
    exchange = row["context_exchange"]
    if exchange is not None:
        code_of(ContextExchange, "context_exchange", exchange)
    return Shape(**found, exchange=exchange or ALONE_EXCHANGE[0])


def _options(given: Any) -> tuple[tuple[str, Any], ...]:
    """The options of a family, as a candidate has them."""
    options = mapping_of("options", "{'chunks': 2}", given)
    for name, value in options.items():
        if not isinstance(value, (int, str)):
            raise WrongType(f"options: {name} is a number or a text; got {value!r}")
    return tuple(sorted(options.items()))


def _paths(given: Any, what: str, least: int) -> tuple[tuple[int, ...], ...]:
    """The workers of the stages of each path, or their layers."""
    paths = list_of("paths", "[{'workers': [0, 1], 'layers': [2, 2]}]", given)
    found = []
    for path in paths:
        numbers = mapping_of("a path", "{'workers': [0], 'layers': [2]}", path)[what]
        found.append(tuple(integers(what, list_of(what, "[0, 1]", numbers), least, _MOST)))
    if not found or not all(found):
        raise PipeSchedError(f"paths: each has {what}, one for each stage")
    return tuple(found)


def _candidate(row: Mapping[str, Any]) -> Candidate:
    receives = row.get("receive_placement", "arrival")
    code_of(ReceivePlacement, "receive_placement", receives)
    found = Candidate(
        _shape(row),
        text_of("schedule", row["schedule"]),
        _options(row["options"]),
        _paths(row["paths"], "workers", 0),
        _paths(row["paths"], "layers", 0),
        0,
        receives,
    )
    for workers, layers in zip(found.paths, found.layers, strict=True):
        if len(workers) != len(layers):
            raise PipeSchedError("paths: wanted a worker and a number of layers for each stage")
    if {worker for path in found.paths for worker in path} != set(range(found.shape.pipeline)):
        raise PipeSchedError(f"paths: wanted paths through all {found.shape.pipeline} workers")
    return found


def _request(row: Mapping[str, Any], shape: Shape) -> Request:
    """The request of a row without the limits of its search; own times keep theirs."""
    given = renew(mapping_of("request", "{'gpus': 8}", row["request"]))
    known = {each.name for each in fields(Request)}
    for name in given:
        if name not in known:
            raise PipeSchedError(f"request: unknown key {name!r}{closest(name, known)}")
    limits = {name: given.pop(name) for name in LIMITS if name in given}
    if given.get("times") is not None:
        given |= {name: limits[name] for name in _own_times.NAMES if name in limits}
    return Request(**given, sharding=(shape.sharding,))


def case_of(row: Mapping[str, Any]) -> Case:
    """The case of a row of `Plan.to_dicts`."""
    try:
        candidate = _candidate(row)
        request = _request(row, candidate.shape)
        batch = candidate.shape.data * candidate.shape.microbatch_size
        batch *= candidate.shape.microbatches
        is_whole = (candidate.shape.gpus, batch) == (request.gpus, request.global_batch)
        is_optimized = bool(row["optimized"])
    except KeyError as error:
        raise PipeSchedError(f"a row of a plan has the key {error}; this one does not") from None
    except (TypeError, ValueError) as error:
        raise PipeSchedError(f"this is not a row of a plan: {said_by(error)}") from None
    if is_optimized:
        raise PipeSchedError(
            f"{row.get('name')} has rows of the optimizer, which no family makes again; choose"
            " another row"
        )
    if not is_whole:
        raise PipeSchedError("the degrees and batch of the row disagree with its request")
    _ = request.described  # reads model and system
    return Case(request, candidate)
