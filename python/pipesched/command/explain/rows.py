"""Rows of timed schedules: the three levels, throughput and memory, and differences in work."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipesched import Costs, PipeSchedError, Simulation, _core
from pipesched.costs.costs import has_experts
from pipesched.costs.division import layers_text
from pipesched.costs.stage_times import has_phases, listed_stages, stages_per_worker
from pipesched.support.units import DEFAULT_RESERVE, reserve_of

from ...schedule.schedule import Schedule
from ..options.arguments import UsageError
from ..options.entries import Entry, FromFamily, FromFile
from ..render.output import per_gpu
from . import answers, assumptions

# Facts that the IR of a schedule states


@dataclass(frozen=True)
class Saved:
    """Sizes of a training step by the IR of its schedule; None if it has none."""

    accelerators: int | None
    """Per worker."""
    pipelines: int
    sequence: int | None
    microbatch_size: int | None

    def tokens(self, microbatches: int) -> int | None:
        """The tokens of a step of all pipelines."""
        if not self.sequence or not self.microbatch_size:
            return None
        return self.pipelines * microbatches * self.microbatch_size * self.sequence


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def saved(schedule: Schedule) -> Saved:
    """The sizes that the IR of a schedule names."""
    text = schedule.to_text()
    head, _, rest = text.partition("\n  pipe.schedule ")
    system = head.partition("\n")[0]
    model = re.search(r"(?m)^  pipe\.model .*$", head)
    named = model[0] if model else ""
    return Saved(
        accelerators=_number(r"\baccelerators = (\d+)", system),
        pipelines=_number(r"\bdata_parallel = (\d+)", system) or 1,
        sequence=_number(r"\bsequence (\d+)", named),
        microbatch_size=_number(r"\bmicrobatch_size (\d+)", named),
    )


# The end of a step: all-reduces of gradients and optimizer steps, taken off and added

_ROW = re.compile(r"(?m)^(\s*worker \d+ runs \[)(.*)\]")
_END = re.compile(r"\d+[GO]\d+")
_BACKWARD = re.compile(r"\d+[BIW]\d+")


def ending_of(schedule: Schedule) -> str | None:
    """The pass that adds the existing end of a schedule. All-reduces before the last backward are
    eager.
    """
    cells = [[cell for entry in row for cell in entry.split("+")] for row in schedule.rows]
    if not any(_END.fullmatch(cell) for row in cells for cell in row):
        return None
    for row in cells:
        backwards = [at for at, cell in enumerate(row) if _BACKWARD.fullmatch(cell)]
        reduces = [at for at, cell in enumerate(row) if re.fullmatch(r"\d+G\d+", cell)]
        if backwards and reduces and reduces[0] < backwards[-1]:
            return "pipe-add-optimizer{all-reduce=eager}"
    has_reduces = any(re.fullmatch(r"\d+G\d+", cell) for row in cells for cell in row)
    return f"pipe-add-optimizer{{all-reduce={'end' if has_reduces else 'eager'}}}"


def without_ending(schedule: Schedule) -> Schedule:
    """The same schedule without all-reduces of gradients and optimizer steps."""

    def strip(row: re.Match[str]) -> str:
        entries = (
            "+".join(cell for cell in entry.split("+") if not _END.fullmatch(cell))
            for entry in row[2].split()
        )
        return f"{row[1]}{' '.join(filter(None, entries))}]"

    return Schedule.from_text(_ROW.sub(strip, schedule.to_text()))


def formula_of(simulation: Simulation) -> dict[str, Any]:
    """The literature's bubble, and the time to which it is relative."""
    formula, size = simulation.formula, (simulation.workers, simulation.microbatches)
    if formula is None or not (formula.of == "step" or formula.states(*size)):
        return {"formula_bubble_ratio": None, "formula_of": None}
    return {"formula_bubble_ratio": formula.bubble_ratio, "formula_of": formula.of}


def activations_of(simulation: Simulation) -> dict[str, Any]:
    """The most activations of a worker: of single stages and slices, and in units of the memory
    that one microbatch leaves on a worker with an equal part of the model, as the literature plots
    them. The latter can be compared among schedules with different numbers of stages.
    """
    if simulation.table is None:
        return {"peak_activations": None, "activations": None}
    peak = int(simulation.table.peak_activations.max())
    stages_per_worker = simulation.stages / simulation.workers
    return {"peak_activations": peak, "activations": peak / stages_per_worker / simulation.slices}


def levels(simulation: Simulation) -> dict[str, Any]:
    """The step, and the bubbles by formula, table and time."""
    execution, table = simulation.execution, simulation.table
    return {
        "step_s": execution.makespan_ps / 1e12,
        "idle_ratio": execution.idle_ratio,
        "span_bubble_ratio": execution.span_bubble_ratio,
        **formula_of(simulation),
        "table_bubble_ratio": table.bubble_ratio if table else None,
        **execution.idle_by_cause_ps.ratios(execution.makespan_ps),
        **activations_of(simulation),
    }


def memory_of(
    simulation: Simulation,
    costs: Costs | None,
    named: Saved | None = None,
    reserve: str = DEFAULT_RESERVE,
) -> dict[str, Any]:
    """Peak memory of the fullest worker and its accelerators, and whether it fits alongside the
    reserve.
    """
    memory = simulation.memory
    keys = ("peak_bytes", "peak_bytes_per_gpu", "worst_worker", "usable_bytes_per_gpu", "fits")
    if memory is None:
        return dict.fromkeys(keys)
    worst = memory.bottleneck_worker
    peak = int(memory.peak_bytes[worst])
    own = named.accelerators if named is not None else None
    accelerators = costs._accelerators if costs is not None else own
    usable = fits = None
    if memory.capacity_bytes is not None:
        each = memory.capacity_bytes // (accelerators or 1)
        usable = each - reserve_of(reserve, each, has_experts(costs))
        fits = -(-peak // (accelerators or 1)) <= usable
    values = (peak, per_gpu(peak, accelerators), worst, usable, fits)
    return dict(zip(keys, values, strict=True))


def microbatch_size(simulation: Simulation) -> int | None:
    size = int(_core.summaries([simulation._evaluation])["microbatch_size"][0])
    return size if size > 0 else None


def find_saved(entry: Entry) -> Saved | None:
    """The model and the system in the file of an entry, unless costs were given."""
    if entry.costs is not None or not isinstance(entry, FromFile) or not entry.has_own_costs():
        return None
    return saved(entry.schedule)


def rates(
    costs: Costs | None, simulation: Simulation, named: Saved | None = None, middle: float = 1.0
) -> dict[str, Any]:
    """Tokens per second, and MFU (docs/CostModel.md), of a step that takes `middle` times the
    computed one.
    """
    makespan = simulation.execution.makespan_ps
    tokens = _tokens(costs, simulation, named)
    if tokens is None or not makespan:
        return {"tokens_per_s": None, "mfu": None}
    mfu = float(_core.summaries([simulation._evaluation])["mfu"][0])
    mfu_expected = None if math.isnan(mfu) else mfu / middle
    return {"tokens_per_s": tokens * 1e12 / (makespan * middle), "mfu": mfu_expected}


def _tokens(costs: Costs | None, simulation: Simulation, named: Saved | None) -> int | None:
    if costs is None and named is not None:
        return named.tokens(simulation.microbatches)
    size = microbatch_size(simulation)
    if costs is None or not costs.model or size is None:
        return None
    sequence = int(json.loads(costs._raw.model()).get("sequence") or 0)
    return costs.data_parallel * simulation.microbatches * size * sequence or None


def row_of(
    entry: Entry, settings: Mapping[str, Any], reserve: str = DEFAULT_RESERVE
) -> tuple[dict[str, Any], Simulation | None]:
    """The row of an entry and its report, or a row that says why there is none."""
    workers, microbatches = entry.size
    row: dict[str, Any] = {
        "schedule": entry.label,
        "family": entry.family,
        "file": entry.file and entry.file.path,
        "stages": None,
        "slices": None,
        "workers": workers,
        "microbatches": microbatches,
    }
    said = {**assumptions.keys_of(entry.costs), **settings}
    try:
        simulation = entry.simulate()
    except PipeSchedError as error:
        reason = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        return {**row, **said, "rank": None, "error": reason}, None
    named = find_saved(entry)
    own = entry.point._own_bubble_ratio if isinstance(entry, FromFamily) else None
    moving = answers.keys_of(entry, simulation.execution.makespan_ps / 1e12)
    middle = moving["band"]["middle_ratio"] if moving["band"] else 1.0
    numbers = {
        **levels(simulation),
        **({} if own is None else {"formula_bubble_ratio": own, "formula_of": "step"}),
        **moving,
        **rates(entry.costs, simulation, named, middle),
        **memory_of(simulation, entry.costs, named, reserve),
        "stages": simulation.stages,
        "slices": simulation.slices,
        "stages_per_worker": stages_of(entry, simulation),
        "layers": layers_text(entry.costs._division.layers if entry.costs else 0, entry.places),
        "microbatch_size": microbatch_size(simulation),
    }
    return {**row, **said, "rank": None, **numbers}, simulation


# Work


def stages_of(entry: Entry, simulation: Simulation) -> float:
    """The stages of a worker that a microbatch passes."""
    places = entry.places
    return stages_per_worker(places) if places else simulation.stages / simulation.workers


def _count_text(counts: Mapping[str, float]) -> str:
    """`2 in zb-v and VPP, 1 in 1f1b`."""
    groups: dict[float, list[str]] = defaultdict(list)
    for name, count in counts.items():
        groups[count].append(name)
    return ", ".join(
        f"{count:g} in {_join(names)}" for count, names in sorted(groups.items(), reverse=True)
    )


def _join(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _several_text(ranked: Sequence[Mapping[str, float]]) -> str:
    several = {n: c for group in ranked for n, c in group.items() if c != 1}
    return f": stages per worker {_count_text(several)}" if several else ""


def _tell_division(ranked: Sequence[Mapping[str, float]], costs: Costs) -> list[str]:
    """The line about times that every schedule divides among its stages by layers."""
    division = costs._division
    if division.layer_times is not None:
        return [f"times are those of {division.layers} layers, which stages add up"]
    listed = listed_stages(dict(division.entries))
    if listed is None:
        return []
    parts = _several_text(ranked)
    return [f"times are those of {listed} stages, which other numbers of stages divide{parts}"]


def check_work(
    ranked: Sequence[Mapping[str, float]],
    costs: Costs | None,
    times_of: str | None,
    way: str | None = None,
) -> list[str]:
    """The first lines about times of stages. Refuses a ranking of different work unless it was
    asked for.
    """
    if costs is not None and costs.times and (said := _tell_division(ranked, costs)):
        return said
    if costs is not None and costs.times and costs.times_of == "worker":
        parts = _several_text(ranked)
        return [f"times are those of a worker, which its stages divide{parts}"]
    is_timed = costs is not None and costs.times is not None and has_phases(costs.times)
    if costs is not None and not is_timed:
        return []
    unlike = [group for group in ranked if len(set(group.values())) > 1]
    if not unlike:
        return []
    counts = _count_text({name: count for group in unlike for name, count in group.items()})
    what = "times" if is_timed else "slots"
    if is_timed and times_of is None:
        raise UsageError(
            f"times are those of one stage, and stages per worker differ ({counts}), so that the"
            " steps would do different amounts of work; give --set times-of=worker to divide times"
            " among the stages of a worker, --set times-of=stage to rank them nevertheless,"
            f"{f' {way},' if way else ''} or --model and --system, which divide the same layers"
        )
    return [
        f"work differs: {what} are those of one stage, and stages per worker are {counts}; a step"
        " with more of them does more work"
    ]
