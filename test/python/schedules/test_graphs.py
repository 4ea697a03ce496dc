"""Nodes and edges besides the chain of a path: times, messages, and refusals."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from graph_cases import CASES, GraphCase
from pipesched import PipeSchedError, Schedule, generate, load, loads

SLOTS = {"F": 1, "B": 2, "I": 1, "W": 1}


def in_us(times: Any) -> Any:
    """The same times, whole numbers in any nesting, in microseconds."""
    if isinstance(times, dict):
        return {name: in_us(given) for name, given in times.items()}
    if isinstance(times, list):
        return [in_us(given) for given in times]
    return f"{times}us"


def as_text(times: Any) -> str:
    return f"[{','.join(map(as_text, times))}]" if isinstance(times, list) else str(times)


def starts_of(schedule: Schedule, times: dict[str, Any], transport: Any) -> list[list[int]]:
    frame = schedule.simulate(times=in_us(times), transport=transport).to_frame()
    return [
        [start // 10**6 for start in frame[frame.worker == worker].start_ps]
        for worker in range(schedule.workers)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_starts_and_activations(case: GraphCase) -> None:
    (schedule,) = loads(case.text)
    for transport, starts in case.starts.items():
        assert starts_of(schedule, case.times, transport) == starts, transport
    report = schedule.simulate(times=in_us(case.times))
    assert report.table is not None
    assert list(report.table.peak_activations) == case.peaks
    text = ",".join(f"{name}={as_text(given)}" for name, given in in_us(case.times).items())
    passes = f"pipe-attach-profile{{times={text}}},convert-pipe-to-exec"
    (program,) = loads(schedule.transform(passes).to_text())
    for transport, starts in case.starts.items():
        assert starts_of(program, case.times, transport) == starts, transport


def test_receives_follow_unit_slots_without_times_or_nodes() -> None:
    (graph,) = (case for case in CASES if case.name.startswith("a slow encoder"))
    (schedule,) = loads(graph.text)
    (program,) = loads(schedule.transform("convert-pipe-to-exec").to_text())
    # The same rows on a chain whose stage 0 is the encoder.
    rows = [re.sub(r"(\d)([FB])", lambda m: f"{(int(m[1]) + 1) % 4}{m[2]}", r) for r in graph.rows]
    path = "path on [0, 1, 2, 3] frozen [0]"
    (chain,) = loads(replace(graph, stages=(path,), rows=tuple(rows)).text)
    for other, forward in ((program, [10, 10, 10, 30]), (chain, [30, 10, 10, 10])):
        report = other.simulate(times=in_us({"F": forward, "B": 20}), transport="overlap")
        assert report.execution.makespan_ps == 470 * 10**6


# An independent simulator


class Graph:
    """A random graph of stages with rows that finish.

    Stages of the path come first, then nodes; `kinds` has the kinds of all stages.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.workers = draw.randint(1, 4)
        self.chain, nodes = draw.randint(1, 4), draw.randint(0, 3)
        self.stages, self.microbatches = self.chain + nodes, draw.randint(1, 4)
        self.on = [draw.randrange(self.workers) for _ in range(self.stages)]
        self.frozen = {s for s in range(self.stages) if draw.random() < 0.25}
        self.after = draw.choice("IW")
        self.is_split = draw.random() < 0.5
        order = list(range(self.chain))
        for node in range(self.chain, self.stages):
            order.insert(draw.randint(0, len(order)), node)
        self.edges = {(s, s + 1): True for s in range(self.chain - 1)}
        self.added: list[tuple[int, int]] = []
        for node in range(self.chain, self.stages):
            at = order.index(node)
            ends = [(order[i], node) for i in range(at)]
            ends += [(node, order[i]) for i in range(at + 1, len(order))]
            if ends:
                self._add(draw.choice(ends))
        for i, source in enumerate(order):
            for target in order[i + 1 :]:
                if draw.random() < 0.15:
                    self._add((source, target))
        self.times = {
            phase: [draw.randint(1, 30) for _ in range(self.stages)]
            for phase in ("F", "B", "I", "W")
        }
        self.comm = [draw.randint(0, 9) for _ in range(self.stages)]
        self.send = [draw.randint(0, 9) for _ in range(self.stages)]
        self.needed = [s not in self.frozen or any(self._needs(s)) for s in range(self.stages)]
        # Names whose times differ by microbatch: lists by stage, or one list for all.
        self.lists: dict[str, list[list[int]]] = {}
        for name in ("F", "B", "I", "W", "comm", "send") if draw.random() < 0.5 else ():
            if draw.random() < 0.5:
                count = draw.choice((1, self.stages))
                self.lists[name] = [
                    [draw.randint(0, 30) for _ in range(self.microbatches)] for _ in range(count)
                ]

    def time(self, name: str, cell: tuple[int, str, int]) -> int:
        """The time of a name for the stage and microbatch of a cell."""
        stage, _, m = cell
        if lists := self.lists.get(name):
            return lists[stage if len(lists) > 1 else 0][m]
        return (self.times | {"comm": self.comm, "send": self.send})[name][stage]

    def given(self) -> dict[str, Any]:
        """The times for `simulate`. Split backwards have no B."""
        names = [name for name in "FBIW" if name != "B" or not self.is_split] + ["comm", "send"]
        single = {**self.times, "comm": self.comm, "send": self.send}
        lists = {n: lists if len(lists) > 1 else lists[0] for n, lists in self.lists.items()}
        return {
            **{name: single[name] for name in names if name not in lists},
            "microbatches": {name: lists[name] for name in names if name in lists},
        }

    def _add(self, edge: tuple[int, int]) -> None:
        if edge not in self.edges:
            self.edges[edge] = self.random.random() < 0.8
            self.added.append(edge)

    def _needs(self, stage: int) -> list[bool]:
        """Whether the outputs that a stage takes need a gradient, by paths of edges."""
        sources = [a for (a, b), carries in self.edges.items() if b == stage and carries]
        return [a not in self.frozen or any(self._needs(a)) for a in sources]

    def leads(self, stage: int) -> bool:
        """Whether a stage leads to a loss, which stages have that pass nothing on."""
        targets = [b for a, b in self.edges if a == stage]
        return not targets or any(self.edges[stage, b] and self.leads(b) for b in targets)

    def phases(self, stage: int) -> str:
        if not self.leads(stage) or not self.needed[stage]:
            return "F"
        if stage in self.frozen:
            return "FI"
        return "FIW" if self.is_split else "FB"

    def carries(self, edge: tuple[int, int]) -> bool:
        return self.edges[edge] and self.needed[edge[0]] and self.leads(edge[1])

    def gradient(self, stage: int) -> str:
        """The phase that makes the gradients that a stage gives."""
        phases = self.phases(stage)
        return "B" if "B" in phases else self.after if "W" in phases else "I"

    def gives_two_to_a_worker(self) -> bool:
        for stage in range(self.stages):
            workers = [self.on[a] for a, b in self.edges if b == stage and self.carries((a, b))]
            others = [worker for worker in workers if worker != self.on[stage]]
            if len(set(others)) != len(others):
                return True
        return False

    def waits(self, cell: tuple[int, str, int]) -> list[tuple[int, str, int]]:
        """The cells, of this and of other stages, for which a cell waits."""
        stage, phase, m = cell
        if phase == "F":
            return [(a, "F", m) for a, b in self.edges if b == stage]
        if phase == "W":
            return [(stage, "I", m)]
        edges = [edge for edge in self.edges if edge[0] == stage and self.carries(edge)]
        return [(stage, "F", m)] + [(b, self.gradient(b), m) for _, b in edges]

    def make_rows(self) -> list[list[tuple[int, str, int]]]:
        """Rows of cells in a random order that finishes."""
        cells = [
            (s, phase, m)
            for s in range(self.stages)
            for phase in self.phases(s)
            for m in range(self.microbatches)
        ]
        rows: list[list[tuple[int, str, int]]] = [[] for _ in range(self.workers)]
        done: set[tuple[int, str, int]] = set()
        while cells:
            ready = [cell for cell in cells if all(other in done for other in self.waits(cell))]
            cell = self.random.choice(ready)
            cells.remove(cell)
            done.add(cell)
            rows[self.on[cell[0]]].append(cell)
        return rows

    def text(self, rows: list[list[tuple[int, str, int]]]) -> str:
        frozen = sorted(s for s in self.frozen if s < self.chain)
        lines = [f"path on {self.on[: self.chain]}" + (f" frozen {frozen}" if frozen else "")]
        for node in range(self.chain, self.stages):
            suffix = " frozen" if node in self.frozen else ""
            lines.append(f"node {node} on [{self.on[node]}]{suffix}")
        for a, b in self.added:
            lines.append(f"edge {a} -> {b}" + ("" if self.edges[a, b] else " no gradient"))
        for worker, row in enumerate(rows):
            cells = " ".join(f"{s}{phase}{m}" for s, phase, m in row)
            lines.append(f"worker {worker} runs [{cells}]")
        header = f"workers {self.workers} microbatches {self.microbatches}"
        after = " gradient after W" if self.after == "W" else ""
        return f"pipe.schedule @s {header}{after} {{\n" + "\n".join(lines) + "\n}\n"


def simulate(
    graph: Graph, rows: list[list[tuple[int, str, int]]], transport: str
) -> list[list[int]]:
    """The starts of all cells, by recursion over the cells that each waits for."""
    place = {cell: (worker, i) for worker, row in enumerate(rows) for i, cell in enumerate(row)}

    def sources(cell: tuple[int, str, int]) -> list[tuple[int, str, int]]:
        """The cells that a cell waits for: of gradients that another worker sums, the last."""
        found: list[tuple[int, str, int]] = []
        own = place[cell][0]
        for other in graph.waits(cell):
            same = [each for each in found if place[each][0] == place[other][0]]
            if cell[1] == "F" or place[other][0] == own or not same:
                found.append(other)
            elif place[other] > place[same[0]]:
                found[found.index(same[0])] = other
        return found

    @cache
    def slot(cell: tuple[int, str, int]) -> int:
        """The unit slot in which a cell ends, with free messages."""
        worker, i = place[cell]
        before = [rows[worker][i - 1]] if i else []
        return max([slot(other) for other in before + sources(cell)], default=0) + SLOTS[cell[1]]

    # Messages: cell and destination, in the order of the first stage that needs each.
    needs: dict[tuple[tuple[int, str, int], int], int] = {}
    for cell in place:
        for other in sources(cell):
            if place[other][0] != place[cell][0]:
                key = (other, place[cell][0])
                needs[key] = min(needs.get(key, cell[0]), cell[0])
    sent = sorted(needs, key=lambda key: (place[key[0]], needs[key]))

    def starts(transport: str) -> Callable[[tuple[int, str, int]], int]:
        @cache
        def message(key: tuple[tuple[int, str, int], int]) -> int:
            """When a message starts."""
            cell, to = key
            start = end_of(cell)
            if transport == "delay":
                return start
            by_sender = [each for each in sent if place[each[0]][0] == place[cell][0]]
            by_receiver = [each for each in received if each[1] == to]
            for queue in (by_sender, by_receiver):
                at = queue.index(key)
                if at:
                    before = queue[at - 1]
                    start = max(start, message(before) + graph.time("send", before[0]))
            return start

        def end_of(cell: tuple[int, str, int]) -> int:
            return start_of(cell) + graph.time(cell[1], cell)

        @cache
        def start_of(cell: tuple[int, str, int]) -> int:
            worker, i = place[cell]
            start = end_of(rows[worker][i - 1]) if i else 0
            for other in sources(cell):
                end = end_of(other)
                if place[other][0] != worker:
                    cost = graph.time("send", other) + graph.time("comm", other)
                    end = message((other, worker)) + cost
                start = max(start, end)
            return start

        return start_of

    delayed = starts("delay")

    def made(key: tuple[tuple[int, str, int], int]) -> tuple[int, int, int]:
        """When the data of a message is made under `delay`, and in which slot by which worker."""
        cell = key[0]
        return delayed(cell) + graph.time(cell[1], cell), slot(cell), place[cell][0]

    received = sorted(needs, key=made)
    start_of = starts(transport)
    return [[start_of(cell) for cell in row] for row in rows]


def test_random_graphs_take_what_the_simulator_says() -> None:
    joins = refused = unequal = 0
    for seed in range(300):
        graph = Graph(seed)
        rows = graph.make_rows()
        text = graph.text(rows)
        lonely = set(range(graph.chain, graph.stages)) - {s for edge in graph.added for s in edge}
        if graph.gives_two_to_a_worker() or lonely:
            with pytest.raises(PipeSchedError, match="gives gradients to|has no edge"):
                loads(text)
            refused += 1
            continue
        (schedule,) = loads(text)
        times = graph.given()
        for transport in ("delay", "overlap"):
            assert starts_of(schedule, times, transport) == simulate(graph, rows, transport), text
        unequal += bool(graph.lists)
        joins += any(len(graph.waits((s, "F", 0))) > 1 for s in range(graph.stages))
    assert joins > 80
    assert unequal > 60
    assert refused < 150


# Readers


def test_files_keep_nodes_and_edges(tmp_path: Any) -> None:
    (schedule,) = loads(CASES[1].text)
    schedule.save(tmp_path / "graph.mlirbc")
    (read,) = load(tmp_path / "graph.mlirbc")
    assert read.to_text() == schedule.to_text()
    assert "node 3 on [1] frozen\n" in read.to_text()


def test_what_takes_only_chains_says_so() -> None:
    (schedule,) = loads(CASES[0].text)
    reason = "only chains of stages: the schedule has edge 2 -> 0"
    for passes in ("pipe-add-recompute", "pipe-add-offload", "pipe-spread-vocabulary"):
        with pytest.raises(PipeSchedError, match=reason):
            schedule.transform(passes)
    for name, read in (
        ("an export takes", schedule.to_csv),
        ("a runtime takes", lambda: schedule.program(0)),
        ("a list of paths has", lambda: schedule.paths),
        ("a list of paths has", schedule.to_frame),
        ("a model fills", lambda: schedule.simulate(model="llama3-8b", system="dgx-h100")),
    ):
        with pytest.raises(PipeSchedError, match=f"{name} {reason}"):
            read()
    with pytest.raises(PipeSchedError, match="give the times of stages"):
        schedule.simulate(times={"F": "1ms", "B": "2ms"}, times_of="worker")
    problem = "".join(line for line in CASES[0].text.splitlines(True) if "runs" not in line)
    attach = "pipe-attach-profile{times=F=1ms,I=1ms,W=1ms}"
    for name, passes in (
        ("1f1b takes", "pipe-schedule-1f1b"),
        ("the optimizer takes", f"{attach},pipe-optimize"),
    ):
        with pytest.raises(PipeSchedError, match=f"{name} {reason}"):
            Schedule.from_text(problem).transform(passes)


def test_times_by_microbatch_have_their_length(tmp_path: Any) -> None:
    schedule = generate("1f1b", workers=3, microbatches=4)
    three = ["1ms", "2ms", "3ms"]
    file = tmp_path / "times.json"
    file.write_text(json.dumps({"microbatches": {"F": three, "B": ["1ms"] * 4}}))
    nested = {"F": "1ms", "microbatches": {"B": [["1ms"] * 4] * 2}}
    ragged = {"F": "1ms", "microbatches": {"B": [["1ms"] * 4, three, ["1ms"] * 4]}}
    wrong: tuple[tuple[Any, str], ...] = (
        (file, "the profile's microbatches.F has 3 times, expected one for each of the 4 micro"),
        (ragged, "list 1 of the profile's microbatches.B has 3 times, expected one for each of"),
        (nested, "microbatches.B has 2 lists, expected one or one for each of the 3 stages of"),
        ("F=1ms,microbatches.F=[1ms]", "'F' is given twice: microbatches.F has its times by"),
    )
    for times, message in wrong:
        with pytest.raises(PipeSchedError, match=message):
            schedule.simulate(times=times)
    optimized = "pipe-attach-profile{times=microbatches.F=[1ms,2ms,1ms,1ms],B=2ms},pipe-optimize"
    with pytest.raises(PipeSchedError, match="has times by microbatch, and a search takes all"):
        schedule.transform(optimized)
    with pytest.raises(PipeSchedError, match="microbatches.F has times of stages; give no others"):
        schedule.simulate(times="microbatches.F=[1ms,2ms,1ms,1ms],B=2ms", times_of="worker")


def test_order_of_unequal_microbatches() -> None:
    """Of all 720 orders the best takes 301 and the worst 445."""
    lengths = [12, 3, 25, 8, 17, 5]
    forward, backward = (as_text(in_us([k * each for each in lengths])) for k in (1, 2))
    times = f"microbatches.F={forward},microbatches.B={backward}"
    attach = f"pipe-attach-profile{{times={times}}}"
    schedule = generate("1f1b", workers=3, microbatches=6).transform(attach)
    assert schedule.simulate(transport="delay").execution.makespan_ps == 380 * 10**6
    for order, makespan in (
        ("", 301),
        ("{order=longest-first}", 331),
        ("{given=1,5,3,0,4,2}", 316),
    ):
        ordered = schedule.transform(f"pipe-order-microbatches{order}")
        assert ordered.simulate(transport="delay").execution.makespan_ps == makespan * 10**6
        again = ordered.transform(f"pipe-order-microbatches{order}")
        assert again.to_text() == ordered.to_text()
