"""Execution traces of Chakra: read back, and run by the rules of a simulator."""

from __future__ import annotations

import heapq
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pipesched import Measurement, PipeSchedError, Schedule, generate
from pipesched.command import main

pytest.importorskip("google.protobuf", reason="needs protobuf: pip install 'pipesched[test]'")

from pipesched.results.chakra import messages

TIMES = {"F": "20us", "B": "40us", "I": "15us", "W": "25us", "D": "9us", "U": "9us"}
SENT = {**TIMES, "O": "5us", "G": "7us", "comm": "3us"}
CASES = {
    "halves": generate("zb-v", workers=4, microbatches=8),
    "pairs": generate("dualpipe", workers=4, microbatches=8),
    "copies": generate("zb-h1", workers=2, microbatches=4).transform("pipe-add-offload{memory=2}"),
    "sums": generate("chimera", workers=4, microbatches=4).transform("pipe-add-optimizer"),
}
PUBLIC = bytes.fromhex(
    "180a05302e302e34120f0a09686f73745f6e616d65ea0101685e0803120d73656e6420462030206d6220311805"
    "2a0301ac0230143805520e0a0969735f6370755f6f70d8010052110a09636f6d6d5f73697a6548808080802052"
    "0c0a08636f6d6d5f6473743801520f0a0b74656e736f725f73697a656807"
)
"""Metadata and a node, written by the classes that protoc makes of Chakra's public schema
(`schema/protobuf/et_def.proto`, github.com/mlcommons/chakra, commit f5124d7)."""
LOAD, STORE, COMPUTE, SEND, RECV, COLLECTIVE = range(2, 8)


def read(content: bytes) -> list[Any]:
    chakra, file = messages(), io.BytesIO(content)
    found = [chakra.proto.parse_length_prefixed(chakra.GlobalMetadata, file)]
    while (node := chakra.proto.parse_length_prefixed(chakra.Node, file)) is not None:
        found.append(node)
    return found


def value(node: Any, name: str) -> Any:
    attribute = next(each for each in node.attr if each.name == name)
    return getattr(attribute, attribute.WhichOneof("value"))


class Simulator:
    """Runs traces by the rules of ASTRA-sim (astra-sim/workload, commit 0383c20): a node whose
    `data_deps` have ended is issued when its resource is free, by ascending id. A rank has one
    resource for computes and one for sends, collectives and copies; receives need none. Messages
    take the times of their nodes. Without queues, sends, collectives and copies do not wait for
    each other.
    """

    def __init__(self, files: list[bytes], has_queues: bool) -> None:
        self.has_queues = has_queues
        self.now, self.events = 0, list[tuple[int, int, int]]()
        self.nodes = [{node.id: node for node in read(file)[1:]} for file in files]
        self.deps = [{i: set(node.data_deps) for i, node in rank.items()} for rank in self.nodes]
        self.busy = [set[str]() for _ in files]
        self.arrived: dict[Any, int] = {}
        self.waiting: dict[Any, list[tuple[int, int]]] = defaultdict(list)

    def resource(self, node: Any) -> str:
        return {COMPUTE: "compute", RECV: ""}.get(node.type, "network" if self.has_queues else "")

    def end(self, at: int, rank: int, number: int) -> None:
        heapq.heappush(self.events, (at, rank, number))

    def issue(self, rank: int, node: Any) -> None:
        if node.type in (SEND, RECV):
            key = value(node, "comm_src"), value(node, "comm_dst"), value(node, "comm_tag")
            assert key[node.type == RECV] == rank
            self.waiting[key].append((rank, node.id))
            if node.type == SEND:
                self.arrived[key] = self.now + node.duration_micros
            if key in self.arrived:
                for waiting in self.waiting.pop(key):
                    self.end(self.arrived[key], *waiting)
        elif node.type == COLLECTIVE:
            key = node.name
            self.waiting[key].append((rank, node.id))
            if len(self.waiting[key]) == sum(
                each.name == key for nodes in self.nodes for each in nodes.values()
            ):
                for waiting in self.waiting.pop(key):
                    self.end(self.now + node.duration_micros, *waiting)
        else:
            self.end(self.now + node.duration_micros, rank, node.id)

    def run(self) -> int:
        left = sum(map(len, self.nodes))
        while left:
            for rank, deps in enumerate(self.deps):
                for number in sorted(i for i, needed in deps.items() if not needed):
                    node = self.nodes[rank][number]
                    if self.resource(node) not in self.busy[rank]:
                        del deps[number]
                        self.busy[rank] |= {self.resource(node)} - {""}
                        self.issue(rank, node)
            self.now, rank, number = heapq.heappop(self.events)
            self.busy[rank].discard(self.resource(self.nodes[rank][number]))
            for needed in self.deps[rank].values():
                needed.discard(number)
            left -= 1
        return self.now


def test_fields_are_those_of_the_public_schema() -> None:
    metadata, node = read(PUBLIC)
    assert (metadata.version, value(metadata, "host_name")) == ("0.0.4", "h")
    assert (node.id, node.name, node.type) == (3, "send F 0 mb 1", SEND)
    assert list(node.data_deps) == [1, 300]
    assert (node.start_time_micros, node.duration_micros) == (20, 5)
    values = {each.name: value(node, each.name) for each in node.attr}
    wanted = {"is_cpu_op": False, "comm_size": 1 << 33, "comm_dst": 1, "tensor_size": 7}
    assert values == wanted
    out = io.BytesIO()
    for message in (metadata, node):
        messages().proto.serialize_length_prefixed(message, out)
    assert out.getvalue() == PUBLIC


@pytest.mark.parametrize("name", CASES)
def test_a_simulator_gets_our_makespan(name: str) -> None:
    for times in (TIMES, SENT):
        wanted = CASES[name].simulate(times=times, transport="delay").execution.makespan_ps
        files = CASES[name].to_chakra(times=times)
        assert Simulator(files, has_queues=False).run() * 1_000_000 == wanted
        found = Simulator(files, has_queues=True).run() * 1_000_000
        # Here two messages of a rank overlap; ASTRA-sim sends one after the other.
        has_meetings = times is SENT and name in ("pairs", "sums")
        assert found > wanted if has_meetings else found == wanted


@pytest.mark.parametrize("name", CASES)
def test_a_trace_is_a_measurement(name: str, tmp_path: Path) -> None:
    schedule = CASES[name]
    files = [tmp_path / f"t.{worker}.et" for worker in range(schedule.workers)]
    for file, content in zip(files, schedule.to_chakra(times=SENT), strict=True):
        file.write_bytes(content)
    measurement = Measurement.from_torch_traces(schedule, reversed(files))
    assert measurement.source == "chakra" and measurement.steps == 1
    comparison = measurement.compare(times=SENT)
    assert comparison.measured_s == pytest.approx(comparison.predicted_s)
    profile = dict(each.split("=") for each in measurement.profile().split(","))
    assert profile.items() <= {**SENT, "FB": "60us"}.items()


def test_messages_copies_and_sums_have_bytes() -> None:
    given: Any = {"model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1}

    def sizes(name: str, worker: int) -> dict[int, list[int]]:
        found = defaultdict(list)
        for node in read(CASES[name].to_chakra(**given)[worker])[1:]:
            if node.type != COMPUTE:
                size = "tensor_size" if node.type in (LOAD, STORE) else "comm_size"
                found[node.type].append(value(node, size))
        return found

    sums, copies = sizes("sums", 1), sizes("copies", 0)
    # 8192 tokens of 4096 numbers in BF16, and gradients of eight layers in FP32.
    assert set(sums[SEND]) == set(sums[RECV]) == {8192 * 4096 * 2}
    assert set(sums[COLLECTIVE]) == {8 * 218_112_000 * 4}
    memory = CASES["copies"].simulate(**given).memory
    assert memory and sum(copies[STORE]) == memory.offloaded_bytes[0] > 0
    assert copies[LOAD] == copies[STORE]


def test_the_command_writes_a_file_for_each_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.mlir"
    CASES["sums"].save(file)
    assert main(["convert", str(file), str(tmp_path / "a"), "--to", "chakra"]) == 0
    assert main(["convert", str(file), str(tmp_path / "b.et")]) == 0
    groups = json.loads((tmp_path / "a.groups.json").read_text())
    for worker, content in enumerate(CASES["sums"].to_chakra()):
        for prefix in "ab":
            assert (tmp_path / f"{prefix}.{worker}.et").read_bytes() == content
        named = {value(n, "pg_name") for n in read(content)[1:] if n.type == COLLECTIVE}
        assert named and all(worker in groups[name] for name in named)
    assert main(["convert", str(file), "--to", "chakra"]) == 2
    assert "give the prefix" in capsys.readouterr().err


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    schedule = CASES["halves"]

    def error(content: bytes) -> str:
        file = tmp_path / "t.0.et"
        file.write_bytes(content)
        with pytest.raises(PipeSchedError) as caught:
            Measurement.from_torch_traces(schedule, [file])
        assert str(file) in str(caught.value)
        return str(caught.value)

    good = schedule.to_chakra(times=SENT)[0]
    assert "no trace of Chakra" in error(good[:-1])
    assert "no trace of Chakra" in error(b'{"traceEvents": []}')
    assert "is empty" in error(b"")
    assert "has no range" in error(good[: 1 + good[0]])


def test_a_program_has_traces_as_its_schedule_has() -> None:
    schedule: Schedule = CASES["halves"]
    program = schedule.transform("convert-pipe-to-exec")
    assert program.to_chakra(times=SENT) == schedule.to_chakra(times=SENT)
