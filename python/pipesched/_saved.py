"""What the IR of a schedule says about its model and its system, for throughput and for memory of
accelerators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._schedule import Schedule

_BLOCK = re.compile(r'^    block "[^"]*"(?: x (\d+))?')
_KERNEL = re.compile(r'^      kernel "[^"]*" on (matrix\w*) .*?F <(\d+) flops')


@dataclass(frozen=True)
class Saved:
    """Sizes of a training step by the IR of its schedule. Numbers are None where it has none."""

    accelerators: int | None
    """Those of a worker."""
    pipelines: int
    sequence: int | None
    microbatch_size: int | None
    flops: int
    """FLOPs of matrix engines for a microbatch: a backward has twice those of the forward."""
    peak_flops: float
    """FLOP/s of the matrix engines of a worker, in the precision of its linear layers."""

    def tokens(self, microbatches: int) -> int | None:
        """The tokens of a step of all pipelines."""
        if not self.sequence or not self.microbatch_size:
            return None
        return self.pipelines * microbatches * self.microbatch_size * self.sequence

    def rates(self, workers: int, microbatches: int, makespan_ps: int) -> dict[str, float | None]:
        """Tokens per second, and FLOPs of the model divided by the peak FLOPs."""
        tokens = self.tokens(microbatches)
        if tokens is None or not makespan_ps:
            return {"tokens_per_s": None, "mfu": None}
        seconds = makespan_ps / 1e12
        peak = self.peak_flops * workers
        mfu = self.flops * microbatches / seconds / peak if peak and self.flops else None
        return {"tokens_per_s": tokens / seconds, "mfu": mfu}


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def _flops(lines: list[str]) -> tuple[int, bool]:
    """FLOPs of a microbatch, and whether linear layers compute in 8 bits."""
    flops, count, is_fp8 = 0, 0, False
    for line in lines:
        if block := _BLOCK.match(line):
            count = int(block[1] or 1)
        elif kernel := _KERNEL.match(line):
            flops += 3 * count * int(kernel[2])
            is_fp8 |= kernel[1] != "matrix"
    return flops, is_fp8


def saved(schedule: Schedule) -> Saved:
    """The sizes that the IR of a schedule names."""
    text = schedule.to_text()
    head, _, rest = text.partition("\n  pipe.schedule ")
    system = head.partition("\n")[0]
    model = re.search(r"(?m)^  pipe\.model .*$", head)
    named = model[0] if model else ""
    flops, is_fp8 = _flops(head.split("\n"))
    accelerators = _number(r"\baccelerators = (\d+)", system)
    fp8 = _number(r"\bfp8_flops_per_s = (\d+)", system) if is_fp8 else None
    peak = fp8 or _number(r"\bmatrix = <flops_per_s = (\d+)", system) or 0
    return Saved(
        accelerators=accelerators,
        pipelines=_number(r"\bdata_parallel = (\d+)", system) or 1,
        sequence=_number(r"\bsequence (\d+)", named),
        microbatch_size=_number(r"\bmicrobatch_size (\d+)", named),
        flops=flops,
        peak_flops=float(peak) * (accelerators or 1),
    )


def accelerators_of(schedule: Schedule) -> int | None:
    """The accelerators of a worker; None without a system."""
    return saved(schedule).accelerators
