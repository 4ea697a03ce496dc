"""Checks an installed wheel on a machine without LLVM and compilers: the commands run, and so does
every command line that `--show-passes` prints.

Usage: check-wheel.py, with the environment that has the wheel first in PATH. It needs only the
standard library. It prints one line per check; the first that fails ends it with status 1.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOREIGN = ("clang", "gcc", "cc", "c++", "ld", "opt", "llvm-config", "mlir-opt", "mlir-opt-22")
"""Commands that must not exist: a wheel that needs one must fail here."""

TIMES = "F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms"
PAPER = f"""echo 'module {{}}' | pipesched-opt --pass-pipeline='builtin.module(
    pipe-create{{workers=8 microbatches=24}}, pipe-schedule-1f1b,
    pipe-attach-profile{{times="{TIMES}"}})' \
  | pipesched-translate --export-report --transport=delay"""
"""The first command line of README.md."""
PAPER_RATIO = 0.2431

LLAMA = "--model llama3-70b --system dgx-h100"
SHOWN = f"""
convert VPP --pp 4 --microbatches 8 --pipeline pipe-align-slots
show schedule.mlir
show --model llama3-70b
simulate schedule.mlir --times {TIMES}
simulate zb-v --pp 4 --microbatches 8 {LLAMA} --global-batch 8
simulate 1f1b zb-h1 VPP zb-v --pp 8 --microbatches 32 {LLAMA} --global-batch 32
optimize --pp 4 --microbatches 6 --activations 3 --times {TIMES} --time 2s
plan {LLAMA} --gpus 64 --global-batch 64 --schedules 1f1b,VPP --top 3
sweep --schedules gpipe,1f1b,zb-h1 --pp 4,8 --microbatches 8,16 --times {TIMES}
check schedule.mlir --messages batched
convert schedule.mlir schedule.csv
show schedule.csv
reproduce table1
"""
"""Arguments of each verb that has `--show-passes`."""


def run(line: str) -> str:
    """Runs a command line in bash and returns its output. All its parts must succeed."""
    shell = ["bash", "-o", "pipefail", "-c", line]
    result = subprocess.run(shell, capture_output=True, text=True)
    if result.returncode or not result.stdout:
        sys.exit(
            f"error: status {result.returncode} and {len(result.stdout)} characters of "
            f"output, wanted 0 and some, from\n{line}\n{result.stderr}"
        )
    return result.stdout


def check_surroundings() -> None:
    """Fails if the machine has anything that a wheel must do without."""
    found = [path for name in FOREIGN if (path := shutil.which(name))]
    for pattern in ("lib*/**/libLLVM*", "lib*/**/libMLIR*"):
        found += map(str, Path("/usr").glob(pattern))
    if found:
        sys.exit(f"error: a check of the wheel means nothing on a machine that has {found}")
    print(
        f"Python {sys.version.split()[0]}, {os.confstr('CS_GNU_LIBC_VERSION')}, "
        "no LLVM, no compiler"
    )


def check_commands() -> None:
    """Runs each command of the wheel by itself."""
    for tool in ("opt", "translate", "optimize", "lsp-server", "run"):
        run(f"pipesched-{tool} --help")
    print(run("pipesched --version").strip() + ", " + run("pipesched-opt --version").split("\n")[0])
    ratio = json.loads(run(PAPER))[0]["execution"]["span_bubble_ratio"]
    if round(ratio, 4) != PAPER_RATIO:
        sys.exit(f"error: span_bubble_ratio {ratio}, wanted {PAPER_RATIO}, from\n{PAPER}")
    print(f"pipesched-opt | pipesched-translate: span_bubble_ratio {ratio:.4f}, as in README.md")
    print(run(f"pipesched simulate --pp 8 --microbatches 32 {LLAMA} --global-batch 32"))


def check_run() -> None:
    """Runs compiled stages as threads, for which pipesched-run needs no compiler."""
    folder = Path(sys.prefix, "share", "PipeSched", "runtime", "lib")
    if not (folder / "Mpi.c").is_file():
        sys.exit(f"error: {folder} has no sources of the runtime for MPI")
    print(run("pipesched-run mlp.mlir --schedule=1f1b --steps=2").splitlines()[0])


def check_shown_lines() -> None:
    """Runs every command line that `--show-passes` prints for the verbs."""
    run("pipesched convert zb-h1 --pp 4 --microbatches 8 -o schedule.mlir && echo made")
    run("pipesched convert schedule.mlir schedule.csv && echo made")
    total = 0
    for arguments in SHOWN.strip().splitlines():
        lines = run(f"pipesched {arguments} --show-passes").splitlines()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            total += sum(1 for _ in pool.map(run, lines))
        print(f"{len(lines):4} lines of: pipesched {arguments} --show-passes")
    print(f"{total} command lines of --show-passes ran")


if __name__ == "__main__":
    check_surroundings()
    check_commands()
    check_run()
    check_shown_lines()
