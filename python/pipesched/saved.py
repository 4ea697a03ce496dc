"""What the IR of a schedule says about its model and its system, for throughput and for memory of
accelerators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schedule import Schedule


@dataclass(frozen=True)
class Saved:
    """Sizes of a training step by the IR of its schedule. Numbers are None where it has none."""

    accelerators: int | None
    """Those of a worker."""
    pipelines: int
    sequence: int | None
    microbatch_size: int | None

    def tokens(self, microbatches: int) -> int | None:
        """The tokens of a step of all pipelines."""
        if not self.sequence or not self.microbatch_size:
            return None
        return self.pipelines * microbatches * self.microbatch_size * self.sequence


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def saved(schedule: Schedule) -> Saved:
    """The sizes that the IR of a schedule names."""
    text = schedule.to_text()
    head, _, rest = text.partition("\n  pipe.schedule ")
    system = head.partition("\n")[0]
    model = re.search(r"(?m)^  pipe\.model .*$", head)
    named = model[0] if model else ""
    return Saved(
        accelerators=_number(r"\baccelerators = (\d+)", system),
        pipelines=_number(r"\bdata_parallel = (\d+)", system) or 1,
        sequence=_number(r"\bsequence (\d+)", named),
        microbatch_size=_number(r"\bmicrobatch_size (\d+)", named),
    )


def accelerators_of(schedule: Schedule) -> int | None:
    """The accelerators of a worker; None without a system."""
    return saved(schedule).accelerators
