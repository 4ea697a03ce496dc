"""Measurements: one sample per kernel, copy, message or collective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

PARTS = ("matrix", "vector", "memory", "link", "network", "host")
"""The parts of a system to which a sample can belong, named as in system files."""

ENGINES = ("matrix", "vector")
LINKS = ("link", "network", "host")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}

_DTYPES = {
    "double": "float64",
    "fp64": "float64",
    "float": "float32",
    "fp32": "float32",
    "tf32": "float32",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8",
    "e4m3": "float8",
    "e5m2": "float8",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "byte": "uint8",
}


def dtype_of(text: object) -> str:
    """The name in `ITEM_BYTES` of a type of PyTorch, NCCL or a person; "" if not known.

    >>> dtype_of("c10::BFloat16"), dtype_of("torch.float8_e4m3fn"), dtype_of("Scalar")
    ('bfloat16', 'float8', '')
    """
    name = str(text).strip().lower().removeprefix("c10::").removeprefix("torch.")
    name = name.removeprefix("at::")
    if name.startswith("float8"):
        return "float8"
    name = _DTYPES.get(name, name)
    return name if name in ITEM_BYTES else ""


@dataclass(frozen=True)
class Sample:
    """One measurement, or the median of equal ones."""

    part: str
    """The part of the system that was measured, one of `PARTS`."""
    kind: str
    """`gemm`, `attention`, `kernel`, `message`, `copy`, or one of `COLLECTIVES`."""
    seconds: float
    flops: float = 0.0
    bytes: float = 0.0
    """Bytes that the kernel reads and writes, or of the message; for a collective the whole buffer,
    as nccl-tests counts it: the bytes that all members together gather, scatter or reduce.
    """
    group: int = 1
    """Members of a collective."""
    dtype: str = ""
    name: str = ""
    place: str = ""
    count: int = 1
    ranks: tuple[int, ...] = ()
    """For a message or collective in a trace: its members, if they show whether it went over the
    link or the network.
    """

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for measurements of the same thing."""
        return self.part, self.kind, self.flops, self.bytes, self.group, self.dtype


@dataclass
class Found:
    """The contents of the files: samples, and unused parts."""

    samples: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Assumptions and omissions that change the answer, one sentence each."""
    unknown: dict[str, float] = field(default_factory=dict)
    """Seconds by name, of kernels without known work."""
    seconds: float = 0.0
    """The time of all kernels or operations in traces, with or without known work."""

    def leave_out(self, name: str, seconds: float) -> None:
        """Counts time whose work is not known."""
        self.unknown[name] = self.unknown.get(name, 0.0) + seconds

    def add(self, other: Found) -> None:
        """Adds the contents of another file."""
        self.samples += other.samples
        self.notes += [note for note in other.notes if note not in self.notes]
        self.seconds += other.seconds
        for name, seconds in other.unknown.items():
            self.leave_out(name, seconds)


def usable(seconds: object) -> bool:
    """Whether the time is positive and finite, so that it can be fitted."""
    return isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0


def medians(samples: Iterable[Sample]) -> list[Sample]:
    """Merges samples that measure the same thing into one with the median time."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.key, []).append(sample)
    return [_median(group) for group in groups.values()]


def _median(group: Sequence[Sample]) -> Sample:
    times = np.repeat([s.seconds for s in group], [s.count for s in group])
    return replace(group[0], seconds=float(np.median(times)), count=len(times))
