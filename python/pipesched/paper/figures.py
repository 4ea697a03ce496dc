"""Figures 3 to 5 of arXiv 2605.24006: bubbles, step times and memory over microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from pipesched import Configuration, Simulation, simulate_batch
from pipesched.support.options import code_of

from . import setting
from .setting import MessageVolume, Scheme
from .study import (
    COLORS,
    LABELS,
    Basis,
    Check,
    Finding,
    Pictures,
    Study,
    covers,
    figure,
    over_microbatches,
)

STAGES = (4, 8)
ALL_MICROBATCHES = tuple(range(2, 65))
FEW = 8
"""Text tables with more numbers of microbatches than this show only the powers of two."""

MICROBATCHES = (4, 8, 16, 32, 64, 128)

_RULES = "unit slots, W right behind I, gradients sent after W; Chimera and Hanayo filled greedily"
_GIVEN = "128 Megatron blocks, a step of fixed size, 4 and 8 stages, nine systems"
_FITTED = "128 sequences per step; the efficiencies of systems and the rules of table and transport"


# Figure 3: formula and table


PUBLISHED_BUBBLES: dict[tuple[Scheme, int, int], tuple[int, int]] = {
    ("chimera", 8, 16): (16, 26),
    ("chimera", 4, 16): (6, 13),
}
"""Published percentages of formula and table, by schedule, stages and microbatches."""


_LEVELS = ("formula", "table")


def _bubble_rows(stages: Sequence[int], microbatches: Sequence[int]) -> pd.DataFrame:
    keys = [(s, d, n) for d in stages for s in setting.SCHEMES for n in microbatches]
    found = simulate_batch(setting.configuration(*key) for key in keys)
    published = [PUBLISHED_BUBBLES.get(key, (None, None)) for key in keys]
    frame = pd.DataFrame(keys, columns=["schedule", "stages", "microbatches"])
    frame["formula_percent"] = 100 * found.formula_bubble_ratio
    frame["table_percent"] = 100 * found.table_bubble_ratio
    frame["difference_points"] = frame.table_percent - frame.formula_percent
    frame["published_formula_percent"] = [formula for formula, _ in published]
    frame["published_table_percent"] = [table for _, table in published]
    frame["error"] = found.error
    return frame


def _published_check(frame: pd.DataFrame) -> list[Check]:
    found = frame.set_index(["schedule", "stages", "microbatches"])
    checks = []
    for (scheme, d, n), (formula, table) in PUBLISHED_BUBBLES.items():
        ours = [float(found[f"{level}_percent"][scheme, d, n]) for level in _LEVELS]
        checks.append(
            Check(
                f"(D,N)=({d},{n}): formula {formula} %, table {table} %",
                [round(each) for each in ours] == [formula, table],
                f"{ours[0]:.2f} % and {ours[1]:.2f} %",
            )
        )
    return checks


def finding2(frame: pd.DataFrame) -> Finding:
    """The bubble of Chimera's table is above its formula, and at most 1F1B's."""
    made = frame[frame.error.isna()]
    units = (made.microbatches > made.stages) & (made.microbatches % made.stages == 0)
    chimera = made[(made.schedule == "chimera") & units]
    plain = made[made.schedule == "1f1b"][["stages", "microbatches", "table_percent"]]
    both = chimera.merge(plain, on=["stages", "microbatches"], suffixes=("", "_1f1b"))
    more = chimera.difference_points
    above = both[both.table_percent > both.table_percent_1f1b + 1e-9]
    sizes = ", ".join(f"({row.stages},{row.microbatches})" for row in above.itertuples())
    return Finding(
        2,
        "Chimera's table has larger bubbles than its formula, and still no larger ones than GPipe"
        " and 1F1B",
        (
            *_published_check(frame),
            Check(
                "table at or above formula for N = 2D, 3D, ..",
                bool((more > -1e-9).all() and more.max() > 1),
                f"above at {int((more > 1e-9).sum())} of {len(more)} sizes, by up to"
                f" {more.max():.1f} points",
            ),
            Check(
                "table at or below 1F1B's for these N",
                above.empty,
                f"above it at {len(above)} of {len(both)} sizes"
                + (f", (D,N) = {sizes}" if 0 < len(above) <= 8 else ""),
            ),
        ),
    )


def _draw_bubbles(frame: pd.DataFrame, stages: Sequence[int]) -> Pictures:
    made, all_axes = figure(1, len(stages), width=5.2 * len(stages), height=3.8)
    for axes, d in zip(all_axes, stages, strict=True):
        for scheme in setting.SCHEMES:
            rows = frame[(frame.stages == d) & (frame.schedule == scheme)]
            color, label = COLORS[scheme], LABELS[scheme]
            axes.plot(rows.microbatches, rows.formula_percent, "--", color=color)
            axes.plot(rows.microbatches, rows.table_percent, color=color, label=label)
        axes.plot([], [], "k--", label="formula")
        axes.set(title=f"D = {d}", xlabel="microbatches", ylabel="bubble [%]")
        axes.legend()
    return {"figure3": made}


def _wide(frame: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """A frame with one column per number of microbatches."""
    wide = frame.pivot(index=keys, columns="microbatches", values=value)
    order = frame[keys].drop_duplicates()
    wide = wide.reindex(pd.MultiIndex.from_frame(order))
    wide.columns = pd.Index([f"N={n}" for n in wide.columns])
    return wide.reset_index()


def figure3(
    stages: Sequence[int] = STAGES, microbatches: Sequence[int] = ALL_MICROBATCHES
) -> Study:
    """Bubble ratios by the closed formula of the literature and by the slot table.

    >>> frame = figure3(stages=[8], microbatches=[16]).frame.set_index("schedule")
    >>> frame.loc["chimera", ["formula_percent", "table_percent"]].astype(float).round(1).tolist()
    [15.8, 26.2]
    """
    frame = _bubble_rows(stages, microbatches)
    shown = [n for n in microbatches if len(microbatches) <= FEW or n & (n - 1) == 0]
    return Study(
        title="Figure 3: bubbles by formula and by table",
        frame=frame,
        basis=Basis(
            given="the formulas; of Chimera four numbers",
            fitted=f"the rule of the table: {_RULES}",
            open="all other points of the figure; Hanayo, which is ours",
        ),
        findings=(finding2(frame),) if covers(frame, STAGES, ALL_MICROBATCHES) else (),
        draw=lambda: _draw_bubbles(frame, stages),
        passes=tuple(
            setting.passes_of(scheme, setting.configuration(scheme, d, n))
            for d in stages
            for scheme in setting.SCHEMES
            for n in shown
        ),
        digest=frame[frame.microbatches.isin(shown)],
    )


# Figure 4: steps


def _steps(
    systems: Sequence[str],
    stages: Sequence[int],
    microbatches: Sequence[int],
    volume: MessageVolume,
    settings: setting.Settings,
) -> tuple[pd.DataFrame, list[str]]:
    rows: list[dict[str, Any]] = []
    passes = []
    for system in systems:
        for d in stages:
            for scheme in setting.SCHEMES:
                for n in microbatches:
                    costs = setting.costs(system, n, volume, settings)
                    point = setting.configuration(scheme, d, n, costs)
                    timed = setting.simulate(point)
                    passes.append(setting.passes_of(scheme, timed.point))
                    rows.append(
                        {
                            "system": system,
                            "stages": d,
                            "microbatches": n,
                            "schedule": scheme,
                            "runtime_s": timed.runtime_s,
                            "idle_percent": timed.idle_percent,
                        }
                    )
    return pd.DataFrame(rows), passes


def _lead(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the lead of Chimera over 1F1B, in percent."""
    keys = ["system", "stages", "microbatches"]
    wide = frame.pivot(index=keys, columns="schedule", values="runtime_s").reset_index()
    wide["lead_percent"] = 100 * (1 - wide.chimera / wide["1f1b"])
    wide["system"] = pd.Categorical(wide.system, list(dict.fromkeys(frame.system)))
    return wide.sort_values(keys).astype({"system": str})


def finding1(steps: pd.DataFrame, bubbles: pd.DataFrame, memory: pd.DataFrame) -> Finding:
    """GPipe and 1F1B differ only in memory. Takes figures 4, 3 and 5."""
    wide = steps.pivot(
        index=["system", "stages", "microbatches"], columns="schedule", values="runtime_s"
    )
    unlike = int((wide["gpipe"] != wide["1f1b"]).sum())
    both = bubbles[bubbles.schedule.isin(["gpipe", "1f1b"])]
    formula = 100 * (both.stages - 1) / (both.microbatches + both.stages - 1)
    off = max(
        float((both.formula_percent - formula).abs().max()),
        float(both.difference_points.abs().max()),
    )
    peaks = memory.pivot(
        index=["stages", "microbatches"], columns="schedule", values="activation_gib"
    ).reset_index()
    more = peaks[peaks.microbatches > peaks.stages]
    lower = more["1f1b"] < more["gpipe"]
    changes = peaks.groupby("stages").gpipe.agg(lambda each: each.max() - each.min())
    return Finding(
        1,
        "GPipe and 1F1B have the same bubble and the same runtime; 1F1B holds fewer activations,"
        " and what GPipe holds does not depend on N",
        (
            Check(
                "bubble (D-1)/(N+D-1) by formula and by table, exactly",
                off < 1e-9,
                f"largest difference {round(off, 9):g} points over {len(both)} sizes",
            ),
            Check(
                "the same simulated runtime",
                unlike == 0,
                f"to the picosecond in {len(wide) - unlike} of {len(wide)} cases",
            ),
            Check(
                "1F1B's activations peak lower (N > D)",
                bool(lower.all()),
                f"in {int(lower.sum())} of {len(lower)} cases",
            ),
            Check(
                "GPipe's peak does not depend on N, the step being of fixed size",
                bool((changes == 0).all()),
                f"changes by at most {changes.max():.1f} GiB",
            ),
        ),
    )


def _wins_until(lead: pd.DataFrame, system: str, d: int) -> int:
    """Returns the largest N such that Chimera is faster than 1F1B at every N from D up to it; 0 if
    there is none.
    """
    rows = lead[(lead.system == system) & (lead.stages == d) & (lead.microbatches >= d)]
    wins = (rows.lead_percent > 0).cummin()
    return int(rows.microbatches[wins].max()) if wins.any() else 0


def _longer_steps(steps: pd.DataFrame, system: str) -> list[str]:
    """Returns the schedules, except Hanayo, whose step with the most microbatches is over 1 %
    longer than another one.
    """
    found = []
    for (scheme, d), rows in steps[steps.system == system].groupby(["schedule", "stages"]):
        step = rows.sort_values("microbatches").runtime_s
        if scheme != "hanayo" and float(step.iloc[-1]) > 1.01 * float(step.min()):
            found.append(f"{scheme} D={d}")
    return found


def finding3(scaled: pd.DataFrame, fixed: pd.DataFrame) -> Finding:
    """The sizes at which Chimera wins, by figure 4, with scaled and with fixed messages."""
    lead = _lead(scaled)
    few = lead[(lead.microbatches == lead.stages) & lead.system.map(setting.network_of).eq("fast")]
    turn = {d: _wins_until(lead, "baseline", d) for d in (4, 8)}
    slow = {(s, d): _wins_until(lead, s, d) for s in _NETWORK_RICH for d in (4, 8)}
    last = lead[lead.system.isin(_NETWORK_RICH) & (lead.microbatches == 128)].lead_percent.abs()
    longer = {
        name: _longer_steps(frame, "slow_nw_fast_cp")
        for name, frame in (("scaled", scaled), ("fixed", fixed))
    }
    return Finding(
        3,
        "Chimera wins at few microbatches and on fast networks; GPipe and 1F1B win on the baseline"
        " beyond 32; with a network that is fast for the compute Chimera wins to 64; on"
        " network-bound systems more microbatches can mean a longer step",
        (
            Check(
                "Chimera wins at N = D on fast networks",
                bool((few.lead_percent > 0).all()),
                f"by {few.lead_percent.min():.1f} to {few.lead_percent.max():.1f} %",
            ),
            *(
                Check(
                    f"baseline, D = {d}: Chimera wins to 32, GPipe and 1F1B beyond",
                    turn[d] == 32,
                    f"Chimera wins to N = {turn[d]}",
                )
                for d in (4, 8)
            ),
            *(
                Check(
                    f"{system}, D = {d}: Chimera wins to 64",
                    until >= 64,
                    f"Chimera wins to N = {until}",
                )
                for (system, d), until in slow.items()
            ),
            Check(
                "there they converge (within 2 % at N = 128)",
                bool((last < 2).all()),
                f"{last.min():.1f} to {last.max():.1f} % apart",
            ),
            Check(
                "slow_nw_fast_cp: more microbatches, a longer step, if messages keep their size",
                bool(longer["fixed"]),
                f"{_list_names(longer['fixed'])}; if they scale: {_list_names(longer['scaled'])}",
            ),
        ),
    )


_NETWORK_RICH = ("fast_nw_slow_cp", "mid_nw_slow_cp")


def _list_names(found: list[str]) -> str:
    return ", ".join(found) or "nowhere"


def _draw_steps(
    frame: pd.DataFrame, systems: Sequence[str], stages: Sequence[int], volume: MessageVolume
) -> Pictures:
    columns = min(3, len(systems))
    rows = -(-len(systems) // columns)
    pictures = {}
    for d in stages:
        made, all_axes = figure(rows, columns, width=3.6 * columns, height=2.5 * rows, sharex=True)
        for axes in all_axes[len(systems) :]:
            axes.set_visible(False)
        for axes, system in zip(all_axes, systems, strict=False):
            here = frame[(frame.system == system) & (frame.stages == d)]
            for scheme in setting.SCHEMES:
                points = here[here.schedule == scheme]
                style = ":" if scheme == "1f1b" else "-"
                axes.plot(
                    points.microbatches,
                    points.runtime_s,
                    style,
                    marker="o",
                    color=COLORS[scheme],
                    label=LABELS[scheme],
                )
            axes.set(title=system, ylabel="step [s]", ylim=(0, None))
            over_microbatches(axes, sorted(set(here.microbatches)))
        for axes in all_axes[max(0, len(systems) - columns) : len(systems)]:
            axes.set_xlabel("microbatches")
        all_axes[0].legend(fontsize="small")
        pictures[f"figure4-{d}-stages-{volume}"] = made
    return pictures


def figure4(
    stages: Sequence[int] = STAGES,
    microbatches: Sequence[int] = MICROBATCHES,
    message_volume: MessageVolume = "scaled",
    systems: Sequence[str] = setting.SYSTEMS,
    settings: Sequence[str] = (),
) -> Study:
    """Simulated step times over the number of microbatches, on all systems; `settings` change
    fields of these and of the model.
    """
    code_of(MessageVolume, "message_volume", message_volume)
    frame, passes = _steps(systems, stages, microbatches, message_volume, tuple(settings))
    lead = _wide(_lead(frame), ["system", "stages"], "lead_percent")
    return Study(
        title=f"Figure 4: time of a step, messages {message_volume};"
        f" how much less Chimera takes than 1F1B, in percent{setting.changed_text(settings)}",
        frame=frame,
        basis=Basis(
            given=_GIVEN,
            fitted=_FITTED,
            open="how the size of messages depends on N (--message-volume); which numbers of"
            " microbatches were run",
        ),
        draw=lambda: _draw_steps(frame, systems, stages, message_volume),
        passes=tuple(passes),
        digest=lead,
    )


# Figure 5: memory

MEMORY_SCHEMES: tuple[Scheme, ...] = ("gpipe", "1f1b", "chimera", "chimera-units", "hanayo")

GIB = 2**30


def _most_of_a_stage(report: Simulation) -> int:
    """Returns the largest number of activations that a worker holds of one of its stages."""
    cells = report.to_frame()
    change = cells.phase.map({"F": 1, "W": -1, "B": -1}).astype("Int64").fillna(0)
    held = change.groupby([cells.worker, cells.stage]).cumsum()
    return int(held.max())


def _memory_row(scheme: Scheme, d: int, n: int, point: Configuration) -> dict[str, Any]:
    report = point.simulate()
    memory = report.memory
    assert memory is not None
    unit = memory.peak_activation_bytes.max() / memory.peak_activations.max()
    worst = int(memory.peak_bytes.argmax())
    return {
        "schedule": scheme,
        "stages": d,
        "microbatches": n,
        "peak_gib": memory.peak_bytes.max() / GIB,
        "activation_gib": memory.peak_activation_bytes.max() / GIB,
        "mean_activation_gib": memory.peak_activation_bytes.mean() / GIB,
        "least_activation_gib": memory.peak_activation_bytes.min() / GIB,
        "stage_activation_gib": _most_of_a_stage(report) * unit / GIB,
        "persistent_gib": memory.persistent_bytes.max() / GIB,
        "peak_activations": memory.peak_activations.max(),
        "worst_worker": worst,
    }


CONVENTIONS = {
    "peak_gib": "peak of the worker with most, persistent terms included",
    "activation_gib": "activations of the worker with most",
    "mean_activation_gib": "activations, mean of the workers",
    "least_activation_gib": "activations of the worker with least",
    "stage_activation_gib": "activations of one stage alone, of the worker with most",
}
"""Conventions for the memory of a schedule."""


def lower_than_1f1b(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns by construction and convention the number of sizes with N >= D at which Chimera takes
    less memory than 1F1B.
    """
    sizes = frame[frame.microbatches >= frame.stages]
    rows = []
    for scheme in ("chimera", "chimera-units"):
        for convention, says in CONVENTIONS.items():
            wide = sizes.pivot(
                index=["stages", "microbatches"], columns="schedule", values=convention
            )
            lower = wide[scheme] < wide["1f1b"] * (1 - 1e-9)
            rows.append(
                {
                    "schedule": scheme,
                    "convention": says,
                    "lower": int(lower.sum()),
                    "sizes": len(wide),
                }
            )
    return pd.DataFrame(rows)


def _draw_memory(frame: pd.DataFrame, stages: Sequence[int]) -> Pictures:
    made, all_axes = figure(1, len(stages), width=5.2 * len(stages), height=3.8)
    for axes, d in zip(all_axes, stages, strict=True):
        for scheme in MEMORY_SCHEMES:
            rows = frame[(frame.stages == d) & (frame.schedule == scheme)]
            axes.plot(
                rows.microbatches,
                rows.peak_gib,
                marker="o",
                color=COLORS[scheme],
                label=LABELS[scheme],
            )
        axes.set(title=f"D = {d}", xlabel="microbatches", ylabel="peak memory [GiB]")
        axes.set_yscale("log", base=2)
        over_microbatches(axes, sorted(set(frame.microbatches)))
        axes.legend()
    return {"figure5": made}


def figure5(
    stages: Sequence[int] = STAGES,
    microbatches: Sequence[int] = MICROBATCHES,
    settings: Sequence[str] = (),
) -> Study:
    """Peak memory over the number of microbatches; activations and persistent bytes separately."""
    keys = [(s, d, n) for d in stages for s in MEMORY_SCHEMES for n in microbatches]
    points = [
        setting.configuration(scheme, d, n, setting.costs("baseline", n, settings=tuple(settings)))
        for scheme, d, n in keys
    ]
    rows = [_memory_row(*key, point) for key, point in zip(keys, points, strict=True)]
    frame = pd.DataFrame(rows)
    lower = "; ".join(
        f"{row.schedule}, {row.convention}: {row.lower} of {row.sizes}"
        for row in lower_than_1f1b(frame).itertuples()
    )
    return Study(
        title=f"Figure 5: peak memory, in GiB{setting.changed_text(settings)}",
        frame=frame,
        basis=Basis(
            given=f"{_GIVEN}; no recomputation; Chimera lower than 1F1B",
            fitted="128 sequences per step; s b h (34 + 5 a s / h) bytes per block and 16 bytes per"
            " parameter are those of Korthikanti et al. and of Adam in mixed precision",
            open=f"the convention behind it. Sizes at which Chimera takes less than 1F1B - {lower}",
        ),
        draw=lambda: _draw_memory(frame, stages),
        passes=tuple(
            setting.passes_of(scheme, point)
            for (scheme, _, _), point in zip(keys, points, strict=True)
        ),
        digest=_wide(frame, ["schedule", "stages"], "peak_gib"),
    )
