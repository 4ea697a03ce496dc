#!/usr/bin/env python3
"""Checks a schedule that pipesched-optimize wrote, by the rules of its instance.

Reads only these two files and uses no code of PipeSched: it states every rule of docs/Optimize.md
independently. Prints the numbers of the schedule and returns 0, or prints each violated rule and
returns 1.

Usage: verify-optimized.py INSTANCE.json ANSWER.json
       verify-optimized.py FOLDER FOLDER
"""

import argparse
import collections
import json
import pathlib
import re
import sys

PHASES = "FIWRDU"
COMPUTE = "FIWR"
MAX_PRINTED = 10

Cell = collections.namedtuple("Cell", "phase stage microbatch worker start end")


class Checker:
    """Collects the mistakes in one answer."""

    def __init__(self, instance, answer):
        self.instance = instance
        self.answer = answer
        self.path = instance["path"]
        self.slices = instance.get("slices", 1)
        self.units = instance["microbatches"] * self.slices
        self.errors = []
        self.cells = [Cell(*cell) for cell in answer["cells"]]
        self.at = {(c.phase, c.stage, c.microbatch): c for c in self.cells}

    def report(self, text):
        self.errors.append(text)

    def run(self):
        """Returns the violated rules as texts."""
        for cell in self.cells:
            self.check_cell(cell)
        if len(self.at) != len(self.cells):
            self.report("a cell is there twice")
        if self.errors:
            return self.errors  # later checks need valid cells
        for stage in range(self.instance["stages"]):
            for microbatch in range(self.units):
                self.check_pair(stage, microbatch)
                self.check_slices(stage, microbatch)
        if not self.errors:
            self.check_queues()
            self.check_memory()
            self.check_rows()
            self.check_numbers()
        return self.errors

    def duration(self, phase, stage):
        """Ticks of a cell; None where the instance has no such cells."""
        if phase in "DU":
            return (self.instance["offload"] or {}).get(phase)
        if phase == "R":
            return (self.instance["recompute"] or {}).get(phase)
        return self.instance["duration"][phase][stage]

    def check_cell(self, cell):
        """Checks a cell by itself."""
        name = f"{cell.stage}{cell.phase}{cell.microbatch}"
        if any(type(number) is not int for number in cell[1:]):
            self.report(f"{list(cell)}: not whole numbers")
        elif cell.phase not in PHASES or len(cell.phase) != 1:
            self.report(f"{name}: no phase of the problem")
        elif not 0 <= cell.stage < self.instance["stages"]:
            self.report(f"{name}: no such stage")
        elif not 0 <= cell.microbatch < self.units:
            self.report(f"{name}: no such microbatch")
        elif cell.worker != self.path[cell.stage]:
            self.report(f"{name}: on worker {cell.worker}, not {self.path[cell.stage]}")
        elif cell.start < 0:
            self.report(f"{name}: starts at {cell.start}")
        elif self.duration(cell.phase, cell.stage) is None:
            self.report(f"{name}: not allowed")
        elif cell.end - cell.start != self.duration(cell.phase, cell.stage):
            self.report(f"{name}: takes {cell.end - cell.start}")

    def check_pair(self, stage, microbatch):
        """Checks that all cells of a stage and microbatch are there and wait for each other."""
        own = {phase: self.at.get((phase, stage, microbatch)) for phase in PHASES}
        name = f"stage {stage}, microbatch {microbatch}"
        for phase in "FIW":
            if not own[phase]:
                self.report(f"{name}: no {phase}")
        if bool(own["D"]) != bool(own["U"]):
            self.report(f"{name}: D or U without the other")
        if own["D"] and own["R"]:
            self.report(f"{name}: both offloaded and recomputed")
        for before, after in ("FI", "IW", "FD", "DU", "UI", "FR", "RI"):
            self.check_wait(own[before], own[after], 0)
        for phase, other in (("F", stage - 1), ("I", stage + 1)):
            if 0 <= other < len(self.path):
                is_remote = self.path[other] != self.path[stage]
                delay = self.instance["message_delay"] if is_remote else 0
                self.check_wait(self.at.get((phase, other, microbatch)), own[phase], delay)

    def check_slices(self, stage, unit):
        """Checks the order of slices, and that keys and values are there while they are read."""
        first = unit - unit % self.slices
        last = first + self.slices - 1

        def at(phase, other):
            return self.at.get((phase, stage, other))

        if unit > first:
            self.check_wait(at("F", unit - 1), at("F", unit), 0)
        if unit < last:
            for phase in "IW":
                self.check_wait(at(phase, unit + 1), at(phase, unit), 0)
        self.check_wait(at("F", last), at("D", unit), 0)
        self.check_wait(at("U", unit), at("I", last), 0)

    def check_wait(self, before, after, delay):
        """Reports `after` if it starts before the end of `before` plus a delay."""
        if before and after and after.start < before.end + delay:
            self.report(
                f"{after.stage}{after.phase}{after.microbatch} starts at {after.start}, "
                f"{before.stage}{before.phase}{before.microbatch} ends at {before.end}, "
                f"and the delay is {delay}"
            )

    def check_queues(self):
        """Checks that no queue runs two cells at a time."""
        offload = self.instance["offload"]
        queues = [COMPUTE, "D", "U"]
        if offload and offload["queues"] == 1:
            queues = [COMPUTE, "DU"]
        for worker in range(self.instance["workers"]):
            for phases in queues:
                queue = [c for c in self.cells if c.worker == worker and c.phase in phases]
                queue.sort(key=lambda cell: (cell.start, cell.end))
                for first, second in zip(queue, queue[1:]):
                    if second.start < first.end:
                        self.report(f"worker {worker} runs {first} and {second} at a time")

    def memory_events(self, cell):
        """Yields (time, amount) of the memory that a cell allocates and frees."""
        memory = self.instance["memory"]
        whole = memory["stage_activation"][cell.stage]
        freed = memory["freed_by_I"][cell.stage]
        kept = (self.instance["recompute"] or {}).get("checkpoint", 0)
        if cell.phase == "F":
            yield cell.start, whole
            if ("R", cell.stage, cell.microbatch) in self.at:
                yield cell.end, kept - whole
        elif cell.phase == "R":
            yield cell.start, whole - kept
        elif cell.phase == "D":
            yield cell.end, -whole
        elif cell.phase == "U":
            yield cell.start, whole
        elif cell.phase == "I":
            yield cell.end, -freed
        elif cell.phase == "W":
            yield cell.end, freed - whole

    def check_memory(self):
        """Checks every capacity; at the same time, frees come before allocations."""
        events = collections.defaultdict(list)
        for cell in self.cells:
            events[cell.worker] += self.memory_events(cell)
        for worker, capacity in enumerate(self.instance["memory"]["capacity"]):
            held = 0
            for time, amount in sorted(events[worker]):
                held += amount
                if held > capacity and amount > 0:
                    self.report(f"worker {worker} holds {held} of {capacity} at {time}")
                    break
            else:
                if held != 0:
                    self.report(f"worker {worker} holds {held} at the end")

    def check_rows(self):
        """Checks rows with joins, if the answer has to hold at any times."""
        wanted = self.instance.get("memory_times", "given")
        given = self.answer.get("memory_times", "given")
        if wanted == "any" and given != "any":
            self.report(f"memory_times is {given}, not {wanted}")
        if given != "any":
            return
        cell = re.compile(r"(\d+)([FIWRDUdu])(\d+)")
        for worker, text in enumerate(self.answer["rows"]):
            row = [(found[2], int(found[1]), int(found[3])) for found in cell.finditer(text)]
            own = {(c.phase, c.stage, c.microbatch) for c in self.cells if c.worker == worker}
            without = [entry for entry in row if entry[0] not in "du"]
            if len(without) != len(own) or set(without) != own:
                self.report(f"the row of worker {worker} does not have its cells")
                continue
            for phases in (COMPUTE, "D", "U"):
                starts = [self.at[entry].start for entry in row if entry[0] in phases]
                if starts != sorted(starts):
                    self.report(f"worker {worker} starts {phases} in another order than its row")
            self.check_any_times(worker, row)

    def check_any_times(self, worker, row):
        """Checks the capacity in every state that a row can be in, at any times.

        A state is the cell that runs, the number of ended offloads and the number of started
        reloads. Both happen in the order of the row. The row has seen an offload end if it waited
        for it: by a join, or by a reload, which itself waited for offloads.
        """
        memory = self.instance["memory"]
        kept = (self.instance["recompute"] or {}).get("checkpoint", 0)
        capacity = memory["capacity"][worker]
        row_bytes = 0  # held only by the row
        offloads, reloads = [], []  # (bytes), (bytes, offloads that end before it)
        ended = {}  # by cell of D or U: offloads that have ended when it has
        seen = joined = 0

        def most():
            return max(
                row_bytes
                - sum(offloads[:number])
                + sum(size for size, needed in reloads if needed <= number)
                for number in range(seen, len(offloads) + 1)
            )

        for phase, stage, microbatch in row:
            whole = memory["stage_activation"][stage]
            freed = memory["freed_by_I"][stage]
            start, end = {
                "F": (whole, kept - whole if ("R", stage, microbatch) in self.at else 0),
                "R": (whole - kept, 0),
                "I": (max(0, -freed), -max(0, freed)),
                "W": (0, freed - whole),
            }.get(phase, (0, 0))
            if phase in "du":
                joined = max(joined, ended[phase.upper(), stage, microbatch])
                continue
            if phase == "D":
                offloads.append(whole)
                ended["D", stage, microbatch] = len(offloads)
                continue
            if phase == "U":
                needed = max(ended["D", stage, microbatch], joined, seen)
                needed = max([needed, *(before for _, before in reloads)])
                reloads.append((whole, needed))
                ended["U", stage, microbatch] = needed
            else:
                seen = max(seen, joined, ended.get(("U", stage, microbatch), 0))
            joined = 0
            row_bytes += start
            if most() > capacity:
                name = f"{stage}{phase}{microbatch}"
                self.report(f"worker {worker} may hold {most()} of {capacity} at {name}")
                return
            row_bytes += end

    def check_numbers(self):
        """Checks makespan, period, bound and status against each other."""
        answer, instance = self.answer, self.instance
        if answer["name"] != instance["name"]:
            self.report(f"the name is {answer['name']}, not {instance['name']}")
        last = max(cell.end for cell in self.cells)
        if answer["makespan"] != last:
            self.report(f"the makespan is {last}, not {answer['makespan']}")
        found = answer[instance["objective"]]
        if instance["objective"] == "period":
            self.check_period(found)
        bound = answer["lower_bound"]
        if bound > found:
            self.report(f"the lower bound {bound} is above {found}")
        if answer["status"] == "optimal" and bound != found:
            self.report(f"{found} is called optimal, the lower bound is {bound}")
        if answer["status"] not in ("optimal", "gap", "time_limit", "interrupted"):
            self.report(f"unknown status {answer['status']}")
        known, known_bound = instance.get("best_known"), instance.get("lower_bound")
        if known is not None and bound > known:
            self.report(f"the lower bound {bound} is above {known}, which is known")
        if known_bound is not None and found < known_bound:
            self.report(f"{found} is below {known_bound}, which is a bound")

    def check_period(self, period):
        """Checks that training steps that follow each other by `period` do not overlap on any
        worker.
        """
        for worker in range(self.instance["workers"]):
            own = [cell for cell in self.cells if cell.worker == worker]
            if own:
                span = max(c.end for c in own) - min(c.start for c in own)
                if span > period:
                    self.report(f"worker {worker} takes {span}, the period is {period}")


def check_answer(instance_path, answer_path):
    """Prints the numbers of an answer, or its errors; returns whether it is correct."""
    instance = json.loads(instance_path.read_text())
    answer = json.loads(answer_path.read_text())
    errors = Checker(instance, answer).run()
    for error in errors[:MAX_PRINTED]:
        print(f"{answer_path}: {error}")
    if len(errors) > MAX_PRINTED:
        print(f"{answer_path}: and {len(errors) - MAX_PRINTED} more")
    if not errors:
        objective = instance["objective"]
        print(f"{answer['name']}: {objective} {answer[objective]} holds")
    return not errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instance", type=pathlib.Path, help="an instance, or a folder of them")
    parser.add_argument("answer", type=pathlib.Path, help="its answer, or a folder of all")
    arguments = parser.parse_args()
    pairs = [(arguments.instance, arguments.answer)]
    if arguments.instance.is_dir():
        instances = sorted(arguments.instance.glob("*.json"))
        pairs = [(instance, arguments.answer / instance.name) for instance in instances]
    holds = [check_answer(*pair) for pair in pairs]
    sys.exit(0 if holds and all(holds) else 1)


if __name__ == "__main__":
    main()
