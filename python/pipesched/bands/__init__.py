"""The uncertainty of a predicted step, from published rows that resemble it: docs/Validation.md,
Bands.
"""

from ._band import NO_BAND, Band, band_of, band_of_traits
from ._order import Order, Step, order_of, tell
from ._residuals import Residual, resembling, residuals
from ._statistics import LEVEL
from .differences import Tolerance, Tolerances, like, of_layouts, of_schedules, tolerances
from .keys import UNORDERED, band_keys, order_keys
from .traits import DATA_SHEET, OF_TIMES, UNDER_LOAD, Traits, traits_of

__all__ = [
    "DATA_SHEET",
    "LEVEL",
    "NO_BAND",
    "OF_TIMES",
    "UNDER_LOAD",
    "UNORDERED",
    "Band",
    "Order",
    "Residual",
    "Step",
    "Tolerance",
    "Tolerances",
    "Traits",
    "band_keys",
    "band_of",
    "band_of_traits",
    "like",
    "of_layouts",
    "of_schedules",
    "order_keys",
    "order_of",
    "resembling",
    "residuals",
    "tell",
    "tolerances",
    "traits_of",
]
