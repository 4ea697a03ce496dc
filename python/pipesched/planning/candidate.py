"""One configuration: the division of accelerators and batch, its schedule and its placement."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ..costs.division import SPREAD, counts_text
from ..support.options import (
    ContextExchange,
    FamilyOptions,
    Path,
    ReceivePlacement,
    Recompute,
    Sharding,
    VocabularyKind,
)
from ..support.text import plural

ALONE = "1f1b"
"""The name of the schedule of one worker, and the simplest schedule of several."""

INTERLACED = "interlaced-1f1b"
"""The schedule whose workers run the shards of a microbatch at the same time."""

OPTIMIZED = "optimized"
"""The name of rows that the optimizer found, which belong to no family."""

Workers = tuple[int, ...]


class Shape(NamedTuple):
    """How accelerators and the batch are divided, and the sharding and recomputation."""

    tensor: int
    pipeline: int
    data: int
    microbatch_size: int
    microbatches: int
    recompute: Recompute
    sharding: Sharding
    context: int = 1
    """Parts into which sequences are divided."""
    expert: int = 1
    """Accelerators that divide the experts of a stage; 1 if experts are divided like other layers.
    """
    exchange: ContextExchange = "ring"
    """How the parts of a sequence see the keys and values of others."""

    @property
    def degrees(self) -> tuple[int, ...]:
        return self.tensor, self.context, self.pipeline, self.data, self.expert

    @property
    def worker(self) -> int:
        return self.tensor * self.context

    @property
    def stage(self) -> int:
        """The number of accelerators that hold a stage, in all replicas."""
        return self.worker * self.data

    @property
    def gpus(self) -> int:
        return self.stage * self.pipeline


class Candidate(NamedTuple):
    """One configuration: a schedule on paths, with the layers of each stage."""

    shape: Shape
    schedule: str
    options: tuple[tuple[str, Any], ...]
    paths: tuple[Workers, ...]
    layers: tuple[tuple[int, ...], ...]
    order: int
    """The rank by simplicity; simpler schedules come first."""
    receives: ReceivePlacement = "arrival"

    @property
    def chunks(self) -> int:
        """Stages per worker on all paths together."""
        return sum(map(len, self.paths)) // self.shape.pipeline

    @property
    def slices(self) -> int:
        """Slices of each microbatch."""
        return next((int(value) for name, value in self.options if name == "slices"), 1)

    @property
    def vocabulary(self) -> VocabularyKind:
        """The division of the head over the workers."""
        if self.schedule not in SPREAD:
            return "whole"
        if self.schedule == INTERLACED:
            return "interlaced"
        kind: VocabularyKind = dict(self.options).get("vocabulary", "vocab-1")
        return kind

    @property
    def variant(self) -> tuple[object, ...]:
        """The schedule with all that makes its rows and orders its receives."""
        return self.schedule, self.options, self.receives

    @property
    def row(self) -> tuple[object, ...]:
        """Degrees and schedule, which a plan lists once; rows of the optimizer are all listed."""
        own = self.options if self.schedule == OPTIMIZED else ()
        return self.shape.degrees, self.schedule, self.vocabulary, own

    @property
    def is_even(self) -> bool:
        return len({count for counts in self.layers for count in counts}) == 1

    @property
    def layers_text(self) -> str:
        """The layers of the stages, `4` if all have as many, else `3+4x6+5`; other paths follow
        after a bar.
        """
        if self.is_even:
            return str(self.layers[0][0])
        return counts_text(self.layers)

    @property
    def cells(self) -> int:
        """The approximate number of cells of the schedule."""
        return 3 * len(self.paths[0]) * self.shape.microbatches * self.slices

    @property
    def family_options(self) -> FamilyOptions:
        return cast(FamilyOptions, dict(self.options))

    @property
    def raw_paths(self) -> list[Path]:
        """Paths with the layers of their stages."""
        return [Path(p, blocks=n) for p, n in zip(self.paths, self.layers, strict=True)]


def receives_text(candidate: Candidate) -> str:
    """The place of receives, if it is not where messages arrive."""
    return ", receives at their consumers" if candidate.receives == "consumer" else ""


def describe(candidate: Candidate, names_context: bool = False) -> str:
    """The configuration in words; `names_context` also names the context of whole sequences, for
    lists in which others divide theirs.
    """
    shape, chunks = candidate.shape, candidate.chunks
    batch = plural(shape.microbatches, "microbatch")
    cut = f" in {candidate.slices} slices" if candidate.slices > 1 else ""
    context = ["context 1"] if names_context else []
    if shape.context > 1:
        context = [f"context {shape.context} by {shape.exchange}"]
    by = f" by {candidate.vocabulary}" if "vocabulary" in dict(candidate.options) else ""
    parts = [
        f"{candidate.schedule}{by} on {plural(shape.pipeline, 'worker')}"
        + (f" of {chunks} stages each" if chunks > 1 else "")
        + receives_text(candidate),
        f"tensor {shape.tensor}",
        *context,
        *([f"expert {shape.expert}"] if shape.expert > 1 else []),
        f"data {shape.data}",
        f"{batch} of {plural(shape.microbatch_size, 'sequence')}{cut}",
        f"recompute {shape.recompute}",
    ]
    if not candidate.is_even:
        parts.insert(1, f"layers {candidate.layers_text}")
    if candidate.schedule == OPTIMIZED:
        free = dict(candidate.options)
        parts[-1:] = [
            *(["offload in part"] if free.get("offload") else []),
            f"recompute {free['recompute']} in part" if "recompute" in free else parts[-1],
        ]
    if shape.stage > 1:
        parts.append(f"sharding {shape.sharding}")
    return ", ".join(parts)
