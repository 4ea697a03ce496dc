"""System files, and the times that the cost model predicts from them (docs/CostModel.md;
`lib/CostModel/Stages/Roofline.cpp`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..costs.catalogue import systems, take_rates
from ..costs.costs import Costs, Description
from ..errors import PipeSchedError
from ..support.options import Rates
from ._samples import ENGINES, Sample

System = dict[str, Any]

TERA, GIGA, MEGA, MICRO = 1e12, 1e9, 1e6, 1e-6

REQUIRED = (
    "matrix.tflops",
    "vector.tflops",
    "memory.capacity_gb",
    "memory.bandwidth_gb_per_s",
    "network.bandwidth_gb_per_s",
)


def read_base(base: Description | None, rates: Rates = "data-sheet") -> System:
    """Returns the fields of a system: one that ships, a file, or a mapping; {} for None."""
    if base is None:
        return {}
    Costs(system=base)
    if isinstance(base, Mapping):
        found = dict(base)
    else:
        found = _read_named(os.fspath(base))
    if not isinstance(found.get("matrix"), dict) or "tflops" not in found["matrix"]:
        raise PipeSchedError(
            f"{base}: found a system of another tool, wanted one with the fields of systems/*.json"
        )
    return take_rates(found, rates)


def _read_named(name: str) -> System:
    for shipped, fields in systems().items():
        if name == shipped or name in fields.get("aliases", ()):
            return dict(fields)
    with open(name, encoding="utf-8-sig") as file:
        return dict(json.load(file))


def get(system: System, path: str) -> Any:
    """Returns a field by its path, such as `memory.capacity_gb`; None if it is missing."""
    value: Any = system
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(system: System, path: str, value: Any) -> None:
    """Sets a field by its path, such as `memory.capacity_gb`."""
    *parents, name = path.split(".")
    for parent in parents:
        system = system.setdefault(parent, {})
        if not isinstance(system, dict):
            raise PipeSchedError(f"{path}: {parent} is {system!r}, which has no fields")
    system[name] = value


@dataclass(frozen=True)
class Rate:
    """An engine, a memory or a link: FLOP/s or bytes/s, the latency in s, and the curve."""

    rate: float
    latency: float
    sizes: tuple[float, ...]
    shares: tuple[float, ...]

    def seconds(self, amount: float, size: float | None = None) -> float:
        """Without latency."""
        share = float(np.interp(amount if size is None else size, self.sizes, self.shares))
        return amount / (self.rate * share)


def rate_of(system: System, part: str, dtype: str = "") -> Rate | None:
    """The rate of a part; None if the system has none."""
    fields = system.get(part)
    if not isinstance(fields, dict):
        return None
    if part in ENGINES:
        name = "fp8_tflops" if part == "matrix" and dtype == "float8" else "tflops"
        rate, unit, key = fields.get(name), TERA, "efficiency_by_gflop"
        scale = GIGA
        narrow = {k: v for k, v in fields.items() if k.startswith("fp8_efficiency")}
        if name == "fp8_tflops" and narrow:  # which replaces the other curve
            fields = {k.removeprefix("fp8_"): v for k, v in narrow.items()} | {
                "latency_us": fields.get("latency_us", 0)
            }
    else:
        rate, unit, key = fields.get("bandwidth_gb_per_s"), GIGA, "efficiency_by_mb"
        scale = MEGA
    if not rate:
        return None
    points: Sequence[Sequence[float]] = fields.get(key) or [[0, fields.get("efficiency", 1)]]
    return Rate(
        rate * unit,
        fields.get("latency_us", 0) * MICRO,
        tuple(size * scale for size, _ in points),
        tuple(share for _, share in points),
    )


@dataclass(frozen=True)
class Transfer:
    """A message or collective: `times` transfers of `bytes`, and `latencies` latencies. The share
    is the efficiency of a transfer of `bytes`.
    """

    times: float
    bytes: float
    latencies: float


def transfer_of(sample: Sample, accelerators: int) -> Transfer:
    """Computes a transfer as the cost model does. Each accelerator sends its part."""
    total = sample.bytes * (accelerators if sample.part == "network" else 1)
    members = sample.group
    if sample.kind not in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        return Transfer(1, total, 1)
    halves = 2 if sample.kind == "all_reduce" else 1
    if sample.part == "link" and sample.kind != "all_to_all":
        return Transfer(halves * (members - 1) / members, total, halves / 2)
    steps = halves * (members - 1)
    return Transfer(steps, total / members, steps)


def compute_and_memory(sample: Sample, system: System) -> tuple[float, float]:
    """The two terms of the roofline, in s; 0 if there is no work or no rate."""
    compute = memory = 0.0
    engine = rate_of(system, sample.part, sample.dtype) if sample.part in ENGINES else None
    if engine and sample.flops:
        compute = engine.seconds(sample.flops) + engine.latency
    rate = rate_of(system, "memory")
    if rate and sample.bytes:
        memory = rate.seconds(sample.bytes) + rate.latency
    return compute, memory


def predict(sample: Sample, system: System) -> float:
    """The time that the cost model gives this sample, s; NaN if the system has no such part."""
    if sample.part in (*ENGINES, "memory"):
        compute, memory = compute_and_memory(sample, system)
        both = compute + memory if is_summed(system) else max(compute, memory)
        return both or float("nan")
    rate = rate_of(system, sample.part)
    if rate is None:
        return float("nan")
    parts = transfer_of(sample, accelerators_of(system))
    return parts.times * rate.seconds(parts.bytes) + parts.latencies * rate.latency


def is_summed(system: System) -> bool:
    """Whether a kernel takes the sum of compute and memory."""
    return bool(system.get("processing") == "no_overlap")


def accelerators_of(system: System) -> int:
    """The number of accelerators of a worker."""
    return int(system.get("accelerators", 1))
