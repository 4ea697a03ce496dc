"""What workers hold once, against a search over blocks and against the O and G of programs."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from pipesched import ParameterSet, Path, PipeSchedError, Schedule, Stage, generate, problem
from points import WHOLE

CROSSING = [[0, 1, 2], [2, 1, 0]]


def _texts(schedule: Schedule, worker: int) -> list[str]:
    """The sets of a worker as "begin-end: stage/path ...", the owner with a star."""
    return [
        f"{held.blocks.start}-{held.blocks.stop}: "
        + " ".join(f"{s}/{p}{'*' * ((p, s) == held.owner)}" for p, s in held.stages)
        for held in schedule.parameter_sets(worker)
    ]


def _all_texts(*paths: Path, workers: int) -> list[list[str]]:
    schedule = problem(workers=workers, microbatches=2, paths=list(paths))
    return [_texts(schedule, worker) for worker in range(workers)]


# By hand


def test_one_path_shares_nothing() -> None:
    assert _all_texts(Path([0, 1, 1, 0]), workers=2) == [
        ["0-1: 0/0*", "3-4: 3/0*"],
        ["1-2: 1/0*", "2-3: 2/0*"],
    ]


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


def test_stages_may_share_some_of_their_blocks() -> None:
    down, up = Path([0, 0], blocks=[3, 3]), Path([1, 0], blocks=[2, 4])
    assert _all_texts(down, up, workers=2) == [
        ["0-2: 0/0*", "2-3: 0/0 1/1*", "3-6: 1/0 1/1*"],
        ["0-2: 0/1*"],
    ]
    schedule = problem(workers=2, microbatches=2, paths=[down, up])
    assert [(s.sets, s.owned_sets) for s in schedule.stages(0)] == [
        (range(2), range(1)),
        (range(2, 3), range(2, 2)),
        (range(1, 3), range(1, 3)),
    ]


def test_lengths_without_a_model_are_parts() -> None:
    halves, thirds = Path([0, 1]), Path([0, 1], weights=[1, 2])
    assert _all_texts(halves, thirds, workers=2) == [
        ["0-2: 0/0* 0/1", "2-3: 0/0*"],
        ["2-3: 1/1*", "3-6: 1/0 1/1*"],
    ]


def test_embedding_and_head_are_sets_without_blocks() -> None:
    ends, middle = Path([0, 1, 2], blocks=[0, 2, 0]), Path([0, 1, 2], blocks=[1, 0, 1])
    assert _all_texts(ends, middle, workers=3) == [
        ["0-0: 0/0 0/1*", "0-1: 0/1*"],
        ["0-2: 1/0*"],
        ["1-2: 2/1*", "2-2: 2/0 2/1*"],
    ]
    schedule = problem(workers=3, microbatches=2, paths=[ends, middle])
    (_, nothing) = schedule.stages(1)
    assert (nothing.stage, nothing.sets, nothing.owned_sets) == (1, range(0), range(0))


# Any placement


@st.composite
def _placements(draw: st.DrawFn) -> Schedule:
    """One to three paths of one to six stages, with blocks or weights or neither."""
    workers = draw(st.integers(1, 4))
    kinds = ["blocks", "weights", "none"]
    common = draw(st.sampled_from([*kinds, None]))
    total = draw(st.integers(1, 12))
    paths = []
    for _ in range(draw(st.integers(1, 3))):
        own = draw(st.lists(st.integers(0, workers - 1), min_size=1, max_size=6))
        kind = common or draw(st.sampled_from(kinds))
        cuts = sorted(draw(st.integers(0, total)) for _ in own[1:])
        blocks = [end - begin for begin, end in zip([0, *cuts], [*cuts, total], strict=True)]
        weights = [draw(st.integers(1, 4)) for _ in own]
        paths.append(
            Path(
                own,
                blocks=blocks if kind == "blocks" else None,
                weights=weights if kind == "weights" else None,
            )
        )
    return problem(workers=workers, microbatches=3, paths=paths)


def _owner(stages: list[Stage], last: list[int]) -> Stage:
    """Of stages that hold the same block: the one that ends last, then begins first, then has the
    lowest path. A stage at an end of its path also has the embedding or the head."""
    return min(
        stages,
        key=lambda s: (-s.end_block, s.stage < last[s.path], s.first_block, s.stage > 0, s.path),
    )


@given(_placements())
def test_each_block_of_a_worker_is_in_one_set(schedule: Schedule) -> None:
    last = [len(path.workers) - 1 for path in schedule.paths]
    for worker in range(schedule.workers):
        stages, sets = schedule.stages(worker), schedule.parameter_sets(worker)
        for block in range(schedule.blocks):
            users = [stage for stage in stages if block in stage.blocks]
            found = [held for held in sets if block in held.blocks]
            assert len(found) == bool(users)
            if found:
                owner = _owner(users, last)
                assert found[0].stages == tuple((s.path, s.stage) for s in users)
                assert found[0].owner == (owner.path, owner.stage)
        assert [b for held in sets for b in held.blocks] == sorted(
            {b for stage in stages for b in stage.blocks}
        )


@given(_placements())
def test_stages_and_sets_agree(schedule: Schedule) -> None:
    for worker in range(schedule.workers):
        sets = schedule.parameter_sets(worker)
        for stage in schedule.stages(worker):
            name = (stage.path, stage.stage)
            assert list(stage.sets) == [k for k, s in enumerate(sets) if name in s.stages]
            assert list(stage.owned_sets) == [k for k, s in enumerate(sets) if name == s.owner]
            assert stage.owned_sets == stage.sets[: len(stage.owned_sets)]
            assert [b for k in stage.sets for b in sets[k].blocks] == list(stage.blocks)
            # The embedding and the head are where the documentation says.
            if stage.stage == 0:
                assert all(s == 0 for _, s in sets[stage.sets[0]].stages)
            if stage.stage == len(schedule.paths[stage.path].workers) - 1:
                ends = sets[stage.sets[-1]].stages
                assert all(s == len(schedule.paths[p].workers) - 1 for p, s in ends)


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
