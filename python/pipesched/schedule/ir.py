"""Facts that the IR of a schedule states: sizes of its training step, and the end of that step."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


# The end of a step: all-reduces of gradients and optimizer steps, taken off and added

_ROW = re.compile(r"(?m)^(\s*worker \d+ runs \[)(.*)\]")
_END = re.compile(r"\d+[GO]\d+")
_BACKWARD = re.compile(r"\d+[BIW]\d+")


def ending_of(schedule: Schedule) -> str | None:
    """The pass that adds the end that a schedule has. All-reduces before the last backward are
    eager.
    """
    cells = [[cell for entry in row for cell in entry.split("+")] for row in schedule.rows]
    if not any(_END.fullmatch(cell) for row in cells for cell in row):
        return None
    for row in cells:
        backwards = [at for at, cell in enumerate(row) if _BACKWARD.fullmatch(cell)]
        reduces = [at for at, cell in enumerate(row) if re.fullmatch(r"\d+G\d+", cell)]
        if backwards and reduces and reduces[0] < backwards[-1]:
            return "pipe-add-optimizer{all-reduce=eager}"
    has_reduces = any(re.fullmatch(r"\d+G\d+", cell) for row in cells for cell in row)
    return f"pipe-add-optimizer{{all-reduce={'end' if has_reduces else 'eager'}}}"


def without_ending(schedule: Schedule) -> Schedule:
    """The same schedule without all-reduces of gradients and optimizer steps."""

    def strip(row: re.Match[str]) -> str:
        entries = (
            "+".join(cell for cell in entry.split("+") if not _END.fullmatch(cell))
            for entry in row[2].split()
        )
        return f"{row[1]}{' '.join(filter(None, entries))}]"

    return Schedule.from_text(_ROW.sub(strip, schedule.to_text()))
