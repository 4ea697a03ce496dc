"""Figure 6 of arXiv 2605.24006: Chimera whose paths have short and long halves."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import pipesched
from pipesched import Costs, PipeSchedError, Schedule, Simulation
from pipesched.costs.settings import both
from pipesched.support.options import Slots, Transport, code_of, integer

from . import setting
from .study import Basis, Check, Finding, Pictures, Study, covers, figure, over_microbatches

BLOCKS = 120
"""The number of blocks of the model, or the nearest number that can be divided: 128 cannot be
divided 1:2 on four workers.
"""

STAGES = (4, 8)
MICROBATCHES = (4, 8, 16, 32, 64, 128)
GIB = 2**30


def sequences(microbatches: int) -> int:
    """Sequences per microbatch: a step has as close to 128 of them as possible.

    >>> [n * sequences(n) for n in (5, 8, 200)]
    [130, 128, 200]
    """
    return max(1, round(setting.BATCH / microbatches))


def _parts(ratio: str, workers: int) -> int:
    """Returns the number of which the blocks must be a multiple so that they can be placed evenly
    and by the ratio; 1 for sizes that the placement refuses.

    >>> _parts("2:4", 4)
    12
    """
    found = re.fullmatch(r"(\d{1,10}):(\d{1,10})", ratio, re.ASCII)
    if not found:
        raise PipeSchedError(f"{ratio!r} is no ratio: expected two numbers such as 1:2")
    first, second = (int(part) for part in found.groups())
    if workers % 2 or not first or not second:
        return 1
    return workers // 2 * math.lcm(2, (first + second) // math.gcd(first, second))


def blocks_for(ratio: str, workers: int, blocks: int | None = None) -> int:
    """Returns the given number of blocks if it can be placed; otherwise the nearest to 120 that
    can.

    >>> [blocks_for("1:2", workers) for workers in (4, 6, 8)]
    [120, 126, 120]
    """
    parts = _parts(ratio, workers)
    if blocks is None:
        return max(1, (2 * BLOCKS + parts) // (2 * parts)) * parts
    if integer("blocks", blocks, 1) % parts == 0:
        return blocks
    below = blocks // parts * parts
    nearest = " and ".join(str(each) for each in (below, below + parts) if each)
    raise PipeSchedError(
        f"{blocks} blocks cannot be divided both evenly and {ratio} over {workers} stages, which"
        f" takes a multiple of {parts}; the nearest: {nearest}"
    )


def costs(system: str, microbatches: int, blocks: int, settings: setting.Settings = ()) -> Costs:
    """Costs of the paper's model with that many blocks, on a system."""
    fields = {**pipesched.models()[setting.MODEL], "layers": blocks}
    model, changed = both(fields, system, settings)
    size = sequences(microbatches)
    return Costs(model=model, system=changed, microbatch_size=size, framework="none")


# Placement and table


def placing(ratio: str, blocks: int) -> str:
    """Returns the pass that places mirrored paths whose halves have the ratio."""
    return f"pipe-place-asymmetric{{ratio={ratio} blocks={blocks}}}"


def schedule(
    ratio: str,
    workers: int,
    microbatches: int,
    *,
    blocks: int | None = None,
    slots: Slots = "blocks",
    timed_with: Costs | None = None,
) -> Schedule:
    """Chimera on paths whose halves have the ratio, filled by the greedy rule in slots of that
    kind; slots that are durations depend on the costs.

    >>> [path.workers for path in schedule("1:2", 4, 8).paths]
    [(0, 1, 2, 3), (3, 2, 1, 0)]
    """
    code_of(Slots, "slots", slots)
    problem = pipesched.problem(workers=workers, microbatches=microbatches)
    placed = problem.transform(placing(ratio, blocks_for(ratio, workers, blocks)))
    if slots != "durations":
        return placed.transform(f"pipe-schedule-greedy{{slots={slots}}}")
    if timed_with is None:
        raise PipeSchedError("slots=durations need costs")
    plain = placed.transform("pipe-schedule-greedy").simulate(timed_with)
    times = setting.profile(setting.stage_times(plain))
    return placed.transform(f"{times},pipe-schedule-greedy{{slots=durations}}")


# One point


def _spread(activations: Any) -> float:
    """Returns the difference between the least filled and the fullest worker, in percent."""
    return float(100 * (1 - activations.min() / activations.max()))


def _activations(report: Simulation) -> Any:
    assert report.memory is not None
    return report.memory.peak_activation_bytes / GIB


def _row(
    system: str, microbatches: int, blocks: int, even: Simulation, asymmetric: Simulation
) -> dict[str, Any]:
    runtimes = [report.execution.makespan_ps / 1e12 for report in (even, asymmetric)]
    held = [_activations(report) for report in (even, asymmetric)]
    return {
        "system": system,
        "stages": even.workers,
        "microbatches": microbatches,
        "blocks": blocks,
        "sequences": microbatches * sequences(microbatches),
        "even_s": runtimes[0],
        "asymmetric_s": runtimes[1],
        "even_to_asymmetric": runtimes[0] / runtimes[1],
        "even_peak_gib": held[0].max(),
        "asymmetric_peak_gib": held[1].max(),
        "even_spread_percent": _spread(held[0]),
        "asymmetric_spread_percent": _spread(held[1]),
        "even_worker_gib": held[0].tolist(),
        "asymmetric_worker_gib": held[1].tolist(),
    }


class _Points:
    """Times the sizes of a study on all systems, and collects rows and command lines."""

    def __init__(
        self, ratio: str, slots: Slots, transport: Transport, settings: setting.Settings
    ) -> None:
        self.ratio, self.slots, self.transport = ratio, slots, transport
        self.settings = settings
        self.rows: list[dict[str, Any]] = []
        self.passes: list[str] = []

    def add(self, workers: int, microbatches: int, blocks: int, systems: Sequence[str]) -> None:
        """Times one size. Tables are made once, unless they depend on times."""
        made: list[Schedule] = []
        for system in systems:
            attached = costs(system, microbatches, blocks, self.settings)
            if not made or self.slots == "durations":
                made = [
                    schedule(
                        ratio,
                        workers,
                        microbatches,
                        blocks=blocks,
                        slots=self.slots,
                        timed_with=attached,
                    )
                    for ratio in ("1:1", self.ratio)
                ]
            even, asymmetric = (each.simulate(attached, transport=self.transport) for each in made)
            self.rows.append(_row(system, microbatches, blocks, even, asymmetric))
            message = setting.message_ps(attached, blocks)
            for ratio, report in (("1:1", even), (self.ratio, asymmetric)):
                self.passes.append(self._line(placing(ratio, blocks), report, message))

    def _line(self, placed: str, report: Simulation, message: int) -> str:
        passes = [
            f"pipe-create{{workers={report.workers} microbatches={report.microbatches}}}",
            placed,
            setting.profile({**setting.stage_times(report), "comm": message}),
            f"pipe-schedule-greedy{{slots={self.slots}}}",
        ]
        return setting.command_line(passes, self.transport)


# The figure


def _about(frame: pd.DataFrame, column: str) -> str:
    gain = 100 * (frame[column] - 1)
    return f"{gain.min():+.1f} to {gain.max():+.1f} %"


def _memory_checks(frame: pd.DataFrame) -> tuple[Check, Check]:
    peak = frame.asymmetric_peak_gib >= frame.even_peak_gib * (1 - 1e-9)
    even = frame.asymmetric_spread_percent < frame.even_spread_percent
    return (
        Check(
            "no lower peak of activations",
            bool(peak.all()),
            f"not lower in {int(peak.sum())} of {len(frame)} cases",
        ),
        Check(
            "a more even one among the workers",
            bool(even.all()),
            f"more even in {int(even.sum())} of {len(frame)} cases",
        ),
    )


def finding5(frame: pd.DataFrame) -> Finding:
    """Asymmetric placement moves memory and is faster at D = 4, by figure 6 with ratio 1:2."""
    sizes = frame[frame.microbatches >= frame.stages]
    fast = sizes[sizes.system.map(setting.network_of) == "fast"]
    few = fast[(fast.stages == 4) & fast.microbatches.isin([8, 16])]
    best = 100 * (few.groupby("system").even_to_asymmetric.max() - 1)
    deep = sizes[sizes.stages == 8]
    deep_few, deep_many = deep[deep.microbatches <= 16], deep[deep.microbatches >= 64]
    ratio = "even_to_asymmetric"
    return Finding(
        5,
        "Placed 1:2, Chimera has no lower peak of memory but a more even one; it is about 5 %"
        " faster at D = 4 with few microbatches on fast networks; at D = 8 slower for few and"
        " marginally faster for many",
        (
            *_memory_checks(sizes),
            Check(
                "D = 4, N = 8 or 16, fast networks: faster by about 5 % (3 to 7) at the better",
                bool(best.between(3, 7).all()),
                ", ".join(f"{system} {gain:+.1f} %" for system, gain in best.items()),
            ),
            Check(
                "D = 8, N to 16: slower", bool((deep_few[ratio] < 1).all()), _about(deep_few, ratio)
            ),
            Check(
                "D = 8, N from 64: marginally faster (to 3 %)",
                bool(deep_many[ratio].between(1, 1.03).all()),
                _about(deep_many, ratio),
            ),
        ),
    )


def _draw(frame: pd.DataFrame, ratio: str, slots: Slots) -> Pictures:
    stages = list(dict.fromkeys(frame.stages))
    name = f"figure6-{ratio.replace(':', '-')}-{slots}"
    runtime, all_axes = figure(1, len(stages), width=5.2 * len(stages), height=3.8)
    for axes, d in zip(all_axes, stages, strict=True):
        for system, rows in frame[frame.stages == d].groupby("system", sort=False):
            axes.plot(rows.microbatches, rows.even_to_asymmetric, marker="o", label=str(system))
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(title=f"D = {d}", xlabel="microbatches", ylabel=f"step, even / {ratio}")
        over_microbatches(axes, sorted(set(frame.microbatches)))
    all_axes[-1].legend(fontsize="x-small", ncols=2)
    return {name: runtime, f"{name}-memory": _draw_memory(frame, stages, ratio)}


def _draw_memory(frame: pd.DataFrame, stages: list[int], ratio: str) -> Any:
    """Activations of each worker at the first number of microbatches above D."""
    made, all_axes = figure(1, len(stages), width=5.2 * len(stages), height=3.2)
    for axes, d in zip(all_axes, stages, strict=True):
        rows = frame[frame.stages == d].sort_values("microbatches")
        row = rows[rows.microbatches >= min(2 * d, rows.microbatches.max())].iloc[0]
        workers = np.arange(d)
        axes.bar(workers - 0.2, row.even_worker_gib, width=0.38, label="even")
        axes.bar(workers + 0.2, row.asymmetric_worker_gib, width=0.38, label=ratio)
        axes.set(
            title=f"D = {d}, N = {row.microbatches}", xlabel="worker", ylabel="activations [GiB]"
        )
        axes.set_xticks(workers)
        axes.legend()
    return made


def figure6(
    stages: Sequence[int] = STAGES,
    microbatches: Sequence[int] = MICROBATCHES,
    ratio: str = "1:2",
    blocks: int | None = None,
    slots: Slots = "blocks",
    transport: Transport = "blocking",
    systems: Sequence[str] = setting.SYSTEMS,
    settings: Sequence[str] = (),
) -> Study:
    """Step times and memory of Chimera on all systems: even stages compared with stages whose first
    and second half of a path are in the ratio.

    >>> study = figure6(stages=[4], microbatches=[8], systems=["fast_nw_fast_cp"])
    >>> study.frame.even_to_asymmetric.round(4).tolist()
    [1.0246]
    """
    code_of(Slots, "slots", slots)
    points = _Points(ratio, slots, transport, tuple(settings))
    for d in stages:
        for n in microbatches:
            points.add(d, n, blocks_for(ratio, d, blocks), systems)
    frame = pd.DataFrame(points.rows)
    is_paper = not settings and {*systems} <= {*setting.SYSTEMS}
    is_default = is_paper and ratio == "1:2" and covers(frame, STAGES, MICROBATCHES)
    gains = frame.assign(gain=100 * (frame.even_to_asymmetric - 1))
    digest = gains.pivot(index=["system", "stages"], columns="microbatches", values="gain")
    digest = digest.reindex(pd.MultiIndex.from_frame(frame[["system", "stages"]].drop_duplicates()))
    digest.columns = pd.Index([f"N={n}" for n in digest.columns])
    return Study(
        title=f"Figure 6: Chimera placed {ratio}, tables filled in {slots} slots;"
        f" how much faster than with even stages, in percent{setting.changed_text(settings)}",
        frame=frame,
        basis=Basis(
            given="mirrored paths of two stage lengths; every worker has the same work",
            fitted="the rules of table and transport, efficiencies and 128 sequences per step, as"
            " for table I",
            open=f"the number of blocks (that nearest to {BLOCKS}, unless given); how the table"
            " knows of unequal stages (--slots); sizes at which 128 sequences do not divide are run"
            " with the nearest number that does",
        ),
        findings=(finding5(frame),) if is_default else (),
        draw=lambda: _draw(frame, ratio, slots),
        passes=tuple(points.passes),
        digest=digest.reset_index(),
    )
