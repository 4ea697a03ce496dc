"""Cutting an `nn.Sequential` into the stages of a schedule."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import nn

from pipesched import Schedule

from ._errors import PipelineError


def split_sequential(
    module: nn.Sequential, schedule: Schedule, *, sizes: Sequence[int] | None = None
) -> Callable[[int, int], nn.Sequential]:
    """The stages of a schedule, as a function of (path, stage).

    The children of the module are divided in order among the `schedule.blocks` blocks: `sizes` says
    how many each block has; by default as equal as possible, the first ones larger. A stage is an
    `nn.Sequential` with one child per block, named by its number, whose children are those of the
    module under their own names. They are the same objects, so all stages together hold the module.
    Stages of the same blocks are one object.
    """
    count, children = schedule.blocks, list(module.named_children())
    if sizes is None:
        if len(children) < count:
            raise PipelineError(
                f"the module has {len(children)} children, and the placement {count} blocks; at "
                "least one child per block is needed"
            )
        least, more = divmod(len(children), count)
        sizes = [least + (block < more) for block in range(count)]
    if len(sizes) != count or sum(sizes) != len(children) or min(sizes) < 0:
        raise PipelineError(
            f"sizes {list(sizes)} divide {sum(sizes)} children among {len(sizes)} blocks; the "
            f"module has {len(children)} children, and the placement {count} blocks"
        )
    begins = [sum(sizes[:block]) for block in range(count + 1)]
    blocks = [
        nn.Sequential(OrderedDict(children[begin:end]))
        for begin, end in zip(begins, begins[1:], strict=False)
    ]
    spans = {
        (stage.path, stage.stage): stage.blocks
        for worker in range(schedule.workers)
        for stage in schedule.stages(worker)
    }
    made: dict[range, nn.Sequential] = {}

    def stage_of(path: int, stage: int) -> nn.Sequential:
        span = spans[path, stage]
        if span not in made:
            made[span] = nn.Sequential(OrderedDict((str(b), blocks[b]) for b in span))
        return made[span]

    return stage_of
