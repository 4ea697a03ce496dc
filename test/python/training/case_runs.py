"""Runs cases in real processes, and writes the end of each of them on every rank.

usage: case_runs.py FOLDER MODULE[:CASE,...] ...

A module of cases registers functions by `case`. Each case runs in separate processes, which are
forked so that PyTorch is loaded once for all modules of a run; two cases run at a time, since most
of them wait for each other's ranks. FOLDER/cases.json has the results.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 60.0
"""Seconds for a case; a process that is left then is killed, and its case has failed."""
AT_ONCE = 2
Cases = dict[str, list[dict[str, Any]]]
"""The results of the ranks of each case, by its name."""
Function = Callable[[int], Any]


@dataclass(frozen=True)
class Case:
    """A function that each of some ranks runs, and its expected result.

    within: it returns numbers (one, a list or a dict), all at most this. refused: it raises on all
    ranks, on one of them with this text.
    """

    ranks: int
    function: Function
    within: float | None
    refused: str


CASES: dict[str, dict[str, Case]] = {}


def case(
    ranks: int, within: float | None = None, refused: str = ""
) -> Callable[[Function], Function]:

    def add(function: Function) -> Function:
        made = Case(ranks, function, within, refused)
        CASES.setdefault(function.__module__, {})[function.__name__] = made
        return function

    return add


def expected(*modules: str) -> list[str]:
    """Returns the names of the cases of modules with an expected result."""
    own = [(name, given) for module in modules for name, given in CASES[module].items()]
    return [name for name, given in own if given.within is not None or given.refused]


def check(cases: Cases, name: str) -> None:
    given = next(own[name] for own in CASES.values() if name in own)
    texts = [result["text"] for result in cases[name]]
    if given.refused:
        assert all(texts) and any(given.refused in text for text in texts), texts
        return
    for result in cases[name]:
        assert result["text"] == "" and not result["left"], result
        value = result["value"]
        value = list(value.values()) if isinstance(value, dict) else value
        worst = max(value) if isinstance(value, list) else value
        assert given.within is not None and worst <= given.within, result["value"]


def run_cases(folder: Path, *modules: str) -> Cases:
    command = [sys.executable, __file__, str(folder), *modules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found: Cases = json.loads((folder / "cases.json").read_text())
    return found


def text_of(error: BaseException) -> str:
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


def process(name: str, given: Case, rank: int, folder: Path) -> None:
    import torch
    import torch.distributed as dist

    with open(folder / f"{name}.{rank}.err", "wb") as errors:
        os.dup2(errors.fileno(), 2)
    torch.set_num_threads(1)
    store = f"file://{folder}/{name}.store"
    dist.init_process_group("gloo", store, rank=rank, world_size=given.ranks)
    dist.barrier()  # A rank that ends before another has connected to it would make that one fail.
    begin = time.monotonic()
    result: dict[str, Any] = {"text": "", "value": None}
    try:
        result["value"] = given.function(rank)
    except Exception as error:
        traceback.print_exc()
        result["text"] = text_of(error)
    result["seconds"] = time.monotonic() - begin
    (folder / f"{name}.{rank}.json").write_text(json.dumps(result))


class Running:
    def __init__(self, name: str, given: Case, folder: Path) -> None:
        self.name, self._folder = name, folder
        context = multiprocessing.get_context("fork")
        ranks = range(given.ranks)
        self._ranks = [
            context.Process(target=process, args=(name, given, r, folder)) for r in ranks
        ]
        for rank in self._ranks:
            rank.start()
        self._end = time.monotonic() + LIMIT

    def is_over(self) -> bool:
        is_late = time.monotonic() > self._end
        return is_late or not any(rank.is_alive() for rank in self._ranks)

    def results(self) -> list[dict[str, Any]]:
        found = []
        for number, rank in enumerate(self._ranks):
            is_left = rank.is_alive()
            if is_left:
                rank.kill()
            rank.join()
            file = self._folder / f"{self.name}.{number}.json"
            if file.exists():
                result = json.loads(file.read_text())
            else:
                text = file.with_suffix(".err").read_text()
                result = {"value": None, "text": text}
            found.append({**result, "left": is_left, "exit": rank.exitcode})
        return found


def main(folder: Path, given: list[str]) -> None:
    waiting = []
    for text in given:
        module, _, names = text.partition(":")
        importlib.import_module(module)
        own = CASES[module]
        waiting += [(name, own[name]) for name in names.split(",") if name] or [*own.items()]
    assert len(waiting) == len(dict(waiting)), "two cases have one name"
    gc.freeze()  # objects loaded so far, so that no rank looks through them again
    running: list[Running] = []
    found: Cases = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            running.append(Running(*waiting.pop(0), folder))
        time.sleep(0.005)
        for each in [each for each in running if each.is_over()]:
            running.remove(each)
            found[each.name] = each.results()
    (folder / "cases.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    from case_runs import main as run

    run(Path(sys.argv[1]), sys.argv[2:])
