"""Schedules: generating, reading, writing, verifying and transforming them."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pipesched
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipesched import Configuration, PipeSchedError, Schedule, VerificationError, generate, problem
from pipesched.support.options import pass_options
from points import configurations

TEXT = """\
module {
  pipe.schedule @s workers 2 microbatches 2 {
    path on [0, 1]
    worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
    worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
  }
}
"""


@pytest.fixture
def schedule() -> Schedule:
    return generate("1f1b", workers=2, microbatches=2, name="s")


# Making


@given(configurations())
def test_families_are_those_of_the_passes(point: Configuration) -> None:
    def make(how: Callable[[], Schedule]) -> str | None:
        try:
            return how().to_text()
        except PipeSchedError:
            return None

    options: Any = {name: value for name, value in point.options.items() if value != 0}
    if "chunks" in pipesched.families()[point.family].options:
        options.setdefault("chunks", 2)  # the pass would take them from the path
    by_pass = make(
        lambda: pipesched.problem(workers=point.workers, microbatches=point.microbatches).transform(
            f"pipe-schedule-{point.family}{pass_options(options)}"
        )
    )
    direct = Configuration(point.family, point.workers, point.microbatches, options)
    assert make(direct.generate) == by_pass


def test_family_by_alias() -> None:
    assert generate("ScheduleZBVZeroBubble", workers=2, microbatches=4).family == "zb-v"


def test_paths_of_ones_own() -> None:
    down = pipesched.Path([0, 1, 2], takes=[range(0, 6, 2)], weights=[1, 1, 2])
    up = pipesched.Path([2, 1, 0], takes=[range(1, 6, 2)])
    made = generate("greedy", workers=3, microbatches=6, paths=[down, up])
    assert made.paths == (
        pipesched.Path((0, 1, 2), takes=(range(0, 6, 2),), weights=(1, 1, 2)),
        pipesched.Path((2, 1, 0), takes=(range(1, 6, 2),)),
    )
    again = generate("greedy", workers=3, microbatches=6, paths=made.paths)
    assert again == made
    assert "path on [0, 1, 2] takes [0:6:2] weights [1, 1, 2]" in made.to_text()
    made.verify()


def test_problem_is_filled_by_a_pass() -> None:
    problem = pipesched.problem(workers=2, microbatches=4, name="p", paths=[[0, 1, 1, 0]])
    assert problem.is_problem
    assert problem.to_frame().empty
    filled = problem.transform("pipe-schedule-greedy")
    assert (filled.is_problem, filled.name, filled.family) == (False, "p", "greedy")


# Reading and writing


@given(configurations())
def test_every_form_reads_back(point: Configuration) -> None:
    try:
        schedule = point.generate(name="round trip")
    except PipeSchedError:
        return
    assert Schedule.from_text(schedule.to_text()) == schedule
    assert Schedule.from_bytecode(schedule.to_bytecode()) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert hash(pickle.loads(pickle.dumps(schedule))) == hash(schedule)


def test_facts(schedule: Schedule) -> None:
    assert (schedule.name, schedule.family, schedule.kind) == ("s", "1f1b", "schedule")
    assert (schedule.workers, schedule.microbatches) == (2, 2)
    assert schedule.paths == (pipesched.Path((0, 1)),)
    assert repr(schedule) == "<schedule 's' family='1f1b' workers=2 microbatches=2>"
    assert str(schedule) == schedule.to_text()


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc", ".csv"])
def test_files(schedule: Schedule, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"s{suffix}"
    schedule.save(file)
    rows = schedule.to_frame()
    pd.testing.assert_frame_equal(Schedule.from_file(file).to_frame(), rows)
    (loaded,) = pipesched.load(file)
    pd.testing.assert_frame_equal(loaded.to_frame(), rows)


def test_files_of_no_known_kind_are_not_written(schedule: Schedule, tmp_path: Path) -> None:
    file = tmp_path / "s.txt"
    with pytest.raises(PipeSchedError, match="cannot save as '.txt'; known endings: .mlir, "):
        schedule.save(file)
    assert not file.exists()


def test_one_of_several() -> None:
    problem = pipesched.problem(workers=2, microbatches=2)
    module = problem._module.run(
        "pipe-create{name=a workers=2 microbatches=3},pipe-schedule-gpipe,"
        "pipe-attach-model{name=toy microbatch-size=1},pipe-attach-system{name=toy}"
    )
    first, second = pipesched.loads(module.text())
    assert (first.name, second.name) == ("schedule", "a")
    assert Schedule.from_text(module.text(), name="a") == second
    assert second.simulate().memory is not None
    assert second.simulate().memory == Schedule.from_text(second.to_text()).simulate().memory
    with pytest.raises(PipeSchedError, match="one .* is wanted, found 2: schedule, a"):
        Schedule.from_text(module.text())
    with pytest.raises(PipeSchedError, match="no schedule or program 'b'; found schedule, a"):
        Schedule.from_text(module.text(), name="b")
    with pytest.raises(PipeSchedError, match="found 0: none"):
        Schedule.from_text("module {}")


def test_csv_of_pytorch() -> None:
    text = "0F0,,,0B0\n,1F0,1B0,\n"
    schedule = Schedule.from_csv(text, filename="x/pair.csv", keep_columns=True)
    assert schedule.name == "pair"
    assert schedule.to_csv() == text
    assert schedule.to_csv("compute_comms").startswith("0UNSHARD,0F0,0SEND_F0,")


@given(configurations())
def test_csv_reads_back(point: Configuration) -> None:
    """Also the order of messages, which an import checks."""
    try:
        schedule = point.generate()
        text = schedule.to_csv("compute_comms")
    except PipeSchedError:
        return
    read = Schedule.from_csv(text)
    pd.testing.assert_frame_equal(read.to_frame(), schedule.to_frame())
    assert read.to_csv("compute_comms") == text
    assert Schedule.from_csv(schedule.to_csv()).to_csv("compute_comms") == text


# Transforming


def test_transform_makes_another(schedule: Schedule) -> None:
    before = schedule.to_text()
    aligned = schedule.transform("pipe-align-slots")
    assert Schedule.from_text(TEXT).to_frame().equals(aligned.to_frame())
    assert schedule.to_text() == before
    assert aligned.transform("builtin.module( pipe-compact )") == schedule


def test_programs(schedule: Schedule) -> None:
    program = schedule.transform("convert-pipe-to-exec")
    assert program.kind == "program"
    program.verify(messages="fifo")
    columns = ["worker", "index", "stage", "phase", "microbatch"]
    pd.testing.assert_frame_equal(program.to_frame()[columns], schedule.to_frame()[columns])
    pd.testing.assert_frame_equal(program.simulate().to_frame(), schedule.simulate().to_frame())


def test_transform_leaves_one(schedule: Schedule) -> None:
    with pytest.raises(PipeSchedError, match="found 2: s, t"):
        schedule.transform("pipe-create{name=t workers=1 microbatches=1}")


# Verifying


@given(st.sampled_from(["unbounded", "fifo", "batched"]), st.sampled_from(["arrival", "consumer"]))
def test_verify(messages: str, placement: str) -> None:
    schedule = generate("1f1b", workers=4, microbatches=8)
    schedule.verify(messages, receive_placement=placement)  # type: ignore[arg-type]


def test_verify_memory() -> None:
    schedule = generate("1f1b", workers=4, microbatches=8)
    schedule.verify(memory=4)
    with pytest.raises(PipeSchedError, match="holds 4 activations at cell 3"):
        schedule.verify(memory=3)
    program = schedule.transform("convert-pipe-to-exec")
    with pytest.raises(PipeSchedError, match="a program, to which memory, transport cannot"):
        program.verify(memory=4, transport="delay")


def test_verify_says_whether_a_proof_failed() -> None:
    schedule = generate("1f1b", workers=4, microbatches=8)
    for verified in (schedule, schedule.transform("convert-pipe-to-exec")):
        with pytest.raises(VerificationError):
            verified.verify(messages="rendezvous")
    wrong: Any
    for wrong in ({"messages": "maybe"}, {"memory": "4 sheep"}, {"memory": "system"}):
        with pytest.raises(PipeSchedError) as found:
            schedule.verify(**wrong)
        assert not isinstance(found.value, VerificationError)
    with pytest.raises(PipeSchedError, match="no rows"):
        problem(workers=2, microbatches=2).verify()


def test_verify_finds_a_deadlock() -> None:
    schedule = generate("1f1b", workers=4, microbatches=4)
    with pytest.raises(PipeSchedError, match="deadlocks with messages=rendezvous") as raised:
        schedule.verify(messages="rendezvous")
    (finding,) = raised.value.diagnostics
    assert [note.severity for note in finding.notes] == ["note"] * 4


def test_other_exports() -> None:
    schedule = pipesched.generate(
        "1f1b", workers=2, microbatches=1, paths=[pipesched.Path([0, 1], blocks=[3, 2])]
    )
    assert schedule.to_megatron_layout() == "Et*3|t*2L"
    rules = schedule.to_shardy_rules()
    assert rules.startswith("-mpmd-rule-based-schedule='rules=") and 'mesh_name="m1"' in rules
    with pytest.raises(PipeSchedError, match="has 2 paths"):
        pipesched.generate("chimera", workers=2, microbatches=2).to_megatron_layout()
    with pytest.raises(PipeSchedError, match="is a program"):
        schedule.transform("convert-pipe-to-exec").to_shardy_rules()
