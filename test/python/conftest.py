"""What the tests of the package share."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("pipesched", database=None, deadline=None)
settings.load_profile("pipesched")

# A shell starts what runs in the background with interrupts ignored, which children inherit:
# tests that interrupt expect what a user at a terminal has.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data() -> Path:
    """Test data that came from elsewhere."""
    return ROOT / "test" / "data"
