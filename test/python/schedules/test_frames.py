"""Compares frames of cells with the rows of their schedules."""

import re
from collections.abc import Iterator
from typing import Literal

import pandas as pd
import pytest
from pipesched import Configuration, Schedule, generate
from points import WHOLE, schedules

TRANSFORMS = {
    "as made": None,
    "aligned": "pipe-align-slots",
    "recompute": "pipe-add-recompute",
    "offload": "pipe-add-offload{memory=4}",
    "optimizer": "pipe-add-optimizer",
}
TIMES = "F=7us,B=11us,I=5us,W=6us,R=3us,D=2us,U=4us,O=13us,G=17us,comm=1us"
DURATIONS = {name: int(us) for name, us in re.findall(r"(\w+)=(\d+)us", TIMES)}

Cell = tuple[int, int, int, str, int]
"""Worker, index, stage, phase, microbatch."""


def _rows(schedule: Schedule) -> list[list[list[str]]]:
    """The cells of each row in the IR, without idle entries and joins; pairs stay together."""
    rows = re.findall(r"worker \d+ runs \[([^]]*)\]", schedule.to_text())
    entries = [[entry.split("+") for entry in row.split()] for row in rows]
    return [[e for e in row if not re.match(r"_|\d+[du]", e[0])] for row in entries]


def _cells(schedule: Schedule) -> Iterator[Cell]:
    for worker, row in enumerate(_rows(schedule)):
        for index, cell in enumerate(cell for entry in row for cell in entry):
            found = re.fullmatch(r"(\d+)([A-Z])(\d+)", cell)
            assert found, cell
            yield worker, index, int(found[1]), found[2], int(found[3])


def _durations(schedule: Schedule) -> Iterator[int | None]:
    """The duration of each cell in us, None if not known. Both cells of a pair last as long as the
    pair.
    """
    for row in _rows(schedule):
        for entry in row:
            lasts = sum(DURATIONS[re.sub(r"\d", "", cell)] for cell in entry)
            for cell in entry:
                yield None if "G" in cell else lasts


def _overlaps(schedule: Schedule) -> Iterator[int]:
    """By cell: the index of the cell that it overlaps with, or -1."""
    for row in _rows(schedule):
        index = 0
        for entry in row:
            yield from (-1,) if len(entry) == 1 else (index + 1, index)
            index += len(entry)


QUEUES = {"D": "offload", "U": "reload", "G": "all-reduce"}


def _listed(frame: pd.DataFrame) -> list[Cell]:
    columns = ["worker", "index", "stage", "phase", "microbatch"]
    return list(frame[columns].itertuples(index=False, name=None))


@pytest.mark.parametrize("family", WHOLE)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_frames_are_the_rows(family: str, transform: str | None) -> None:
    for schedule in schedules(family, transform):
        cells = list(_cells(schedule))
        assert _listed(schedule.to_frame()) == cells
        assert list(schedule.to_frame().pair) == list(_overlaps(schedule))
        assert list(schedule.to_frame().queue) == [QUEUES.get(c[3], "compute") for c in cells]
        program = schedule.transform("convert-pipe-to-exec")
        assert _listed(program.to_frame()) == cells
        for timed in (schedule, program):
            simulation = timed.simulate(times=TIMES)
            frame = simulation.to_frame()
            assert _listed(frame) == cells
            assert frame[["queue", "pair"]].equals(schedule.to_frame()[["queue", "pair"]])
            durations = (frame.end_ps - frame.start_ps) // 10**6
            assert [
                found
                for found, wanted in zip(durations, _durations(schedule), strict=True)
                if wanted is not None and found != wanted
            ] == []
            assert frame.end_ps.max() == simulation.execution.makespan_ps


@pytest.mark.parametrize("family", WHOLE)
@pytest.mark.parametrize(("place", "step"), [("eager", "overlapped"), ("end", "exposed")])
def test_configurations_have_the_same_cells(
    family: str, place: str, step: Literal["overlapped", "exposed"]
) -> None:
    for whole in schedules(family, f"pipe-add-optimizer{{all-reduce={place}}}"):
        point = Configuration(family, whole.workers, whole.microbatches, optimizer_step=step)
        assert _listed(point.simulate().to_frame()) == list(_cells(whole))


def test_a_group_ends_together() -> None:
    """Chimera places each stage on two workers, which reduce its gradients together."""
    schedule = generate("chimera", workers=4, microbatches=4).transform("pipe-add-optimizer")
    frame = schedule.simulate(times=TIMES).to_frame()
    reduced = frame[frame.phase == "G"]
    assert len(reduced) == 8
    for _, group in reduced.groupby("stage"):
        assert len(group) == 2
        assert group.worker.nunique() == 2
        assert group.start_ps.nunique() == group.end_ps.nunique() == 1


def test_a_g_of_several_groups_is_one_row() -> None:
    """The second path divides the model at other layers, so the gradients of a stage are reduced in
    two parts.
    """
    text = """
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1] takes [0] blocks [2, 2]
      path on [1, 0] takes [1] blocks [1, 3]
      worker 0 runs [0F0 1F1 1B1 0B0]
      worker 1 runs [0F1 1F0 1B0 0B1]
    }
    """
    schedule = Schedule.from_text(text).transform("pipe-add-optimizer")
    cells = list(_cells(schedule))
    assert _listed(schedule.simulate().to_frame()) == cells
    program = schedule.transform("convert-pipe-to-exec")
    assert program.to_text().count("all_reduce") > sum(cell[3] == "G" for cell in cells)
    assert _listed(program.to_frame()) == cells
    assert _listed(program.simulate().to_frame()) == cells
