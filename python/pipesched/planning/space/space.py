"""All candidates: the division of accelerators and batch, the schedule and its placement, and the
recomputation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from ... import _core
from ...costs.costs import Costs
from ...costs.deployment import OPTIONS
from ...costs.division import SPREAD
from ...costs.settings import _fields_of
from ...costs.stage_times import places_of, places_of_family
from ...errors import PipeSchedError
from ...results.configuration import Configuration, takes_backward
from ...schedule.families import Family, families, overlaps
from ...schedule.megatron import NAME as COMBINED
from ...schedule.registry import own_family
from ...support.options import Path, ReceivePlacement, Transport, code_of, raw_options
from ..candidate import ALONE, Candidate, Shape, Workers
from ..launch.launchers import Cannot, check_model, check_runs
from ..layer_times import make_costs
from ..request import Request
from .divisions import Divisions, base_of
from .heads import RECEIVES, list_kinds, receives_of, spread_by, variants_of
from .schedules import Entry, Options, alone, splits_backward

MOST_CELLS = 4_000_000
"""Configurations with more cells are left out; larger microbatches or more replicas have fewer
cells.
"""

FEW_CHUNKS = 8
"""The maximal number of stages per worker that is tried first."""

WAVES = (1, 2, 4)


Kind = Literal["all", "usual", "unusual"]


class Probe(NamedTuple):
    """Time and bytes of one worker that has all layers. Bytes are 0 if they are not known, because
    there is no model; numbers are valid only without an error.
    """

    makespan_ps: int
    persistent_bytes: int
    peak_bytes: int
    error: str | None


def paths_of(family: str, workers: int, options: tuple[tuple[str, Any], ...]) -> Sequence[Workers]:
    """The placement that a family takes; empty if it has none for this number of workers."""
    return [workers for workers, _ in places_of_family(family, workers, options)]


SLICED = ("seq1f1b", "slimpipe", "terapipe")
"""Families over slices of microbatches."""

SLICES = (2, 4, 8, 16)

LONG_SEQUENCE = 32768
"""From this length on slices are searched although `schedules` does not name their families, unless
a launcher is named: none runs them.
"""

SHORTEST_SLICE = 4096
"""The fewest tokens of a slice that is searched unnamed: runs of Seq1F1B gain from there on, as
MindSpeed-LLM's documentation says.
"""


def may_slice(request: Request) -> bool:
    """Whether a plan searches slices."""
    if request.schedules is not None:
        return any(name in SLICED for name in request.schedules)
    return request.launcher is None and request.sizes["sequence"] >= LONG_SEQUENCE


def may_overlap(request: Request) -> bool:
    """Whether a plan searches schedules whose cells overlap."""
    names = families() if request.schedules is None else request.schedules
    return any(overlaps(name, ()) for name in names)


def _given_sizes(request: Request) -> int | None:
    """The number of slices whose sizes `slice_cut` gives."""
    text = OPTIONS["slice_cut"].text(request.slice_cut)
    return None if text in OPTIONS["slice_cut"].choices else text.count(",") + 1


class Space:
    """The candidates of a request, and their costs."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.left_out: Counter[str] = Counter()
        """The reasons why divisions were left out, with the number for each."""
        self.divisions = Divisions(request, self.left_out)
        self._costs: dict[Shape, Costs] = {}
        self._raw_costs: dict[tuple[Shape, bool, int], _core.Costs] = {}
        self._wholes: dict[int, Costs] = {}
        self.start()

    def start(self, widening: float = 1.0, threads: int = 0) -> None:
        """Starts a search, whose shapes and candidates have separate numbers."""
        self._how = widening, threads
        self._entries: dict[int, list[Entry]] = {}
        self._numbers: dict[Shape, int] = {}
        self._shapes: list[Shape] = []
        self._candidates: dict[int, Candidate] = {}
        self._balanced: set[object] = set()
        self.__dict__.pop("core", None)

    @cached_property
    def core(self) -> _core.PlanSearch:
        """The shapes and candidates in the library."""
        return _core.PlanSearch(
            self.request.sizes["layers"],
            MOST_CELLS,
            self.request.usable_bytes,
            code_of(Transport, "transport", self.request.transport),
            *self._how,
        )

    @cached_property
    def needs_python(self) -> bool:
        """Whether Python must make some configurations: if times of layers are added up, or if
        families are Python functions or depend on the time of their backward.
        """
        return self.request.times is not None or any(
            own_family(name) or takes_backward(name) for name in self.families
        )

    # Schedules for a shape

    @cached_property
    def _known(self) -> dict[str, Family]:
        return families()

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The families, simpler ones first, that treat the head as the request allows."""
        found = []
        for family in self._listed():
            if list_kinds(self.request, family):
                found.append(family)
            elif self.request.schedules is not None:
                kinds = " or ".join(self.request.vocabulary or ())
                self.left_out[f"{family} has no vocabulary {kinds}"] += 1
        return tuple(found)

    def _listed(self) -> tuple[str, ...]:
        """Families. Greedy is a rule that fills any placement; on a linear one it gives 1F1B."""
        if self.request.schedules is not None:
            return tuple(self.request.schedules)
        # Families that spread the head are searched only if they, or their way, are named: no
        # launcher runs them, and models without a head have no costs for them.
        left = ["greedy", *SLICED, *SPREAD]
        if self.request.launcher == "torchtitan":
            left.append(COMBINED)  # it hides nothing in these pairs
        known = [name for name in self._known if name not in left]
        sliced = ("seq1f1b", "slimpipe") if may_slice(self.request) else ()
        others = (name for name in known if name != ALONE)
        return (ALONE, *others, *sliced, *spread_by(self.request))

    @property
    def spreads(self) -> bool:
        """Whether families that spread the head are searched."""
        return any(family in SPREAD for family in self.families)

    def _slices(self) -> list[int]:
        """The numbers of slices to search: the number of given sizes, all of a family that is
        named, else long ones.
        """
        if (given := _given_sizes(self.request)) is not None:
            return [given] if given > 1 else []
        if self.request.schedules is not None:
            return list(SLICES)
        sequence = self.request.sizes["sequence"]
        return [slices for slices in SLICES if sequence // slices >= SHORTEST_SLICE]

    def _chunks(self, pipeline: int) -> list[int]:
        most = self.request.sizes["layers"] // pipeline
        if self.request.chunks is not None:
            return [c for c in self.request.chunks if 1 < c <= most]
        return list(range(2, most + 1))

    def _is_usual(self, pipeline: int, options: tuple[tuple[str, Any], ...]) -> bool:
        """Whether stages are few, and powers of two or such that layers divide evenly."""
        chunks = dict(options).get("chunks", 1)
        if self.request.chunks is not None:
            return True
        is_even: bool = self.request.sizes["layers"] % (pipeline * chunks) == 0
        return chunks <= FEW_CHUNKS and (is_even or chunks & (chunks - 1) == 0)

    def _variants(self, family: str, pipeline: int) -> list[tuple[tuple[str, Any], ...]]:
        options = self._known[family].options
        if family in SLICED:
            return [(("slices", slices),) for slices in self._slices()]
        if family in SPREAD:
            return [*variants_of(self.request, family)]
        if "chunks" in options:
            return [(("chunks", chunks),) for chunks in self._chunks(pipeline)]
        if "waves" in options:
            return [(("waves", waves),) for waves in WAVES]
        if family == "greedy":
            # Launchers send gradients after I, not after W.
            return [(("gradient_after", "I"),)]
        return [()]

    def _schedules(self, pipeline: int) -> Iterator[Entry]:
        layers = self.request.sizes["layers"]
        order = 1
        families = self.families
        if pipeline == 1:
            # a single worker does the same work under every schedule without pairs
            families = tuple(name for name in (ALONE, COMBINED) if name in families)
            if not families:
                yield Entry("", (), (), -1, f"one worker runs only {ALONE}")
        for family in families:
            variants = self._variants(family, pipeline) if pipeline > 1 else [()]
            if not variants:
                few = f"{layers} layers are too few for several stages on each of"
                yield Entry("", (), (), -1, f"{few} {pipeline} workers")
            for options in variants:
                paths = tuple(paths_of(family, pipeline, options))
                reason = ""
                if not paths:
                    reason = f"{family} is not defined on {pipeline} workers"
                elif len(paths[0]) > layers:
                    reason = f"{len(paths[0])} stages are more than {layers} layers"
                else:
                    reason = self._why_never_run(family, options, paths)
                yield Entry(family, options, paths, order, reason)
                order += 1

    def _why_never_run(self, family: str, options: Options, paths: tuple[Workers, ...]) -> str:
        """Why the launcher that the request names runs the schedule on no shape, if so."""
        if self.request.launcher is None or family == COMBINED:  # this one depends on the shape
            return ""
        pipeline = len(set(paths[0]))
        shape = Shape(1, pipeline, 1, 1, pipeline, "none", "none")
        layers = tuple((1,) * len(path) for path in paths)
        try:
            check_runs(self.request.launcher, Candidate(shape, family, options, paths, layers, 0))
        except Cannot as reason:
            return str(reason)
        return ""

    def _entries_of(self, pipeline: int) -> list[Entry]:
        """The schedules of a number of workers; adds them to the library."""
        if pipeline not in self._entries:
            self._entries[pipeline] = [*self._schedules(pipeline)]
            for entry in self._entries[pipeline]:
                self._add(pipeline, entry)
        return self._entries[pipeline]

    def _add(self, pipeline: int, entry: Entry) -> None:
        family, options, paths, order, reason = entry
        is_left_out = bool(reason)
        has_pairs = order >= 0 and overlaps(family, options)
        hides = has_pairs and (pipeline > 1 or family == COMBINED)
        self.core.add_schedule(
            pipeline,
            order=order,
            reason=reason,
            family=None if is_left_out or self.needs_python else family,
            options=[] if is_left_out else raw_options(dict(options)),
            paths=[*map(list, paths)],
            receives=[code_of(ReceivePlacement, "", each) for each in receives_of(family)],
            slices=dict(options).get("slices", 1),
            is_usual=self._is_usual(pipeline, options),
            is_split=not is_left_out and splits_backward(family, options),
            is_spread=family in SPREAD,
            has_pairs=has_pairs,
            needs_experts=family == COMBINED and self.request.schedules is None,
            alone=(alone(family, pipeline) if self.request.experts else 0) if hides else None,
        )

    # Numbers

    def number(self, shape: Shape) -> int:
        """The number of a shape in the library, which is added if it is new."""
        if shape not in self._numbers:
            entries = self._entries_of(shape.pipeline)
            is_whole = self.request.times is not None or self.request.groups
            costs = self.costs(shape)._raw if is_whole else self.stage_costs(shape, ())
            self._numbers[shape] = self.core.add_shape(shape, costs)
            self._shapes.append(shape)
            if self.request.times is not None:
                self._balance(shape, {path for e in entries if not e.reason for path in e.paths})
        return self._numbers[shape]

    def _balance(self, shape: Shape, paths: Iterable[Workers]) -> None:
        """Divides the layers by their times and gives the library the result, once for each base
        of shapes.
        """
        for path in paths:
            key = base_of(shape), shape.microbatch_size, path
            if key not in self._balanced:
                self._balanced.add(key)
                counts = self.costs(shape)._division.balanced(path, shape.microbatches)
                self.core.set_balanced(self._numbers[shape], list(path), list(counts))

    def number_of(self, candidate: Candidate) -> int:
        entries = self._entries_of(candidate.shape.pipeline)
        index = next(i for i, entry in enumerate(entries) if entry.order == candidate.order)
        receives = code_of(ReceivePlacement, "receives", candidate.receives)
        layers = [*map(list, candidate.layers)]
        return self.core.find((self.number(candidate.shape), index, layers, receives))

    def candidate(self, number: int) -> Candidate:
        if number not in self._candidates:
            shape, index, layers, receives = self.core.candidate(number)
            entry = self._entries[self._shapes[shape].pipeline][index]
            self._candidates[number] = Candidate(
                self._shapes[shape],
                entry.family,
                entry.options,
                entry.paths,
                tuple(map(tuple, layers)),
                entry.order,
                RECEIVES[receives],
            )
        return self._candidates[number]

    def is_run(self, candidate: Candidate) -> bool:
        """Whether the launcher of the request, if it names one, runs the schedule."""
        launcher = self.request.launcher
        if launcher is None:
            return True
        try:
            check_runs(launcher, candidate)
            check_model(launcher, self.request, candidate)
        except Cannot as reason:
            self.left_out[str(reason)] += 1
            return False
        return True

    def expand(
        self, shapes: Sequence[Shape], kind: Kind = "all", only_pairs: Sequence[bool] = (False,)
    ) -> list[int]:
        """The numbers of all schedules for some shapes, or only of the ones with usual numbers of
        stages per worker, or only of the others; among these all, or only schedules that run pairs
        of cells. The launcher of the request, if it names one, runs them.
        """
        numbers = [self.number(shape) for shape in shapes]
        found = self.core.expand(numbers, get_args(Kind).index(kind), list(only_pairs))
        self.left_out.update(self.core.take_reasons())
        if self.request.launcher is None:
            return found
        return [number for number in found if self.is_run(self.candidate(number))]

    def candidates_of(self, shape: Shape) -> Iterator[Candidate]:
        return map(self.candidate, self.expand([shape]))

    def shapes(self) -> list[Shape]:
        """All divisions of accelerators and batch. Raises an error if there are none."""
        found = list(self.divisions.shapes())
        if not found:
            raise self.nothing()
        return found

    def candidates(self) -> list[Candidate]:
        """All schedules for all shapes. Raises an error if there are none."""
        found = [c for shape in self.shapes() for c in self.candidates_of(shape)]
        if not found:
            raise self.nothing()
        return found

    def nothing(self) -> PipeSchedError:
        """The error that there is nothing to plan, with reasons."""
        request = self.request
        reasons = list(self.left_out) or ["no schedule is defined for these sizes"]
        shown = "; ".join(reasons[:4])
        more = f"; and {len(reasons) - 4} more reasons" if len(reasons) > 4 else ""
        return PipeSchedError(
            f"there is nothing to plan for {request.gpus} accelerators and a global batch of"
            f" {request.global_batch}: {shown}{more}"
        )

    # Costs

    def of_equal_costs(self, shape: Shape) -> Shape:
        """The same for all shapes of the same costs."""
        return shape._replace(pipeline=1, microbatches=1)

    def probe(self, shapes: Sequence[Shape], counts: Iterable[int]) -> list[Probe]:
        """Times numbers of microbatches that are held together through all layers on one worker."""
        layers = self.request.sizes["layers"]
        costs = [self.stage_costs(shape, [layers]) for shape in shapes]
        found = _core.probe_whole(costs, list(counts), layers, self._how[1])
        return [*map(Probe._make, found)]

    def stage_costs(
        self, shape: Shape, stages: Sequence[int], *, has_host: bool = True, group: int = 0
    ) -> _core.Costs:
        """The costs of a worker for each of some stages with these numbers of layers, on a system
        with groups as if all nodes were of one group; the first is the fastest. A stage takes the
        longer of the times of its kernels and of the host, so only without the host it takes the
        sum of its layers: the host may run ahead in some of them.
        """
        if self.request.times is not None:
            costs = self.costs(shape)
            if not has_host:
                costs = costs.with_(system=self._without_host)
            return costs._for(places_of([Path(tuple(range(len(stages))), blocks=stages)]))._raw
        key = self.of_equal_costs(shape), has_host, group
        if key not in self._raw_costs:
            held, whole = self.request.parameter_bytes(shape.sharding), self._whole(group)
            self._raw_costs[key] = _core.divide_costs(whole._raw, key[0], held, has_host)
        return self._raw_costs[key]

    def _whole(self, group: int) -> Costs:
        """The costs of one accelerator without parallelism, of one group of nodes."""
        if group not in self._wholes:
            groups = self.request.groups
            system = groups[group]["system"] if groups else self.request.system
            one = Shape(1, 1, 1, 1, 1, "none", "none")
            self._wholes[group] = self._make_costs(one, None, system)
        return self._wholes[group]

    def costs(self, shape: Shape) -> Costs:
        key = self.of_equal_costs(shape)
        if key not in self._costs:
            self._costs[key] = self._make_costs(shape, shape.worker, self.request.system)
        return self._costs[key]

    def _make_costs(self, shape: Shape, accelerators: int | None, system: Any) -> Costs:
        request = self.request
        return make_costs(
            request,
            model=request.model,
            system=system,
            sequence=request.sequence,
            attention=request.described.attention,
            accelerators=accelerators,
            microbatch_size=shape.microbatch_size,
            recompute=shape.recompute,
            precision=request.precision,
            sequence_parallel=request.sequence_parallel,
            parameter_bytes=request.parameter_bytes(shape.sharding),
            **request.deployment(shape),
        )

    @cached_property
    def _without_host(self) -> dict[str, Any]:
        fields = _fields_of("system", self.request.system, self.request.rates)
        return {n: v for n, v in fields.items() if n not in ("host_time", "sources")}

    def configuration(self, candidate: Candidate) -> Configuration:
        """The whole training step, with all-reduces of gradients and optimizer steps."""
        return Configuration(
            candidate.schedule,
            candidate.shape.pipeline,
            candidate.shape.microbatches,
            candidate.family_options,
            paths=candidate.raw_paths,
            costs=self.costs(candidate.shape),
            transport=self.request.transport,
            receive_placement=candidate.receives,
            optimizer_step="overlapped",
        )

    def allows(self, candidate: Candidate) -> bool:
        """Whether the request leaves this configuration to choose."""
        shape, request = candidate.shape, self.request
        lists = (
            (request.tensor, shape.tensor),
            (request.pp, shape.pipeline),
            (request.context, shape.context),
            (request.expert, shape.expert),
            (request.microbatch_size, shape.microbatch_size),
            (request.recompute, shape.recompute),
            (self.divisions.shardings(shape.pipeline, shape.data, shape.context), shape.sharding),
        )
        return (
            shape.gpus == request.gpus
            and all(given is None or value in given for given, value in lists)
            and (shape.context == 1 or shape.exchange in request.exchanges)
        )

    def short(self, candidate: Candidate) -> Configuration:
        """The training step with few microbatches, for the memory of its rows. Its end, at which no
        activations are held, is left out.
        """
        count = 2 * candidate.shape.pipeline
        return replace(self.configuration(candidate), microbatches=count, optimizer_step="none")

    def near(self, candidate: Candidate, **changes: Any) -> Iterator[Candidate]:
        """The same schedule on a changed shape, sharded as the framework does there."""
        shape = candidate.shape._replace(**changes)
        kinds = self.divisions.shardings(shape.pipeline, shape.data, shape.context)
        if "sharding" not in changes and shape.sharding not in kinds:
            shape = shape._replace(sharding=next(iter(kinds), "none"))
        shape = shape._replace(expert=self.request.expert_on(shape.expert, shape.stage))
        for other in self.candidates_of(shape):
            if other.variant == candidate.variant:
                yield other
