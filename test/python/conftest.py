"""Shared set-up of the tests of the package."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pipesched.schedule.registry import _own

settings.register_profile("pipesched", database=None, deadline=None)
settings.load_profile("pipesched")

# A shell starts background jobs with interrupts ignored, and children inherit that. Tests that
# interrupt a child need the default, as for a user at a terminal.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# JAX reads this at its first use.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out tests marked as long, unless all tests run (scripts/test.sh --all)."""
    if os.environ.get("PIPESCHED_TEST_ALL") == "1":
        return
    skip = pytest.mark.skip(reason="takes long: scripts/test.sh --all")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


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


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of PyTorch that has only this process."""
    dist = pytest.importorskip("torch.distributed")
    store = tmp_path_factory.mktemp("rank") / "store"
    dist.init_process_group("gloo", f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
