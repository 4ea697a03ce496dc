"""Kills ranks that save again and again, and looks whether a whole checkpoint is left.

usage: kill_saves.py FOLDER KILLS [SEED]
       kill_saves.py FOLDER stop

Two ranks load the checkpoint, and then save it with all parameters at 1, 2, 3 and so on. One rank
or both are killed by SIGKILL at a random time. The remaining checkpoint must be the last save that
a rank has reported as done, or the one after it, with the same value on both ranks.

With `stop` rank 1 stops while it writes, and the error that rank 0 raises by its time limit is
printed.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pipesched
import torch
import torch.distributed as dist
from pipesched.torch import PipelineRuntime, PipelineTimeout, split_sequential
from pipesched.torch.checkpoint.files import Stored, read_into
from torch import nn
from torch.distributed.checkpoint import filesystem

WIDTH = 200
SECONDS = 60.0


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))


def value_of(state: dict[str, Any], where: str) -> int:
    values = {float(v) for tensor in state.values() for v in tensor.unique()}
    assert len(values) == 1, f"{where} has the values {sorted(values)}"
    return int(values.pop())


def runtime_of(folder: Path, number: int, rank: int) -> PipelineRuntime:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store{number}", rank=rank, world_size=2)
    schedule = pipesched.generate("1f1b", workers=2, microbatches=2)
    stages = split_sequential(model(), schedule)
    return PipelineRuntime(schedule, stages, lambda x, y: (x - y).square().mean(), timeout=3)


def save_on(folder: Path, number: int, rank: int, told: int) -> None:
    """One rank: saves until it is killed, or until the other one is gone."""
    runtime = runtime_of(folder, number, rank)
    value = 0
    if (folder / "c" / ".metadata").exists():
        runtime.load(folder / "c")
        value = value_of(runtime.state_dict(), f"rank {rank} after loading")
    while True:
        value += 1
        for parameter in runtime.parameters():
            nn.init.constant_(parameter, value)
        runtime.save(folder / "c")
        os.write(told, f"{value}\n".encode())


def fork(folder: Path, number: int, rank: int, told: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        save_on(folder, number, rank, told)
    except BaseException as error:
        print(f"try {number}, rank {rank}: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def last_of(reader: int, seconds: float) -> int:
    """The last value that a rank has reported; waits for the first one."""
    found = 0
    while select.select([reader], [], [], 0 if found else seconds)[0]:
        lines = os.read(reader, 1 << 16)
        if not lines:
            break
        found = max([found, *map(int, lines.split())])
    return found


def check(folder: Path, told: int) -> int:
    stored = Stored(folder)
    stored.check()
    state: dict[str, Any] = {"model": model().state_dict()}
    read_into(state, stored)
    found = value_of(state["model"], "the checkpoint")
    assert found in (told, told + 1), f"the checkpoint has {found}, but {told} was saved"
    return found


def kill_once(folder: Path, number: int, chance: random.Random) -> int:
    reader, writer = os.pipe()
    ranks = [fork(folder, number, rank, writer) for rank in (0, 1)]
    os.close(writer)
    first = last_of(reader, SECONDS)
    assert first, "no save ended"
    time.sleep(chance.uniform(0, 0.2))
    victims = chance.choice([[0], [1], [0, 1]])
    for victim in victims:
        os.kill(ranks[victim], signal.SIGKILL)
    end = time.monotonic() + SECONDS
    for rank in ranks:
        while not os.waitpid(rank, os.WNOHANG)[0]:
            assert time.monotonic() < end, "a rank goes on without the other one"
            time.sleep(0.01)
    told = max(first, last_of(reader, 0))
    os.close(reader)
    found = check(folder / "c", told)
    print(f"try {number}: killed {victims}, saved {told}, found {found}", flush=True)
    return found - told


def stop(folder: Path) -> int:
    parent = os.getpid()
    child = os.fork()
    runtime = runtime_of(folder, 0, 0 if child else 1)
    runtime.save(folder / "c")
    if os.getpid() != parent:
        writer: Any = filesystem.FileSystemWriter
        # To this thread: another one may take a signal to the process, and later.
        writer.write_data = lambda *_: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    begin = time.monotonic()
    try:
        runtime.save(folder / "c")
    except PipelineTimeout as error:
        print(f"after {time.monotonic() - begin:.0f} s: {error}", flush=True)
    os.kill(child, signal.SIGKILL)
    os._exit(0)


def main() -> int:
    if sys.argv[2] == "stop":
        return stop(Path(sys.argv[1]))
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    new = sum(kill_once(folder, number, chance) for number in range(kills))
    names = sorted(p.name for p in (folder / "c").iterdir())
    print(f"{kills} kills: {kills - new} left the save before, {new} the one that was under way")
    print(f"{len(names)} files are left of all saves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
