"""Runs any table as the schedule of Megatron-Core: `forward_backward(table)` replaces the function
that its `get_forward_backward_func` returns (docs/Megatron.md). `layer_layout` and `build_chunks`
place the layers and chunks of a model as the table does.
"""

from __future__ import annotations

try:
    import megatron.core as _core  # noqa: F401
except ImportError as error:
    raise ImportError(
        "pipesched.megatron needs Megatron-Core, which pipesched does not install: pip install "
        "megatron-core==0.16.1"
    ) from error

from .chunks import build_chunks, layer_layout
from .step import forward_backward

__all__ = ["build_chunks", "forward_backward", "layer_layout"]
