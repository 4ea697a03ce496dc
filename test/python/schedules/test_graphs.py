"""Nodes and edges besides the chain of a path: times, messages, and refusals."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
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
    if case.held:
        memory = loads(case.with_model)[0].simulate(times=in_us(case.times)).memory
        assert memory is not None
        assert list(memory.peak_bytes) == case.peak_bytes


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

Cell = tuple[int, str, int]
Message = tuple[Cell, int]  # a cell and a destination


class Graph:
    """A random graph of stages with rows that finish.

    Stages of the path come first, then nodes. `tensors` has the tensor of each edge: of its source,
    0 is the output. Nodes may run only some microbatches.
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
        self.tensors = {edge: draw.choice((0, 0, 1, 2)) for edge in self.added}
        self.tensors.update({edge: 0 for edge in self.edges if edge not in self.added})
        self.takes = [
            set(range(self.microbatches))
            if s < self.chain or draw.random() < 0.6
            else {m for m in range(self.microbatches) if draw.random() < 0.5}
            for s in range(self.stages)
        ]
        # Names whose times differ by microbatch: lists by stage, or one list for all.
        self.lists: dict[str, list[list[int]]] = {}
        for name in ("F", "B", "I", "W", "comm", "send") if draw.random() < 0.5 else ():
            if draw.random() < 0.5:
                count = draw.choice((1, self.stages))
                self.lists[name] = [
                    [draw.randint(0, 30) for _ in range(self.microbatches)] for _ in range(count)
                ]

    def time(self, name: str, cell: Cell) -> int:
        """The time of a name for the stage and microbatch of a cell."""
        stage, _, m = cell
        if lists := self.lists.get(name):
            return lists[stage if len(lists) > 1 else 0][m]
        return (self.times | {"comm": self.comm, "send": self.send})[name][stage]

    def takes_no_time(self) -> bool:
        """Whether some cells have lists with a time of 0."""
        return any(0 in times for name in "FBIW" for times in self.lists.get(name, []))

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

    def runs(self, edge: tuple[int, int], m: int) -> bool:
        return m in self.takes[edge[0]] and m in self.takes[edge[1]]

    def takers(self, stage: int, m: int) -> list[tuple[int, int]]:
        """The edges by which a gradient comes to a stage."""
        return [e for e in self.edges if e[0] == stage and self.carries(e) and self.runs(e, m)]

    def waits(self, cell: Cell) -> list[Cell]:
        """The cells, of this and of other stages, for which a cell waits."""
        stage, phase, m = cell
        if phase == "F":
            return [(e[0], "F", m) for e in self.edges if e[1] == stage and self.runs(e, m)]
        if phase == "W":
            return [(stage, "I", m)]
        edges = self.takers(stage, m)
        return [(stage, "F", m)] + [(b, self.gradient(b), m) for _, b in edges]

    def make_rows(self) -> list[list[Cell]]:
        """Rows of cells in a random order that finishes."""
        cells = [
            (s, phase, m)
            for s in range(self.stages)
            for phase in self.phases(s)
            for m in sorted(self.takes[s])
        ]
        rows: list[list[Cell]] = [[] for _ in range(self.workers)]
        done: set[Cell] = set()
        while cells:
            ready = [cell for cell in cells if all(other in done for other in self.waits(cell))]
            cell = self.random.choice(ready)
            cells.remove(cell)
            done.add(cell)
            rows[self.on[cell[0]]].append(cell)
        return rows

    def text(self, rows: list[list[Cell]], sizes: Sizes | None = None) -> str:
        frozen = sorted(s for s in self.frozen if s < self.chain)
        lines = [f"path on {self.on[: self.chain]}" + (f" frozen {frozen}" if frozen else "")]
        for node in range(self.chain, self.stages):
            suffix = " frozen" if node in self.frozen else ""
            if len(self.takes[node]) < self.microbatches:
                suffix += f" takes {sorted(self.takes[node])}"
            if sizes:
                suffix += f' holds "s{node}"'
            lines.append(f"node {node} on [{self.on[node]}]{suffix}")
        for edge in self.added:
            tensor = self.tensors[edge]
            suffix = f' "t{tensor}"' if tensor else ""
            if tensor and sizes:
                suffix += f" bytes {sizes.tensors[edge[0]][tensor]}"
            suffix += "" if self.edges[edge] else " no gradient"
            lines.append(f"edge {edge[0]} -> {edge[1]}{suffix}")
        for worker, row in enumerate(rows):
            cells = " ".join(f"{s}{phase}{m}" for s, phase, m in row)
            lines.append(f"worker {worker} runs [{cells}]")
        header = f"workers {self.workers} microbatches {self.microbatches}"
        header += " gradient after W" if self.after == "W" else ""
        header += " model @m" if sizes else ""
        model = sizes.text() if sizes else ""
        return f"{model}pipe.schedule @s {header} {{\n" + "\n".join(lines) + "\n}\n"


class Sizes:
    """Random bytes of the stages of a graph, and the model that has them."""

    def __init__(self, graph: Graph, seed: int) -> None:
        draw = random.Random(seed)
        self.graph = graph
        self.activations = [draw.randint(10, 99) for _ in range(graph.stages)]
        self.kept_for_w = [draw.randint(1, 120) for _ in range(graph.stages)]
        self.parameters = [draw.randint(1, 50) for _ in range(graph.stages)]
        self.tensors = [[draw.randint(1, 40) for _ in range(3)] for _ in range(graph.stages)]
        self.input_gradients = [draw.randint(1, 40) for _ in range(graph.stages)]

    def text(self) -> str:
        blocks = "\n".join(
            f'block "s{s}" parameters {self.parameters[s]}'
            f" activation_bytes {self.activations[s]} weight_grad_bytes {self.kept_for_w[s]}"
            f" message_bytes [{self.tensors[s][0]}, {self.input_gradients[s]}] {{\n}}"
            for s in range(self.graph.stages)
        )
        return (
            "pipe.model @m microbatch_size 1 boundary_bytes 0 state_bytes [2, 3, 7]"
            f" {{\n{blocks}\n}}\n"
        )

    def persistent(self, worker: int) -> int:
        graph = self.graph
        return sum(
            self.parameters[s] * (12 if graph.phases(s) in ("FB", "FIW") else 2)
            for s in range(graph.stages)
            if graph.on[s] == worker
        )


class Simulator:
    """The starts of all cells and messages, by recursion over the cells that each waits for."""

    def __init__(self, graph: Graph, rows: list[list[Cell]], transport: str) -> None:
        self.graph, self.rows, self.transport = graph, rows, transport
        self.slots: dict[Cell, int] = {}
        self.place = {
            cell: (worker, i) for worker, row in enumerate(rows) for i, cell in enumerate(row)
        }
        # Messages: the tensors and gradients that each has, in the order of the first stage that
        # needs each.
        self.parts: dict[Message, set[tuple[int, int]]] = {}
        needs: dict[Message, int] = {}
        for cell in self.place:
            for other, edge in self.sources(cell):
                if self.place[other][0] != self.place[cell][0]:
                    key = (other, self.place[cell][0])
                    needs[key] = min(needs.get(key, cell[0]), cell[0])
                    self.parts.setdefault(key, set()).add((edge[0], graph.tensors[edge]))
        self.sent = sorted(needs, key=lambda key: (self.place[key[0]], needs[key]))
        self.starts: dict[Cell, int] = {}
        self.messages: dict[Message, int] = {}
        delayed = self if transport == "delay" else Simulator(graph, rows, "delay")

        def made(key: Message) -> tuple[int, int, int]:
            """When the data of a message is made under `delay`, and in which slot by which row."""
            return delayed.end(key[0]), self.slot(key[0]), self.place[key[0]][0]

        self.received = sorted(needs, key=made)

    def end(self, cell: Cell) -> int:
        return self.start(cell) + self.graph.time(cell[1], cell)

    def sources(self, cell: Cell) -> list[tuple[Cell, tuple[int, int]]]:
        """The cells of other stages that a cell waits for, with the edges.

        Of gradients of one tensor that another worker sums, it is the last.
        """
        graph, (stage, phase, m) = self.graph, cell
        if phase == "W":
            return []
        if phase == "F":
            edges = [e for e in graph.edges if e[1] == stage and graph.runs(e, m)]
            return [((e[0], "F", m), e) for e in edges]
        found: dict[Any, tuple[Cell, tuple[int, int]]] = {}
        for edge in graph.takers(stage, m):
            giver = (edge[1], graph.gradient(edge[1]), m)
            worker = self.place[giver][0]
            key = edge if worker == self.place[cell][0] else (worker, graph.tensors[edge], "sum")
            if key not in found or self.place[giver] > self.place[found[key][0]]:
                found[key] = (giver, edge)
        return list(found.values())

    def slot(self, cell: Cell) -> int:
        """The unit slot in which a cell ends, with free messages."""
        if cell not in self.slots:
            worker, i = self.place[cell]
            before = [self.rows[worker][i - 1]] if i else []
            before += [other for other, _ in self.sources(cell)]
            ends = [self.slot(other) for other in before]
            self.slots[cell] = max(ends, default=0) + SLOTS[cell[1]]
        return self.slots[cell]

    def occupancy(self, key: Message) -> int:
        return len(self.parts[key]) * self.graph.time("send", key[0])

    def queues_of(self, key: Message) -> list[list[Message]]:
        """The messages of its sender and of its receiver."""
        cell, to = key
        by_sender = [k for k in self.sent if self.place[k[0]][0] == self.place[cell][0]]
        return [by_sender, [k for k in self.received if k[1] == to]]

    def message(self, key: Message) -> int:
        """When a message starts."""
        if key not in self.messages:
            start = self.end(key[0])
            for queue in self.queues_of(key) if self.transport == "overlap" else ():
                at = queue.index(key)
                if at:
                    before = queue[at - 1]
                    start = max(start, self.message(before) + self.occupancy(before))
            self.messages[key] = start
        return self.messages[key]

    def start(self, cell: Cell) -> int:
        if cell not in self.starts:
            worker, i = self.place[cell]
            start = self.end(self.rows[worker][i - 1]) if i else 0
            for other, _ in self.sources(cell):
                end = self.end(other)
                if self.place[other][0] != worker:
                    key = (other, worker)
                    end = self.message(key) + self.occupancy(key) + self.graph.time("comm", other)
                start = max(start, end)
            self.starts[cell] = start
        return self.starts[cell]

    def all_starts(self) -> list[list[int]]:
        return [[self.start(cell) for cell in row] for row in self.rows]

    def peaks(self, sizes: Sizes) -> list[int]:
        """The most bytes of each worker: at one time, memory is freed before more is allocated."""
        changes: list[list[tuple[int, int]]] = [[] for _ in self.rows]

        def hold(worker: int, begin: int, end: int, size: int) -> None:
            if begin < end:
                changes[worker] += [(begin, size), (end, -size)]

        for cell in self.place:
            self._hold_activation(cell, sizes, changes)
        for edge in self.graph.edges:
            for m in self.graph.takes[edge[0]]:
                self._hold_tensor(edge, m, sizes, hold)
        for stage in range(self.graph.stages):
            for m in self.graph.takes[stage]:
                self._hold_gradients(stage, m, sizes, hold)
        peaks = []
        for worker, each in enumerate(changes):
            held = most = 0
            for _, size in sorted(each):
                held += size
                most = max(most, held)
            peaks.append(most + sizes.persistent(worker))
        return peaks

    def _hold_activation(
        self, cell: Cell, sizes: Sizes, changes: list[list[tuple[int, int]]]
    ) -> None:
        stage, phase, _ = cell
        row = changes[self.place[cell][0]]
        size, phases = sizes.activations[stage], self.graph.phases(stage)
        if phase == "F":
            row.append((self.start(cell), size))
        if phase == phases[-1] and phases != "FIW":
            row.append((self.end(cell), -size))
        elif phase in "IW":
            kept = sizes.kept_for_w[stage]
            row.append((self.end(cell), -kept if phase == "W" else kept - size))

    def _hold_tensor(self, edge: tuple[int, int], m: int, sizes: Sizes, hold: Any) -> None:
        """Holds a tensor for all added edges that bring it to a worker; once, for the first."""
        graph, tensor = self.graph, self.graph.tensors[edge]
        worker = graph.on[edge[1]]
        same = [
            e
            for e in graph.added
            if e[0] == edge[0] and graph.on[e[1]] == worker and graph.tensors[e] == tensor
            if graph.runs(e, m)
        ]
        if not same or edge != same[0]:
            return
        source = (edge[0], "F", m)
        is_here = self.place[source][0] == worker
        begin = self.end(source) if is_here else self.message((source, worker))
        takers = {(e[1], m) for e in same}
        end = max(self.end(cell) for cell in self.place if (cell[0], cell[2]) in takers)
        hold(worker, begin, end, sizes.tensors[edge[0]][tensor])

    def _hold_gradients(self, stage: int, m: int, sizes: Sizes, hold: Any) -> None:
        """Sums of gradients on the workers that make them, and where they wait for others."""
        graph = self.graph
        sums: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for edge in graph.takers(stage, m):
            sums.setdefault((graph.tensors[edge], graph.on[edge[1]]), []).append(edge)
        for (tensor, worker), edges in sums.items():
            ends = [self.end((b, graph.phases(b)[1], m)) for _, b in edges]
            size = max(
                sizes.tensors[stage][tensor] if e in graph.added else sizes.input_gradients[e[1]]
                for e in edges
            )
            begin = min(ends)
            if worker != graph.on[stage]:
                hold(worker, begin, max(ends), size)
                givers = [(b, graph.gradient(b), m) for _, b in edges]
                last = max(givers, key=lambda cell: self.place[cell])
                begin = self.message((last, graph.on[stage]))
            if len(sums) > 1:
                hold(graph.on[stage], begin, self.start((stage, graph.phases(stage)[1], m)), size)


def random_graphs(count: int) -> Iterator[tuple[int, Graph, list[list[Cell]]]]:
    for seed in range(count):
        graph = Graph(seed)
        if set(range(graph.chain, graph.stages)) <= {s for edge in graph.added for s in edge}:
            yield seed, graph, graph.make_rows()


def test_random_graphs_take_what_the_simulator_says() -> None:
    joins = several = skips = unequal = 0
    for _, graph, rows in random_graphs(300):
        text = graph.text(rows)
        (schedule,) = loads(text)
        for transport in ("delay", "overlap"):
            simulator = Simulator(graph, rows, transport)
            starts = starts_of(schedule, graph.given(), transport)
            assert starts == simulator.all_starts(), text
        unequal += bool(graph.lists)
        joins += any(len(graph.waits((s, "F", 0))) > 1 for s in range(graph.stages))
        several += any(len(parts) > 1 for parts in simulator.parts.values())
        skips += "takes" in text
    assert joins > 80
    assert unequal > 60
    assert several > 20
    assert skips > 50


def test_random_graphs_hold_what_the_simulator_says() -> None:
    waiting = 0
    for seed, graph, rows in random_graphs(300):
        if graph.takes_no_time():  # the simulator frees before it allocates, also for one cell
            continue
        sizes = Sizes(graph, seed)
        text = graph.text(rows, sizes)
        (schedule,) = loads(text)
        for transport in ("delay", "overlap"):
            memory = schedule.simulate(times=in_us(graph.given()), transport=transport).memory
            simulator = Simulator(graph, rows, transport)
            assert memory is not None
            assert list(memory.peak_bytes) == simulator.peaks(sizes), text
        waiting += any(len(graph.takers(s, 0)) > 1 for s in range(graph.stages))
    assert waiting > 40


# Models


def test_a_model_prices_nodes_by_their_blocks() -> None:
    """The head costs the same in the last stage as in a node next to it on its worker."""
    chain = """pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}"""
    node = """pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  node 2 on [1] holds "head"
  edge 1 -> 2
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1]
}"""
    costs: Any = {"model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1}
    whole, split = (loads(text)[0].simulate(**costs) for text in (chain, node))
    assert split.execution.busy_ps[1] == pytest.approx(whole.execution.busy_ps[1], rel=1e-9)
    assert whole.memory is not None
    assert split.memory is not None
    assert list(split.memory.persistent_bytes) == list(whole.memory.persistent_bytes)
    frozen = node.replace(" holds", " frozen holds")
    with pytest.raises(PipeSchedError, match="2B0.* must not occur: node 2 is frozen after"):
        loads(frozen)


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
    ):
        with pytest.raises(PipeSchedError, match=f"{name} {reason}"):
            read()
    with pytest.raises(PipeSchedError, match="give the times of stages"):
        schedule.simulate(times={"F": "1ms", "B": "2ms"}, times_of="worker")
    with pytest.raises(PipeSchedError, match="node 2 does not say which blocks of model 'llama3"):
        schedule.simulate(model="llama3-8b", system="dgx-h100")
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
