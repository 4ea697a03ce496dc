"""Fits the parts of a system to samples, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import PipeSchedError
from . import _solve
from ._samples import ENGINES, LINKS, Sample
from ._solve import Data, Solution
from ._system import (
    GIGA,
    MEGA,
    MICRO,
    TERA,
    System,
    accelerators_of,
    compute_and_memory,
    get,
    is_summed,
    put,
    rate_of,
    transfer_of,
)

ROUNDS = 8
"""The largest number of rounds in which kernels are divided into ones bound by memory and others.
"""
ABOVE_PEAK = 0.02
"""Shares of at most 1 + this count as 1; a larger share means that the peak is wrong."""
FROM_CACHE = 4.0
"""The largest plausible speed of caches relative to memory; more means that units are wrong."""


class NotFittedError(Exception):
    """The samples of a part do not determine it, so the system keeps its values."""


@dataclass
class Settings:
    measured: frozenset[str] = frozenset()
    """Peaks that are taken from the samples, such as `matrix.tflops`."""
    dtype: str | None = None
    max_points: int = _solve.MAX_POINTS
    assumed: list[str] = field(default_factory=list)
    """The assumptions of the fit."""

    def assume(self, text: str) -> None:
        if text not in self.assumed:
            self.assumed.append(text)


@dataclass(frozen=True)
class PartFit:
    part: str
    fields: dict[str, Any]
    """New values of fields, by their names in the part."""
    used: frozenset[int]
    """The indices of the samples that were used in the fit."""
    solution: Solution


def _engine_data(part: str, chosen: Sequence[Sample], system: System, has_latency: bool) -> Data:
    rates = [rate_of(system, part, sample.dtype) for sample in chosen]
    size = np.array([s.bytes if part == "memory" else s.flops for s in chosen])
    other = np.zeros(len(chosen))
    if is_summed(system) and part in ENGINES:
        other = np.array([compute_and_memory(s, system)[1] for s in chosen])
    seconds = np.array([s.seconds for s in chosen]) - other
    return Data(
        work=size / np.array([rate.rate if rate else 1.0 for rate in rates]),
        size=size,
        latencies=np.full(len(chosen), float(has_latency)),
        seconds=np.maximum(seconds, 1e-12),
        weight=np.ones(len(chosen)),
    )


def _link_data(chosen: Sequence[Sample], system: System) -> Data:
    moves = [transfer_of(sample, accelerators_of(system)) for sample in chosen]
    return Data(
        work=np.array([move.times * move.bytes for move in moves]) / GIGA,
        size=np.array([move.bytes for move in moves]),
        latencies=np.array([move.latencies for move in moves]),
        seconds=np.array([sample.seconds for sample in chosen]),
        weight=np.ones(len(chosen)),
    )


def _round(value: float, digits: int = 5) -> float:
    """Rounds to significant digits; whole numbers are written without a point."""
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded


def _curve_fields(solution: Solution, scale: float, name: str) -> dict[str, Any]:
    """The curve, with shares of four digits and at least a millionth; equal ends are one point."""
    shares = [round(min(max(float(f"{s:.4g}"), 1e-6), 1.0), 6) for s in solution.shares]
    sizes = [_round(size / scale) for size in solution.points]
    points = [[size, share] for size, share in zip(sizes, shares, strict=True)]
    while len(points) > 1 and points[-1][1] == points[-2][1]:
        points.pop()
    if len(points) == 1:
        return {"efficiency": points[0][1]}
    return {name: points}


def _check_peak(part: str, solution: Solution, system: System, settings: Settings) -> None:
    """Refuses shares above 1. Memory may be slightly faster than its peak because of caches."""
    most = max(solution.shares)
    if most <= 1 + ABOVE_PEAK:
        return
    unit = "TFLOP/s" if part in ENGINES else "GB/s"
    key = "tflops" if part in ENGINES else "bandwidth_gb_per_s"
    peak = get(system, f"{part}.{key}")
    if part == "memory" and most < FROM_CACHE:
        settings.assume(
            f"memory: some kernels are faster than the peak of {peak:g} GB/s, by up to "
            f"{100 * (most - 1):.3g} %: their data is in caches; the share is 1 there; "
            "--set memory.bandwidth_gb_per_s=measured makes the peak that of the caches"
        )
        return
    raise PipeSchedError(
        f"{part}: found samples at {most:.3g} of the peak of {peak:g} {unit}, wanted at most 1; "
        f"give the right peak with --set {part}.{key}=..., or check the units of the file"
    )


def _with_measured_peak(
    part: str, field: str, data: Data, system: System, settings: Settings
) -> None:
    """Sets the peak to the highest rate of a sample."""
    unit, text = (TERA, "TFLOP/s") if part in ENGINES else (GIGA, "GB/s")
    best = float((data.size / data.seconds).max())
    put(system, field, _round(best / unit))
    settings.assume(
        f"{part}: the peak is the highest rate that was measured, {best / unit:.4g} {text}; "
        "utilization is relative to it"
    )


def _tell_lost(part: str, data: Data, solution: Solution, settings: Settings) -> None:
    """Notes which samples have no weight."""
    if solution.lost:
        times = data.seconds / solution.predict(data)
        slow = [float(times[at]) for at in solution.lost]
        settings.assume(
            f"{part}: {len(slow)} of {len(times)} sizes took {min(slow):.3g} to {max(slow):.3g} "
            "times as long as the others say, as where a job has lost its core; they count nothing"
        )


def fit_engine(
    part: str, samples: Sequence[Sample], system: System, settings: Settings
) -> PartFit | None:
    """Fits the curve of an engine, or the curve of memory to kernels that move bytes."""
    chosen = _choose(part, samples, system, settings)
    if not chosen:
        return None
    key = "tflops" if part in ENGINES else "bandwidth_gb_per_s"
    if part == "matrix" and any(samples[at].dtype == "float8" for at in chosen):
        for name in ("fp8_efficiency", "fp8_efficiency_by_gflop"):
            system[part].pop(name, None)  # samples of both types share the curve that is fitted
    is_narrow = part == "matrix" and all(samples[at].dtype == "float8" for at in chosen)
    if get(system, f"{part}.{'fp8_tflops' if is_narrow else key}") is None:
        field = f"{part}.{'fp8_tflops' if is_narrow else key}"
        if part == "matrix" and field not in settings.measured:
            raise PipeSchedError(
                f"matrix: there are {len(chosen)} samples and no peak for their curve; give "
                f"--system, or --set {field}=... with a number or `measured`"
            )
        data = _engine_data(part, [samples[at] for at in chosen], system, False)
        _with_measured_peak(part, field, data, system, settings)
    has_latency = bool(get(system, f"{part}.latency_us"))
    scale, name = (GIGA, "efficiency_by_gflop") if part in ENGINES else (MEGA, "efficiency_by_mb")
    used = chosen
    solution: Solution | None = None
    for _ in range(ROUNDS):
        data = _engine_data(part, [samples[at] for at in used], system, has_latency)
        solution = _solve.curve(data, settings.max_points)
        if not np.isfinite(solution.shares[0]):
            raise NotFittedError(f"{part}: the times do not grow with the work")
        _check_peak(part, solution, system, settings)
        fields = _curve_fields(solution, scale, name)
        if has_latency:
            fields["latency_us"] = _round(solution.latency / MICRO)
        _replace(system, part, fields)
        bound = [at for at in chosen if _is_bound_by(part, samples[at], system)]
        if bound == used or not bound:
            break
        used = bound
    assert solution is not None
    _tell_lost(part, data, solution, settings)
    if len({sample_size(part, samples[at]) for at in used}) == 1:
        settings.assume(f"{part}: one size only; its share of the peak is taken for all sizes")
    return PartFit(part, dict(system[part]), frozenset(used), solution)


def sample_size(part: str, sample: Sample) -> float:
    """The quantity on the axis of the curve of the part."""
    return sample.bytes if part == "memory" else sample.flops


def _is_bound_by(part: str, sample: Sample, system: System) -> bool:
    if part == "memory" or is_summed(system):
        return True
    compute, memory = compute_and_memory(sample, system)
    return compute >= memory


def _choose(part: str, samples: Sequence[Sample], system: System, settings: Settings) -> list[int]:
    """Returns the samples of a part. For the matrix engine they are of one type, and attention has
    separate samples.
    """
    found = [at for at, s in enumerate(samples) if s.part == part and sample_size(part, s) > 0]
    if part != "matrix" or not found:
        return found
    products = [at for at in found if samples[at].kind != "attention"]
    if products and len(products) < len(found):
        settings.assume(
            f"matrix: the curve is fitted to {len(products)} sizes of matrix products; attention "
            f"({len(found) - len(products)} sizes) is predicted by it, not fitted"
        )
    found = products or found
    kinds = {samples[at].dtype for at in found}
    wanted = _wanted_types(kinds, system, settings)
    left = sum(samples[at].dtype not in wanted for at in found)
    if left:
        settings.assume(
            f"matrix: the peak and the curve are those of {', '.join(sorted(wanted))}; {left} "
            f"sizes of {', '.join(sorted(kinds - wanted))} are left out (--dtype chooses others)"
        )
    return [at for at in found if samples[at].dtype in wanted]


def _wanted_types(kinds: set[str], system: System, settings: Settings) -> set[str]:
    """Returns the types whose samples share a curve: 16-bit types and, if they have a rate, 8-bit
    types; otherwise the only type.
    """
    if settings.dtype:
        if settings.dtype not in kinds:
            have = ", ".join(sorted(kinds)) or "none"
            raise PipeSchedError(f"matrix: no sample of {settings.dtype}; found {have}")
        return {settings.dtype}
    narrow = {"float8"} if get(system, "matrix.fp8_tflops") else set()
    half = kinds & {"bfloat16", "float16", ""}
    if half:
        return half | (kinds & narrow)
    if "float8" in kinds:
        return {"float8"}
    return {sorted(kinds)[0]} if len(kinds) == 1 else kinds & {"float32"} or {sorted(kinds)[0]}


def _replace(system: System, part: str, fields: dict[str, Any]) -> None:
    """Replaces the fields that were fitted, and keeps the peak and the capacity."""
    old = system.setdefault(part, {})
    for name in ("efficiency", "efficiency_by_gflop", "efficiency_by_mb", "latency_us"):
        old.pop(name, None)
    old.update(fields)


def fit_link(
    part: str, samples: Sequence[Sample], system: System, settings: Settings
) -> PartFit | None:
    """Fits latency and bandwidth (Hockney 1994), and a curve if one bandwidth is not enough."""
    assert part in LINKS
    used = [at for at, s in enumerate(samples) if s.part == part and s.bytes > 0]
    if not used:
        return None
    chosen = [samples[at] for at in used]
    data = _link_data(chosen, system)
    fields: dict[str, Any] = {}
    if data.sizes == 1:
        solution, latency = _one_size(part, data, system, settings)
    else:
        solution = _solve.curve(data, settings.max_points)
        latency = solution.latency
        _tell_lost(part, data, solution, settings)
    plateau = max(solution.shares)
    if not np.isfinite(plateau):
        raise NotFittedError(
            f"{part}: the times do not grow with the bytes, up to {data.size.max():.4g} bytes; "
            "the bandwidth needs larger messages"
        )
    fields["bandwidth_gb_per_s"] = _round(plateau)
    scaled = tuple(share / plateau for share in solution.shares)
    curve = Solution(solution.points, scaled, latency, solution.rms)
    fields |= _curve_fields(curve, MEGA, "efficiency_by_mb")
    if fields.get("efficiency") == 1:
        del fields["efficiency"]
    if latency > 0:
        fields["latency_us"] = _round(latency / MICRO)
    elif data.sizes > 1:
        settings.assume(f"{part}: the latency is 0: times grow from no bytes on as with the bytes")
    if solution.latency_error > max(latency, 0) > 0:
        settings.assume(
            f"{part}: the latency is not well determined, {latency / MICRO:.3g} us with a standard "
            f"error of {solution.latency_error / MICRO:.3g} us: it needs smaller messages"
        )
    _replace(system, part, fields)
    return PartFit(part, fields, frozenset(used), solution)


def _one_size(part: str, data: Data, system: System, settings: Settings) -> tuple[Solution, float]:
    """Fits a link to messages of one size: since this does not separate latency from bandwidth, the
    latency of the system is kept.
    """
    latency = float(get(system, f"{part}.latency_us") or 0) * MICRO
    rest = data.seconds - data.latencies * latency
    if (rest <= 0).any():
        raise NotFittedError(
            f"{part}: all messages have {data.size[0]:.4g} bytes, and take less than the latency "
            f"of the system, {latency / MICRO:g} us; measure a second size, or give "
            f"--set {part}.latency_us=..."
        )
    where = f"the system's, {latency / MICRO:g} us" if latency else "taken for 0"
    settings.assume(
        f"{part}: all messages have {data.size[0]:.4g} bytes, so that only the bandwidth is "
        f"fitted; the latency is {where}"
    )
    only = Data(data.work, data.size, np.zeros_like(data.latencies), rest, data.weight)
    return _solve.flat(only), latency
