"""Support for stages under schedules that cut microbatches along their tokens.

A stage is given one slice of the tokens at a time, in order, as a tensor of samples by tokens (by
width). Attention calls `with_earlier` for its keys and values, and gets the keys and values of the
earlier slices too, with all gradients; positions count from `first_token`. Outside of a sliced
schedule `with_earlier` gives back its arguments, and `first_token` is 0.

Sequence-level pipelines are from Seq1F1B (arXiv 2406.03488) and TeraPipe (arXiv 2102.07988).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as _attention

from .sequence.kv_cache import first_token, with_earlier

__all__ = ["CausalSelfAttention", "first_token", "scaled_dot_product_attention", "with_earlier"]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, **options: Any
) -> Tensor:
    """Causal attention of the tokens of this slice to themselves and to all earlier ones, in place
    of `torch.nn.functional.scaled_dot_product_attention` with `is_causal=True`.

    query, key, value: [..., heads, tokens of the slice, width of a head].
    options: `scale` and `enable_gqa` as there.
    """
    key, value = with_earlier(key, value)
    tokens, seen = query.shape[-2], key.shape[-2]
    if tokens == seen:
        return _attention(query, key, value, dropout_p=dropout_p, is_causal=True, **options)
    mask = _lower_right(tokens, seen)
    return _attention(query, key, value, attn_mask=mask, dropout_p=dropout_p, **options)


@cache
def _lower_right(tokens: int, seen: int) -> Any:
    """Returns the mask. PyTorch cannot make it during the comparison of slices."""
    return causal_lower_right(tokens, seen)


class CausalSelfAttention(nn.Module):
    """Causal self-attention of several heads, whole or by slices.

    Takes and gives [samples, tokens, width].
    """

    def __init__(self, width: int, heads: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} cannot be divided among {heads} heads")
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias)
        self.out = nn.Linear(width, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Attends from every token to itself and to all before it."""
        samples, tokens, width = x.shape
        shape = samples, tokens, 3, self.heads, width // self.heads
        query, key, value = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        found = scaled_dot_product_attention(query, key, value, dropout)
        projected: Tensor = self.out(found.transpose(1, 2).reshape(samples, tokens, width))
        return projected
