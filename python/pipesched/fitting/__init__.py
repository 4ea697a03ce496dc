"""Systems fitted to measurements: see `pipesched.fit` and docs/Fitting.md.

`Sample` is one measurement. The readers of files are one module each: tables (`_tables`), output of
nccl-tests (`_nccl_tests`), traces of PyTorch's profiler (`_trace`, `_kineto`, `_operations`,
`_collectives`) and measurements of schedules (`_cells`).
"""

from __future__ import annotations

from ._fit import Fit, fit
from ._samples import COLLECTIVES, PARTS, Sample

__all__ = ["COLLECTIVES", "PARTS", "Fit", "Sample", "fit"]
