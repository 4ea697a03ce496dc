"""Parameters that pipelines beside each other divide, as experts under expert parallelism.

A rank holds its part alone, and the all-to-alls of the stage bring it the rows of all pipelines. So
the gradient of a part is a sum over the pipelines already. Nothing is left to be summed, and the
mean is that sum divided by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor

from ._errors import PipelineError
from ._peers import Peers


class Divided(Peers):
    """The ranks that hold a part: one. `divisor` is the number of pipelines."""

    def __init__(self, beside: Peers) -> None:
        self.beside = beside
        """The ranks that hold the other parts."""
        self.group = beside.group
        self.rank, self.size, self.divisor = 0, 1, beside.size

    def begin_sum(self, buffer: Tensor) -> Any:
        """There is nothing to be summed."""
        return _Done()

    def meet(self, name: str, saying: Any) -> list[Any]:
        """There is nobody to agree with."""
        return [saying]


class _Done:
    """The work of a sum over one rank."""

    def wait(self) -> None:
        """Returns at once."""


def check_patterns(patterns: Any) -> tuple[str, ...]:
    """The argument `expert_parallel`."""
    is_list = isinstance(patterns, Sequence) and not isinstance(patterns, str)
    if not is_list or not all(isinstance(each, str) for each in patterns):
        raise PipelineError(
            f"`expert_parallel` is {patterns!r}; wanted a list of patterns of names of parameters, "
            'as ["*.experts.*"]'
        )
    return tuple(patterns)


def is_divided(name: str, patterns: Iterable[str]) -> bool:
    """Whether a parameter of this name in its stage is a part."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def refuse_unused(patterns: Sequence[str], used: Iterable[Sequence[str]]) -> None:
    """Refuses a pattern that no rank has used: what it means would be averaged."""
    known = {pattern for theirs in used for pattern in theirs}
    for pattern in patterns:
        if pattern not in known:
            raise PipelineError(
                f"`expert_parallel` has {pattern!r}, which is the name of no parameter in a stage "
                "of any rank (* is any text, also with dots)"
            )
