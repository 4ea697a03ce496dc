#!/usr/bin/env python3
"""Trains by orders that no family has, and compares with the unpipelined model.

Usage: orders.py few|quick|wide RUN GENERATOR

RUN is pipesched-run, GENERATOR writes perceptrons (examples/stages/mlp.py). The cases:

- random valid tables: lines, loops, V and two paths; B, or I and W, with the gradient sent after
  either; R; D and U; overlapped pairs. Each also with sends that block: then loopback must stop
  with a deadlock exactly where the proof refuses to start MPI.
- such tables with two cells of a row swapped: tables that can still run must train, the rest is
  refused.
- results of pipe-optimize, with and without offload and recomputation;
- asymmetric placements; rows by hand; every form of pipe-add-optimizer.

Prints a line per case and the number of cases; fails if one fails.
"""

import random
import re
import subprocess
import sys

from wide import Models

PASSED = "check: passed"
COSTS = "pipe-attach-stage-costs,pipe-attach-system{name=dgx-a100}"


class RandomTable:
    """Appends cells that can run to the rows until none is left. A seed gives one table."""

    def __init__(self, seed, sizes):
        self.draw = random.Random(seed).randrange
        self.workers, self.microbatches = 1 + self.draw(sizes[0]), 1 + self.draw(sizes[1])
        self.paths = self.place()
        self.stages = len(self.paths[0])
        self.after_weight = self.draw(2) == 0
        self.rows = [[] for _ in range(self.workers)]
        self.needs = self.dependences()
        self.fill()
        self.pairs = [set() for _ in range(self.workers)]  # positions of first halves
        self.overlap()

    def place(self):
        path = list(range(self.workers))
        if self.draw(2) or self.workers == 1:
            path *= 2
        if self.draw(2):
            half = len(path) // 2
            path[half:] = reversed(path[half:])
        both = self.microbatches > 1 and self.draw(2)
        return [path, path[::-1]] if both else [path]

    def worker_of(self, cell):
        return self.paths[cell[2] % len(self.paths)][cell[0]]

    def dependences(self):
        """By cell (stage, phase, microbatch): the cells that must have ended."""
        needs = {}
        for microbatch in range(self.microbatches):
            upstream = None  # the cell that gives the gradient of the output
            for stage in reversed(range(self.stages)):
                def cell(phase, stage=stage, microbatch=microbatch):
                    return stage, phase, microbatch

                needs[cell("F")] = [cell("F", stage - 1)] if stage else []
                last = cell("F")
                if self.draw(4) == 0:
                    needs[cell("D")], needs[cell("U")] = [last], [cell("D")]
                    last = cell("U")
                if self.draw(4) == 0:
                    needs[cell("R")] = [last]
                    last = cell("R")
                before = [last] + ([upstream] if upstream else [])
                if self.draw(2):
                    needs[cell("B")], upstream = before, cell("B")
                else:
                    needs[cell("I")], needs[cell("W")] = before, [cell("I")]
                    upstream = cell("W" if self.after_weight else "I")
        return needs

    def fill(self):
        done, waiting = set(), sorted(self.needs)
        while waiting:
            ready = [cell for cell in waiting if all(need in done for need in self.needs[cell])]
            cell = ready[self.draw(len(ready))]
            self.rows[self.worker_of(cell)].append(cell)
            done.add(cell)
            waiting.remove(cell)

    def overlap(self):
        """Overlaps neighbours that compute, if all rows still end."""
        for row, pairs in zip(self.rows, self.pairs, strict=True):
            position = 0
            while position + 1 < len(row):
                both = row[position : position + 2]
                if self.draw(4) == 0 and all(cell[1] in "FBI" for cell in both):
                    pairs.add(position)
                    if self.ends() and both[0][0::2] != both[1][0::2]:
                        position += 1
                    else:
                        pairs.remove(position)
                position += 1

    def ends(self):
        """Whether workers that walk their rows come to the end of them."""
        done, at = set(), [0] * self.workers
        moved = True
        while moved:
            moved = False
            for worker, row in enumerate(self.rows):
                while at[worker] < len(row):
                    size = 2 if at[worker] in self.pairs[worker] else 1
                    cells = row[at[worker] : at[worker] + size]
                    if not all(need in done for cell in cells for need in self.needs[cell]):
                        break
                    done.update(cells)
                    at[worker] += size
                    moved = True
        return len(done) == len(self.needs)

    def swap(self):
        """Swaps two computes of a row, of one without pairs."""
        self.pairs = [set() for _ in range(self.workers)]
        row = self.rows[self.draw(self.workers)]
        places = [i for i, cell in enumerate(row) if cell[1] in "FBIW"]
        first, second = (places[self.draw(len(places))] for _ in range(2))
        row[first], row[second] = row[second], row[first]

    def clauses(self):
        """The paths and the rows, as text."""
        lines = []
        for number, path in enumerate(self.paths):
            takes = f" takes [{number}:{self.microbatches}:2]" if len(self.paths) > 1 else ""
            lines.append(f"  path on {path}{takes}")
        rows = []
        for worker, row in enumerate(self.rows):
            text = ""
            for position, (stage, phase, microbatch) in enumerate(row):
                text += f"{stage}{phase}{microbatch}"
                text += "+" if position in self.pairs[worker] else " "
            rows.append(f"  worker {worker} runs [{text.strip()}]")
        return "\n".join(lines), "\n".join(rows)

    def text(self, model):
        paths, rows = self.clauses()
        head = f"workers {self.workers} microbatches {self.microbatches}"
        head += " gradient after W" if self.after_weight else ""
        return with_rows(model, head, paths, rows)


def with_rows(model, head, paths, rows):
    """The model with another head, other paths, and rows."""
    model = re.sub(r"workers \d+ microbatches \d+", head, model, count=1)
    model = re.sub(r"  path on \[.*\]", paths, model, count=1)
    begin = model.index("pipe.schedule")
    end = model.index("\n}", begin)
    return model[:end] + "\n" + rows + model[end:]


class Cases:
    def __init__(self, run, generator):
        self.tool = run
        self.models = Models(generator)
        self.count = self.failed = 0

    def run(self, text, *options):
        command = [self.tool, "-", "--steps=2", "--check", *options]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)

    def note(self, name, holds, *runs):
        self.count += 1
        print("passed" if holds else "FAILED", name, flush=True)
        if not holds:
            self.failed += 1
            for done in runs:
                print(done.stdout, done.stderr, flush=True)

    def trains(self, name, text, *options):
        done = self.run(text, *options)
        self.note(name, done.returncode == 0 and PASSED in done.stdout, done)

    def refused(self, name, text, why, *options):
        done = self.run(text, *options)
        holds = done.returncode == 1 and re.search(why, done.stderr) and not done.stdout
        self.note(name, bool(holds), done)

    def table(self, seed, sizes):
        table = RandomTable(seed, sizes)
        model = self.models.get(table.stages)
        name = f"table {seed} D={table.workers} N={table.microbatches} stages={table.stages}"
        for messages in ("rendezvous", "buffered"):
            self.trains(f"{name} {messages}", table.text(model), f"--messages={messages}")
        self.blocking(name, table.text(model))

    def blocking(self, name, text):
        """The proof in front of MPI, which never starts here, and loopback agree."""
        blocking = ("--blocking", "--messages=rendezvous")
        proof = self.run(text, *blocking, "--backend=mpi", "--mpirun=true", "--mpicc=no-mpicc")
        refuses = "MPI would hang" in proof.stderr
        done = self.run(text, *blocking)
        stops = done.returncode == 1 and "deadlock: no worker can go on" in done.stderr
        ends = done.returncode == 0 and PASSED in done.stdout
        agree = stops if refuses else ends and "'no-mpicc' is not found" in proof.stderr
        self.note(f"{name} blocking {'stops' if refuses else 'ends'}", agree, proof, done)

    def swapped(self, seed, sizes):
        table = RandomTable(seed, sizes)
        table.swap()
        text = table.text(self.models.get(table.stages))
        if table.ends():
            self.trains(f"table {seed} swapped, still ends", text)
        else:
            why = "runs before|runs after|in a cycle of"
            self.refused(f"table {seed} swapped, refused", text, why)

    def searched(self, workers, microbatches, options):
        model = self.models.get(workers)
        pipeline = f"{COSTS},pipe-optimize{{max-evaluations=3000 explain=false {options}}}"
        path = f"  path on {list(range(workers))}"
        head = f"workers {workers} microbatches {microbatches}"
        text = with_rows(model, head, path, "")
        self.trains(
            f"pipe-optimize D={workers} N={microbatches} {options}", text, f"--pipeline={pipeline}"
        )

    def placed(self, workers, microbatches, place, schedule, stages):
        head = f"workers {workers} microbatches {microbatches}"
        text = with_rows(self.models.get(stages), head, f"  path on {list(range(workers))}", "")
        pipeline = f"--pipeline={place},{schedule}"
        self.trains(f"{place},{schedule} D={workers} N={microbatches}", text, pipeline)


# Rows by hand: one that sends its gradient late, one with a worker that runs both ends, and one
# whose second path is short of a worker.
HAND = [
    ("late W", 2, 2, "  path on [0, 1]",
     "  worker 0 runs [0F0 0F1 0I0 0I1 0W1 0W0]\n  worker 1 runs [1F0 1I0 1F1 1I1 1W0 1W1]"),
    ("both ends", 2, 2, "  path on [0, 1, 0]",
     "  worker 0 runs [0F0 0F1 2F0 2B0 2F1 2B1 0B0 0B1]\n"
     "  worker 1 runs [1F0 1F1 1B0 1B1]"),
    ("two paths", 3, 2, "  path on [0, 1] takes [0]\n  path on [0, 2] takes [1]",
     "  worker 0 runs [0F1 0F0 0B0 0B1]\n  worker 1 runs [1F0 1R0 1B0]\n"
     "  worker 2 runs [1F1 1D1 1U1 1B1]"),
]  # fmt: skip


def by_hand(cases):
    for name, workers, microbatches, paths, rows in HAND:
        stages = paths.split("\n")[0].count(",") + 1
        head = f"workers {workers} microbatches {microbatches}"
        text = with_rows(cases.models.get(stages), head, paths, rows)
        cases.trains(f"by hand: {name}", text)


def optimizer(cases):
    """Without sums of gradients, replicas diverge: the check must see it."""
    for place in ("end", "eager"):
        pipeline = f"--pipeline=pipe-add-optimizer{{all-reduce={place}}}"
        for family in ("chimera", "1f1b"):
            options = [f"--schedule={family}", "--workers=4", "--microbatches=8", pipeline]
            cases.trains(f"{family} all-reduce={place}", cases.models.get(4), *options)
    pipeline = "--pipeline=pipe-add-optimizer{all-reduce=none}"
    options = ["--workers=4", "--microbatches=8", pipeline]
    cases.trains("1f1b all-reduce=none", cases.models.get(4), "--schedule=1f1b", *options)
    done = cases.run(cases.models.get(4), "--schedule=chimera", *options)
    seen = done.returncode == 1 and "check: FAILED" in done.stdout
    cases.note("chimera all-reduce=none differs", seen, done)


def few(cases):
    """One of each kind, for builds in which a case takes long."""
    for seed in (17, 20):
        cases.table(seed, (3, 6))
    cases.swapped(110, (3, 4))
    by_hand(cases)
    cases.searched(2, 6, "memory=2 offload=true recompute=full")


def quick(cases):
    for seed in (0, 17, 20, 27):
        cases.table(seed, (3, 6))
    cases.table(254, (2, 3))  # a gradient is posted in front of an offload
    for seed in (100, 101, 110, 116):
        cases.swapped(seed, (3, 4))
    by_hand(cases)
    cases.searched(2, 6, "memory=2 offload=true recompute=full")
    cases.placed(2, 4, "pipe-place-asymmetric{ratio=1:2}", "pipe-schedule-greedy", 2)


def wide(cases):
    for seed in range(1000, 1012):
        cases.table(seed, (8, 32))
    for seed in range(2000, 2016):
        cases.swapped(seed, (8, 16))
    for workers, microbatches in ((4, 12), (8, 16)):
        for options in ("", "memory=3", "memory=2 offload=true", "memory=2 recompute=full",
                        "split-backward=false memory=2 offload=true recompute=full"):  # fmt: skip
            cases.searched(workers, microbatches, options)
    for ratio in ("1:2", "3:2"):
        place = f"pipe-place-asymmetric{{ratio={ratio}}}"
        cases.placed(4, 8, place, "pipe-schedule-greedy", 4)
        cases.placed(4, 8, place[:-1] + " on=wave}", "pipe-schedule-greedy", 8)
    optimizer(cases)


def main():
    kind, run, generator = sys.argv[1:]
    cases = Cases(run, generator)
    {"few": few, "quick": quick, "wide": wide}[kind](cases)
    print(f"{cases.count} cases, {cases.failed} failed")
    return 1 if cases.failed else 0


if __name__ == "__main__":
    sys.exit(main())
