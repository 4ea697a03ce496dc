"""The division of the head of a model over the workers: whole, or in shards of its vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...costs.division import SPREAD
from ...schedule.families import families
from ...support.options import ReceivePlacement, VocabularyKind
from ..candidate import INTERLACED
from ..request import Request

if TYPE_CHECKING:
    from ..search.search import Outcome

SHARDS: tuple[VocabularyKind, ...] = ("vocab-1", "vocab-2", "interlaced")

RECEIVES: tuple[ReceivePlacement, ...] = ("arrival", "consumer")
"""The places of receives that are tried for schedules with shards. Receives of a whole head are
where their framework has them.
"""


def kinds_of(family: str) -> tuple[VocabularyKind, ...]:
    """How a family may treat the head.

    >>> kinds_of("1f1b"), kinds_of("vocab-1f1b"), kinds_of("interlaced-1f1b")
    (('whole',), ('vocab-1', 'vocab-2'), ('interlaced',))
    """
    if family not in SPREAD:
        return ("whole",)
    return ("interlaced",) if family == INTERLACED else ("vocab-1", "vocab-2")


def list_kinds(request: Request, family: str) -> tuple[VocabularyKind, ...]:
    """Kinds that a request leaves."""
    left = request.vocabulary
    return tuple(kind for kind in kinds_of(family) if left is None or kind in left)


def spread_by(request: Request) -> tuple[str, ...]:
    """The families with shards that are searched though `schedules` names none."""
    return SPREAD if set(request.vocabulary or ()) & set(SHARDS) else ()


def variants_of(request: Request, family: str) -> list[tuple[tuple[str, str], ...]]:
    """The options of a family with shards."""
    has_option = "vocabulary" in families()[family].options
    return [(("vocabulary", kind),) if has_option else () for kind in list_kinds(request, family)]


def drop_equal_rows(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Without outcomes that differ from an earlier one only in the places of receives."""
    firsts: dict[object, Outcome] = {}
    for outcome in outcomes:
        firsts.setdefault(outcome.candidate._replace(receives=RECEIVES[0]), outcome)
    return list(firsts.values())


def receives_of(family: str) -> tuple[ReceivePlacement, ...]:
    """The possible places of the receives of a family."""
    return RECEIVES if family in SPREAD else RECEIVES[:1]
