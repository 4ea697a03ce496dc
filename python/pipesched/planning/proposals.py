"""Plans: the best configurations that fit, the nearest that do not, and remedies."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, Unpack

from ..bands import Band, band_keys, band_of
from ..costs.costs import Costs, Description, with_natural_routing
from ..costs.frameworks import FRAMEWORKS, sharding_of
from ..costs.settings import both
from ..errors import PipeSchedError
from ..results.configuration import Configuration
from ..results.disturbances import SEEDS, Factor
from ..results.simulation import Simulation
from ..schedule.families import PlacementKind, placement_kind
from ..schedule.schedule import Schedule
from ..support.options import Sharding, callable_of, integer, list_of, names_of
from ..support.units import seconds_of
from .candidate import Candidate, Shape, describe, receives_text
from .expenses import expenses
from .explain.reasons import explain_proposal, findings, keys_of_orders
from .explain.tables import (
    plan_html,
    plan_line,
    plan_text,
    proposal_html,
    proposal_line,
    proposal_text,
)
from .launch.launchers import Launcher, Launchers, launchers, needs_csv
from .launch.scripts import scripts_of
from .layer_times import holds
from .request import Limits, Progress, Request, check_limits, divisors
from .search.choice import Choice, choose
from .search.disturbances import Slow, slow_by, slow_of
from .search.groups import Groups, find_groups
from .search.moves import Moved, ends_of, move_layers, move_of_best, try_moves
from .search.nearby import find_nearby
from .search.optimizer import Attempt, Optimized, optimize_best
from .search.search import KEPT, Counts, Found, Outcome, Search, by_step, few_collections
from .space.heads import drop_equal_rows
from .space.space import Space

if TYPE_CHECKING:
    import pandas as pd

MORE = (2, 4, 8, 16)
"""Factors by which to increase the number of accelerators if a configuration does not fit."""


def _other_degrees(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """More stages or a higher tensor degree, in place of replicas."""
    if shape.data == 1:
        return
    factor = divisors(shape.data)[1]
    data, heads = shape.data // factor, request.sizes["key_value_heads"]
    changes: dict[str, Any] = {"data": data, "microbatches": shape.microbatches * factor}
    if data * shape.context == 1:
        changes["sharding"] = "none"
    stages, tensor = shape.pipeline * factor, shape.tensor * factor
    if stages <= request.sizes["layers"]:
        yield f"pp {stages}", {**changes, "pipeline": stages}
    if request.node % tensor == 0 and heads % tensor == 0:
        yield f"tensor {tensor}", {**changes, "tensor": tensor}


def _more_parts(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """More accelerators for the experts of a stage, or for a sequence in place of replicas."""
    if request.experts:
        larger = [d for d in divisors(gcd(request.experts, shape.stage)) if d > shape.expert]
        for degree in larger[:1]:
            yield f"expert {degree}", {"expert": degree}
    context = 2 * shape.context
    if shape.data % 2 == 0 and request.sizes["sequence"] % (2 * context) == 0:
        changes = {"data": shape.data // 2, "microbatches": 2 * shape.microbatches}
        yield f"context {context}", {**changes, "context": context}


def changes_of(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes of a shape that might help, likelier ones first, each with its name in words."""
    kinds = request.kinds_of_recompute
    for kind in kinds[kinds.index(shape.recompute) + 1 :]:
        yield f"recompute {kind}", {"recompute": kind}
    local = shape.microbatch_size * shape.microbatches
    for size in [size for size in divisors(local) if size < shape.microbatch_size][-1:]:
        yield f"microbatches of {size}", {"microbatch_size": size, "microbatches": local // size}
    shardings: tuple[Sharding, ...] = names_of(Sharding)
    for sharding in shardings[shardings.index(shape.sharding) + 1 :] if shape.data > 1 else ():
        if sharding_of(request.framework.name, shape.pipeline, sharding) == sharding:
            yield f"sharding {sharding}", {"sharding": sharding}
    yield from _more_parts(request, shape)
    yield from _other_degrees(request, shape)
    for factor in MORE:
        stages = shape.pipeline * factor
        if stages <= request.sizes["layers"]:
            yield f"{request.gpus * factor} accelerators, pp {stages}", {"pipeline": stages}


HELD = ("weight", "gradient", "optimizer")
"""The parts of memory that grow with parameters."""

MOST_MISSING = 0.5
"""If any configuration fits, configurations that lack more than this part of the memory of an
accelerator are left out: no single change saves that much at nearly the same step.
"""

TIGHT = 0.98
"""The part of the usable memory above which a configuration is marked as nearly full."""

OWN_RUNTIME = "pipesched.torch"
"""The runtime of all configurations that no framework runs."""

MOST_ALIKE = 8
"""The maximal number of schedules to compare with the best on its shape."""


@dataclass(frozen=True)
class Help:
    """One evaluated change of a configuration that does not fit, and whether it then fits."""

    change: str
    fits: bool
    missing_bytes: int
    peak_bytes: int
    step_s: float
    allowed: bool = True
    """Whether the request allows this change, apart from a larger number of accelerators."""

    def to_dict(self) -> dict[str, Any]:
        per_gpu = ("missing_bytes", "peak_bytes")
        return {f"{n}_per_gpu" if n in per_gpu else n: v for n, v in asdict(self).items()}


@dataclass(frozen=True)
class Proposal:
    """One configuration and its results. Bytes are per accelerator."""

    place: int
    """The position in the plan, from 1."""
    request: Request = field(repr=False)
    candidate: Candidate = field(repr=False)
    configuration: Configuration | None = field(repr=False)
    """Generates and times the schedule; None for optimized rows, which no family generates."""
    step_s: float
    peak_bytes: int
    disturbed_step_s: float | None = None
    """The step under the disturbances of the plan, by which it is ranked; None without any."""
    help: tuple[Help, ...] = ()
    optimized: Optimized | None = field(default=None, repr=False)
    """How the rows were found, if the optimizer found them."""

    @property
    def name(self) -> str:
        """The name of its files: the place in the plan and the schedule."""
        return f"{self.place:02}-{self.schedule}"

    @property
    def ranked_s(self) -> float:
        """The step by which proposals are compared."""
        return self.step_s if self.disturbed_step_s is None else self.disturbed_step_s

    @property
    def shape(self) -> Shape:
        return self.candidate.shape

    @property
    def schedule(self) -> str:
        """The family, or `optimized`."""
        return self.candidate.schedule

    @property
    def placement(self) -> PlacementKind:
        return placement_kind(self.candidate.paths, self.shape.pipeline)

    @property
    def fits(self) -> bool:
        return self.missing_bytes == 0

    @property
    def missing_bytes(self) -> int:
        """The bytes that the fullest accelerator lacks."""
        return max(0, self.peak_bytes - self.request.usable_bytes)

    @cached_property
    def band(self) -> Band | None:
        """Between which times the measured steps are that resemble this one."""
        return band_of(self.costs, self.request.launcher)

    @property
    def middle(self) -> float:
        """The median of measured steps like this one, in terms of the computed one."""
        return 1.0 if self.band is None else self.band.middle

    @property
    def expected_s(self) -> float:
        """The expected step: the median of measured steps like it."""
        return self.step_s * self.middle

    @property
    def expected_disturbed_s(self) -> float | None:
        """The same under the disturbances of the plan; None without any."""
        return None if self.disturbed_step_s is None else self.disturbed_step_s * self.middle

    @cached_property
    def natural_step_s(self) -> float | None:
        """The step if routers are not balanced; None if that makes no difference."""
        costs = with_natural_routing(self.costs)
        if costs is None or self.configuration is None:
            return None
        routed = replace(self.configuration, costs=costs).simulate()
        return routed.execution.makespan_ps / 1e12

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Tokens per second and accelerator; None if the length of sequences is not known."""
        return self.request.tokens / self.expected_s / self.request.gpus or None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs divided by the peak FLOPs of the matrix engines in its precision."""
        peak, flops = self.request.peak_flops, self.request.flops_per_token
        tokens = self.tokens_per_s_per_gpu
        return tokens * flops / peak if tokens and peak and flops else None

    @property
    def costs(self) -> Costs:
        return Space(self.request).costs(self.shape)

    @cached_property
    def report(self) -> Simulation:
        return self._simulate(whole=True)

    def _simulate(self, *, whole: bool) -> Simulation:
        if self.optimized:
            rows = self.optimized.step if whole else self.optimized.schedule
            return rows.simulate(transport=self.request.transport)
        assert self.configuration is not None
        if whole:
            return self.configuration.simulate()
        return replace(self.configuration, optimizer_step="none").simulate()

    @cached_property
    def update_s(self) -> float:
        """The time that all-reduces of gradients and optimizer steps add to the training step."""
        return self.step_s - self._simulate(whole=False).execution.makespan_ps / 1e12

    @property
    def worst_worker(self) -> int | None:
        """The worker with the largest peak memory; None without a model."""
        memory = self.report.memory
        return None if memory is None else memory.bottleneck_worker

    @property
    def peak_cell(self) -> str | None:
        """The cell at which this worker reaches its peak memory."""
        memory = self.report.memory
        return None if memory is None else memory.peak_cell[memory.bottleneck_worker]

    def why(self) -> list[str]:
        """Explains the uses of its time and its memory, one sentence each."""
        return explain_proposal(self)

    def __repr__(self) -> str:
        return proposal_line(self)

    def __str__(self) -> str:
        return proposal_text(self)

    def _repr_html_(self) -> str:
        return proposal_html(self)

    def generate(self) -> Schedule:
        """The schedule as IR, with the layers of its stages but without the end of the step."""
        if self.optimized:
            return self.optimized.schedule
        assert self.configuration is not None
        return self.configuration.generate(self.name)

    def launchers(self, folder: str = "") -> Launchers:
        """The lines to copy into a launcher; `folder` has the CSV file that PyTorch may need."""
        if not self.request.sizes["sequence"]:
            unknown = Launcher(None, "the length of sequences is not known; give sequence")
            return Launchers(unknown, unknown)
        csv = os.path.join(folder, f"{self.name}.csv")
        return launchers(self.request, self.candidate, csv, self._launch_problem)

    @cached_property
    def runs_in(self) -> tuple[str, ...]:
        """The frameworks that run it unchanged, or `pipesched.torch` if none does."""
        made = self.launchers()
        found = [f.title for name, f in FRAMEWORKS.items() if getattr(made, name).lines]
        return tuple(found) or (OWN_RUNTIME,)

    def scripts(self) -> dict[str, str]:
        """Bash scripts that start a training by torchrun, by launcher: `torchtitan`, `megatron` and
        `bridge`. A CSV file for PyTorch is expected next to the script.
        """
        return scripts_of(self)

    @cached_property
    def _launch_problem(self) -> str | None:
        """The reason why PyTorch cannot run the rows of a file; None without a file."""
        if self.optimized and self.optimized.launch_problem:
            return self.optimized.launch_problem
        if not needs_csv(self.candidate) or len(self.candidate.paths) > 1:
            return None
        try:
            self.generate().to_csv()
        except PipeSchedError as error:
            return error.diagnostics[0].message
        return None

    def causes(self) -> dict[str, float]:
        """Idle time of workers by cause, as fractions of the step: docs/CostModel.md, "Why workers
        idle".
        """
        execution = self.report.execution
        return execution.idle_by_cause_ps.ratios(execution.makespan_ps)

    def expenses(self) -> dict[str, Any]:
        """Estimates of days, money and energy, as far as the request and the system say them."""
        each = self.tokens_per_s_per_gpu
        tokens = each and each * self.request.gpus
        return expenses(self.request, tokens, self.report.execution.idle_ratio)

    def to_dict(self, folder: str = "") -> dict[str, Any]:
        """The values for JSON; `folder` as for `launchers`."""
        shape, report = self.shape, self.report
        paths = zip(self.candidate.paths, self.candidate.layers, strict=True)
        is_known = self.request.model is not None
        held = self.request.parameter_bytes(shape.sharding)
        return {
            "rank": self.place,
            "name": self.name,
            "fits": self.fits if is_known else None,
            "runs_in": list(self.runs_in),
            "step_s": self.step_s,
            "disturbed_step_s": self.disturbed_step_s,
            "expected_disturbed_s": self.expected_disturbed_s,
            **band_keys(self.band.to_dict(self.step_s) if self.band else None, self.step_s),
            "natural_step_s": self.natural_step_s,
            "update_s": self.update_s,
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "mfu": self.mfu,
            **self.expenses(),
            "peak_bytes_per_gpu": self.peak_bytes if is_known else None,
            "capacity_bytes": self.request.capacity_bytes,
            "reserve_bytes": self.request.reserve_bytes,
            "usable_bytes": self.request.usable_bytes,
            "missing_bytes_per_gpu": self.missing_bytes if is_known else None,
            "worst_worker": self.worst_worker,
            "peak_cell": self.peak_cell,
            "gpus": shape.gpus,
            "global_batch": self.request.global_batch,
            "tensor": shape.tensor,
            "pipeline": shape.pipeline,
            "data": shape.data,
            "context": shape.context,
            "context_exchange": shape.exchange if shape.context > 1 else None,
            "expert": shape.expert,
            "schedule": self.schedule,
            "options": dict(self.candidate.options),
            "vocabulary": self.candidate.vocabulary,
            "receive_placement": self.candidate.receives,
            "microbatch_size": shape.microbatch_size,
            "microbatches": shape.microbatches,
            "chunks": self.candidate.chunks,
            "slices": self.candidate.slices,
            "layers": self.candidate.layers_text,
            "placement": self.placement,
            "paths": [{"workers": list(p), "layers": list(n)} for p, n in paths],
            "recompute": shape.recompute,
            "sharding": shape.sharding,
            "for": self.request.framework.name,
            "parameter_bytes": dict(zip(HELD, held, strict=True)),
            "sequence": self.request.sizes["sequence"] or None,
            "attention": self.request.attention_kernels,
            "precision": self.request.precision,
            "transport": self.request.transport,
            "idle_ratio": report.execution.idle_ratio,
            **self.causes(),
            "formula_bubble_ratio": report.formula.bubble_ratio if report.formula else None,
            "table_bubble_ratio": report.table.bubble_ratio if report.table else None,
            "optimized": self.optimized.to_dict() if self.optimized else None,
            "help": [help.to_dict() for help in self.help],
            "request": self.request.to_dict(),
            "launcher": self.launchers(folder).to_dict(),
        }


def _steps_of(proposal: Proposal, **keys: Any) -> dict[str, Any]:
    """The steps of a proposal that is not listed, after the keys that name it."""
    return {**keys, "step_s": proposal.step_s, "expected_s": proposal.expected_s}


def _named(proposal: Proposal) -> dict[str, Any]:
    return {"configuration": describe(proposal.candidate), "runs_in": list(proposal.runs_in)}


@dataclass(frozen=True)
class Plan:
    """The best configurations that fit, in order, then the nearest that do not."""

    request: Request
    fitting: tuple[Proposal, ...]
    missing: tuple[Proposal, ...]
    alike: tuple[Proposal, ...] = field(repr=False)
    """The best outcome of each schedule that was evaluated on the shape of the best."""
    counts: Counts
    attempts: tuple[Attempt, ...] = field(default=(), repr=False)
    """The settings that were optimized, and their results."""
    moved: Moved | None = None
    """The effect of moving layers, if the first or the last stage of the best is the slowest."""
    slow: Slow | None = field(default=None, repr=False)
    """The slow parts, if proposals are ranked by their steps under it."""
    nearby: tuple[Proposal, ...] = field(default=(), repr=False)
    """The best of fewer accelerators, if that is faster, and of the next number that divides well.
    """
    fastest: Proposal | None = field(default=None, repr=False)
    """The fastest, if a simpler configuration that is as fast is the best."""
    elsewhere: Proposal | None = field(default=None, repr=False)
    """The fastest that no framework runs unchanged, if it is faster than the best."""
    groups: Groups | None = field(default=None, repr=False)
    """The groups of nodes of the system, with a bound; None if all nodes are equal."""

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        return self.fitting + self.missing

    def to_dicts(self, folder: str = "") -> list[dict[str, Any]]:
        rows = (proposal.to_dict(folder) for proposal in self.proposals)
        same = {
            "nearby": [_steps_of(p, gpus=p.shape.gpus) for p in self.nearby],
            "fastest": self.fastest and _steps_of(self.fastest, **_named(self.fastest)),
            "elsewhere": self.elsewhere and _steps_of(self.elsewhere, **_named(self.elsewhere)),
            "groups": self.groups.to_dict() if self.groups else None,
        }
        return [
            {**row, **keys, **same} for row, keys in zip(rows, keys_of_orders(self), strict=True)
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row per proposal: its numbers, without launchers and paths."""
        import pandas as pd

        nested = {"name", "band", "options", "paths", "help", "optimized", "launcher", "request"}
        nested |= {"nearby", "fastest", "elsewhere", "groups", "runs_in"}
        rows = [
            {key: value for key, value in row.items() if key not in nested}
            for row in self.to_dicts()
        ]
        return pd.DataFrame(rows, index=[proposal.name for proposal in self.proposals])

    def why(self) -> list[str]:
        """Findings with numbers, one sentence each: the best configuration, the uses of its time,
        configurations that nearly fit, and remedies.
        """
        return findings(self)

    def __repr__(self) -> str:
        return plan_line(self)

    def __str__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return plan_html(self)


# Remedies


def _others(search: Search, candidate: Candidate) -> Iterator[tuple[str, Candidate]]:
    """The same schedule on other shapes, and other schedules on the same shape."""
    space = search.space
    for change, changes in changes_of(space.request, candidate.shape):
        if not holds(space.request, changes):
            continue
        for other in space.near(candidate, **changes):
            yield change, other
            break
    for other in space.candidates_of(candidate.shape):
        if other.schedule != candidate.schedule:
            options = "".join(
                f" of {value} {name}" if isinstance(value, int) else f" with {name} {value}"
                for name, value in other.options
            )
            layers = "" if other.is_even else f", layers {other.layers_text}"
            yield f"schedule {other.schedule}{options}{receives_text(other)}{layers}", other


def _best_move(search: Search, candidate: Candidate) -> list[tuple[str, Candidate]]:
    """The move of layers that fits and is the fastest, or that lacks the least memory."""
    space = search.space
    changes = move_layers(candidate, ends_of(space, candidate))
    moves = {c: change for change, c in changes if space.is_run(c)}
    usable = search.space.request.usable_bytes
    tried = search.evaluate(list(moves))
    tried.sort(key=lambda o: (max(0, o.peak_bytes - usable), by_step(o)))
    return [(moves[o.candidate], o.candidate) for o in tried[:1]]


def _help(search: Search, outcome: Outcome) -> tuple[Help, ...]:
    """The changes that help: the fastest that fit, then the ones that lack the least memory."""
    usable = search.space.request.usable_bytes
    others = (*_best_move(search, outcome.candidate), *_others(search, outcome.candidate))
    changed = [(change, other) for change, other in others if search.is_listed(other)]
    search.evaluate([candidate for _, candidate in changed])
    found: list[tuple[Help, Candidate]] = []
    for change, candidate in changed:
        tried = search.outcomes.get(candidate)
        if tried is not None and tried.peak_bytes < outcome.peak_bytes:
            missing = max(0, tried.peak_bytes - usable)
            help = Help(
                *(change, missing == 0, missing, tried.peak_bytes, tried.step_ps / 1e12),
                allowed=candidate.shape.gpus != search.space.request.gpus
                or search.space.allows(candidate),
            )
            found.append((help, candidate))
    found.sort(key=lambda changed: (changed[0].missing_bytes, changed[0].step_s))
    return tuple(_without_more(found, outcome.candidate))


def _without_more(found: list[tuple[Help, Candidate]], given: Candidate) -> Iterator[Help]:
    """Keeps at most two other schedules, and the smallest change to more accelerators if no other
    fits.
    """
    schedules = [h for h, c in found if c.schedule != given.schedule]
    more = [h for h, c in found if c.shape.gpus > given.shape.gpus]
    enough = [h for h in more if h.fits]
    is_helped = any(h.fits for h, _ in found if h not in more)
    dropped = schedules[2:] + (more if is_helped else [h for h in more if h not in enough[-1:]])
    return (h for h, _ in found if h not in dropped)


# The plan


def _alike(search: Search, shape: Shape) -> list[Outcome]:
    """The best outcome of each schedule on a shape."""
    same = [o for o in search.outcomes.values() if o.candidate.shape == shape]
    same.sort(key=by_step, reverse=True)
    firsts = {o.candidate.schedule: o for o in same}
    return sorted(firsts.values(), key=by_step)[:MOST_ALIKE]


def _proposal(
    space: Space,
    place: int,
    outcome: Outcome,
    help: tuple[Help, ...] = (),
    optimized: Optimized | None = None,
) -> Proposal:
    return Proposal(
        place=place,
        request=space.request,
        candidate=outcome.candidate,
        configuration=None if optimized else space.configuration(outcome.candidate),
        optimized=optimized,
        step_s=outcome.plain_ps / 1e12,
        disturbed_step_s=None if outcome.undisturbed_ps is None else outcome.step_ps / 1e12,
        peak_bytes=outcome.peak_bytes,
        help=help,
    )


def _choose(space: Space, found: Found, top: int) -> Choice | None:
    """The outcomes to list, the best first; None if nothing fits."""
    if not found.fitting:
        return None
    middles: dict[int, float] = {}

    def expected(outcome: Outcome) -> float:
        # In one plan bands differ only between degrees of tensor parallelism.
        tensor = outcome.candidate.shape.tensor
        if tensor not in middles:
            middles[tensor] = _proposal(space, 0, outcome).middle
        return outcome.step_ps * middles[tensor]

    return choose(drop_equal_rows(found.fitting), top, expected)


def _faster(space: Space, other: Outcome | None, fitting: list[Proposal]) -> Proposal | None:
    """The proposal of an outcome that is not listed, if it is faster than the best."""
    if other is None or not fitting:
        return None
    made, best = _proposal(space, 0, other), fitting[0]
    return made if made.ranked_s * made.middle < best.ranked_s * best.middle else None


def _drop_hopeless(search: Search, found: Found) -> None:
    """Leaves out plans that lack too much memory to be advice, unless nothing fits."""
    if found.fitting:
        most = search.usable + MOST_MISSING * search.space.request.capacity_bytes
        found.missing = [o for o in found.missing if o.peak_bytes <= most]


def _helps(search: Search, found: Found) -> dict[Candidate, tuple[Help, ...]]:
    """The changes that help non-fitting candidates; one that beats the best becomes the best."""
    while True:
        helps = {o.candidate: _help(search, o) for o in found.missing}
        best = found.fitting[0] if found.fitting else None
        better = [
            o
            for o in search.outcomes.values()
            if o.peak_bytes <= search.usable
            and (best is None or by_step(o) < by_step(best))
            and search.space.allows(o.candidate)
            and search.is_listed(o.candidate)
        ]
        if not better:
            return helps
        found.fitting.insert(0, min(better, key=by_step))
        fastest = found.fitting[0].step_ps
        found.missing = [o for o in found.missing if o.step_ps < fastest]


def _make_plan(search: Search, found: Found, attempts: list[Attempt], top: int) -> Plan:
    space = search.space
    rows = {outcome.candidate: made for a in attempts for outcome, made in a.results}
    helps = _helps(search, found)
    choice = _choose(space, found, top)
    fitting = [
        _proposal(space, i, o, optimized=rows.get(o.candidate))
        for i, o in enumerate(choice.rows if choice else (), start=1)
    ]
    alike = _alike(search, fitting[0].shape) if fitting else []
    first = len(fitting) + 1
    missing = [
        _proposal(space, i, o, helps[o.candidate], rows.get(o.candidate))
        for i, o in enumerate(found.missing, start=first)
    ]
    same = tuple(_proposal(space, i, o) for i, o in enumerate(alike, start=1))
    has_family = choice is not None and not fitting[0].optimized
    return Plan(
        space.request,
        tuple(fitting),
        tuple(missing),
        same,
        found.counts,
        tuple(attempts),
        move_of_best(search, choice.rows[0]) if choice and has_family else None,
        search.slow,
        fastest=_faster(space, choice and choice.fastest, fitting),
        elsewhere=_faster(space, found.elsewhere, fitting),
    )


def _nearby(search: Search, found: Found, made: Plan) -> tuple[Proposal, ...]:
    if not made.fitting:
        return ()
    given = (search.threads or None, search.slow, search.seeds)
    best = made.fitting[0]
    near = find_nearby(
        made.request, found.fitting[0], lambda: best.report.execution.idle_ratio, *given
    )
    return tuple(_proposal(space, i, o) for i, (space, o) in enumerate(near, start=1))


def plan(
    model: Description | None,
    system: Description,
    *,
    gpus: int,
    global_batch: int,
    top: int = 10,
    misses: int = 3,
    optimize: float | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    slow_workers: Mapping[int, Factor] | None = None,
    slow_stages: Mapping[int, Factor] | None = None,
    slow_nodes: Mapping[int, Factor] | None = None,
    jitter: Factor | None = None,
    seeds: int = SEEDS,
    disturbance: str | None = None,
    **limits: Unpack[Limits],
) -> Plan:
    """Finds the schedule, placement, microbatch size, recomputation and degrees of parallelism for
    a model on `gpus` accelerators: the simplest of the fastest that fit and that a framework runs,
    then others by their steps, `top` in all, then `misses` that nearly fit.

    `limits` restrict the choice; `Limits` lists them.

    `times` are measured ones of layers (docs/Planning.md, "Your own times"), for the one `tp`,
    `microbatch_size` and `recompute` given. Without a model memory and tokens are then not known.

    With `optimize`, a time such as `"30s"`, the optimizer searches for better rows for the best
    settings, including some that nearly fit (docs/Planning.md). Its results are listed with the
    others. Because the clock ends the search, the answer may differ from run to run.

    Slow workers, stages and nodes, as for `sensitivity`, make the search look for the shortest step
    under all of them together (`disturbed_step_s`); under jitter that is the mean for `seeds`
    draws. `disturbance` is all of it as one text, such as `"worker3=1.3,jitter=5%"`. Pipelines
    without a worker or a stage that is slow are left out.

    Raises an error if there are no candidates. If none fits, that is not an error: `fitting` is
    then empty, and `missing` has the remedies.

    >>> import pipesched
    >>> made = pipesched.plan("llama3-8b", "dgx-h100", gpus=16, global_batch=64, pp=[2, 4])
    >>> best = made.fitting[0]
    >>> best.shape.gpus, best.fits, best.expected_s <= 1.02 * made.fitting[1].expected_s
    (16, True, True)
    """
    chosen = check_limits(limits)
    if texts := list_of("set", "['network.bandwidth=0.5x']", chosen.pop("set", ())):
        model, changed = both(model, system, texts, rates=chosen.get("rates", "auto"))
        system = changed if changed is not None else system
    request = Request(model=model, system=system, gpus=gpus, global_batch=global_batch, **chosen)
    slow = slow_of(slow_workers, slow_stages, slow_nodes, jitter)
    if disturbance is not None:
        slow, seeds = slow_by(disturbance, slow, seeds)
    callable_of("progress", progress)
    top, misses = integer("top", top, 1, 1000), integer("misses", misses, 0, 1000)
    seconds = None if optimize is None else seconds_of("optimize", optimize)
    space = Space(request)
    search = Search(space, threads, progress, slow, seeds, False if seconds else None)
    with few_collections():
        found = search.run(max(top, KEPT), misses)
        if not search.outcomes:
            reasons = "; ".join(list(search.reasons)[:3])
            raise PipeSchedError(f"there is nothing to plan: {reasons}")
        try_moves(search, found)
        _drop_hopeless(search, found)
        attempts = optimize_best(search, found, seconds, progress) if seconds else []
        made = _make_plan(search, found, attempts, top)
        groups = find_groups(request, threads)
        return replace(made, nearby=_nearby(search, found, made), groups=groups)
