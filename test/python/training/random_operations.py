"""Operations for random modules. Each keeps the shape of its input.

An operation is a name and a function that draws it for a shape: (B, T, C) or (B, C, H, W).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Function = Callable[[Tensor], Tensor]


class Operation(nn.Module):
    def __init__(self, name: str, function: Callable[..., Tensor], *held: nn.Module) -> None:
        super().__init__()
        self.name, self.function = name, function
        self.held = nn.ModuleList(held)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.held)

    def extra_repr(self) -> str:
        return self.name

    def __deepcopy__(self, memo: Any) -> Operation:
        # Functions with extra arguments cannot be copied.
        return Operation(self.name, self.function, *copy.deepcopy(list(self.held), memo))


class Residual(nn.Module):
    """The input, and the results of some operations on it."""

    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.inner(x)
        return found


# For each element


def _tame(x: Tensor) -> Tensor:
    return 2 * torch.tanh(x / 2)


ELEMENTS: dict[str, Function] = {
    "gelu": functional.gelu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "mish": functional.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "relu6": lambda x: functional.relu6(4 * x),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "elu": functional.elu,
    "selu": functional.selu,
    "celu": lambda x: functional.celu(x, 0.7),
    "softplus": lambda x: functional.softplus(x, 2.0),
    "hardsigmoid": lambda x: functional.hardsigmoid(2 * x),
    "hardswish": lambda x: functional.hardswish(2 * x),
    "hardtanh": lambda x: functional.hardtanh(x, -0.8, 0.9),
    "logsigmoid": functional.logsigmoid,
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "softshrink": lambda x: functional.softshrink(x, 0.3),
    "hardshrink": lambda x: functional.hardshrink(x, 0.3),
    "threshold": lambda x: functional.threshold(x, 0.1, -0.2),
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "atan": torch.atan,
    "exp": lambda x: torch.exp(_tame(x)),
    "exp2": lambda x: torch.exp2(_tame(x)),
    "expm1": lambda x: torch.expm1(_tame(x)),
    "expm1 small": lambda x: 1e3 * torch.expm1(1e-3 * _tame(x)),
    "log1p": lambda x: torch.log1p(x * x),
    "log1p small": lambda x: 1e3 * torch.log1p(1e-3 * _tame(x)),
    "log": lambda x: torch.log(x * x + 0.5),
    "log2": lambda x: torch.log2(x * x + 0.5),
    "sqrt": lambda x: torch.sqrt(x * x + 0.1),
    "rsqrt": lambda x: torch.rsqrt(x * x + 0.1),
    "reciprocal": lambda x: torch.reciprocal(x * x + 0.5),
    "pow 2": lambda x: _tame(x) ** 2,
    "pow 3": lambda x: _tame(x) ** 3,
    "pow -1": lambda x: (x * x + 0.7) ** -1,
    "pow -2": lambda x: (_tame(x) + 2.6) ** -2,
    "pow -1.5": lambda x: (x * x + 0.7) ** -1.5,
    "pow tensor": lambda x: (x * x + 0.7) ** _tame(x),
    "square": lambda x: torch.square(_tame(x)),
    "abs": torch.abs,
    "sign": lambda x: x * torch.sign(x),
    "clamp": lambda x: x.clamp(-0.6, 0.7),
    "clamp min": lambda x: x.clamp(min=-0.3),
    "clip max": lambda x: x.clip(max=0.4),
    "maximum": lambda x: torch.maximum(x, 0.5 * x + 0.1),
    "minimum": lambda x: torch.minimum(x, -0.5 * x),
    "where": lambda x: torch.where(x > 0.1, x, 0.3 * x),
    "masked_fill": lambda x: x.masked_fill(x < -0.4, -0.4),
    "nan_to_num": lambda x: torch.nan_to_num(x),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, torch.sin(x), value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, 1 + x * x),
    "atan2": lambda x: torch.atan2(x, 1 + x * x),
    "sinh": lambda x: torch.sinh(_tame(x)),
    "asinh": torch.asinh,
    "remainder": lambda x: torch.remainder(x, 8.0) / 8,
    "float": lambda x: torch.sin(x.float()).to(x.dtype),
    "double": lambda x: torch.sin(x.double()).to(x.dtype),
    "bfloat16": lambda x: x + x.detach().bfloat16().to(x.dtype),
    "comparison": lambda x: x * (x > 0).to(x.dtype) + x * (x <= 0),
    "detach": lambda x: x * x.detach(),
    "logit": lambda x: torch.logit(torch.sigmoid(x) * 0.8 + 0.1),
    "logaddexp": lambda x: torch.logaddexp(x, 0.5 * x),
    "hypot": lambda x: torch.hypot(x, 1 + x * x),
    "xlogy": lambda x: torch.xlogy(x, x * x + 0.5),
    "frac": lambda x: x - torch.frac(x.detach()),
}

# Along a dimension

Along = Callable[[Tensor, int], Tensor]

ALONG: dict[str, Along] = {
    "softmax": lambda x, d: x.softmax(d) * 3,
    "log_softmax": lambda x, d: x.log_softmax(d),
    "softmin": lambda x, d: functional.softmin(x, d),
    "logsumexp": lambda x, d: x - x.logsumexp(d, keepdim=True),
    "sum": lambda x, d: x + 0.2 * x.sum(d, keepdim=True),
    "mean": lambda x, d: x - x.mean(d, keepdim=True),
    "var": lambda x, d: x + x.var(d, keepdim=True),
    "var biased": lambda x, d: x + x.var(d, correction=0, keepdim=True),
    "std": lambda x, d: x / (x.std(d, keepdim=True) + 0.5),
    "var_mean": lambda x, d: x + sum(torch.var_mean(x, d, keepdim=True)),
    "amax": lambda x, d: x - x.amax(d, keepdim=True),
    "amin": lambda x, d: x - x.amin(d, keepdim=True),
    "max": lambda x, d: x - x.max(d, keepdim=True).values,
    "argmax": lambda x, d: x + 0.1 * x.argmax(d, keepdim=True),
    "norm": lambda x, d: x / (x.norm(dim=d, keepdim=True) + 0.3),
    "normalize": lambda x, d: functional.normalize(x, dim=d),
    "cosine": lambda x, d: x + functional.cosine_similarity(x, x + 1, d).unsqueeze(d),
    "cumsum": lambda x, d: x.cumsum(d) * 0.4,
    "cumprod": lambda x, d: (1 + 0.2 * torch.tanh(x)).cumprod(d) - 1,
    "logcumsumexp": lambda x, d: x.logcumsumexp(d),
    "prod": lambda x, d: x + (1 + 0.2 * torch.tanh(x)).prod(d, keepdim=True),
    "flip": lambda x, d: x.flip(d) * 0.9,
    "roll": lambda x, d: x + x.roll(2, d),
    "roll back": lambda x, d: x - x.roll(-1, d),
    "diff": lambda x, d: x.diff(dim=d, prepend=x.narrow(d, 0, 1)),
    "chunk": lambda x, d: torch.cat(x.chunk(2, d)[::-1], d),
    "split": lambda x, d: torch.cat([x.narrow(d, 1, x.shape[d] - 1), x.narrow(d, 0, 1)], d),
    "index list": lambda x, d: x + x.index_select(d, torch.tensor([1] * x.shape[d])),
    "unfold": lambda x, d: x + x.unfold(d, 2, 1).mean(-1).mean(d, keepdim=True),
    "stack": lambda x, d: torch.stack([x, x * x], d).mean(d),
    "repeat": lambda x, d: x.repeat_interleave(2, d).narrow(d, 1, x.shape[d]),
    "expand": lambda x, d: x + x.narrow(d, 1, 1).expand(x.shape),
    "slice": lambda x, d: torch.cat([x.narrow(d, 0, 2), x.narrow(d, 2, x.shape[d] - 2).tanh()], d),
    "any": lambda x, d: x * (x > 0.5).any(d, keepdim=True),
    "swap": lambda x, d: x.transpose(d, -1).contiguous().cos().transpose(d, -1),
    "linspace": lambda x, d: x + torch.linspace(0, 1, x.shape[-1], dtype=x.dtype),
    "one_hot": lambda x, d: x + functional.one_hot(torch.arange(x.shape[-1]) % 2, x.shape[-1]),
    "gather": lambda x, d: x + x.gather(d, x.argmax(d, keepdim=True).detach()),
}

# Over the last two dimensions or the whole

WHOLE: dict[str, Function] = {
    "sum all": lambda x: x + 0.01 * x.sum(),
    "mean all": lambda x: x - x.mean((-1, -2), keepdim=True),
    "std all": lambda x: x / (x.std() + 0.3),
    "norm all": lambda x: x / (x.norm() + 1),
    "tril": lambda x: x + x.tril(),
    "triu": lambda x: x + x.triu(1),
    "product": lambda x: x + 0.1 * (x @ x.transpose(-1, -2)) @ x,
    "einsum": lambda x: x + 0.1 * torch.einsum("...ij,...kj,...kl->...il", x, x, x),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "causal": lambda x: x + functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "pad": lambda x: functional.pad(x, (1, 2, 2, 0))[..., 1:-1, 2:-1],
    "pad cut": lambda x: functional.pad(functional.pad(x, (2, 0)), (-1, -1)),
    "pad cut rows": lambda x: functional.pad(x, (0, 0, -1, 1), value=0.5),
    "pad reflect": lambda x: functional.pad(x, (1, 0), mode="reflect")[..., :-1],
    "pad replicate": lambda x: functional.pad(x, (2, 0), mode="replicate")[..., 1:-1],
    "pad circular": lambda x: functional.pad(x, (1, 1), mode="circular")[..., 2:],
    "index rows": lambda x: x + x[..., [0, 2, 2, 1] * 9, :][..., : x.shape[-2], :],
    "index columns": lambda x: x[..., [x.shape[-1] - 1 - i for i in range(x.shape[-1])]],
    "index tensor": lambda x: x + x[torch.tensor([1, 1])],
    "avg_pool1d": lambda x: functional.avg_pool1d(x.flatten(0, -3), 3, 1, 1).view(x.shape),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 1, 1),
    "avg_pool2d without": lambda x: functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    "adaptive": lambda x: x + functional.adaptive_avg_pool2d(x, (1, 2)).mean(-1, keepdim=True),
    "lrn": lambda x: functional.local_response_norm(x, 3),
    "eye": lambda x: x + torch.eye(x.shape[-2], x.shape[-1], dtype=x.dtype),
    "empty": lambda x: torch.cat([x, x[..., :0]], -1),
    "diagonal": lambda x: x + x.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None],
    "instance_norm": lambda x: functional.instance_norm(x),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "upsample": lambda x: functional.avg_pool2d(
        functional.interpolate(x if x.dim() == 4 else x[None], scale_factor=2), 2
    ).view(x.shape),
    "outer": lambda x: (x[..., None] * x[..., None, :]).mean(-1),
    "max_pool": lambda x: x + x.amax((-1, -2), keepdim=True),
}


# Modules

Drawn = Callable[[random.Random, Sequence[int]], nn.Module]


class SwiGLU(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.both, self.down = nn.Linear(width, 6 * width), nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.both(x).chunk(2, -1)
        found: Tensor = self.down(functional.silu(gate) * up)
        return found


class Attention(nn.Module):
    """With 2 heads, and half of them for keys and values."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1, -2)
        query = self.query(rows).unflatten(-1, (2, -1)).transpose(1, 2)
        key, value = (each.unsqueeze(1) for each in self.both(rows).chunk(2, -1))
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=self.causal, enable_gqa=True
        )
        found: Tensor = self.out(mixed.transpose(1, 2).reshape(rows.shape))
        return found.view(x.shape)


class Glu(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        return functional.glu(self.both(x))


class Channels(nn.Module):
    """A module of channels in dimension 1, for sequences: their last dimension."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x.transpose(1, 2)).transpose(1, 2)
        return found


def _convolution(draw: random.Random, shape: Sequence[int]) -> nn.Module:
    kernel = draw.choice([1, 3])
    if len(shape) == 3:
        return Channels(nn.Conv1d(shape[2], shape[2], kernel, padding=kernel // 2))
    groups = draw.choice([1, 2, shape[1]])
    return nn.Conv2d(shape[1], shape[1], kernel, padding=kernel // 2, groups=groups)


def _norm(draw: random.Random, shape: Sequence[int]) -> nn.Module:
    width = shape[-1]
    if len(shape) == 3:
        return draw.choice(
            [
                nn.LayerNorm(width),
                nn.RMSNorm(width),
                Channels(nn.GroupNorm(2, width)),
                Channels(nn.BatchNorm1d(width, track_running_stats=False)),
                Channels(nn.InstanceNorm1d(width, affine=True)),
            ]
        )
    return draw.choice(
        [
            nn.GroupNorm(2, shape[1]),
            nn.BatchNorm2d(shape[1], track_running_stats=False),
            nn.InstanceNorm2d(shape[1], affine=True),
            nn.LayerNorm(list(shape[1:])),
        ]
    )


MODULES: dict[str, Drawn] = {
    "linear": lambda draw, shape: nn.Linear(shape[-1], shape[-1], bias=draw.random() < 0.7),
    "norm": _norm,
    "convolution": _convolution,
    "swiglu": lambda _, shape: SwiGLU(shape[-1]),
    "glu": lambda _, shape: Glu(shape[-1]),
    "mlp": lambda _, shape: nn.Sequential(
        nn.Linear(shape[-1], 16), nn.GELU(), nn.Linear(16, shape[-1])
    ),
    "attention": lambda draw, shape: Attention(shape[-1], draw.random() < 0.5),
    "prelu": lambda draw, shape: nn.PReLU(draw.choice([1, shape[1]])),
}


def _simple(draw: random.Random, shape: Sequence[int]) -> nn.Module:
    kind = draw.choice(["elements", "along", "whole", "modules"])
    if kind == "elements":
        name = draw.choice(list(ELEMENTS))
        return Operation(name, ELEMENTS[name])
    if kind == "along":
        name, dimension = draw.choice(list(ALONG)), draw.randrange(1, len(shape))
        function = ALONG[name]
        return Operation(f"{name} along {dimension}", lambda x: function(x, dimension))
    if kind == "whole":
        name = draw.choice(list(WHOLE))
        return Operation(name, WHOLE[name])
    name = draw.choice(list(MODULES))
    return Operation(name, lambda x, module: module(x), MODULES[name](draw, shape))


def random_operation(draw: random.Random, shape: Sequence[int]) -> nn.Module:
    """An operation or, at times, some of them with a residual."""
    if draw.random() < 0.2:
        inner = [_simple(draw, shape) for _ in range(draw.randint(1, 3))]
        return Residual(*inner)
    return _simple(draw, shape)


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def _distributions(output: Tensor, target: Tensor) -> Tensor:
    logs = output.log_softmax(-1)
    return functional.kl_div(logs, target.softmax(-1), reduction="batchmean")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy,
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth_l1": functional.smooth_l1_loss,
    "huber": lambda y, t: functional.huber_loss(y, t, delta=0.7),
    "bce": functional.binary_cross_entropy_with_logits,
    "kl": _distributions,
    "sum": lambda y, t: (y * t).sum() / 7,
}
