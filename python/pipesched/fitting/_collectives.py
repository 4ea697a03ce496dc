"""Reads messages and collectives from the traces of ranks. Ranks that are early wait inside the
kernel of a collective, so the transfer time is the shortest duration of all ranks; if ranks are
missing, it is the shortest of all repetitions with the same size.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._samples import ITEM_BYTES, Found, Sample, dtype_of
from ._trace import Event, Trace, number_of

MICRO = 1e-6

_KINDS = {
    "allreduce": "all_reduce",
    "allreducecoalesced": "all_reduce",
    "allgather": "all_gather",
    "allgatherbase": "all_gather",
    "allgatherintotensor": "all_gather",
    "allgatherintotensorcoalesced": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter",
    "reducescattertensor": "reduce_scatter",
    "reducescattertensorcoalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallbase": "all_to_all",
    "alltoallsingle": "all_to_all",
    "send": "send",
    "recv": "recv",
}


@dataclass(frozen=True)
class _Call:
    """A message or collective as one rank saw it."""

    rank: int
    kind: str
    size: float
    """Bytes of the whole buffer, or of the message."""
    members: tuple[int, ...]
    """Ranks of the group, or sender and receiver; empty if not known."""
    group: int
    start: float
    seconds: float
    name: str
    place: str
    host: str
    buffered: bool = False
    """Whether a send may be done before its receive starts, as with gloo."""
    number: int | None = None
    """The number of a collective, which is the same on all ranks. PyTorch records it since 2.11."""


def is_communication(name: str) -> bool:
    return re.match(r"(mscclpp_|mscclKernel|nccl|rccl)", name) is not None


def _ranks(value: Any) -> tuple[int, ...]:
    """The ranks of a group, which are a list or text such as "[0, 1]"; empty if abbreviated."""
    if isinstance(value, str):
        if "..." in value:
            return ()
        value = [number_of(word) for word in re.findall(r"-?\d+", value)]
    if not isinstance(value, list):
        return ()
    numbers = [number_of(rank) for rank in value]
    return tuple(int(n) for n in numbers if n is not None) if None not in numbers else ()


def _rank_of(trace: Trace, position: int) -> int:
    info = trace.fields.get("distributedInfo")
    rank = number_of(info.get("rank")) if isinstance(info, dict) else None
    return int(rank) if rank is not None else position


def _group_from_info(trace: Trace, name: str) -> tuple[int, ...]:
    """Returns the ranks of a group from the list of groups in the trace; without a name, the ranks
    of the only group.
    """
    info = trace.fields.get("distributedInfo")
    groups = info.get("pg_config") if isinstance(info, dict) else None
    if not isinstance(groups, list):
        return ()
    groups = [group for group in groups if isinstance(group, dict)]
    named = [g for g in groups if str(g.get("pg_name")) == name] if name else groups
    return _ranks(named[0].get("ranks")) if len(named) == 1 else ()


def _arguments(trace: Trace, event: Event, calls: dict[int, Event]) -> dict[str, Any]:
    """Returns the arguments of the kernel of a collective, or of the operation that launched it."""
    if "Collective name" in event.args:
        return event.args
    number = event.integer("External id", "External Id")
    call = calls.get(number or 0)
    return {**call.args, **event.args} if call else event.args


def _nccl(trace: Trace, rank: int, left: Counter[str]) -> Iterator[_Call]:
    """Calls of NCCL, from the arguments of its kernels."""
    calls = {
        number: event
        for event in trace.of("operation")
        if event.name == "record_param_comms"
        and (number := event.integer("External id", "External Id"))
    }
    for event in trace.of("kernel"):
        if not is_communication(event.name):
            continue
        args = _arguments(trace, event, calls)
        name = str(args.get("Collective name", ""))
        kind = _KINDS.get(name.lower().replace("_", ""), "")
        dtype = dtype_of(args.get("dtype", ""))
        sizes = [number_of(args.get(f"{way} msg nelems")) or 0 for way in ("In", "Out")]
        if not kind or not dtype or max(sizes) <= 0 or event.duration <= 0:
            left[f"{name or event.name[:40]}"] += 1
            continue
        members = _ranks(args.get("Process Group Ranks")) or _group_from_info(
            trace, str(args.get("Process Group Name", ""))
        )
        group = int(number_of(args.get("Group size")) or len(members) or 0)
        peers = [number_of(args.get(way)) for way in ("Src Rank", "Dst Rank")]
        if kind in ("send", "recv"):
            other = peers[1 if kind == "send" else 0]
            known = other is not None and 0 <= other < 2**31
            ends = (rank, int(other or 0)) if kind == "send" else (int(other or 0), rank)
            members = ends if known else ()
        yield _Call(
            rank,
            kind,
            max(sizes) * ITEM_BYTES[dtype],
            members,
            group,
            event.start,
            event.duration * MICRO,
            f"nccl {name}",
            trace.place(event),
            str(trace.fields.get("host_name", "")),
            number=event.integer("Seq") if kind not in ("send", "recv") else None,
        )


def _gloo(trace: Trace, rank: int, left: Counter[str]) -> Iterator[_Call]:
    """Calls of gloo: spans such as `gloo:all_reduce`; peers are in the operation before them."""
    peers = sorted(
        (e.start, e.thread, e.args.get("Concrete Inputs"))
        for e in trace.of("operation")
        if e.name in ("c10d::send", "c10d::recv_")
    )
    members = _group_from_info(trace, "")
    operations = iter(peers)
    for event in sorted(trace.of("annotation"), key=lambda event: event.start):
        if not event.name.startswith("gloo:"):
            continue
        kind = _KINDS.get(event.name[5:].lower().replace("_", ""), "")
        size = _input_bytes(event.args)
        inputs = next(operations, (0, (), None))[2] if kind in ("send", "recv") else None
        if not kind or not size or event.duration <= 0:
            left[event.name] += 1
            continue
        group = len(members)
        if kind in ("send", "recv"):
            other = number_of(inputs[2]) if isinstance(inputs, list) and len(inputs) > 2 else None
            ends = (rank, int(other or 0)) if kind == "send" else (int(other or 0), rank)
            pair: tuple[int, ...] = ends if other is not None else ()
        else:
            pair = members
        whole = size * group if kind == "all_gather" else size
        yield _Call(
            rank,
            kind,
            whole,
            pair,
            group,
            event.start,
            event.duration * MICRO,
            event.name,
            trace.place(event),
            str(trace.fields.get("host_name", "")),
            buffered=True,
        )


def _input_bytes(args: dict[str, Any]) -> float:
    dims, kinds = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(kinds, list):
        return 0
    total = 0.0
    for sizes, kind in zip(dims, kinds, strict=False):
        item = ITEM_BYTES.get(dtype_of(kind), 0)
        numbers = [number_of(n) for n in sizes] if isinstance(sizes, list) else [None]
        if None in numbers or not item:
            continue
        elements = 1.0
        for number in numbers:
            elements *= number or 0
        total += elements * item
    return total


# The same call on all ranks


def samples_of(traces: Sequence[Trace]) -> Found:
    """Transfer times of messages and collectives."""
    found, left = Found(), Counter[str]()
    numbered: dict[tuple[Any, ...], list[_Call]] = defaultdict(list)
    counts: Counter[tuple[Any, ...]] = Counter()
    for position, trace in enumerate(traces):
        rank = _rank_of(trace, position)
        for call in (*_nccl(trace, rank, left), *_gloo(trace, rank, left)):
            kind = "message" if call.kind in ("send", "recv") else call.kind
            key = (kind, call.size, call.members, call.group, call.kind if not call.members else "")
            # A rank may have several files, so the numbers of its calls continue.
            counts[rank, key, call.kind] += 1
            count = counts[rank, key, call.kind]
            number = ("counted", count) if call.number is None else ("stated", call.number)
            numbered[*key, number].append(call)
    _match(numbered, found)
    if left:
        names = ", ".join(f"{name} ({number})" for name, number in left.most_common(4))
        found.notes.append(
            f"collectives without known sizes or a counterpart in the cost model: {names}"
        )
    return found


def _match(numbered: dict[tuple[Any, ...], list[_Call]], found: Found) -> None:
    """Makes samples from the calls of one transfer. If traces of some of its ranks are missing,
    takes the shortest call of each size.
    """
    alone: dict[tuple[Any, ...], Sample] = {}
    hidden = 0
    for (kind, size, members, group, _, _), calls in numbered.items():
        sample = _sample(kind, size, members, group, calls[0])
        if sample is None:
            continue
        ranks = sorted(call.rank for call in calls)
        if not members or ranks != sorted(set(members)):
            best = min(call.seconds for call in calls)
            old = alone.get(sample.key)
            count = len(calls) + (old.count if old else 0)
            best = min(best, old.seconds) if old else best
            alone[sample.key] = replace(old or sample, seconds=best, count=count)
            continue
        seconds = _transfer_seconds(kind, calls)
        if seconds is None:
            hidden += 1
            continue
        found.samples.append(replace(sample, seconds=seconds))
    matched = {sample.key for sample in found.samples}
    alone = {key: sample for key, sample in alone.items() if key not in matched}
    found.samples += [replace(sample, count=1) for sample in alone.values()]
    if alone:
        calls_alone = sum(sample.count for sample in alone.values())
        found.notes.append(
            f"messages and collectives: of {calls_alone} calls not all ranks have traces, so that "
            "ranks may have waited inside them; the shortest of each size is taken"
        )
    if len(numbered) > len(alone) and found.samples:
        found.notes.append(
            "messages and collectives of which all ranks have traces: the time of the rank that "
            "came last is taken, and the median over repetitions"
        )
    if hidden:
        found.notes.append(
            f"messages: {hidden} are left out: their receive began after their send, which hides a "
            "part of the transfer, or the clocks of their hosts differ"
        )


def _sample(
    kind: str, size: float, members: tuple[int, ...], group: int, call: _Call
) -> Sample | None:
    if kind != "message" and group < 2:
        return None
    number = 1 if kind == "message" else group
    return Sample("network", kind, 1.0, 0, size, number, "", call.name, call.place, ranks=members)


def _transfer_seconds(kind: str, calls: Sequence[_Call]) -> float | None:
    """Returns the transfer time: the duration on the rank that came last. It is unknown for a gloo
    message that may have arrived before.
    """
    if kind == "message" and calls[0].buffered:
        send = next(call for call in calls if call.kind == "send")
        receive = next((call for call in calls if call.kind == "recv"), None)
        if receive is None or receive.host != send.host or receive.start > send.start:
            return None
        seconds = receive.start * MICRO + receive.seconds - send.start * MICRO
        return seconds if seconds > 0 else None
    return min(call.seconds for call in calls)
