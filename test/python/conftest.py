"""Shared set-up of the tests of the package."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pipesched._families import _own

settings.register_profile("pipesched", database=None, deadline=None)
settings.load_profile("pipesched")

# A shell starts background jobs with interrupts ignored, and children inherit that. Tests that
# interrupt a child need the default, as for a user at a terminal.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data() -> Path:
    """The folder of test data from other projects."""
    return ROOT / "test" / "data"


@pytest.fixture(autouse=True)
def _no_own_families() -> Iterator[None]:
    """Families that a test or an example registers are gone after it."""
    before = dict(_own)
    yield
    _own.clear()
    _own.update(before)
