"""Compares executables with runs of the tool: losses of all steps and parameters after the last.

Usage: executables.py FOLDER MODEL COMPILER [LAUNCHER...] -- pipesched-run OPTION...

Each line of the standard input has the options of one case. MODEL is the file with stages. LAUNCHER
starts the executables under MPI (-n is added); without it they are of loopback.
"""

import json
import pathlib
import re
import subprocess
import sys

STEPS = 4


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def losses_of(text):
    found = re.findall(r"^step (\d+): loss (\S+), \d+\.\d{3} ms$", text, re.M)
    assert [int(step) for step, _ in found] == list(range(len(found))), text
    return [loss for _, loss in found]


def bytes_of(file):
    """The elements of a file of NumPy."""
    data = file.read_bytes()
    return data[10 + int.from_bytes(data[8:10], "little") :]


def compare_parameters(layout, folder, saved):
    """Each worker has the parameters that the run of the tool has saved. Returns their number."""
    count = 0
    for number, worker in enumerate(layout["workers"]):
        state = (folder / f"state.{number}").read_bytes()
        for tensor in worker["tensors"]:
            if tensor["kind"] != "param":
                continue
            begin, end = tensor["offset"], tensor["offset"] + tensor["bytes"]
            wanted = bytes_of(saved / f"stage{tensor['stage']}.{tensor['name']}.npy")
            assert state[begin:end] == wanted, (number, tensor)
            count += 1
    return count


def check(folder, compiler, launcher, command, case):
    program, saved = folder / "program", folder / "saved"
    steps = [f"--steps={STEPS}"]
    wanted = losses_of(run([*command, *case, *steps, f"--save-parameters={saved}"]))
    flag = f"--mpicc={compiler}" if launcher else f"--cc={compiler}"
    backend = ["--backend=mpi"] if launcher else []
    options = [*steps, "--emit=executable", "-o", program, flag, *backend]
    run([*command, *case, *options])
    workers = next((word[10:] for word in case if word.startswith("--workers=")), "4")
    start = [*launcher, "-n", workers, program] if launcher else [program]
    # Without an option it runs as many steps as the tool was asked for.
    found = losses_of(run([*start, f"--state-out={folder / 'state'}"]))
    assert len(found) == STEPS and found == wanted, (found, wanted)
    assert len(set(found)) == STEPS, "the losses do not change"
    assert losses_of(run([*start, "--steps=2"])) == wanted[:2]
    count = compare_parameters(json.loads(run([*start, "--layout"])), folder, saved)
    print("same:", " ".join(case) or "as it is", "-", count, "parameters, losses", *found)


def main():
    folder, model, compiler, *rest = sys.argv[1:]
    split = rest.index("--")
    launcher, command = rest[:split], [*rest[split + 1 :], model]
    for line in sys.stdin.read().splitlines():
        check(pathlib.Path(folder).resolve(), compiler, launcher, command, line.split())


main()
