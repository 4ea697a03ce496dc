#!/usr/bin/env python3
"""Idle time at equal memory: the optimizer against the schedules that are known.

For each case (costs, workers, memory and the time of a copy) it times all known schedules that fit
the memory: 1F1B, interleaved 1F1B, ZB-H1, ZB-V, V-half, V-min, and each of them with activations
offloaded by rule (`pipe-add-offload`, all or half). The optimizer gets the same stages, times and
memory, starts from the best of these and may offload. The transport is `delay`.

Usage: .venv/bin/python benchmarks/optimize.py [--workers LIST] [--budgets LIST] ...
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pipesched
from pipesched import Optimization, PipeSchedError, Schedule

DATA = Path(__file__).parents[1] / "studies" / "data" / "zero_bubble_iclr24.json"
MODEL = "paper-gpt"
SYSTEMS = ("h100-sxm", "dgx-h100")
KNOWN = {
    "1f1b": "linear",
    "zb-h1": "linear",
    "interleaved-1f1b": "interleaved",
    "zb-v": "v",
    "v-half": "v",
    "v-min": "v",
}
"""Families and their placements."""
AHEAD = (1, 2, 4)
CHUNKS = {"linear": 1, "interleaved": 2, "v": 2}
PS_PER_MS = 10**9
FORMATS = ("grid", "json")


def paths(placement: str, workers: int) -> list[list[int]]:
    """The worker of each stage."""
    down = list(range(workers))
    second = {"linear": [], "interleaved": down, "v": down[::-1]}
    return [down + second[placement]]


# Costs of a case, and its memory


@dataclass(frozen=True)
class CaseCosts:
    """By stages per worker: passes that attach costs, the budget, and the number of activations
    that this is about.
    """

    attach: dict[int, str]
    memory: dict[int, int | str]
    activations: dict[int, int]


def activations(budget: float, workers: int, microbatches: int) -> dict[int, int]:
    """A share of the memory of 1F1B on its fullest worker, in activations, by stages per worker."""
    held = budget * min(workers, microbatches) + 1e-9
    return {chunks: max(1, int(held * chunks)) for chunks in (1, 2)}


class Profile:
    """Profiled times: one of the models of Qi et al. (arXiv 2401.10241), any number of workers.
    Memory is counted in activations of a stage; two stages on a worker have half of the times
    and half of the memory each.
    """

    def __init__(self, name: str, times: dict[str, float]) -> None:
        self.name = name
        self.times = {phase: round(ms * PS_PER_MS / 2) * 2 for phase, ms in times.items()}

    def make(self, workers: int, microbatches: int, budget: float, ratio: float) -> CaseCosts:
        copy = round(ratio * self.times["F"] / 2) * 2
        times = {**self.times, "D": copy, "U": copy}

        def attach(chunks: int) -> str:
            each = {name: t if name == "comm" else t // chunks for name, t in times.items()}
            listed = ",".join(f"{name}={time}ps" for name, time in each.items())
            return f"pipe-attach-profile{{times={listed}}}"

        held = activations(budget, workers, microbatches)
        return CaseCosts({chunks: attach(chunks) for chunks in (1, 2)}, {**held}, held)


class Modelled:
    """The model of Barley et al. (arXiv 2605.24006) on a system, with its embedding and head.
    Memory is in bytes: a share of the activations of 1F1B on its fullest worker in addition to the
    constant part. The bandwidth of the host link makes a copy as long as asked for.
    """

    def __init__(self, system: str, folder: Path) -> None:
        self.folder = folder
        self.name = f"{MODEL}/{system}"
        self.system: dict[str, Any] = pipesched.systems()[system]
        self.system.pop("sources", None)

    def make(self, workers: int, microbatches: int, budget: float, ratio: float) -> CaseCosts:
        def attach(system: str) -> str:
            model = f"pipe-attach-model{{name={MODEL} microbatch-size=1}}"
            return f"{model},pipe-attach-system{{{system}}}"

        made = pipesched.generate("1f1b", workers=workers, microbatches=microbatches)
        plain = made.transform(attach(f"name={self.system['name']}"))
        report = plain.simulate(transport="delay")
        copied = plain.transform("pipe-add-offload").simulate(transport="delay")
        assert report.memory is not None
        host = {**self.system["host"]}
        host["bandwidth_gb_per_s"] *= self._stretch(report, copied) / ratio
        host["latency_us"] = 0
        worker = int(report.memory.peak_bytes.argmax())
        always = int(report.memory.persistent_bytes[worker])
        held = int(report.memory.peak_bytes[worker]) - always
        file = self._written({**self.system, "host": host}, ratio, workers)
        return CaseCosts(
            dict.fromkeys((1, 2), attach(f"file={file}")),
            dict.fromkeys((1, 2), f"{always + int(budget * held)}B"),
            activations(budget, workers, microbatches),
        )

    def _stretch(self, report: Any, copied: Any) -> float:
        """Time of a copy on worker 0, which offloads most, divided by the time of its F."""
        cells = copied.to_frame()
        own = cells[cells.worker == 0]
        mean = {
            phase: float((rows.end_ps - rows.start_ps).mean())
            for phase, rows in own.groupby("phase")
        }
        latency = float(self.system["host"]["latency_us"]) * 10**6
        return (mean["D"] - latency) / mean["F"]

    def _written(self, system: dict[str, Any], ratio: float, workers: int) -> Path:
        file = self.folder / f"{system['name']}-{workers}-{ratio}.json"
        file.write_text(json.dumps(system))
        return file


Costs = Profile | Modelled


def all_costs(folder: Path) -> dict[str, Costs]:
    """All costs by name. Profiled models use the times of their first row."""
    models = [Modelled(system, folder) for system in SYSTEMS]
    costs: dict[str, Costs] = {modelled.name: modelled for modelled in models}
    for row in json.loads(DATA.read_text())["rows"]:
        costs.setdefault(row["model"], Profile(row["model"], row["profiled_ms"]))
    return costs


# One case


@dataclass(frozen=True)
class Case:
    """One choice of costs, sizes, memory and copies."""

    costs: Costs
    workers: int
    microbatches: int
    budget: float
    copy_ratio: float

    @cached_property
    def case_costs(self) -> CaseCosts:
        """Costs and memory of its schedules."""
        return self.costs.make(self.workers, self.microbatches, self.budget, self.copy_ratio)


@dataclass(frozen=True)
class Timed:
    """A schedule that fits. `idle` is the idle share of all workers' time until the last one
    ends.
    """

    name: str
    placement: str
    schedule: Schedule
    makespan_ps: int
    idle_ratio: float


@dataclass(frozen=True)
class Row:
    """A line of the table. `saved` is the share of the best known idle time that is avoided."""

    costs: str
    workers: int
    microbatches: int
    budget: float
    copy_ratio: float
    fitting: list[str]
    best_known: str | None
    best_known_idle: float | None
    optimized: str | None
    optimized_idle: float | None
    gap: float | None
    status: str | None
    origin: str | None
    """The method that found it; `schedule` if it comes from the known schedule."""
    saved: float | None
    step_saved: float | None


def offloads(activations: int, allowed: bool) -> Iterator[tuple[str, str]]:
    """No offload, and each rule: half or all, reloaded more or less ahead, waiting or not."""
    yield "", ""
    if not allowed:
        return
    for amount in ("half", "all"):
        for ahead in AHEAD:
            for waits in ("", f" memory={activations}"):
                options = f"amount={amount} ahead={ahead}{waits}"
                yield f" + offload {amount}", f"pipe-add-offload{{{options}}}"


def known(case: Case, offload: bool) -> list[Timed]:
    """All schedules that fit, fastest first, with only the best of each amount for the offloading
    rules. A family without a table at this size is skipped.
    """
    found: dict[str, Timed] = {}
    for family, placement in KNOWN.items():
        chunks = CHUNKS[placement]
        options: Any = {"chunks": chunks} if placement == "interleaved" else {}
        sizes: Any = {"workers": case.workers, "microbatches": case.microbatches}
        try:
            made = pipesched.generate(family, **sizes, **options)
        except PipeSchedError:
            continue
        made = made.transform(case.case_costs.attach[chunks])
        for suffix, passes in offloads(case.case_costs.activations[chunks], offload):
            try:
                schedule = made.transform(passes) if passes else made
                schedule.verify(
                    memory=case.case_costs.memory[chunks], memory_times="given", transport="delay"
                )
            except PipeSchedError:
                continue
            new = timed(family + suffix, placement, schedule)
            if new.name not in found or new.makespan_ps < found[new.name].makespan_ps:
                found[new.name] = new
    return sorted(found.values(), key=lambda t: (t.makespan_ps, t.name))


def timed(name: str, placement: str, schedule: Schedule) -> Timed:
    """Times a schedule."""
    execution = schedule.simulate(transport="delay").execution
    return Timed(name, placement, schedule, execution.makespan_ps, execution.idle_ratio)


def start(case: Case, placement: str, fitting: Sequence[Timed]) -> Schedule:
    """The fastest known schedule on the placement, or a schedule without rows."""
    for known_one in fitting:
        if known_one.placement == placement:
            return known_one.schedule
    made = pipesched.problem(
        workers=case.workers, microbatches=case.microbatches, paths=paths(placement, case.workers)
    )
    return made.transform(case.case_costs.attach[CHUNKS[placement]])


def optimized(
    case: Case, fitting: Sequence[Timed], arguments: argparse.Namespace
) -> tuple[Timed, Optimization] | None:
    """The best result on any of the placements, which share the time."""
    best: tuple[Timed, Optimization] | None = None
    for placement in arguments.placements:
        chunks = CHUNKS[placement]
        try:
            found = start(case, placement, fitting).optimize(
                memory=case.case_costs.memory[chunks],
                memory_times="given",
                offload=arguments.offload,
                explain=False,
                time_limit=arguments.time_limit / len(arguments.placements),
                threads=arguments.threads,
                max_evaluations=arguments.max_evaluations,
            )
        except PipeSchedError as error:
            say(f"{placement}: {str(error).splitlines()[0]}")
            continue
        ours = timed("optimized", placement, found.schedule)
        if best is None or ours.makespan_ps < best[0].makespan_ps:
            best = ours, found
    return best


def measure(case: Case, arguments: argparse.Namespace) -> Row:
    fitting = known(case, arguments.offload)
    best = fitting[0] if fitting else None
    found = optimized(case, fitting, arguments)
    saved = step_saved = None
    if best and found:
        saved = 1 - found[0].idle_ratio / best.idle_ratio if best.idle_ratio else 0.0
        step_saved = 1 - found[0].makespan_ps / best.makespan_ps
    return Row(
        costs=case.costs.name,
        workers=case.workers,
        microbatches=case.microbatches,
        budget=case.budget,
        copy_ratio=case.copy_ratio,
        fitting=[t.name for t in fitting],
        best_known=best.name if best else None,
        best_known_idle=best.idle_ratio if best else None,
        optimized=found[0].placement if found else None,
        optimized_idle=found[0].idle_ratio if found else None,
        gap=found[1].gap if found else None,
        status=found[1].status if found else None,
        origin=found[1].origin if found else None,
        saved=saved,
        step_saved=step_saved,
    )


# The tables


def grids(rows: Sequence[Row]) -> Iterator[str]:
    """For each costs and workers, idle times (known, optimized) by memory and time of a copy."""
    tables: dict[tuple[str, int, int], dict[tuple[float, float], Row]] = {}
    for row in rows:
        table = tables.setdefault((row.costs, row.workers, row.microbatches), {})
        table[row.budget, row.copy_ratio] = row
    for (costs, workers, microbatches), table in tables.items():
        budgets, ratios = (list(dict.fromkeys(values)) for values in zip(*table, strict=True))
        yield ""
        yield f"{costs}, {workers} workers, {microbatches} microbatches:"
        yield ""
        yield line(["memory", *(f"copy {ratio:g} F" for ratio in ratios)])
        yield line(["---"] * (1 + len(ratios)))
        for budget in budgets:
            cells = (pair(table.get((budget, ratio))) for ratio in ratios)
            yield line([f"{budget:.2f}", *cells])


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """How much of the idle time the optimizer saves, in cases where a known schedule fits."""
    tight = [row for row in rows if row.copy_ratio >= 2 and row.budget < 1]
    chosen = {"all": rows, "copies of 2 F or more, memory below that of 1F1B": tight}
    yield ""
    for name, some in chosen.items():
        saved = [100 * row.saved for row in some if row.saved is not None]
        proven = sum(row.status == "optimal" for row in some)
        if saved:
            yield (
                f"{name}: {len(saved)} cases, {min(saved):.1f} to {max(saved):.1f} % less idle, "
                f"{median(saved):.1f} % in the median; {proven} proven optimal"
            )


def pair(row: Row | None) -> str:
    if row is None:
        return "-"

    def share(value: float | None) -> str:
        return "none" if value is None else f"{100 * value:.1f}"

    return f"{share(row.best_known_idle)} > {share(row.optimized_idle)}"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def line(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def numbers(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not all(0 < number < 1000 for number in found):
        raise argparse.ArgumentTypeError(f"expected numbers above 0 and below 1000, found {text}")
    return found


def positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, found {text}")
    return int(text)


def integers(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    return text.split(",")


def read_arguments(known_costs: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--costs", type=names, default=list(known_costs), metavar="LIST")
    parser.add_argument("--workers", type=integers, default=[4, 8, 16], metavar="LIST")
    parser.add_argument(
        "--microbatches", type=positive, default=3, metavar="K", help="per worker; 3 by default"
    )
    parser.add_argument(
        "--budgets",
        type=numbers,
        default=[1 / 3, 0.5, 2 / 3, 1, 4 / 3, 2],
        metavar="LIST",
        help="memory for activations, as shares of that of 1F1B",
    )
    parser.add_argument(
        "--copy-ratios",
        type=numbers,
        default=[0.5, 1, 2, 4],
        metavar="LIST",
        help="time of a copy over that of F",
    )
    parser.add_argument(
        "--placements", type=names, default=list(CHUNKS), metavar="LIST", help="of the optimizer"
    )
    parser.add_argument(
        "--without-offload",
        dest="offload",
        action="store_false",
        help="nothing goes to the host, neither of the known schedules nor of the optimizer's",
    )
    parser.add_argument("--time-limit", type=float, default=20, metavar="SECONDS", help="per case")
    parser.add_argument(
        "--max-evaluations", type=int, default=0, metavar="N", help="per placement; 0: no limit"
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, default="grid")
    parser.add_argument(
        "--rows",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="show what --format json has written before",
    )
    arguments = parser.parse_args()
    for option, choices in (("costs", known_costs), ("placements", tuple(CHUNKS))):
        for name in getattr(arguments, option):
            if name not in choices:
                parser.error(f"--{option}: expected some of {', '.join(choices)}, found {name!r}")
    return arguments


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        costs = all_costs(Path(folder))
        arguments = read_arguments(list(costs))
        try:
            show(arguments.format, read_rows(arguments.rows) or run(costs, arguments))
        except (PipeSchedError, OSError, ValueError, TypeError) as error:
            sys.exit(f"optimize.py: {error}")


def read_rows(files: Sequence[Path] | None) -> list[Row]:
    return [Row(**row) for file in files or () for row in json.loads(file.read_text())]


def run(costs: dict[str, Costs], arguments: argparse.Namespace) -> Iterator[Row]:
    cases = [
        Case(costs[name], workers, arguments.microbatches * workers, budget, ratio)
        for name in arguments.costs
        for workers in arguments.workers
        for budget in arguments.budgets
        for ratio in arguments.copy_ratios
    ]
    for index, case in enumerate(cases, start=1):
        say(f"{index} of {len(cases)}")
        yield measure(case, arguments)


def show(layout: str, rows: Iterable[Row]) -> None:
    """Prints the rows as JSON, or as tables with a summary."""
    made = list(rows)
    if layout == "json":
        print(json.dumps([asdict(row) for row in made], indent=1))
    else:
        print(*grids(made), *summary(made), sep="\n")


if __name__ == "__main__":
    main()
