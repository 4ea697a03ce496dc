"""Ends a run by a signal once a program that it has started is at work, and prints the files left:

interrupt.py [--signal=NAME] FOLDER NAME COMMAND...

The signal is SIGTERM unless another one is named; SIGSTOP stops one NAME, and the run has to end by
itself. FOLDER, which is made, gets the temporary files of the run. NAME is a program that the run
starts, which shows that it works.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 120


def processes(folder: str) -> dict[int, str]:
    """The processes with temporary files in the folder, and their programs."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"TMPDIR={folder}\0".encode() in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = " ".join(os.path.basename(os.fsdecode(w)) for w in words)
        except OSError:
            continue  # it has ended
    return found


def wait_until(condition, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"{what} took more than {DEADLINE_S} s")
        time.sleep(0.05)


arguments = sys.argv[1:]
given = arguments.pop(0).partition("=")[2] if arguments[0].startswith("--signal=") else "SIGTERM"
folder, name, *command = arguments
os.mkdir(folder)
run = subprocess.Popen(command, env={**os.environ, "TMPDIR": folder})


def is_at_work() -> bool:
    if run.poll() is not None:
        sys.exit(f"the run ended by itself with status {run.returncode}")
    return any(name in words.split() for words in processes(folder).values())


wait_until(is_at_work, "to begin")
if given == "SIGSTOP":
    time.sleep(1)  # beyond the start of MPI
    os.kill(next(pid for pid, words in processes(folder).items() if name in words.split()[:1]), 19)
else:
    run.send_signal(signal.Signals[given])
status = run.wait(DEADLINE_S)
wait_until(lambda: not processes(folder), "to end what was started")
if given == "SIGKILL":  # another process removes the files
    wait_until(lambda: not os.listdir(folder), "to remove the files")
print(f"status {status}, files {sorted(os.listdir(folder))}")
