"""Systems fitted to measurements: see `pipesched.fit` and docs/Fitting.md.

`Sample` is one measurement. The readers of files are one module each: tables (`_tables`), output of
nccl-tests (`_nccl_tests`), traces of PyTorch's profiler (`_trace`, `_kineto`, `_operations`,
`_collectives`) and measurements of schedules (`files`).
Measured steps of whole trainings correct a system in place of making one (`_correct`).
"""

from __future__ import annotations

from ._correct import Correction, correct, fit_steps
from ._fit import Fit, fit
from ._own_steps import OwnStep
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
