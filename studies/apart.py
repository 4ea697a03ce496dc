"""The difference from which on two predicted steps of a publication are ranked by the rows of all
other publications, as a user's steps are ranked by all rows.
"""

from __future__ import annotations

from functools import cache

from pipesched.bands import DATA_SHEET, Tolerance, Traits, like, of_layouts, of_schedules, residuals

WITH_DEFAULTS = ", defaults"
"""The ends of the names of sources whose rows are predicted only with defaults (`unseen`)."""


def publication(source: str) -> str:
    """
    >>> publication("torchtitan 2024-12 table 5"), publication(f"aleph{WITH_DEFAULTS}")
    ('torchtitan 2024-12', 'aleph')
    """
    return source.removesuffix(WITH_DEFAULTS).split(" table")[0]


@cache
def tolerance_without(source: str, traits: Traits, is_alike: bool) -> Tolerance | None:
    """That of two rows of a source, on one layout or on two; None if the others are too few."""
    given = publication(source)
    others = [each for each in residuals() if publication(each.source) != given]
    once = [each for each in others if each.traits.rates != DATA_SHEET]
    return of_schedules(once) if is_alike else of_layouts(like(traits, others)) or of_layouts(once)
