#!/usr/bin/env python3
"""A general solver beside the optimizer: CP-SAT of OR-tools on the same instances.

States the problem of docs/Optimize.md as a constraint program: a start for each cell, one cell at a
time per worker and copy queue, memory as a cumulative resource, and a choice for each stage and
microbatch to keep, offload or recompute the activation. Both solvers get the same threads and
(unless --cpsat-time-limit says otherwise) the same time, one after the other. Every answer of
either is checked by utils/verify-optimized.py, which shares no code with either, and the optimizer
times the rows of CP-SAT again (`--start`).

CP-SAT is optional: `pip install ortools`. Without it, `--solvers ours` still runs.

Usage: benchmarks/optimize_cpsat.py [INSTANCE.json ...] [--make KIND:WORKERS:MICROBATCHES:SEED ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
KINDS = ("offload", "recompute", "both", "order")
FORM = "KIND:WORKERS:MICROBATCHES:SEED[:uneven][:period]"
SOLVERS = ("cpsat", "ours")
Instance = dict[str, Any]
Answer = dict[str, Any]
Time = tuple[str, int, int, int]
"""Of a cell, by phase, stage and microbatch: its start or its end."""
START, END = 0, 1


# Instances


def make_instance(spec: str) -> Instance:
    """An instance with half of the memory that 1F1B needs, from
    kind:workers:microbatches:seed. An F takes 100 ticks, an I 100 to 140, a W 60 to 100, a copy 200
    to 400 on one or two queues, an R 100; a checkpoint is a tenth of an activation. `:uneven` at
    the end makes all times of a stage up to 5 % longer or shorter, `:period` asks for the period.
    """
    kind, workers_text, microbatches, seed, *more = spec.split(":")
    workers = int(workers_text)
    if kind not in KINDS or not {"uneven", "period"}.issuperset(more):
        raise ValueError(f"--make: {spec!r} is not of the form {FORM}")
    draw = random.Random(f"{workers}:{microbatches}:{seed}")
    times = [100, draw.randint(100, 140), draw.randint(60, 100)]
    scales = [draw.randint(95, 105) if "uneven" in more else 100 for _ in range(workers)]
    each = [[time * scale // 100 for scale in scales] for time in times]
    copy, queues = draw.randint(200, 400), draw.choice((1, 2))
    offload = {"D": copy, "U": copy, "queues": queues} if kind in ("offload", "both") else None
    recompute = {"R": 100, "checkpoint": 1} if kind in ("recompute", "both") else None
    return {
        "name": spec.replace(":", "-"),
        "workers": workers,
        "microbatches": int(microbatches),
        "stages": workers,
        "path": list(range(workers)),
        "duration": dict(zip("FIW", each, strict=True)),
        "message_delay": 5,
        "memory": {
            "stage_activation": [10] * workers,
            "freed_by_I": [0] * workers,
            "capacity": [10 * max(1, workers // 2)] * workers,
        },
        "offload": offload,
        "recompute": recompute,
        "objective": "period" if "period" in more else "makespan",
    }


# The constraint program


class Model:
    """The constraint program of one instance, for memory at the given times."""

    def __init__(self, instance: Instance, in_order: bool) -> None:
        from ortools.sat.python import cp_model  # type: ignore[import-not-found]

        self.instance = instance
        self.model = cp_model.CpModel()
        self.horizon = self._longest()
        self.path: list[int] = instance["path"]
        self.count: int = instance["microbatches"]
        self.cells: dict[tuple[str, int, int], Any] = {}
        """By phase, stage and microbatch: start, end, and whether it is there."""
        workers = range(instance["workers"])
        self.queues: dict[tuple[int, str], list[Any]] = {}
        self.held: dict[int, list[tuple[Any, int]]] = {worker: [] for worker in workers}
        self.kept: dict[tuple[int, int], Any] = {}
        """By stage and microbatch: whether the activation stays."""
        self.sizes: list[tuple[Any, Time, Time]] = []
        """How long memory is held: the variable, and the two times."""
        for stage in range(len(self.path)):
            for microbatch in range(self.count):
                self._add(stage, microbatch)
        self._order(in_order)
        self._messages()
        for queue in self.queues.values():
            self.model.add_no_overlap(queue)
        for worker, held in self.held.items():
            self.model.add_cumulative(
                [interval for interval, _ in held],
                [amount for _, amount in held],
                instance["memory"]["capacity"][worker],
            )
        self._minimize()

    def _longest(self) -> int:
        """The time of a schedule that does one thing after the other."""
        instance = self.instance
        extra = sum((instance["offload"] or {}).get(phase, 0) for phase in "DU")
        extra += (instance["recompute"] or {}).get("R", 0) + 2 * instance["message_delay"]
        stages = sum(map(sum, instance["duration"].values())) + extra * len(instance["path"])
        return int(stages * instance["microbatches"])

    def _cell(self, phase: str, stage: int, microbatch: int, ticks: int, here: Any = None) -> Any:
        """Adds a cell to its queue; it may be absent if `here` is given."""
        name = f"{stage}{phase}{microbatch}"
        start = self.model.new_int_var(0, self.horizon - ticks, name)
        end = start + ticks
        if here is None:
            interval = self.model.new_fixed_size_interval_var(start, ticks, name)
        else:
            interval = self.model.new_optional_fixed_size_interval_var(start, ticks, here, name)
        queue = phase if phase in "DU" else "compute"
        if phase in "DU" and self.instance["offload"]["queues"] == 1:
            queue = "copies"
        self.queues.setdefault((self.path[stage], queue), []).append(interval)
        self.cells[phase, stage, microbatch] = (start, end, here)
        return start, end

    def _at(self, time: Time) -> Any:
        """The variable of a time."""
        phase, stage, microbatch, side = time
        return self.cells[phase, stage, microbatch][side]

    def _hold(self, amount: int, begin: Time, end: Time, here: Any = None) -> None:
        """Memory of a stage from one time to another."""
        if amount == 0:
            return
        size = self.model.new_int_var(0, self.horizon, "")
        times = (self._at(begin), size, self._at(end))
        if here is None:
            interval = self.model.new_interval_var(*times, "")
        else:
            interval = self.model.new_optional_interval_var(*times, here, "")
        self.held[self.path[begin[1]]].append((interval, amount))
        self.sizes.append((size, begin, end))

    def _add(self, stage: int, microbatch: int) -> None:
        """The cells of a stage and microbatch, and the memory that they hold."""
        instance, model = self.instance, self.model
        at = (stage, microbatch)
        for phase in "FIW":
            self._cell(phase, *at, instance["duration"][phase][stage])
        self._follow(("F", *at), ("I", *at))
        self._follow(("I", *at), ("W", *at))
        whole = instance["memory"]["stage_activation"][stage]
        freed = instance["memory"]["freed_by_I"][stage]
        until: Time = ("I" if freed else "W", *at, END)
        if freed < 0:
            self._hold(-freed, ("I", *at, START), ("I", *at, END))
        if freed:
            self._hold(whole - freed, ("I", *at, END), ("W", *at, END))
        choices = [model.new_bool_var("")]
        if instance["offload"]:
            choices.append(self._add_copies(at, until, whole))
        if instance["recompute"]:
            choices.append(self._add_recompute(at, until, whole))
        model.add_exactly_one(choices)
        self.kept[at] = choices[0]
        self._hold(whole, ("F", *at, START), until, choices[0])

    def _follow(self, before: tuple[str, int, int], after: tuple[str, int, int]) -> None:
        """One cell after the other, if both are there."""
        constraint = self.model.add(self._at((*after, START)) >= self._at((*before, END)))
        for cell in (before, after):
            if (here := self.cells[cell][2]) is not None:
                constraint.only_enforce_if(here)

    def _add_copies(self, at: tuple[int, int], until: Time, whole: int) -> Any:
        out = self.model.new_bool_var("")
        for phase in "DU":
            self._cell(phase, *at, self.instance["offload"][phase], out)
        for before, after in ("FD", "DU", "UI"):
            self._follow((before, *at), (after, *at))
        self._hold(whole, ("F", *at, START), ("D", *at, END), out)
        self._hold(whole, ("U", *at, START), until, out)
        return out

    def _add_recompute(self, at: tuple[int, int], until: Time, whole: int) -> Any:
        again = self.model.new_bool_var("")
        self._cell("R", *at, self.instance["recompute"]["R"], again)
        for before, after in ("FR", "RI"):
            self._follow((before, *at), (after, *at))
        kept = self.instance["recompute"]["checkpoint"]
        self._hold(whole, ("F", *at, START), ("F", *at, END), again)
        self._hold(kept, ("F", *at, END), ("R", *at, START), again)
        self._hold(whole, ("R", *at, START), until, again)
        return again

    def _order(self, in_order: bool) -> None:
        """Microbatches are alike, so their F on the first stage may be taken in order. Without
        copies and recompute all cells may; with them that is a restriction.
        """
        extras = self.instance["offload"] or self.instance["recompute"]
        everywhere = in_order or not extras
        for stage in range(len(self.path) if everywhere else 1):
            for phase in "FIW" if everywhere else "F":
                for microbatch in range(1, self.count):
                    before = self.cells[phase, stage, microbatch - 1]
                    self.model.add(self.cells[phase, stage, microbatch][0] >= before[1])

    def _messages(self) -> None:
        for stage in range(1, len(self.path)):
            is_remote = self.path[stage] != self.path[stage - 1]
            delay = self.instance["message_delay"] if is_remote else 0
            for microbatch in range(self.count):
                for phase, giver, taker in (("F", stage - 1, stage), ("I", stage, stage - 1)):
                    end = self.cells[phase, giver, microbatch][1]
                    self.model.add(self.cells[phase, taker, microbatch][0] >= end + delay)

    def _minimize(self) -> None:
        model = self.model
        self.objective = objective = model.new_int_var(0, self.horizon, "objective")
        period = self.instance["objective"] == "period"
        begins = {
            worker: model.new_int_var(0, self.horizon, "") if period else 0 for worker in self.held
        }
        for (_, stage, _), (start, end, here) in self.cells.items():
            # D and U stand between cells of compute.
            if here is None:
                begin = begins[self.path[stage]]
                model.add(objective >= end - begin)
                if period:
                    model.add(begin <= start)
        model.minimize(objective)

    def hint(self, answer: Answer) -> None:
        """Begins with an answer."""
        known = {(phase, s, m): (start, end) for phase, s, m, _, start, end in answer["cells"]}
        for cell, (start, _, here) in self.cells.items():
            self.model.add_hint(start, known.get(cell, (0, 0))[START])
            if here is not None and cell[0] != "U":  # D and U share the variable
                self.model.add_hint(here, cell in known)
        for at, kept in self.kept.items():
            self.model.add_hint(kept, not any((phase, *at) in known for phase in "DR"))
        for size, begin, end in self.sizes:
            there = begin[:3] in known and end[:3] in known
            ticks = known[end[:3]][end[3]] - known[begin[:3]][begin[3]] if there else 0
            self.model.add_hint(size, ticks)
        self.model.add_hint(self.objective, answer[self.instance["objective"]])

    def solve(self, arguments: argparse.Namespace) -> Answer | None:
        """The answer in our form, or nothing if no schedule was found."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = arguments.cpsat_time_limit
        solver.parameters.num_workers = arguments.threads
        solver.parameters.random_seed = arguments.seed
        solver.parameters.log_search_progress = arguments.log
        began = time.monotonic()
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        cells = [
            [phase, s, m, self.path[s], solver.value(start), solver.value(end)]
            for (phase, s, m), (start, end, here) in self.cells.items()
            if here is None or solver.value(here)
        ]
        cells.sort(key=lambda cell: (cell[3], cell[4], cell[5]))
        return {
            "name": self.instance["name"],
            self.instance["objective"]: round(solver.objective_value),
            "makespan": max(cell[5] for cell in cells),
            "lower_bound": round(solver.best_objective_bound),
            "status": "optimal" if status == cp_model.OPTIMAL else "time_limit",
            "seconds": round(time.monotonic() - began, 3),
            "cells": cells,
        }


# Runs


@dataclass(frozen=True)
class Row:
    """What one solver found of one instance."""

    name: str
    solver: str
    time_limit: float
    threads: int
    found: int | None
    """The objective of the answer, in ticks."""
    lower_bound: int | None
    status: str
    seconds: float
    cpu_seconds: float
    """Of all its threads: on a busy machine they get less than the time that passes."""
    retimed: int | None = None
    """Of CP-SAT: the objective when the optimizer times the rows of the answer, each cell as early
    as it can; nothing where a known family is better still.
    """


def load_checker() -> Callable[[Instance, Answer], Any]:
    """The independent check of answers."""
    spec = importlib.util.spec_from_file_location(
        "verify_optimized", ROOT / "utils" / "verify-optimized.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    checker: Callable[[Instance, Answer], Any] = module.Checker
    return checker


def optimizer(instance: Path, answer: Path, options: Sequence[str], tool: Path) -> Answer:
    """Runs pipesched-optimize and reads the answer."""
    subprocess.run([tool, instance, "-o", answer, *options], check=True, capture_output=True)
    made: Answer = json.loads(answer.read_text())
    return made


class Runner:
    """Runs both solvers, and checks what they find."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.folder = folder
        self.checker = load_checker()

    def run(self, instance: Instance, file: Path) -> Iterator[Row]:
        ours: Answer | None = None
        if "ours" in self.arguments.solvers or self.arguments.hint:
            limits = [
                f"--time-limit={self.arguments.time_limit}",
                f"--threads={self.arguments.threads}",
                f"--seed={self.arguments.seed}",
            ]
            answer = self.folder / f"{instance['name']}.ours.json"
            began = time.monotonic(), cpu_of_children()
            ours = optimizer(file, answer, limits, self.arguments.tool)
            spent = time.monotonic() - began[0], cpu_of_children() - began[1]
            yield self.row("ours", instance, ours, spent)
        if "cpsat" in self.arguments.solvers:
            model = Model(instance, self.arguments.in_order)
            if self.arguments.hint and ours:
                model.hint(ours)
            began = time.monotonic(), time.process_time()
            found = model.solve(self.arguments)
            spent = time.monotonic() - began[0], time.process_time() - began[1]
            yield self.row("cpsat", instance, found, spent, file)

    def retime(self, answer: Answer, instance: Path) -> int | None:
        """The objective of the rows of an answer; nothing if a known family is better."""
        start = self.folder / f"{answer['name']}.cpsat.json"
        start.write_text(json.dumps(answer))
        command = [self.arguments.tool, instance, "--time-limit=0", "--format=json"]
        made = subprocess.run(
            [*command, f"--start={start}"], check=True, capture_output=True, text=True
        )
        (found,) = json.loads(made.stdout)
        is_ours = found["best_static_name"] != "the schedule to start from"
        return None if is_ours else int(found["best_static"])

    def row(
        self,
        solver: str,
        instance: Instance,
        answer: Answer | None,
        spent: tuple[float, float],
        file: Path | None = None,
    ) -> Row:
        """Checks an answer; of CP-SAT, times its rows again from `file`, the instance."""
        arguments = self.arguments
        retimed: int | None = None
        if answer:
            errors = self.checker(instance, answer).run()
            if errors:
                sys.exit(f"{instance['name']}: {solver}: {errors[0]}")
        if answer and file:
            retimed = self.retime(answer, file)
        return Row(
            instance["name"],
            solver,
            arguments.cpsat_time_limit if solver == "cpsat" else arguments.time_limit,
            arguments.threads,
            answer[instance["objective"]] if answer else None,
            answer["lower_bound"] if answer else None,
            answer["status"] if answer else "nothing",
            round(spent[0], 1),
            round(spent[1], 1),
            retimed,
        )


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.answers or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runner = Runner(arguments, folder)
        files: list[Path] = list(arguments.instances)
        for spec in arguments.make:
            instance = make_instance(spec)
            files.append(folder / f"{instance['name']}.json")
            files[-1].write_text(json.dumps(instance))
        for file in files:
            print(file.stem, file=sys.stderr, flush=True)
            yield from runner.run(json.loads(file.read_text()), file)


# Tables


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each instance; a column for each solver, time and threads."""
    runs = list(dict.fromkeys((row.solver, row.time_limit, row.threads) for row in rows))
    at = {(row.name, (row.solver, row.time_limit, row.threads)): row for row in rows}
    names = {"cpsat": "CP-SAT", "ours": "ours"}
    yield line(["instance", *(f"{names[s]}, {limit:g} s x {t}" for s, limit, t in runs)])
    yield line(["---"] * (1 + len(runs)))
    for name in dict.fromkeys(row.name for row in rows):
        found = [at.get((name, run)) for run in runs]
        yield line([name, *(shown(row) for row in found)])


def shown(row: Row | None) -> str:
    if row is None or row.found is None:
        return "-"
    if row.status == "optimal":
        return f"{row.found}, optimal (CPU {row.cpu_seconds:.1f} s)"
    return f"{row.found}, bound {row.lower_bound} (CPU {row.cpu_seconds:.1f} s)"


def line(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("instances", type=Path, nargs="*", metavar="INSTANCE")
    parser.add_argument("--make", nargs="+", default=[], metavar=FORM)
    parser.add_argument("--solvers", type=lambda text: text.split(","), default=list(SOLVERS))
    parser.add_argument("--time-limit", type=float, default=30, metavar="SECONDS")
    parser.add_argument(
        "--cpsat-time-limit", type=float, metavar="SECONDS", help="of CP-SAT, if it is another one"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--in-order", action="store_true", help="CP-SAT keeps microbatches in order on every stage"
    )
    parser.add_argument("--hint", action="store_true", help="CP-SAT begins with our answer")
    parser.add_argument("--log", action="store_true", help="show the progress of CP-SAT")
    parser.add_argument(
        "--tool", type=Path, default=ROOT / "build" / "release" / "bin" / "pipesched-optimize"
    )
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="keep the answers here")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    parser.add_argument(
        "--rows", type=Path, nargs="+", metavar="FILE", help="show what --format json has written"
    )
    arguments = parser.parse_args()
    if arguments.cpsat_time_limit is None:
        arguments.cpsat_time_limit = arguments.time_limit
    for solver in arguments.solvers:
        if solver not in SOLVERS:
            parser.error(f"--solvers: expected some of {', '.join(SOLVERS)}, found {solver!r}")
    if "cpsat" in arguments.solvers and not arguments.rows:
        if importlib.util.find_spec("ortools") is None:
            parser.error("CP-SAT is not installed: pip install ortools, or --solvers ours")
    return arguments


def main() -> None:
    arguments = read_arguments()
    if arguments.rows:
        rows = [Row(**row) for file in arguments.rows for row in json.loads(file.read_text())]
    else:
        try:
            rows = list(run(arguments))
        except (OSError, ValueError) as error:
            sys.exit(f"optimize_cpsat.py: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"optimize_cpsat.py: {error.stderr.decode()}")
    if arguments.format == "json":
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(*table(rows), sep="\n")


if __name__ == "__main__":
    main()
