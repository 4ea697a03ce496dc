"""Rates that fall with the size, and samples that were slowed down: a fit predicts the samples that
it leaves out.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pipesched
import pytest
from pipesched.fitting import Sample
from pipesched.fitting._system import predict

FALLING: dict[str, Any] = {
    "name": "cached",
    "description": "a processor with caches",
    "sources": {"matrix": "made up"},
    "accelerators": 1,
    "accelerators_per_node": 1,
    "matrix": {
        "tflops": 1.0,
        "efficiency_by_gflop": [[0, 0.2], [0.02, 0.8], [0.5, 0.9], [4, 0.45]],
    },
    "vector": {"tflops": 1.0},
    "memory": {
        "capacity_gb": 8,
        "bandwidth_gb_per_s": 200,
        "efficiency_by_mb": [[0, 0.3], [0.1, 0.9], [10, 0.85], [60, 0.1]],
    },
    "link": {"bandwidth_gb_per_s": 10, "latency_us": 20},
    "network": {"bandwidth_gb_per_s": 10, "latency_us": 20},
}


def measured(count: int, noise: float, lost: float, seed: int) -> list[Sample]:
    """Products, kernels and messages of many sizes; a share of them took 1.4 to 3 times as long."""
    random = np.random.default_rng(seed)
    bare = [
        *(
            Sample("matrix", "gemm", 1, round(size), 1.0, dtype="float32")
            for size in np.geomspace(1e6, 1e11, count)
        ),
        *(Sample("memory", "kernel", 1, 0, round(size)) for size in np.geomspace(1e3, 1e9, count)),
        *(Sample("network", "message", 1, 0, round(s)) for s in np.geomspace(1e3, 1e9, count)),
    ]
    found = []
    for sample in bare:
        factor = float(np.exp(noise * random.standard_normal()))
        factor *= random.uniform(1.4, 3) if random.random() < lost else 1.0
        found.append(replace(sample, seconds=predict(sample, FALLING) * factor))
    return found


def held_out(samples: list[Sample]) -> tuple[pipesched.Fit, dict[str, float]]:
    """The fit of every second size, and the median error of the others by part."""
    fit = pipesched.fit(system=FALLING, samples=samples[::2], dtype="float32")
    errors: dict[str, list[float]] = {}
    for sample in samples[1::2]:
        error = abs(predict(sample, fit.system) / predict(sample, FALLING) - 1)
        errors.setdefault(sample.part, []).append(error)
    return fit, {part: float(np.median(found)) for part, found in errors.items()}


@pytest.mark.parametrize("seed", range(3))
def test_rates_may_fall_with_the_size(seed: int) -> None:
    fit, errors = held_out(measured(60, 0.04, 0.0, seed))
    assert max(errors.values()) < 0.06, errors
    for part, name in (("matrix", "efficiency_by_gflop"), ("memory", "efficiency_by_mb")):
        curve = fit.system[part][name]
        assert curve[-1][1] < 0.7 * max(share for _, share in curve), curve
    pipesched.Costs(model="toy", system=fit.system, microbatch_size=1)  # The library reads it.


@pytest.mark.parametrize("seed", range(4))
def test_samples_that_lost_their_core_count_nothing(seed: int) -> None:
    samples = measured(60, 0.04, 0.2, seed)
    fit, errors = held_out(samples)
    assert max(errors.values()) < 0.1, errors
    told = [text for text in fit.assumptions if "as where a job has lost its core" in text]
    assert len(told) == 3, fit.assumptions
    assert fit.system["network"]["bandwidth_gb_per_s"] == pytest.approx(10, rel=0.03)


def test_one_slow_size_at_the_end_is_no_fall() -> None:
    samples = [s for s in measured(24, 0.0, 0.0, 0) if s.part == "network"]
    samples[-1] = replace(samples[-1], seconds=2 * samples[-1].seconds)
    fit = pipesched.fit(system=FALLING, samples=samples)
    larger = replace(samples[-1], bytes=1e10)
    assert predict(larger, fit.system) == pytest.approx(predict(larger, FALLING), rel=0.1)


MESSAGES = [
    (1024, 117.1),
    (1744, 44.82),
    (2972, 42.1),
    (5068, 41.5),
    (8640, 40.64),
    (14724, 41.62),
    (25100, 48.18),
    (42776, 53.65),
    (72908, 67.63),
    (124264, 69.31),
    (211792, 88.16),
    (360972, 107.2),
    (615228, 157),
    (1048576, 230.8),
    (1787152, 394.7),
    (3045948, 727.8),
    (5191400, 1186),
    (8848016, 2119),
    (15080216, 3982),
    (25702128, 8154),
]
"""Bytes and microseconds of messages over gloo, between two processes of a machine with other work.
"""


def test_small_messages_that_show_the_latency_alone() -> None:
    """Any rate that is large enough fits them, so that rates grew without end."""
    samples = [Sample("network", "message", us * 1e-6, 0, size) for size, us in MESSAGES]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = pipesched.fit(system=FALLING, samples=samples)
    found = [predict(sample, fit.system) / sample.seconds - 1 for sample in samples]
    assert float(np.median(np.abs(found))) < 0.06, found
    assert 30 < fit.system["network"]["latency_us"] < 50
