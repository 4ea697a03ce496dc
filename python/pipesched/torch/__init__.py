"""Schedules that train in PyTorch: one process per worker, over torch.distributed.

`PipelineRuntime` runs any schedule or program on modules of yours; `split_sequential` cuts an
`nn.Sequential` into the stages of a schedule, by times that `measure_children` takes if wanted,
`from_hugging_face` a language model of transformers, and `split_model` any other module.
docs/Torch.md is the guide. PyTorch is imported here and nowhere else in pipesched.
"""

from __future__ import annotations

from ..errors import needing as _needing

with _needing(__name__, "PyTorch", "pip install torch"):
    import torch.distributed as _distributed
if not _distributed.is_available():
    raise ImportError("pipesched.torch needs a PyTorch that is built with torch.distributed")

from .core.errors import MemoryBudgetError, PipelineError, PipelineTimeout, RemoteError
from .core.values import Arguments
from .partition.cut import measure_parts, split_model
from .partition.layers import from_hugging_face, measure_layers
from .partition.split import SequentialStages, measure_children, split_sequential
from .profiling.record import Event, Recording
from .runtime.runtime import PipelineRuntime

__all__ = [
    "Arguments",
    "Event",
    "MemoryBudgetError",
    "PipelineError",
    "PipelineRuntime",
    "PipelineTimeout",
    "Recording",
    "RemoteError",
    "SequentialStages",
    "from_hugging_face",
    "measure_children",
    "measure_layers",
    "measure_parts",
    "split_model",
    "split_sequential",
]

for _public in (MemoryBudgetError, PipelineError, PipelineTimeout, RemoteError):
    _public.__module__ = __name__  # As users import them.
