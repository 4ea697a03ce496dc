"""Execution traces of Chakra (MLCommons), which simulators such as ASTRA-sim run: one file per
worker, with a node for each instruction.

A file is a GlobalMetadata and then Nodes, each after its length. The names and numbers of fields
follow `schema/protobuf/et_def.proto` of github.com/mlcommons/chakra (commit f5124d7); fields that
nothing here reads or writes are left out.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .. import _core
from ..errors import PipeSchedError
from ..schedule.program import Group, Instruction, WorkerProgram, trace_name

if TYPE_CHECKING:
    from ..schedule.schedule import Schedule
    from .simulation import Simulation

VERSION = "0.0.4"
ENDING = ".et"
HOST = "host_name"
"""The attribute of the metadata that names the clock: files with the same value share one."""
NEEDS = "Chakra's traces need protobuf: pip install protobuf"
COMPUTE, LOAD, STORE, SEND, RECV, COLLECTIVE = 4, 2, 3, 5, 6, 7
"""Values of NodeType."""
TYPES = {"compute": COMPUTE, "reload": LOAD, "offload": STORE, "send": SEND, "recv": RECV}
ALL_REDUCE, REDUCE, BROADCAST = 0, 1, 5
"""Values of CollectiveCommType."""
COLLECTIVES = {
    "all_reduce": ALL_REDUCE,
    "combine": ALL_REDUCE,
    "reduce": REDUCE,
    "reduce_lookups": REDUCE,
    "broadcast": BROADCAST,
    "broadcast_gradient": BROADCAST,
}
ONE_HOST = "pipesched"
PS_PER_US = 1_000_000

_FIELDS = {
    "AttributeProto": """name=1:string int32_val=7:int32 int64_val=9:int64 uint64_val=13:uint64
        bool_val=27:bool string_val=29:string""",
    "GlobalMetadata": "version=1:string attr=2:AttributeProto*",
    "Node": """id=1:uint64 name=2:string type=3:int32 data_deps=5:uint64*
        start_time_micros=6:uint64 duration_micros=7:uint64 attr=10:AttributeProto*""",
}
"""The fields of each message with number and type. `*` marks repeated fields; the fields named
`.._val` form one oneof. NodeType is an int32, which has the same encoding.
"""


@cache
def messages() -> SimpleNamespace:
    """Returns the classes of Chakra's messages, and the protobuf module that reads them."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, proto
        from google.protobuf import message_factory as factory
    except ImportError as error:
        raise PipeSchedError(f"{NEEDS} ({error})") from error
    package = "ChakraProtoMsg"
    file = descriptor_pb2.FileDescriptorProto(name=package, package=package, syntax="proto3")
    kinds: Any = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for text in fields.split():
            field, _, rest = text.partition("=")
            number, _, kind = rest.rstrip("*").partition(":")
            made = message.field.add(name=field, number=int(number))
            made.label = kinds.LABEL_REPEATED if rest.endswith("*") else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                made.type = getattr(kinds, f"TYPE_{kind.upper()}")
            if field.endswith("_val"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                made.oneof_index = 0
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make: Any = factory.GetMessageClass
    classes = {name: make(pool.FindMessageTypeByName(f"{package}.{name}")) for name in _FIELDS}
    return SimpleNamespace(**classes, proto=proto)


# Writing


class _Times:
    """The times of instructions and the bytes that they move, from the columns of a drawing."""

    def __init__(self, evaluation: _core.Evaluation, offsets: Sequence[int]) -> None:
        items = _core.drawing(evaluation).items()
        self._offsets = offsets
        self._start, self._end, self._bytes = (
            items[name].tolist() for name in ("start_ps", "end_ps", "bytes")
        )
        self._begins = items["row_begins"].tolist()
        names = ("kind", "worker", "peer", "stage", "phase", "microbatch")
        keys = zip(*(items[name][self._begins[-1] :].tolist() for name in names), strict=True)
        self._items: dict[Any, int] = {}
        for item, (kind, worker, peer, *cell) in enumerate(keys, self._begins[-1]):
            name = WorkerProgram.kinds[kind]
            # A collective is one item, of the first worker; its peer is the number of its group.
            key = (peer,) if name in COLLECTIVES else (name, worker, peer, *cell)
            self._items[key] = item

    def of(self, instruction: Instruction, worker: int, computes: int) -> tuple[int, int, int]:
        """Returns start, end and bytes; `computes` is the number of computes before it."""
        if instruction.kind == "compute":
            item = self._begins[worker] + computes
        elif instruction.group is not None:
            item = self._items[instruction.group,]
        else:
            item = self._items[self._key(instruction, worker)]
        return self._start[item], self._end[item], self._bytes[item]

    def _key(self, instruction: Instruction, worker: int) -> tuple[Any, ...]:
        cell, kind = instruction.cell, instruction.kind
        peer = -1 if instruction.peer is None else instruction.peer
        if kind == "recv":  # one item with its send
            kind, worker, peer = "send", peer, worker
        phase = WorkerProgram.phases.index(cell.phase)
        return kind, worker, peer, self._offsets[cell.path] + cell.stage, phase, cell.microbatch


def _micros(ps: int) -> int:
    return (ps + PS_PER_US // 2) // PS_PER_US


class _Writer:
    """Writes the file of one worker."""

    def __init__(
        self, program: WorkerProgram, times: _Times, groups: Sequence[Group], names: list[str]
    ) -> None:
        self._program, self._times = program, times
        self._groups, self._names = groups, names
        self._last: dict[str, int] = {}
        self._deps: list[set[int]] = []
        self._ends: dict[int, int] = {}

    def write(self) -> bytes:
        chakra, out, computes = messages(), io.BytesIO(), 0
        put = chakra.proto.serialize_length_prefixed
        host = chakra.AttributeProto(name=HOST, string_val=ONE_HOST)
        put(chakra.GlobalMetadata(version=VERSION, attr=[host]), out)
        for instruction in self._program:
            deps = self._needs(instruction)
            if instruction.kind == "wait":  # no node: the instruction that it holds gets its waits
                self._deps.append(deps)
                continue
            self._deps.append({instruction.index})
            times = self._times.of(instruction, self._program.worker, computes)
            put(self._node(instruction, deps, *times), out)
            computes += instruction.kind == "compute"
        return out.getvalue()

    def _needs(self, instruction: Instruction) -> set[int]:
        """Returns its predecessors and, in a separate queue, the instruction before it."""
        found = {each for index in instruction.waits for each in self._deps[index]}
        queue = {"combine": "reduce"}.get(instruction.kind, instruction.kind)
        if queue not in ("send", "recv", "wait", "all_reduce"):
            if queue in self._last:
                found.add(self._last[queue])
            self._last[queue] = instruction.index
        return found

    def _node(
        self, instruction: Instruction, deps: set[int], start: int, end: int, size: int
    ) -> Any:
        chakra = messages()
        # A message of an overlapped pair may start before the pair ends, but no node can.
        start = max([start, *(self._ends[each] for each in deps)])
        self._ends[instruction.index] = end = max(start, end)
        node = chakra.Node(
            id=instruction.index,
            name=trace_name(instruction.cells, instruction.kind),
            type=TYPES.get(instruction.kind, COLLECTIVE),
            data_deps=sorted(deps),  # some simulators read no other dependences
            start_time_micros=_micros(start),
            duration_micros=_micros(end - start),
        )
        attributes = {"is_cpu_op": ("bool_val", False), **self._attributes(instruction, size)}
        for name, (field, value) in attributes.items():
            node.attr.append(chakra.AttributeProto(name=name, **{field: value}))
        return node

    def _attributes(self, instruction: Instruction, size: int) -> dict[str, tuple[str, Any]]:
        kind, worker, peer = instruction.kind, self._program.worker, instruction.peer
        if kind == "compute":
            return {}
        if kind in ("offload", "reload"):
            return {"tensor_size": ("uint64_val", size)}
        if peer is not None:
            source, target = (worker, peer) if kind == "send" else (peer, worker)
            return {
                "comm_size": ("int64_val", size),
                "comm_src": ("int32_val", source),
                "comm_dst": ("int32_val", target),
                "comm_tag": ("int32_val", instruction.message),
            }
        assert instruction.group is not None
        group, name = self._groups[instruction.group], self._names[instruction.group]
        count = len(group.workers)
        if kind == "all_reduce" and count > 1:  # a ring sends 2 (n - 1) / n of the data
            size = round(size * count / (2 * (count - 1)))
        found = {"comm_type": ("int64_val", COLLECTIVES[kind]), "comm_size": ("int64_val", size)}
        return {**found, "pg_name": ("string_val", name)} if name else found


def names_of_groups(schedule: Schedule) -> tuple[list[str], dict[str, list[int]]]:
    """The name of each group, empty for all workers, and by name its workers."""
    known: dict[tuple[int, ...], str] = {tuple(range(schedule.workers)): ""}
    names = [known.setdefault(group.workers, str(len(known))) for group in schedule.groups]
    return names, {name: list(workers) for workers, name in known.items() if name}


def chakra_traces(schedule: Schedule, simulation: Simulation) -> list[bytes]:
    """See `Schedule.to_chakra`."""
    receives = simulation.execution.receive_placement
    names, _ = names_of_groups(schedule)
    offsets, stages = [], 0
    for path in schedule.paths:
        offsets.append(stages)
        stages += len(path.workers)
    times = _Times(simulation._evaluation, offsets or [0])
    programs = (schedule.program(worker, receives=receives) for worker in range(schedule.workers))
    return [_Writer(program, times, schedule.groups, names).write() for program in programs]


# Reading


def read_chakra(path: str | os.PathLike[str]) -> tuple[str, Iterator[dict[str, Any]]]:
    """Returns the host of a file and its nodes, as events of a Chrome trace."""
    name, chakra = os.fspath(path), messages()
    from google.protobuf.message import DecodeError

    content = io.BytesIO(Path(path).read_bytes())
    read, nodes = chakra.proto.parse_length_prefixed, []
    try:
        metadata = read(chakra.GlobalMetadata, content)
        while (node := read(chakra.Node, content)) is not None:
            nodes.append(node)
    except (DecodeError, ValueError) as error:
        raise PipeSchedError(f"{name}: no trace of Chakra: {error}") from error
    if metadata is None:
        raise PipeSchedError(f"{name}: is empty; a trace of Chakra begins with its metadata")
    hosts = [each.string_val for each in metadata.attr if each.name == HOST]
    events = (
        {
            "ph": "X",
            "name": node.name,
            "ts": node.start_time_micros,
            "dur": node.duration_micros,
            "is_detached": node.type in (LOAD, STORE, SEND, RECV, COLLECTIVE),
        }
        for node in nodes
    )
    return (hosts or [""])[0], events
