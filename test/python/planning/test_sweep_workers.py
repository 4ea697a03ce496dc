"""Sweeps that lose a worker in the middle: real processes that are killed."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pipesched import Grid
from pipesched.sweeps.sweep import lines_of

# Breadth-first schedules do not repeat, so each point takes some hundredths of a second.
GRID = {"workers": [8, 16], "microbatches": "4096:16384:128", "family": ["gpipe"]}

KILLER = """
    import os
    import signal

    class Killer:
        '''Kills a process once, when tasks have been kept.'''

        def __init__(self, pid):
            self.pid = pid

        def __call__(self, done, total):
            if self.pid and done > 100:
                pid, self.pid = self.pid, None
                print("killed", pid, "after", done, "of", total, flush=True)
                os.kill(pid, signal.SIGKILL)
"""

DASK = """
    from distributed import Client, LocalCluster
    import pipesched

    if __name__ == "__main__":
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            pids = set(client.run(os.getpid).values())
            killer = Killer(min(pids))
            pipesched.sweep(GRID, file=FILE, executor=client.get_executor(), progress=killer)
            assert killer.pid is None
            client.wait_for_workers(2)
            assert set(client.run(os.getpid).values()) != pids
"""

MPI = """
    from mpi4py.futures import MPIPoolExecutor
    import pipesched

    if __name__ == "__main__":
        with MPIPoolExecutor() as executor:
            pid = executor.submit(os.getpid).result()
            killer = Killer(pid if KILLS else None)
            pipesched.sweep(GRID, file=FILE, executor=executor, progress=killer)
"""


@pytest.fixture(scope="module")
def undisturbed() -> str:
    """The file of a sweep that loses nothing."""
    return "".join(lines_of(Grid(GRID), processes=1))


def write(script: Path, body: str, **values: object) -> list[str]:
    """Writes a script and returns the command line of its Python."""
    named = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    script.write_text(textwrap.dedent(KILLER) + named + textwrap.dedent(body))
    return [sys.executable, str(script)]


def test_lost_worker_of_dask_costs_its_tasks_alone(undisturbed: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs dask.distributed")
    file = tmp_path / "sweep.jsonl"
    command = write(tmp_path / "script.py", DASK, GRID=GRID, FILE=str(file))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("killed ")
    assert file.read_text() == undisturbed


def test_lost_rank_of_mpi_leaves_a_file_to_go_on_from(undisturbed: str, tmp_path: Path) -> None:
    if shutil.which("mpiexec") is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpiexec")
    # Open MPI refuses the superuser, and more processes than cores, unless it is asked.
    asked = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    file = tmp_path / "sweep.jsonl"
    statuses, kept = [], []
    for kills in (True, False):
        script = tmp_path / "script.py"
        python, path = write(script, MPI, GRID=GRID, FILE=str(file), KILLS=kills)
        command = ["mpiexec", "-n", "3", python, "-m", "mpi4py.futures", path]
        environment = {**os.environ, **asked}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        statuses.append(done.returncode)
        kept.append(file.read_text())
    assert statuses[0] != 0 and statuses[1] == 0
    # MPI ends all ranks; finished rows are in the file, in whole lines.
    whole = kept[0][: kept[0].rfind("\n") + 1]
    assert 100 < whole.count("\n") < undisturbed.count("\n")
    assert set(whole.splitlines()) < set(undisturbed.splitlines())
    assert kept[1] == undisturbed
