"""What the tests of the package share."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("pipesched", database=None, deadline=None)
settings.load_profile("pipesched")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data() -> Path:
    """Test data that came from elsewhere."""
    return ROOT / "test" / "data"
