"""The set-up of arXiv 2605.24006: its systems, its schedules, and its timing.

The model, its message sizes and the systems ship as descriptions; their sources distinguish given
and fitted values.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from pipesched import Configuration, Costs, FamilyOptions, Path, PipeSchedError, Simulation
from pipesched.costs.costs import NamedTimes, _looks_like_path, _times_text
from pipesched.costs.settings import both
from pipesched.support.options import Transport, pass_options

MODEL = "paper-gpt"
LAYERS = 128
BATCH = 128
"""Sequences per step."""

MESSAGE_BYTES = 2**29
"""Size of a message with microbatches of 16 sequences, that is, with eight microbatches."""

NETWORKS = COMPUTES = ("fast", "mid", "slow")
SYSTEMS = tuple(
    "baseline" if (network, compute) == ("mid", "mid") else f"{network}_nw_{compute}_cp"
    for network in NETWORKS
    for compute in COMPUTES
)
"""Network and compute each ten times as fast as in the baseline, equal, and ten times slower."""

Scheme = Literal["gpipe", "1f1b", "chimera", "hanayo", "chimera-units"]
"""Schedules by the rules of the paper: the greedy rule fills Chimera and Hanayo (two waves).
`chimera-units` is the construction of Li and Hoefler.
"""

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)[:4]

MessageVolume = Literal["scaled", "fixed"]
"""A message has the activations of its microbatch, or always the activations of 16 sequences."""

_SPLIT = FamilyOptions(split_backward=True, gradient_after="W")


def network_of(system: str) -> str:
    """The speed of the network: `fast`, `mid` or `slow`."""
    return "mid" if system == "baseline" else system.split("_")[0]


def compute_of(system: str) -> str:
    """The speed of compute: `fast`, `mid` or `slow`."""
    return "mid" if system == "baseline" else system.split("_")[2]


# Sizes


def microbatch_size(microbatches: int) -> int:
    """Sequences of each microbatch of a step; raises for numbers that do not divide it.

    >>> microbatch_size(8)
    16
    """
    if BATCH % microbatches == 0:
        return BATCH // microbatches
    divisors = [n for n in range(1, BATCH + 1) if BATCH % n == 0]
    below = [n for n in divisors if n < microbatches][-1:]
    above = [n for n in divisors if n > microbatches][:1]
    nearest = " and ".join(map(str, below + above))
    raise PipeSchedError(
        f"{microbatches} microbatches do not divide the {BATCH} sequences of a step;"
        f" the nearest that do: {nearest}"
    )


Settings = tuple[str, ...]
"""Changed fields of the system and the model, such as `network.bandwidth=0.5x`."""


@cache
def costs(
    system: str, microbatches: int, volume: MessageVolume = "scaled", settings: Settings = ()
) -> Costs:
    """Costs of the model on a system, with a step of that many microbatches."""
    model, changed = both(MODEL, system, settings)
    return Costs(
        model=model,
        system=changed,
        microbatch_size=microbatch_size(microbatches),
        boundary_bytes=MESSAGE_BYTES if volume == "fixed" else None,
        framework="none",
    )


def changed_text(settings: Sequence[str]) -> str:
    """Describes the differences from the paper, for titles."""
    return f", with {', '.join(settings)}" if settings else ""


# Schedules


def _wave(workers: int, waves: int = 2) -> list[int]:
    down = list(range(workers))
    return (down + down[::-1]) * waves


def configuration(
    scheme: Scheme, workers: int, microbatches: int, costs: Costs | None = None
) -> Configuration:
    """One schedule of the paper, under its transport.

    >>> configuration("chimera", 8, 16).simulate().table.slots
    65
    """
    down = range(workers)
    paths: Sequence[Path] | None = None
    if scheme == "chimera":
        paths = [Path(down), Path(down[::-1])]
    elif scheme == "hanayo":
        paths = [Path(_wave(workers))]
    return Configuration(
        {"chimera-units": "chimera"}.get(scheme, "greedy" if paths else scheme),
        workers,
        microbatches,
        FamilyOptions() if paths or scheme == "chimera-units" else _SPLIT,
        paths=paths,
        costs=costs,
        transport="blocking",
    )


# Time


@dataclass(frozen=True)
class Timed:
    """A timed step: its time, the load of the workers, and the report with charged hops."""

    runtime_ps: int
    busy_ps: int
    report: Simulation
    point: Configuration
    """Returns the schedule with its hops charged, as it was timed."""

    @property
    def runtime_s(self) -> float:
        return self.runtime_ps / 1e12

    @property
    def idle_percent(self) -> float:
        """Idle time of all workers; messages count as idle."""
        return 100 * (1 - self.busy_ps / (self.report.workers * self.runtime_ps))


def message_ps(costs: Costs, layers: int = LAYERS) -> int:
    """Time of one message between stages: a step of one microbatch on two workers has two."""
    paths = [Path([0, 1], blocks=[1, layers - 1])] if costs.model else None
    point = Configuration("gpipe", 2, 1, _SPLIT, paths, costs, transport="delay")
    execution = point.simulate().execution
    return (execution.makespan_ps - int(execution.busy_ps.sum())) // 2


def stage_times(report: Simulation) -> dict[str, list[int]]:
    """The times of F, I and W of every stage, in ps."""
    cells = report.to_frame()
    phases, stages = cells.phase.to_numpy(), cells.stage.to_numpy()
    lengths = (cells.end_ps - cells.start_ps).to_numpy()
    times = {phase: np.zeros(report.stages, dtype=np.int64) for phase in "FIW"}
    for phase, each in times.items():
        chosen = phases == phase
        each[stages[chosen]] = lengths[chosen]
    return {phase: each.tolist() for phase, each in times.items()}


def local_hops(workers: Sequence[int]) -> list[int]:
    """The stages whose next stage is on the same worker.

    >>> local_hops([0, 1, 1, 0, 0, 1, 1, 0])
    [1, 3, 5]
    """
    return [s for s, (here, after) in enumerate(pairwise(workers)) if here == after]


def charge_hops(point: Configuration, report: Simulation) -> Configuration:
    """The same times, with a message added for each stage whose next one is on the same worker.

    A send is in its row right after its cell, and holds the row. If the receive is in the same
    row it is free, so it is equivalent to lengthen the cell by the message.
    """
    assert point.costs is not None and point.paths is not None
    (path,) = point.paths
    message = message_ps(point.costs)
    times = stage_times(report)
    for stage in local_hops(path.workers if isinstance(path, Path) else path):
        times["F"][stage] += message
        times["W"][stage + 1] += message
    return replace(point, costs=Costs(times={**times, "comm": message}))


def simulate(point: Configuration) -> Timed:
    """Times one schedule by the rules of the paper: every hop of a microbatch is a message."""
    report = timed = point.simulate()
    if point.family == "greedy" and point.paths is not None and len(point.paths) == 1:
        point = charge_hops(point, report)
        timed = point.simulate()
    return Timed(timed.execution.makespan_ps, int(report.execution.busy_ps.sum()), report, point)


# The same as passes


def placing(scheme: Scheme) -> list[str]:
    """The passes that place the paths and fill the schedule."""
    return {
        "gpipe": ["pipe-schedule-gpipe{split-backward=true gradient-after=W}"],
        "1f1b": ["pipe-schedule-1f1b{split-backward=true gradient-after=W}"],
        "chimera": ["pipe-place-bidirectional", "pipe-schedule-greedy"],
        "hanayo": ["pipe-place-wave{waves=2}", "pipe-schedule-greedy"],
        "chimera-units": ["pipe-schedule-chimera"],
    }[scheme]


def command_line(passes: Sequence[str], transport: Transport = "blocking") -> str:
    """The command line from an empty module to the report."""
    pipeline = shlex.quote(f"builtin.module({','.join(passes)})")
    return (
        f"echo 'module {{}}' | pipesched-opt --pass-pipeline={pipeline}"
        f" | pipesched-translate --export-report --transport={transport}"
    )


def profile(times: NamedTimes) -> str:
    """The pass that attaches times."""
    return "pipe-attach-profile" + pass_options({"times": _times_text(times)})


def _attaching(costs: Costs) -> list[str]:
    if costs.times is not None:
        assert not isinstance(costs.times, (str, os.PathLike))
        return [profile(costs.times)]
    fixed = "" if costs.boundary_bytes is None else f" boundary-bytes={costs.boundary_bytes}"
    return [
        f"pipe-attach-model{{name={costs.model} microbatch-size={costs.microbatch_size}{fixed}}}",
        f"pipe-attach-system{{{'file' if _looks_like_path(str(costs.system)) else 'name'}"
        f"={costs.system}}}",
    ]


def passes_of(scheme: Scheme, point: Configuration) -> str:
    """A shell command line that generates and times a schedule of the paper."""
    created = f"pipe-create{{workers={point.workers} microbatches={point.microbatches}}}"
    attached = _attaching(point.costs) if point.costs else []
    return command_line([created, *placing(scheme), *attached])
