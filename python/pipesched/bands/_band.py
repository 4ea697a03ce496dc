"""The band of a predicted step, from the measured times of published rows that resemble it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from ..costs.costs import Costs
from ..costs.settings import _fields_of
from ._residuals import Resembling, Residual, resembling, runs_of
from ._statistics import LEVEL, interval
from .own import Own, own_band, ratios_of
from .traits import OF_TIMES, Traits, traits_of

FEWEST_RUNS = 2
"""With fewer runs the spread of rows is unknown, so there is no band."""

NO_BAND = "no band"
"""The start of the text that explains why there is no band."""

WORDS = {
    "megatron": "Megatron-LM",
    "torchtitan": "torchtitan",
    "llm-foundry": "llm-foundry",
    "authors": "code of their authors",
    "bf16": "BF16",
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "experts": "with experts",
    "tiny": "under 10^9 parameters",
    "data sheet": "rates of data sheets",
    "under load": "rates under load",
}
"""Values of traits as sentences say them."""


def _show(name: str, value: str) -> str:
    said = WORDS.get(value, value)
    return f"tensor {said}" if name == "tensor" else said


def _of_own(own: Own) -> str:
    steps = f"{own.steps} step{'' if own.steps == 1 else 's'}"
    return (
        f"{100 * LEVEL:g} % of steps take {own.low:.2f} to {own.high:.2f} times the prediction, as"
        f" the system is corrected to {steps} of its own, by {own.within.differences} differences"
        f" of published rows within {own.within.runs} runs"
    )


@dataclass(frozen=True)
class Band:
    """The band of a predicted step: the range in which `LEVEL` of the measured steps of similar
    trainings are.
    """

    traits: Traits
    found: Resembling
    low: float | None
    """The lower end relative to the predicted step; None if no rows resemble it."""
    high: float | None
    middle: float = 1.0
    """The expected step relative to the predicted one: the median of the runs, or 1 if no rows
    resemble it.
    """
    own: Own | None = None
    """The band of a system that is corrected to a user's own steps; it replaces the band from
    published rows.
    """

    @property
    def rows(self) -> int:
        """The number of rows that resemble the step."""
        return len(self.found.rows)

    @property
    def runs(self) -> int:
        """The number of runs of its rows."""
        return len(runs_of(self.found.rows))

    @property
    def is_known(self) -> bool:
        """Whether published rows resemble the step."""
        return self.low is not None

    def seconds(self, step_s: float) -> tuple[float | None, float | None]:
        """The band around a predicted step."""
        if self.low is None or self.high is None:
            return None, None
        return self.low * step_s, self.high * step_s

    @property
    def likeness(self) -> str:
        """Traits that rows and the step share: `Hopper, dense, rates under load, tensor 1`."""
        if self.traits.times == OF_TIMES:
            return "times of stages that were measured"
        values = ((name, getattr(self.traits, name)) for name in self.found.shared)
        return ", ".join(_show(name, value) for name, value in values if name != "times")

    @property
    def text(self) -> str:
        """The band in a sentence without a time."""
        if self.own is not None:
            return _of_own(self.own)
        if self.low is None:
            return f"{NO_BAND}: {self.reason}"
        others = list(self.found.dropped)
        differing = f"; {' and '.join(others)} may differ" if others else ""
        return (
            f"{100 * LEVEL:g} % of steps like it took {self.low:.2f} to {self.high:.2f} times the"
            f" prediction, by {self.rows} published rows of {self.runs} runs"
            f" ({self.likeness}{differing})"
        )

    @property
    def reason(self) -> str:
        """The reason why there is no band."""
        if self.traits.times != OF_TIMES and self.traits.generation is None:
            return "no published row ran on accelerators with these peaks"
        few = f"only {self.rows} of one run" if self.rows else "no published row"
        verb = "resemble" if self.rows > 1 else "resembles"
        return f"{few} {verb} it ({self.likeness})"

    def to_dict(self, step_s: float) -> dict[str, Any]:
        """The values for JSON (docs/schemas/band.schema.json)."""
        low, high = self.seconds(step_s)
        return {
            "level": LEVEL,
            "low_s": low,
            "high_s": high,
            "low_ratio": self.low,
            "high_ratio": self.high,
            "middle_ratio": self.middle,
            "own_steps": 0 if self.own is None else self.own.steps,
            "rows": self.rows,
            "runs": self.runs,
            "shared": {name: getattr(self.traits, name) for name in self.found.shared},
            "dropped": list(self.found.dropped),
            "text": self.text,
        }


def band_of_traits(traits: Traits, rows: Iterable[Residual] | None = None) -> Band:
    """The band of a step with these traits, of all published rows or of the given ones."""
    found = resembling(traits, rows)
    groups = [[math.log(row.ratio) for row in run] for run in runs_of(found.rows).values()]
    if len(groups) < FEWEST_RUNS:
        return Band(traits, found, None, None)
    low, high = interval(groups)
    middle = min(max(median(fmean(group) for group in groups), low), high)
    ends = [round(math.exp(each), 4) for each in (low, high, middle)]
    return Band(traits, found, ends[0], ends[1], ends[2])


def band_of(costs: Costs | None, framework: str | None = None) -> Band | None:
    """The band of steps under these costs, relative to the predicted step; None if the costs do not
    predict a training. `framework` (`megatron`, `torchtitan`) runs the training, if that is known.

    >>> from pipesched import Costs
    >>> costs = Costs(model="llama3-8b", system="h100-sxm", accelerators=1)
    >>> made = band_of(costs, "megatron")
    >>> made.low < made.high, band_of(None)
    (True, None)
    """
    traits = traits_of(costs, framework)
    if traits is None or costs is None:
        return None
    band = band_of_traits(traits)
    assert costs.system is not None
    fields = _fields_of("system", costs.system, costs.rates)
    ratios = () if traits.times == OF_TIMES else ratios_of(fields)
    if not ratios:
        return band
    own = own_band(traits, ratios)
    middle = math.sqrt(own.low * own.high)
    return replace(band, low=own.low, high=own.high, middle=middle, own=own)
