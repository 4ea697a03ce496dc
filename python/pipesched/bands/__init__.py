"""How sure a predicted step is, by published rows that resemble it: docs/Validation.md, Bands."""

from ._band import NO_BAND, Band, band_of, band_of_traits
from ._differences import Tolerance, Tolerances, tolerances
from ._order import Order, Step, order_of, told
from ._residuals import Residual, resembling, residuals
from ._statistics import LEVEL
from ._traits import Traits, traits_of

__all__ = [
    "LEVEL",
    "NO_BAND",
    "Band",
    "Order",
    "Residual",
    "Step",
    "Tolerance",
    "Tolerances",
    "Traits",
    "band_of",
    "band_of_traits",
    "order_of",
    "resembling",
    "residuals",
    "told",
    "tolerances",
    "traits_of",
]
