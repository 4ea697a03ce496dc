"""Schedules of slices: SlimPipe's memory and bubble, and a measured step of Seq1F1B."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Simulation
from pipesched.paper import Basis, Study

from .study import GIB, data, plain_costs
from .study import row as compared

SYSTEM = "h100-sxm"


def _slimpipe() -> list[dict[str, Any]]:
    """Bubble from the table; activations as table and costs count them. The publication counts
    whole activations of slices, ours also the gradients of keys and values that the first backward
    of a microbatch leaves.
    """
    row = data("slices.json")["slimpipe"]
    workers, ranks = row["workers"], row["ranks_per_stage"]
    made = pipesched.generate(
        "slimpipe",
        workers=workers,
        microbatches=row["microbatches"],
        chunks=row["chunks"],
        slices=row["slices"],
    )
    costs = plain_costs(model=row["model"], system=SYSTEM, microbatch_size=1, accelerators=ranks)
    report = made.simulate(costs)
    assert report.memory is not None and report.table is not None
    stages = workers * row["chunks"]
    alone = pipesched.generate("gpipe", workers=stages, microbatches=1).simulate(costs)
    assert alone.memory is not None
    # A stage in the middle has only layers, and holds one whole microbatch.
    whole = float(alone.memory.peak_activation_bytes[stages // 2])
    held = float(report.table.peak_activations.max()) / row["slices"] * whole
    peak = float(report.memory.peak_activation_bytes.max())
    case = f"Llama 13B, {workers} stages, {row['slices']} slices"
    counted = [
        ("bubble [%]", row["bubble_percent"], 100 * report.table.bubble_ratio),
        ("activations of slices [GiB]", row["activations_gib"], held / ranks / GIB),
        ("with gradients of keys and values [GiB]", None, peak / ranks / GIB),
    ]
    return [compared("2504.14519", case, *each) for each in counted]


def _costs_of(row: dict[str, Any], recompute: Any) -> Costs:
    """The costs of a row of Seq1F1B, with slices of equal compute."""
    return plain_costs(
        model=row["model"],
        system=SYSTEM,
        sequence=row["sequence"],
        microbatch_size=1,
        accelerators=1,
        recompute=recompute,
        slice_cut="work",
    )


def _seq1f1b() -> list[dict[str, Any]]:
    """Steps of Seq1F1B alongside 1F1B. Slices are cut by equal compute, as its authors do, and
    everything is recomputed.
    """
    row = data("slices.json")["seq1f1b"]
    costs = _costs_of(row, "full")

    def report(family: str, microbatches: int, slices: int = 1) -> Simulation:
        options = FamilyOptions(slices=slices) if slices > 1 else FamilyOptions()
        made = Configuration(family, row["workers"], microbatches, options).generate()
        return made.transform("pipe-add-recompute").simulate(costs)

    published = row["step_ms"]["seq1f1b"] / row["step_ms"]["1f1b"]
    rows = []
    for microbatches in row["microbatches"]:
        whole, sliced = (
            report("1f1b", microbatches),
            report("seq1f1b", microbatches, row["slices"]),
        )
        case = f"Qwen3 4B, {row['slices']} slices, {microbatches} microbatches"
        found = sliced.execution.makespan_ps / whole.execution.makespan_ps
        rows.append(compared("MindSpeed-LLM", case, "step to 1F1B's", published, found))
    return rows


def _seq1f1b_memory() -> list[dict[str, Any]]:
    """Memory of the first device. Each stage recomputes some of its layers, and the source does not
    say how many: this follows from the memory of 1F1B, and then gives the memory of Seq1F1B.
    Tensors that forwards keep add up over layers, so that numbers between none and all lie on a
    line.
    """
    row = data("slices.json")["seq1f1b"]
    most, mega = row["layers_of_first_stage"], 1e6

    def peak(family: str, recompute: Any, options: FamilyOptions) -> float:
        made = Configuration(family, row["workers"], row["microbatches"][-1], options).generate()
        memory = made.simulate(_costs_of(row, recompute)).memory
        assert memory is not None
        return float(memory.peak_bytes[0])

    ends: list[tuple[float, float]] = [
        (peak("1f1b", kind, {}), peak("seq1f1b", kind, {"slices": row["slices"]}))
        for kind in ("none", "full")
    ]
    measured = row["memory_mb"]
    rows = []
    for count in range(most + 1):
        whole, sliced = (
            none + count / most * (every - none) for none, every in zip(*ends, strict=True)
        )
        case = f"Qwen3 4B, {row['slices']} slices, {count} of {most} layers recomputed"
        given = measured["1f1b"] / 1000
        ours = whole / mega / 1000
        rows.append(compared("MindSpeed-LLM", case, "memory of 1F1B [GB]", given, ours))
        given = measured["seq1f1b"] / measured["1f1b"]
        rows.append(compared("MindSpeed-LLM", case, "memory to 1F1B's", given, sliced / whole))
    return rows


def slices() -> Study:
    """Published numbers of schedules of slices, alongside ours.

    >>> frame = slices().frame.set_index("quantity")
    >>> round(float(frame.ours["bubble [%]"]), 2)
    1.08
    >>> round(float(frame.ours["activations of slices [GiB]"]), 2)
    29.59
    """
    frame = pd.DataFrame([*_slimpipe(), *_seq1f1b(), *_seq1f1b_memory()])
    return Study(
        title="Schedules of slices: SlimPipe and Seq1F1B",
        frame=frame,
        basis=Basis(
            given="sizes, slices, chunks; SlimPipe's numbers are computed, those of Seq1F1B are"
            " measured on other hardware, so that only ratios are compared",
            fitted="nothing",
            open="the number of microbatches of the Seq1F1B row, three are shown, and in how many"
            " layers of a stage it recomputes, all are shown: 1F1B's own memory is nearest with 2",
        ),
    )
