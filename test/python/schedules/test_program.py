"""Programs as data against the text of the programs that they are read from."""

import pickle
import re
from typing import Any

import numpy as np
import pipesched
import pytest
from pipesched import Instruction, Path, PipeSchedError, Schedule, generate
from pipesched.support.options import ReceivePlacement, Transport
from points import WHOLE, schedules

TRANSFORMS = {
    "as made": None,
    "recompute": "pipe-add-recompute{kind=selective}",
    "offload": "pipe-add-offload{memory=4}",
    "optimizer": "pipe-add-optimizer{all-reduce=eager}",
}
PLACEMENTS: tuple[ReceivePlacement, ...] = ("arrival", "consumer")
TRANSPORTS: tuple[Transport, ...] = ("overlap", "delay")


def _lower(schedule: Schedule, receives: ReceivePlacement) -> Schedule:
    return schedule.transform(f"convert-pipe-to-exec{{receive-placement={receives}}}")


def _texts(program: Schedule) -> list[list[str]]:
    """The instructions of each worker in the IR, in the words of `_text`."""
    rows: list[list[str]] = []
    names: dict[str, int] = {}
    for line in program.to_text().splitlines():
        if re.match(r"\s+worker \d+ {", line):
            rows.append([])
            names = {}
            continue
        found = re.match(r"\s+(?:(%\w+) = )?((?:\w+) .*?)(?: ?after (.*))?$", line)
        if not rows or not found:
            continue
        tokens = [token for token in (found[3] or "").split(", ") if token]
        waits = list(dict.fromkeys(names[token] for token in tokens))
        if found[1]:
            names[found[1]] = len(rows[-1])
        rows[-1].append(f"{found[2].strip()} after {waits}")
    return rows


def _text(instruction: Instruction, joins: set[int]) -> str:
    """An instruction as IR spells it, without the joins that it waits for."""
    kind, blocks = instruction.kind, instruction.blocks
    words: list[str] = [kind]
    if kind != "wait":
        words.append("+".join(map(str, instruction.cells)))
    if instruction.peer is not None:
        words.append(f"{'to' if kind == 'send' else 'from'} {instruction.peer}")
    if blocks is not None:
        words.append(f"blocks {blocks.start} to {blocks.stop}")
    waits = [i for i in instruction.waits if i not in joins]
    return " ".join(words) + f" after {waits}"


def _programs(schedule: Schedule, receives: ReceivePlacement | None) -> list[list[Instruction]]:
    return [list(schedule.program(w, receives=receives)) for w in range(schedule.workers)]


def _check_meetings(schedule: Schedule, programs: list[list[Instruction]]) -> None:
    """Messages have two ends and numbers without gaps; groups are the groups of their members."""
    ends: dict[int, list[Any]] = {}
    members: dict[int, list[int]] = {}
    for worker, program in enumerate(programs):
        for i in program:
            if i.message is not None:
                ends.setdefault(i.message, []).append((i.kind, worker, i.peer, i.sequence, i.cell))
            if i.group is not None:
                members.setdefault(i.group, []).append(worker)
                assert i.blocks == schedule.groups[i.group].blocks
    assert sorted(ends) == list(range(len(ends)))
    channels: dict[tuple[int, int], list[int]] = {}
    for number in sorted(ends):
        (_, receiver, sender, *received), (_, *sent_by, sequence, cell) = sorted(
            ends[number], key=lambda end: end[0]
        )
        assert sent_by == [sender, receiver]
        assert received == [sequence, cell]
        channels.setdefault((sender, receiver), []).append(sequence)
    for sequences in channels.values():
        assert sequences == list(range(len(sequences)))
    assert members == {g: list(group.workers) for g, group in enumerate(schedule.groups)}


def _check_activations(programs: list[list[Instruction]]) -> None:
    everywhere = {(c.stage, c.microbatch, c.phase) for p in programs for i in p for c in i.cells}
    for program in programs:
        for cell in (c for i in program for c in i.cells if c.phase not in "OG"):
            assert cell.recomputed == ((cell.stage, cell.microbatch, "R") in everywhere)
            assert cell.offloaded == ((cell.stage, cell.microbatch, "D") in everywhere)


@pytest.mark.parametrize("receives", PLACEMENTS)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("family", WHOLE)
def test_programs_are_those_of_the_text(
    family: str, transform: str | None, receives: ReceivePlacement
) -> None:
    for schedule in schedules(family, transform):
        lowered = _lower(schedule, receives)
        programs = _programs(schedule, receives)
        assert programs == _programs(lowered, None)
        assert schedule.groups == lowered.groups
        for program, text in zip(programs, _texts(lowered), strict=True):
            joins = {i.index for i in program if i.kind == "wait"}
            assert [_text(i, joins) for i in program] == text
            for i in program:
                assert all(w < i.index for w in i.waits)
                held = [j.index for j in program if i.index in j.waits and i.kind == "wait"]
                assert i.holds == (held[0] if held else None)
        _check_meetings(schedule, programs)
        _check_activations(programs)


@pytest.mark.parametrize("family", WHOLE)
def test_stages_and_paths_place_the_cells(family: str) -> None:
    for schedule in schedules(family, None):
        stages = [schedule.stages(worker) for worker in range(schedule.workers)]
        held = {(w, s.path, s.stage) for w, own in enumerate(stages) for s in own}
        assert held == {
            (w, p, s) for p, path in enumerate(schedule.paths) for s, w in enumerate(path.workers)
        }
        for path in range(len(schedule.paths)):
            spans = sorted((s.stage, s.blocks) for own in stages for s in own if s.path == path)
            assert [b for _, span in spans for b in span] == list(range(schedule.blocks))
        for worker in range(schedule.workers):
            for i in schedule.program(worker):
                for cell in i.cells:
                    if i.kind not in ("send", "recv"):
                        assert (worker, cell.path, cell.stage) in held
                    assert cell.path == schedule.path_of(cell.microbatch)


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_a_microbatch_takes_one_path_whatever_its_slices(slices: int) -> None:
    schedule = pipesched.problem(
        workers=2,
        microbatches=4,
        slices=slices,
        paths=[Path([0, 1], takes=[range(0, 4, 2)]), Path([1, 0], takes=[range(1, 4, 2)])],
    )
    assert [schedule.path_of(microbatch) for microbatch in range(4)] == [0, 1, 0, 1]
    with pytest.raises(IndexError):
        schedule.path_of(4)


def test_kinds_of_backward() -> None:
    schedule = generate("zb-h1", workers=2, microbatches=4)
    assert (schedule.gradient_after, schedule.recompute) == ("I", "none")
    late = generate("1f1b", workers=2, microbatches=4).transform(
        "pipe-split-backward{gradient-after=W}"
    )
    selective = late.transform("pipe-add-recompute{kind=selective}")
    assert (selective.gradient_after, selective.recompute) == ("W", "selective")
    lowered = _lower(selective, "arrival")
    assert (lowered.gradient_after, lowered.recompute) == ("W", "selective")
    full = late.transform("pipe-add-recompute")
    assert full.recompute == "full"


REPLICAS = """
pipe.schedule @replicas workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [2, 2]
  path on [1, 0] takes [1] blocks [1, 3]
  worker 0 runs [0F0 1F1 1B1+0B0 1G1 0G0 1O1 0O0]
  worker 1 runs [0F1 0D1 1F0 1B0 0U1 0d1 0R1 0B1 1G0 0G1 0O1 1O0]
}
"""


def test_every_field() -> None:
    schedule = Schedule.from_text(REPLICAS)
    assert schedule.paths == (
        Path((0, 1), takes=(range(1),), blocks=(2, 2)),
        Path((1, 0), takes=(range(1, 2),), blocks=(1, 3)),
    )
    assert schedule.blocks == 4
    assert [group.blocks for group in schedule.groups] == [range(1), range(1, 2), range(2, 4)]
    assert [group.workers for group in schedule.groups] == [(0, 1), (0,), (0, 1)]
    assert schedule.groups[1].stages == ((0, 0), (1, 1))
    one, other = (schedule.program(worker, receives="consumer") for worker in range(2))
    pair = one[5]
    assert (pair.kind, [str(cell) for cell in pair.cells]) == ("compute", ["1B1", "0B0"])
    assert [cell.path for cell in pair.cells] == [1, 0]
    assert [other.columns.second_stage[0], one.columns.second_stage[5]] == [-1, 0]
    assert [(i.group, i.blocks) for i in one if i.kind == "all_reduce"] == [
        (1, range(1, 2)),
        (2, range(2, 4)),
        (0, range(1)),
    ]
    first = other[0].cell
    assert (first.recomputed, first.offloaded, first.path) == (True, True, 1)
    (join,) = (i for i in other if i.kind == "wait")
    (offload,) = (i for i in other if i.kind == "offload")
    assert join.waits == (offload.index,)
    assert join.holds is not None
    assert join.index in other[join.holds].waits


def test_columns_are_views() -> None:
    program = generate("1f1b", workers=2, microbatches=4).program(0)
    columns = program.columns
    assert not columns.kind.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        columns.peer[0] = 3
    assert len(columns.wait_begins) == len(program) + 1
    assert len(columns.waits) == columns.wait_begins[-1] == sum(len(i.waits) for i in program)
    assert [program.kinds[kind] for kind in columns.kind] == [i.kind for i in program]
    again = generate("1f1b", workers=2, microbatches=4).program(0).columns.message
    assert np.array_equal(again, columns.message)  # its schedule is gone, the array is not


def test_sequences() -> None:
    program = generate("interleaved-1f1b", workers=2, microbatches=4, chunks=2).program(1)
    whole = list(program)
    assert [program[i] for i in range(len(program))] == whole
    assert program[-1] == whole[-1]
    assert program[3:9] == tuple(whole[3:9])
    assert program[9:3:-2] == tuple(whole[9:3:-2])
    assert program[5:2] == ()
    assert whole[4] in program
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert repr(program) == f"<program of worker 1: {len(whole)} instructions>"
    with pytest.raises(IndexError, match=f"has {len(whole)} instructions; got index {len(whole)}"):
        program[len(whole)]


def test_frames_of_programs() -> None:
    program = Schedule.from_text(REPLICAS).program(0)
    frame = program.to_frame()
    assert list(frame["kind"]) == [i.kind for i in program]
    assert list(frame["phase"]) == [i.cell.phase for i in program]
    assert list(frame["message"]) == [-1 if i.message is None else i.message for i in program]
    assert frame["second_phase"].count() == 1


def test_messages_of_frames_are_those_of_programs() -> None:
    for family in WHOLE:
        for schedule in schedules(family, None):
            sent = {
                (worker, str(i.cell)): i.message
                for worker in range(schedule.workers)
                for i in schedule.program(worker)
                if i.kind == "send"
            }
            for timed in (schedule, _lower(schedule, "arrival")):
                for transport in TRANSPORTS:
                    frame = timed.simulate(transport=transport).to_frame()
                    names = frame["stage"].astype(str) + frame["phase"].astype(str)
                    cells = names + frame["microbatch"].astype(str)
                    keys = zip(frame["worker"], cells, strict=True)
                    assert [sent.get(key, -1) for key in keys] == list(frame["message"])


# Errors


def test_numbers_out_of_range() -> None:
    schedule = generate("1f1b", workers=2, microbatches=4)
    wrong: Any = "1"
    for call in (schedule.program, schedule.stages, schedule.parameter_sets):
        with pytest.raises(TypeError, match="worker is an integer from 0 to 1; got '1'"):
            call(wrong)
        for worker in (-1, 2):
            with pytest.raises(IndexError, match=f"worker is an integer from 0 to 1; got {worker}"):
                call(worker)
    with pytest.raises(IndexError, match="microbatch is an integer from 0 to 3; got 4"):
        schedule.path_of(4)
    placement: Any = "never"
    with pytest.raises(PipeSchedError, match="receives is one of arrival, consumer; got 'never'"):
        schedule.program(0, receives=placement)
    with pytest.raises(PipeSchedError, match="'schedule' is a program, whose receives stand"):
        _lower(schedule, "arrival").program(0, receives="arrival")


def test_schedules_that_cannot_run() -> None:
    problem = pipesched.problem(workers=2, microbatches=2, paths=[[0, 1], [1, 0]])
    assert len(problem.stages(0)) == 2
    with pytest.raises(PipeSchedError, match="has no rows"):
        problem.program(0)
    with pytest.raises(PipeSchedError, match="do not say which microbatches they take"):
        problem.path_of(0)
    incomplete = Schedule.from_text(
        "pipe.schedule @s workers 2 microbatches 1 {\n"
        "  path on [0, 1]\n  worker 0 runs [0F0 0B0]\n  worker 1 runs [1F0]\n}\n"
    )
    with pytest.raises(PipeSchedError) as proved:
        incomplete.verify()
    with pytest.raises(PipeSchedError) as read:
        incomplete.program(0)
    assert str(read.value) == str(proved.value)
    twice = Schedule.from_text(
        "exec.program @p {\n  worker 0 { compute 0F0 }\n  worker 1 { compute 0F1 }\n}\n"
    )
    for call in (twice.program, twice.stages, twice.parameter_sets):
        with pytest.raises(PipeSchedError, match="runs stage 0 on worker 1, which worker 0 runs"):
            call(0)
