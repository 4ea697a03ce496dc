"""Exports that train under PyTorch's own runtime, and its passes, action by action."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError, PipeSchedWarning, Schedule
from points import SLICED, SPREAD

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from torch_ranks import Job, Trained, job_of, train

FORMATS = ("compute_only", "compute_comms")
PRECISION = 1e-12
"""The largest error in float64, relative to the largest element of a tensor."""
WRONG = 1e-2

SPLIT = {"split_backward": True, "gradient_after": "I"}
FAMILIES: list[tuple[str, int, int, dict[str, Any]]] = [
    ("gpipe", 4, 5, {}),
    ("gpipe", 3, 4, SPLIT),
    ("1f1b", 1, 3, {}),
    ("1f1b", 4, 7, {}),
    ("1f1b", 4, 2, SPLIT),
    ("eager-1f1b", 4, 7, {}),
    ("eager-1f1b", 3, 5, SPLIT),
    ("zb-h1", 4, 7, {}),
    ("zb-h1", 3, 1, {}),
    ("zb-h2", 4, 9, {}),
    ("looped-bfs", 3, 5, {"chunks": 2}),
    ("looped-bfs", 2, 4, {"chunks": 4, **SPLIT}),
    ("mpmd-circular", 2, 6, {"chunks": 3}),
    ("mpmd-circular", 4, 8, {"chunks": 2, **SPLIT}),
    ("interleaved-1f1b", 4, 8, {"chunks": 2}),
    ("interleaved-1f1b", 2, 5, {"chunks": 4, "group": 5}),
    ("interleaved-1f1b", 3, 6, {"chunks": 2, **SPLIT}),
    ("combined-1f1b", 4, 7, {}),
    ("combined-1f1b", 4, 8, {"chunks": 2}),
    ("combined-1f1b", 2, 5, {"chunks": 3, "group": 5}),
    ("interleaved-zb", 4, 8, {"chunks": 2}),
    ("interleaved-zb", 2, 5, {"chunks": 3, "group": 5}),
    ("zb-v", 4, 9, {}),
    ("zb-v", 2, 5, {}),
    ("v-half", 4, 9, {}),
    ("v-min", 4, 9, {}),
    ("zb-auto", 4, 9, {"memory": 6}),
    ("dualpipe-v", 4, 9, {}),
    ("dualpipe-v", 2, 5, {}),
    ("greedy", 4, 5, {"gradient_after": "I"}),
    ("greedy", 3, 5, {"split_backward": False}),
    ("hanayo", 3, 5, {"waves": 2, "gradient_after": "I"}),
    ("hanayo", 4, 3, {"waves": 1, "split_backward": False}),
]
REFUSED = {"chimera", "dualpipe"}

UNEVEN: list[tuple[str, list[int]]] = [
    ("greedy", [0, 1, 2, 0, 1]),
    ("greedy", [2, 0, 1, 1, 0, 3, 0]),
    ("greedy", [1, 0, 1, 1, 1, 1, 1]),
]

BY_HAND = {
    # Some microbatches split, some whole; gradients in another order than forwards; idle slots.
    "mixed": ("0F0,0F1,0F2,,0I2,0B0,0W2,0B1\n,1F0,1F1,1F2,1I2,1B0,1I1,1W1,1W2\n"),
    # Forwards of another order on a stage that is not the last.
    "reordered": "0F2,0F0,0F1,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B2,1B1\n",
    "pairs": ("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,(1F1;1B0)OVERLAP_F_B,(1F2;1B1)OVERLAP_F_B,1B2\n"),
    # Activations one way and gradients the other way between the same two ranks.
    "turns": "0F0,2F0,2B0,0F1,2F1,0B0,2B1,0B1\n1F0,1F1,1B0,1B1\n",
}

FSDP: list[tuple[str, int, int, dict[str, Any]]] = [
    ("1f1b", 2, 3, {}),
    ("zb-v", 2, 5, {}),
    ("interleaved-1f1b", 2, 5, {"chunks": 4, "group": 5}),
]
"""Two pipelines of two workers each; with four stages on a worker it reshards in between."""

MULTI: list[tuple[str, int, int, dict[str, Any]]] = [
    ("1f1b", 4, 7, {}),
    ("zb-h1", 3, 5, {}),
    ("interleaved-1f1b", 3, 6, {"chunks": 2}),
    ("interleaved-zb", 4, 8, {"chunks": 2}),
]
"""The input of PyTorch's other runtime, once its slots are columns."""

UNORDERED = "0F0,0F2,0F1,0B0,0B1,0B2\n1F0,1F2,1F1,1B0,1B1,1B2\n"


def name_of(family: str, workers: int, microbatches: int, options: dict[str, Any]) -> str:
    return " ".join([family, str(workers), str(microbatches), *map(str, options.values())])


@cache
def schedules() -> dict[str, Schedule]:
    """Everything that PyTorch can run."""
    made = {
        name_of(*point): pipesched.generate(
            point[0], workers=point[1], microbatches=point[2], **point[3]
        )
        for point in FAMILIES
    }
    for family, stages in UNEVEN:
        made[f"{family} on {stages}"] = pipesched.generate(
            family, workers=max(stages) + 1, microbatches=5, paths=[stages], gradient_after="I"
        )
    late = pipesched.generate("greedy", workers=3, microbatches=4)
    made["merged greedy"] = late.transform("pipe-merge-backward")
    for name, text in BY_HAND.items():
        made[name] = Schedule.from_csv(text, keep_columns=True)
    return made


def jobs() -> list[Job]:
    found = [
        job_of(schedule, f"{name} {form}", form)
        for name, schedule in schedules().items()
        for form in FORMATS
    ]
    for point in FSDP:
        schedule = pipesched.generate(point[0], workers=point[1], microbatches=point[2], **point[3])
        found += [job_of(schedule, f"FSDP {name_of(*point)} {form}", form, 2) for form in FORMATS]
    return found


NAMES = [
    *(name_of(*point) for point in FAMILIES),
    *(f"{family} on {stages}" for family, stages in UNEVEN),
    "merged greedy",
    *BY_HAND,
    *(f"FSDP {name_of(*point)}" for point in FSDP),
]


def without(text: str, name: str) -> str:
    rows = [line.split(",") for line in text.splitlines()]
    return "".join(",".join(a for a in row if name not in a) + "\n" for row in rows)


@cache
def wrong_jobs() -> dict[str, tuple[Job, float]]:
    """Files that PyTorch runs without an error, and the least error of their gradients."""
    line = pipesched.generate("1f1b", workers=2, microbatches=3)
    comms = line.to_csv("compute_comms")
    swapped = without(comms, "1RECV_F1").replace("1RECV_F0", "1RECV_F1,1RECV_F0")
    path = [0, 1]
    multi = "PipelineScheduleMulti"
    split = pipesched.generate("zb-h1", workers=2, microbatches=3)
    return {
        "unordered forwards": (Job("unordered forwards", UNORDERED, path, 3), WRONG),
        "swapped messages": (Job("swapped messages", swapped, path, 3, "compute_comms"), WRONG),
        "undivided": (
            Job("undivided", without(comms, "REDUCE_GRAD"), path, 3, "compute_comms"),
            2 - PRECISION,
        ),
        "multi, not aligned": (
            Job("multi, not aligned", line.to_csv(), path, 3, runtime=multi),
            WRONG,
        ),
        "split under DDP": (
            Job("split under DDP", split.to_csv(), path, 3, pipelines=2, wrapper="DDP"),
            WRONG,
        ),
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """All jobs in one set of processes, since these take longer to start than most jobs."""
    multi = []
    for family, workers, microbatches, options in MULTI:
        aligned = pipesched.generate(
            family, workers=workers, microbatches=microbatches, **options
        ).transform("pipe-align-slots")
        job = job_of(aligned, f"multi {family}", "compute_only")
        multi.append(replace(job, runtime="PipelineScheduleMulti"))
    halves = pipesched.generate("zb-h1", workers=2, microbatches=2)
    profiled = job_of(halves, "profiled", "compute_only")
    profiled = replace(profiled, profile=True)
    wrong = [job for job, _ in wrong_jobs().values()]
    folder = tmp_path_factory.mktemp("torch")
    line = pipesched.generate("1f1b", workers=2, microbatches=3)
    whole = replace(job_of(line, "whole under DDP", "compute_comms", 2), wrapper="DDP")
    return train([*jobs(), *multi, profiled, whole, *wrong], folder)


# Correct training


UNTRAINED = ("slices", "forward_only")
"""Options of schedules that PyTorch's own classes or the runtime do not train."""


def test_every_family_is_in_the_list() -> None:
    families = {family for family, *_ in FAMILIES}
    assert families | REFUSED | {*SLICED, *SPREAD} == set(pipesched.families())
    options = {(family, name) for family, *_, given in FAMILIES for name in given}
    for family in pipesched.families().values():
        if family.name not in {*REFUSED, *SLICED, *SPREAD}:
            wanted = [name for name in family.options if name not in UNTRAINED]
            missing = [name for name in wanted if (family.name, name) not in options]
            assert missing == [], family.name


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_trains_as_without_a_pipeline(trained: dict[str, Trained], name: str, form: str) -> None:
    result = trained[f"{name} {form}"]
    assert result.losses <= PRECISION
    assert result.gradients <= PRECISION


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_those_that_pytorch_makes(trained: dict[str, Trained], name: str) -> None:
    """PyTorch prepares the compute_only file; ours has the same actions already."""
    prepared, written = (trained[f"{name} {form}"].actions for form in FORMATS)
    assert written == prepared


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("FSDP")])
def test_import_drops_what_an_export_makes_again(name: str) -> None:
    text = schedules()[name].to_csv("compute_comms")
    assert Schedule.from_csv(text).to_csv("compute_comms") == text


# PyTorch's schedules of the same name

CLASSES = {
    "looped-bfs": ("ScheduleLoopedBFS", [(2, 4, 2), (4, 5, 2), (3, 7, 4)]),
    "interleaved-1f1b": ("ScheduleInterleaved1F1B", [(2, 4, 2), (4, 8, 2), (4, 8, 5), (3, 2, 2)]),
    "interleaved-zb": ("ScheduleInterleavedZeroBubble", [(2, 4, 2), (4, 8, 2), (4, 12, 4)]),
    "zb-v": ("ScheduleZBVZeroBubble", [(2, 4, 2), (4, 9, 2), (3, 5, 2)]),
    "dualpipe-v": ("ScheduleDualPipeV", [(2, 4, 2), (4, 9, 2), (3, 8, 2)]),
}


def actions_of(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.splitlines()]


@pytest.mark.parametrize("family", CLASSES)
def test_families_have_the_actions_of_pytorchs_classes(family: str) -> None:
    from torch.distributed.pipelining import schedules as theirs
    from torch.nn import Identity

    name, sizes = CLASSES[family]
    for workers, microbatches, chunks in sizes:
        # All that the classes read of a stage before they run: no process group is needed.
        read = {"num_stages": workers * chunks, "group_size": workers, "group_rank": 0}
        stages = [SimpleNamespace(**read, submod=Identity()) for _ in range(chunks)]
        prepared = getattr(theirs, name)(stages, microbatches).pipeline_order_with_comms
        wanted = [[str(action) for action in prepared[rank]] for rank in range(workers)]
        has_chunks = "chunks" in pipesched.families()[family].options
        options: Any = {"chunks": chunks} if has_chunks else {}
        made = pipesched.generate(family, workers=workers, microbatches=microbatches, **options)
        assert actions_of(made.to_csv("compute_comms")) == wanted, (workers, microbatches, chunks)


# Deviations of PyTorch from the table


def test_first_input_gradient_is_left_to_w(trained: dict[str, Trained]) -> None:
    """The matrix products of two layers; the first layer of the model needs no I."""
    first, last = trained["profiled"].products
    assert [first[action] for action in ("0F0", "0I0", "0W0")] == [2, 0, 3]
    assert [last[action] for action in ("1F0", "1I0", "1W0")] == [2, 2, 2]


@pytest.mark.parametrize("family", [family for family, *_ in MULTI])
def test_multi_runs_aligned_files(trained: dict[str, Trained], family: str) -> None:
    assert trained[f"multi {family}"].losses <= PRECISION
    assert trained[f"multi {family}"].gradients <= PRECISION


def test_whole_backwards_are_reduced_by_ddp(trained: dict[str, Trained]) -> None:
    assert trained["whole under DDP"].gradients <= PRECISION


# Wrong training, and its errors


@pytest.mark.parametrize("name", wrong_jobs())
def test_pytorch_trains_wrongly_without_an_error(trained: dict[str, Trained], name: str) -> None:
    """The reason for each refusal and warning: if PyTorch changes, these need not be."""
    assert trained[name].gradients >= wrong_jobs()[name][1]


def test_losses_of_other_microbatches_are_refused() -> None:
    with pytest.raises(PipeSchedError, match="2:9: error: cell 2 .1F1. comes after 1F2: PyTorch"):
        Schedule.from_csv(UNORDERED)
    rows = [line.replace(",", " ") for line in UNORDERED.splitlines()]
    text = "".join(f"worker {row} runs [{cells}]\n" for row, cells in enumerate(rows))
    head = "pipe.schedule @s workers 2 microbatches 3 {\n path on [0, 1]\n"
    schedule = Schedule.from_text(f"{head}{text}}}")
    schedule.verify()
    for form in FORMATS:
        with pytest.raises(PipeSchedError, match="1F1. comes after 1F2: PyTorch's runtime pairs"):
            schedule.to_csv(form)  # type: ignore[arg-type]


def test_swapped_messages_are_refused() -> None:
    job, _ = wrong_jobs()["swapped messages"]
    with pytest.raises(PipeSchedError, match="2:10: error: found 1RECV_F1, but the message"):
        Schedule.from_csv(job.text)


def test_undivided_gradients_are_a_warning() -> None:
    job, _ = wrong_jobs()["undivided"]
    with pytest.warns(PipeSchedWarning, match="no REDUCE_GRAD, .* by the 3 microbatches"):
        schedule = Schedule.from_csv(job.text)
    assert "1REDUCE_GRAD" in schedule.to_csv("compute_comms")


@pytest.mark.parametrize("family", sorted(REFUSED))
def test_replicas_are_refused(family: str) -> None:
    schedule = pipesched.generate(family, workers=4, microbatches=8)
    with pytest.raises(PipeSchedError, match="has 2 paths.*\n.*path 1 on worker"):
        schedule.to_csv()


@pytest.mark.parametrize("family", ["greedy", "hanayo"])
def test_refusals_name_the_option_that_can_be_written(family: str) -> None:
    schedule = pipesched.generate(family, workers=2, microbatches=3)
    with pytest.raises(PipeSchedError, match="generate it with gradient-after=I, or merge"):
        schedule.to_csv()
