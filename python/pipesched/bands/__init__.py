"""How sure a predicted step is, by published rows that resemble it: docs/Validation.md, Bands."""

from ._band import Band, band_of, band_of_traits
from ._residuals import Residual, resembling, residuals
from ._statistics import LEVEL
from ._traits import Traits, traits_of

__all__ = [
    "LEVEL",
    "Band",
    "Residual",
    "Traits",
    "band_of",
    "band_of_traits",
    "resembling",
    "residuals",
    "traits_of",
]
