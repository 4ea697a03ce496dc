"""Replaces the functions of CUDA that Megatron-Core uses, for CPUs; imported before it."""

from __future__ import annotations

from typing import Any

import torch

CPU = torch.device("cpu")
if not torch.cuda.is_available():
    untyped: Any = torch
    untyped.compile = lambda function, **_: function  # its fusions are decorated with it
    untyped.cuda.current_device = lambda: CPU
    untyped.cuda.synchronize = lambda *_: None
    untyped.Tensor.cuda = lambda tensor, *_, **__: tensor
    make_zeros = torch.zeros

    def zeros(*sizes: Any, **options: Any) -> torch.Tensor:
        if options.get("device") == "cuda":
            options["device"] = CPU
        return make_zeros(*sizes, **options)

    untyped.zeros = zeros
