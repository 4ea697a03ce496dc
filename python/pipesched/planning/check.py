"""Checks a recipe of a launcher: whether it divides, fits and runs, and a better configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ..costs.catalogue import models
from ..costs.costs import Description
from ..costs.division import counts_text
from ..errors import PipeSchedError, said_by
from ..results.configuration import Configuration
from ..results.simulation import Simulation
from ..schedule.families import canonical, families, placement_kind
from ..schedule.generation import problem
from ..schedule.schedule import Schedule
from ..support.options import ContextExchange, Recompute, Sharding, names_of
from ..support.text import gib, plural
from ..support.units import PARTS, bytes_of
from .candidate import ALONE, Candidate, Shape, describe
from .launch.launchers import layout_of
from .launch.passes import ENDING, attach_costs
from .launch.recipes import Recipe
from .launch.rules import VERSIONS, broken_rules
from .proposals import Proposal, plan
from .request import Request
from .space.space import Space, paths_of

T = TypeVar("T")

SYSTEMS = {
    **{"gb300": "gb300-nvl72", "gb200": "gb200-nvl72", "b300": "b300-sxm", "b200": "dgx-b200"},
    **{"h200": "dgx-h200", "h100": "dgx-h100", "mi355x": "mi355x-oam", "mi300x": "mi300x-oam"},
    "a100": "dgx-a100",
}
"""The systems by the words of file names that mean them."""

WORTH = 0.01
"""The least gain, as a part of the step, for which another configuration is named."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question: yes, no, or unknown."""

    check: str
    answer: str
    finding: str


class _Stop(Exception):
    """Raised if a finding leaves nothing more to check."""


class Check:
    """The checks of one recipe; `findings` has their answers."""

    def __init__(
        self, recipe: Recipe, model: Description | None, system: Description | None, gpus: int
    ) -> None:
        self.recipe, self.findings = recipe, list[Finding]()
        self.rows: Schedule | None = None
        """The rows of a file that the recipe names."""
        self.assumed: list[str] = []
        self.degrees = {
            name: recipe.number(name, 1) for name in ("tensor", "pipeline", "context", "expert")
        }
        # Megatron-Core divides experts as other layers if nothing is given (parallel_state.py).
        usual = self.degrees["tensor"] if recipe.launcher == "megatron" else 1
        widths = recipe.number("expert_tensor", usual)
        self.widths = widths if self.degrees["expert"] > 1 else 1
        if self.degrees["expert"] == 1 and widths != usual:
            self.assumed.append(f"experts divided by tensor {usual}, as other layers")
        self.model = model or self._find_model()
        self.system = system or self._find_system()
        self.gpus = gpus or self._count_accelerators()

    def _add(self, check: str, is_good: bool | None, finding: str, stops: bool = False) -> None:
        answer = "unknown" if is_good is None else "yes" if is_good else "no"
        self.findings.append(Finding(check, answer, finding))
        if stops and not is_good:
            raise _Stop

    @property
    def runs(self) -> bool:
        """Whether nothing was found that keeps the training from running."""
        return all(each.answer != "no" or each.check == "better" for each in self.findings)

    def run(self) -> None:
        """Makes all findings, up to one that leaves nothing more to check."""
        try:
            request, shape = self._divide()
            candidate = self._place(request, shape)
            proposal = self._time(request, candidate)
            self._improve(proposal)
        except _Stop:
            return

    # The values of the recipe

    def _find_model(self) -> Description:
        recipe = self.recipe
        sizes = {n: recipe.number(n, 0) for n in ("layers", "hidden", "attention_heads")}
        same = (n for n, m in models().items() if all(m.get(k) == v for k, v in sizes.items()))
        name = next(same, recipe.model)
        if name is None:
            raise PipeSchedError(f"{recipe.file}: name its model by --model")
        self.assumed.append(f"model {name}")
        return {**models()[name], **({"layers": sizes["layers"]} if sizes["layers"] else {})}

    def _find_system(self) -> str:
        words = self.recipe.file.casefold()
        found = next((name for word, name in SYSTEMS.items() if word in words), "dgx-h100")
        self.assumed.append(f"system {found}")
        return found

    def _count_accelerators(self) -> int:
        nodes, each = self.recipe.number("nodes", 0), self.recipe.number("per_node", 0)
        if each and not nodes:
            self.assumed.append("1 node")  # the default of launchers
        if each:
            return max(nodes, 1) * each
        tensor, pipeline, context, expert = self.degrees.values()
        least = lcm(tensor * context, expert * self.widths) * pipeline
        self.assumed.append(plural(least, "accelerator"))
        return least

    def _sharding(self, data: int) -> Sharding:
        recipe = self.recipe
        if recipe.launcher == "torchtitan":
            whole: Sharding = "full-kept" if self.degrees["pipeline"] > 1 else "full"
            return "none" if 1 < recipe.number("groups", 1) == data else whole
        if recipe.flag("fsdp"):
            return "full"
        is_dump = FilePath(recipe.file).suffix in (".yaml", ".yml")
        shards = recipe.flag("distributed") if "distributed" in recipe.values else is_dump
        return "optimizer" if shards else "none"

    # Checks

    def _divide(self) -> tuple[Request, Shape]:
        recipe, launcher = self.recipe, self.recipe.launcher
        tensor, pipeline, context, expert = self.degrees.values()
        ranks = tensor * pipeline * context
        stage, holders = -(-self.gpus // ranks) * tensor * context, expert * self.widths
        is_whole = self.gpus % ranks == 0 and stage % holders == 0
        stage = lcm(stage, holders) if not is_whole else stage
        gpus, data = stage * pipeline, stage // (tensor * context)
        product = f"tensor {tensor} x pipeline {pipeline} x context {context} = {ranks}"
        product += f", expert {expert}" if expert > 1 else ""
        product += f" x expert tensor {self.widths}" if self.widths > 1 else ""
        rest = "" if is_whole else f" do not divide them; the rest is for {gpus}"
        self._add("ranks", is_whole, f"{plural(self.gpus, 'accelerator')}: {product}{rest}")
        size = recipe.number("microbatch_size", 1)
        local = recipe.number("local_batch", size * pipeline)
        batch = recipe.number("global_batch", local * data)
        count, over = divmod(batch, data * size)
        among = (
            f"{plural(batch, 'sequence')} among {plural(data, 'replica')} in microbatches of {size}"
        )
        self._add("batch", not over, f"{among}: " + ("no whole" if over else f"N = {count}"), True)
        kinds: tuple[Recompute, ...] = names_of(Recompute)
        given = recipe.text("recompute") or "none"
        recompute = next((kind for kind in kinds if kind == given), None)
        if recompute is None:
            raise recipe.wrong("recompute", " or ".join(kinds))
        sharding = self._sharding(data) if data * context > 1 else "none"
        groups = recipe.number("groups", 1)
        if sharding != "none" and data % groups:
            self._add(
                "ranks", False, f"{groups} groups that share state do not divide {data}", True
            )
        request = Request(
            model=self.model,
            system=self.system,
            gpus=gpus,
            global_batch=batch,
            sequence=recipe.number("sequence", 0) or None,
            precision=next((n for n in ("fp8", "nvfp4") if recipe.text(n)), "bf16"),
            sequence_parallel=launcher == "torchtitan" or recipe.flag("sequence_parallel"),
            launcher=launcher,
            expert_tensor=self.widths,
            shard_groups=groups if sharding != "none" else 1,
        )
        exchange: ContextExchange = "ring" if launcher == "megatron" else "gather"
        held = recompute, sharding, context, expert, exchange
        return request, Shape(tensor, pipeline, data, size, count, *held)

    def _family(self, layers: int, stages: int) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """The family and its options; `stages` is their number in a layout."""
        recipe, workers = self.recipe, self.degrees["pipeline"]
        chunks, each = recipe.number("chunks", 1), recipe.number("chunk_layers", 0)
        if stages or each:
            chunks = max(1, (stages or -(-layers // each)) // workers)
        if recipe.launcher == "torchtitan":
            family = canonical(recipe.text("schedule") or ALONE) if workers > 1 else ALONE
            is_looped = "chunks" in families()[family].options
            return family, (("chunks", max(2, chunks)),) if is_looped else ()
        if workers == 1 or chunks == 1:
            return ALONE, ()
        group = recipe.number("group", workers)
        return "interleaved-1f1b", (("chunks", chunks), ("group", group))

    def _place(self, request: Request, shape: Shape) -> Candidate:
        """Checks layers, the rules of the launcher and the placement of a schedule from a file."""
        layers, recipe, workers = request.sizes["layers"], self.recipe, shape.pipeline
        counts: Sequence[int] = ()
        if layout := recipe.text("layout"):
            rows = problem(workers=workers, microbatches=1)
            place = f"pipe-place-layout{{layout='{layout}'}}"
            counts = self._try("layers", lambda: rows.transform(place)).paths[0].blocks or ()
        family, options = self._family(layers, len(counts))
        paths = tuple(paths_of(family, workers, options))
        self._check_csv(shape, family, paths)
        stages = len(paths[0])
        counts = counts or self._counts(layers, stages)
        is_whole = len(counts) == stages and sum(counts) == layers and min(counts) >= 0
        each = counts_text([tuple(counts)]) if is_whole else "they do not divide; give a layout"
        self._add("layers", is_whole, f"{layers} on {plural(stages, 'stage')}: {each}", True)
        candidate = Candidate(shape, family, options, paths, (tuple(counts),), 0)
        version = VERSIONS[recipe.launcher][0]
        for broken in broken_rules(recipe.launcher, version, layout_of(request, candidate)):
            self._add("rules", False, f"{broken.text} ({broken.source})", True)
        return candidate

    def _counts(self, layers: int, stages: int) -> tuple[int, ...]:
        """The layers of the stages; none if the launcher refuses to divide them."""
        recipe, is_torch = self.recipe, self.recipe.launcher == "torchtitan"
        ends = [recipe.number(f"{end}_layers", 0) for end in ("first", "last")]
        if any(ends) and stages > 1:
            rest, left = stages - sum(map(bool, ends)), layers - sum(ends)
            middle = (left // rest,) * rest if rest and left % rest == 0 else ()
            return (*ends[: bool(ends[0])], *middle, *ends[2 - bool(ends[1]) :])
        names = ("first_less", "last_less")
        less = [recipe.number(n, 1) if is_torch else recipe.flag(n) for n in names]
        less = less if stages > 1 else [0, 0]
        each, over = divmod(layers + sum(less), stages)
        if over and not is_torch:
            return ()
        counts = [each + (stage < over) for stage in range(stages)]
        counts[0] -= less[0]
        counts[-1] -= less[1]
        return tuple(counts)

    def _check_csv(self, shape: Shape, family: str, paths: tuple[tuple[int, ...], ...]) -> None:
        """Checks the rows of a file against the sizes, and its placement against the schedule by
        whose name torchtitan places the stages.
        """
        csv = self.recipe.text("csv")
        if csv is None:
            return
        rows = Schedule.from_file(FilePath(self.recipe.file).parent / shlex.split(csv)[0])
        kinds = [placement_kind([tuple(each.workers) for each in rows.paths], rows.workers)]
        kinds.append(placement_kind(paths, shape.pipeline))
        sizes = (rows.workers, rows.microbatches), (shape.pipeline, shape.microbatches)
        found, wanted = (
            f"{kind} on {plural(workers, 'worker')}, {plural(count, 'microbatch')}"
            for kind, (workers, count) in zip(kinds, sizes, strict=True)
        )
        is_same = found == wanted
        other = "" if is_same else f"; {family} is {wanted}"
        self._add("schedule", is_same, f"{csv} is {found}{other}", True)
        self.rows = rows

    def _try(self, check: str, function: Callable[[], T]) -> T:
        """Calls a function; an error of it becomes a finding, and the check ends."""
        try:
            return function()
        except PipeSchedError as error:
            self._add(check, False, said_by(error))
            raise _Stop from None

    def _time(self, request: Request, candidate: Candidate) -> Proposal:
        """Checks messages and memory, and says the step to expect."""
        configuration = Space(request).configuration(candidate)
        rows = self.rows or configuration.generate()
        self._try("messages", lambda: rows.verify("batched"))
        self._add("messages", True, "no deadlock with batched messages")
        report = self._simulate_rows(candidate, request) or configuration.simulate()
        memory, worker = report.memory, candidate.shape.worker
        peaks = [-(-int(size) // worker) for size in memory.peak_bytes] if memory else [0]
        step = report.execution.makespan_ps / 1e12
        proposal = Proposal(1, request, candidate, configuration, step, max(peaks))
        if self.recipe.text("adapters"):
            self._add("memory", None, "adapters (LoRA) are not modelled, nor their step", True)
        each = " ".join(f"{peak / 2**30:.1f}" for peak in peaks)
        held = f"{gib(max(peaks))} of {gib(request.usable_bytes)}, by worker {each}"
        capacity = request.capacity_bytes
        if not proposal.fits and capacity > max(peaks):
            held += f"; fits only with a reserve below {gib(capacity - max(peaks))}"
        # The reserve is an estimate, mostly its share for fragmentation.
        is_near = proposal.missing_bytes <= bytes_of("", PARTS["fragmentation"], capacity)
        self._add("memory", proposal.fits or (None if is_near else False), held)
        low, high = proposal.band.seconds(step) if proposal.band else (None, None)
        band = f", from {low:.4g} to {high:.4g}" if low and high else ", no rows for a band"
        said = f"{proposal.expected_s:.4g} s{band}; idle {report.execution.idle_ratio:.1%}"
        self._add("step", True, said + self._ramp_up(configuration, candidate.shape))
        return proposal

    def _simulate_rows(self, candidate: Candidate, request: Request) -> Simulation | None:
        """The step of the rows of a file on the layers of the candidate; None without a file."""
        if self.rows is None:
            return None
        rows = Schedule.from_rows(
            self.rows.rows,
            microbatches=self.rows.microbatches,
            paths=candidate.raw_paths,
            gradient_after=self.rows.gradient_after,
        )
        with TemporaryDirectory() as folder:
            costs = Space(request).costs(candidate.shape)
            passes = [*attach_costs(costs, candidate, folder), ENDING]
            return rows.transform(",".join(passes)).simulate(transport=request.transport)

    def _ramp_up(self, configuration: Configuration, shape: Shape) -> str:
        """The idle time of the first steps, if the batch grows."""
        first = re.match(r"\d{1,9}", self.recipe.text("rampup") or "")
        count = int(first[0]) // (shape.data * shape.microbatch_size) if first else 0
        if not 0 < count < shape.microbatches:
            return ""
        idle = replace(configuration, microbatches=count).simulate().execution.idle_ratio
        return f"; at the start of the ramp-up N = {count}, idle {idle:.1%}"

    def _improve(self, given: Proposal) -> None:
        """Says which configuration would be better, and the flags that change."""
        request = given.request
        limits = {n: getattr(request, n) for n in ("sequence", "precision", "sequence_parallel")}
        try:
            best = plan(
                *(request.model, request.system),
                gpus=request.gpus,
                global_batch=request.global_batch,
                launcher=request.launcher,
                sharding=[given.shape.sharding],
                top=1,
                misses=0,
                **limits,
            ).fitting
        except PipeSchedError:
            best = ()
        if not best:
            self._add("better", None, "none that fits is known")
        elif given.fits and given.expected_s - best[0].expected_s <= WORTH * given.expected_s:
            self._add("better", False, "no faster one is known")
        else:
            said = f"{best[0].expected_s:.4g} s, {gib(best[0].peak_bytes)}"
            said += f": {describe(best[0].candidate)}; change {self._changes(given, best[0])}"
            self._add("better", True, said)

    def _changes(self, given: Proposal, best: Proposal) -> str:
        """The flags of the better configuration that the given one has not."""
        launcher = self.recipe.launcher
        old, new = (
            dict(line.partition(" ")[::2] for line in getattr(p.launchers(), launcher).lines or ())
            for p in (given, best)
        )
        changed = [f"{flag} {new[flag]}".rstrip() for flag in new if old.get(flag) != new[flag]]
        changed += [f"without {flag}" for flag in old if flag not in new]
        return ", ".join(changed)


def check(
    recipe: Recipe,
    *,
    model: Description | None = None,
    system: Description | None = None,
    gpus: int | None = None,
) -> Check:
    """Checks a recipe for a number of accelerators of a system."""
    found = Check(recipe, model, system, gpus or 0)
    found.run()
    return found
