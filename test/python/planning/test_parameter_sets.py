"""Blocks that workers hold once, as data of Python and with the O and G of programs."""

from collections.abc import Iterator

from pipesched import ParameterSet, Path, PipeSchedError, Schedule, Stage, generate, problem
from points import WHOLE

CROSSING = [[0, 1, 2], [2, 1, 0]]


def _texts(schedule: Schedule, worker: int) -> list[str]:
    """The sets of a worker as "start-end: stage/path ...", the owner with a star."""
    return [
        f"{held.blocks.start}-{held.blocks.stop}: "
        + " ".join(f"{s}/{p}{'*' * ((p, s) == held.owner)}" for p, s in held.stages)
        for held in schedule.parameter_sets(worker)
    ]


# By hand


def test_crossing_paths_share_their_middle() -> None:
    schedule = problem(workers=3, microbatches=2, paths=CROSSING)
    assert [_texts(schedule, worker) for worker in range(3)] == [
        ["0-1: 0/0*", "2-3: 2/1*"],
        ["1-2: 1/0* 1/1"],
        ["0-1: 0/1*", "2-3: 2/0*"],
    ]
    assert schedule.parameter_sets(1) == (ParameterSet(range(1, 2), ((0, 1), (1, 1)), (0, 1)),)
    assert schedule.stages(1) == (
        Stage(0, 1, 1, 2, sets=range(1), owned_sets=range(1)),
        Stage(1, 1, 1, 2, sets=range(1), owned_sets=range(0)),
    )


# Rows and programs


def _with_optimizer() -> Iterator[Schedule]:
    uneven = [Path([0, 1], blocks=[2, 2]), Path([1, 0], blocks=[1, 3])]
    made = [
        problem(workers=3, microbatches=4, paths=CROSSING),
        problem(workers=2, microbatches=4, paths=uneven),
    ]
    schedules = [each.transform("pipe-schedule-greedy") for each in made]
    for family in WHOLE:
        try:
            schedules.append(generate(family, workers=4, microbatches=8))
        except PipeSchedError:
            continue  # the family has no rule for these sizes
    for schedule in schedules:
        yield schedule.transform("pipe-add-optimizer{all-reduce=eager}")


def test_owners_have_the_optimizer_and_the_all_reduces() -> None:
    shared = 0
    for schedule in _with_optimizer():
        lowered = schedule.transform("convert-pipe-to-exec")
        for worker in range(schedule.workers):
            sets = schedule.parameter_sets(worker)
            assert lowered.parameter_sets(worker) == sets
            assert lowered.stages(worker) == schedule.stages(worker)
            owners = {b: held.owner for held in sets for b in held.blocks}
            shared += sum(len(held.stages) > 1 for held in sets)
            stepped = [
                (i.cell.path, i.cell.stage)
                for i in lowered.program(worker)
                if i.kind == "compute" and i.cell.phase == "O"
            ]
            assert sorted(stepped) == sorted({held.owner for held in sets})
            for i in lowered.program(worker):
                for block in i.blocks or ():
                    assert owners[block] == (i.cell.path, i.cell.stage)
    assert shared > 1


def test_programs_without_paths_have_their_own_sets() -> None:
    program = Schedule.from_text(
        "exec.program @p {\n"
        "  worker 0 {\n    %f = compute 0F0\n    send 0F0 to 1 after %f\n  }\n"
        "  worker 1 {\n    %r = recv 0F0 from 0\n    compute 1F0 after %r\n  }\n}\n"
    )
    assert [_texts(program, worker) for worker in range(2)] == [["0-1: 0/0*"], ["1-2: 1/0*"]]
