"""Systems fitted to measurements: see `pipesched.fit` and docs/Fitting.md.

`Sample` is one measurement. `files` reads measurements of schedules, `_tables` tables and output of
nccl-tests, `_trace`, `_kineto` and `_collectives` traces of PyTorch's profiler. Measured steps of
whole trainings correct a system in place of making one (`_correct`).
"""

from __future__ import annotations

from ._correct import Correction, OwnStep, correct, fit_steps
from ._fit import Fit, fit
from ._samples import COLLECTIVES, PARTS, Sample

__all__ = [
    "COLLECTIVES",
    "PARTS",
    "Correction",
    "Fit",
    "OwnStep",
    "Sample",
    "correct",
    "fit",
    "fit_steps",
]
