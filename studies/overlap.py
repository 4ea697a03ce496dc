"""Steps with and without Megatron's overlap of the experts' exchanges, measured and predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pipesched
from pipesched import Configuration, Costs, Pair
from pipesched.paper import Basis, Study

from .study import data, row

WITHIN = 0.10
"""How far a ratio may be off to be met."""

DELAYED = "and W delayed"


def published() -> dict[str, Any]:
    """The measurements."""
    return data("overlap.json")


def contention() -> float:
    """The slowdown of compute on the multiprocessors that exchanges leave, to a hundredth.

    >>> contention()
    1.18
    """
    found = published()["contention"]
    every, taken = int(found["multiprocessors"]), int(found["of_exchanges"])
    return round(every / (every - taken), 2)


def costs(run: Mapping[str, Any]) -> Costs:
    """The costs of a run: no pipeline, no tensor parallelism, the experts over all accelerators."""
    sizes = published()
    return Costs(
        framework="none",
        model=sizes["model"],
        system=sizes["system"],
        sequence=sizes["sequence"],
        microbatch_size=1,
        accelerators=1,
        data_parallel=sizes["gpus"],
        expert_parallel=sizes["gpus"],
        expert_dispatch=run["dispatch"],
        kernel_launch=run["launch"],
        sharding="optimizer",
        attention="cudnn",
        parameter_bytes=(2, 4, 12),
    )


def step_ps(run: Mapping[str, Any]) -> int:
    """The step without overlap."""
    microbatches = published()["batch"] // published()["gpus"]
    made = Configuration("1f1b", 1, microbatches, costs=costs(run), optimizer_step="overlapped")
    return made.simulate().execution.makespan_ps


def overlapped_ps(run: Mapping[str, Any], *, delays: bool, factor: float) -> tuple[int, Pair]:
    """The step with overlap, and its pair. With n microbatches, n - 1 forwards run during the
    backward of the microbatch before; the first forward and the last backward overlap with nothing.
    """
    microbatches = published()["batch"] // published()["gpus"]
    pair = pipesched.overlap(
        costs=costs(run), order="megatron", whole_backward=not delays, contention=factor
    )
    alone = pair.forward_ps + pair.backward_ps
    saved = (microbatches - 1) * (pair.in_turn_ps - pair.pair_ps) + pair.in_turn_ps - alone
    return step_ps(run) - saved, pair


def _rows() -> Iterator[dict[str, Any]]:
    for run in published()["runs"]:
        source, case, plain = run["source"], run["case"], step_ps(run)
        yield row(source, case, "step [s]", run["plain_s"], plain / 1e12)
        for name, measured in run["overlapped_s"].items():
            ours, _ = overlapped_ps(run, delays=name == DELAYED, factor=contention())
            yield row(source, case, f"step, {name} [s]", measured, ours / 1e12)
            yield row(source, case, f"ratio, {name}", measured / run["plain_s"], ours / plain)


def overlap() -> Study:
    """Published steps with and without overlap, alongside ours.

    >>> frame = overlap().frame
    >>> frame[frame.quantity.str.startswith("ratio")].verdict.unique().tolist()
    ['met']
    """
    frame = pd.DataFrame(_rows())
    is_met = frame.error_percent.abs() <= 100 * WITHIN
    frame["verdict"] = is_met.map({True: "met", False: "not met"})
    free = {
        run["case"]: overlapped_ps(run, delays=False, factor=1.0)[0] / step_ps(run)
        for run in published()["runs"]
    }
    ideal = ", ".join(f"{case} {ratio:.2f}" for case, ratio in free.items())
    return Study(
        title=f"Exchanges of experts behind another microbatch: ratios within {WITHIN:.0%} are met",
        frame=frame,
        basis=Basis(
            given=f"sizes, dispatchers, launches; contention {contention():g} of compute, from the"
            " multiprocessors that exchanges take (arXiv 2412.19437)",
            fitted="nothing to these rows; the system is fitted to others",
            open="whether the first run has a pipeline, none here; the steps themselves, since our"
            " costs lack what both runs had beside layers, such as permutations that are not fused;"
            " what the all-to-all of NCCL takes of compute is not stated; without contention the"
            f" ratios would be {ideal}",
        ),
    )
