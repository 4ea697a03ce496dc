"""Errors say the value, the place and the reason."""

from collections.abc import Callable
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs, Location, PipeSchedError, Schedule, generate

BROKEN = """\
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0B0 0F1 0B1]
  worker 1 runs [1F0 1B0 1B1 1F1]
}
"""


def test_diagnostics_have_their_place() -> None:
    with pytest.raises(PipeSchedError) as raised:
        Schedule.from_text(BROKEN, filename="broken.mlir")
    (error,) = raised.value.diagnostics
    assert error.severity == "error"
    assert error.location == Location("broken.mlir", 4, 26)
    assert error.message == "'pipe.worker' op cell 2 (1B1) runs before its forward 1F1"
    (note,) = error.notes
    assert (note.severity, note.message) == ("note", "1F1 is cell 3 of this row")
    assert str(raised.value) == (
        "broken.mlir:4:26: error: 'pipe.worker' op cell 2 (1B1) runs before its forward 1F1\n"
        "broken.mlir:4:30: note: 1F1 is cell 3 of this row"
    )


def test_places_survive_transforms() -> None:
    schedule = Schedule.from_text(BROKEN.replace("1B1 1F1", "1F1"), filename="half.mlir")
    with pytest.raises(PipeSchedError) as raised:
        schedule.transform("pipe-compact").verify()
    (error,) = raised.value.diagnostics
    assert error.location is not None
    assert error.location.file == "half.mlir"


def test_csv_errors_have_their_place() -> None:
    with pytest.raises(PipeSchedError) as raised:
        Schedule.from_csv("0F0,0B0\n1F0,1X0\n", filename="bad.csv")
    assert raised.value.diagnostics[0].location == Location("bad.csv", 2, 5)


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "argument of a plan": (lambda: planned(tensors=[2]), "'tensors', the closest is 'tensor'"),
    "workers of a frame": (
        lambda: Schedule.from_frame(
            generate("1f1b", workers=2, microbatches=2).to_frame(), workers=10**30
        ),
        "workers is an integer from 1 to 65536; got 1000000000",
    ),
    "half of a pair": (
        lambda: generate("1f1b", workers=2, microbatches=2, name="\ud800"),
        "name has half of a surrogate pair",
    ),
    "half of a pair in times": (lambda: Costs(times="F=\ud800"), "half of a surrogate pair"),
    "no microbatches to overlap": (
        lambda: pipesched.overlap(costs=Costs(), microbatches=0),
        "microbatches is an integer from 1",
    ),
    "family": (
        lambda: generate("1f2b", workers=2, microbatches=2),
        "there is no schedule family '1f2b', the closest is '1f1b'",
    ),
    "option": (
        lambda: generate("vpp", workers=2, microbatches=2, chunk=2),  # type: ignore[call-arg]
        "no schedule family has an option 'chunk', the closest is 'chunks'",
    ),
    "option of another": (
        lambda: generate("gpipe", workers=2, microbatches=2, waves=2),
        "gpipe has no option 'waves'; it has split-backward, gradient-after, forward-only",
    ),
    "sizes": (lambda: generate("gpipe", workers=0, microbatches=2), "0 workers"),
    "huge": (
        lambda: generate("gpipe", workers=2, microbatches=2**63),
        "microbatches is an integer from .* got 9223372036854775808",
    ),
    "name": (lambda: generate("gpipe", workers=1, microbatches=1, name=""), "needs a name"),
    "path": (lambda: generate("greedy", workers=2, microbatches=2, paths=[[0, 2]]), "worker 2"),
    "lengths": (
        lambda: pipesched.problem(
            workers=2, microbatches=2, paths=[pipesched.Path([0, 1], blocks=[1])]
        ),
        "a path of 2 stages has 1 blocks or weights",
    ),
    "transport": (
        lambda: generate("gpipe", workers=1, microbatches=1).simulate(
            transport="slow"  # type: ignore[arg-type]
        ),
        "transport is one of overlap, delay, blocking, pairs; got 'slow'",
    ),
    "pass": (
        lambda: generate("gpipe", workers=1, microbatches=1).transform("pipe-sing"),
        "'pipe-sing' does not refer to a registered pass",
    ),
    "times": (lambda: Costs(times={"Q": "1ms"}), "unknown name 'Q'"),
    "model": (lambda: Costs(model="toys"), "unknown model 'toys', the closest is 'toy'"),
    "model file": (lambda: Costs(model="no/such.json"), "cannot read 'no/such.json'"),
    "model fields": (lambda: Costs(model={"hiden": 1}), "unknown field 'hiden', the closest"),
    "both sizes": (
        lambda: Costs(model="toy", microbatch_size=1, global_batch=8),
        "give one of microbatch-size and global-batch",
    ),
    "size of none": (lambda: Costs(microbatch_size=1), "about a model; none is given"),
    "system alone": (
        lambda: generate("gpipe", workers=1, microbatches=1).simulate(system="toy"),
        "system",
    ),
    "problem": (
        lambda: pipesched.problem(workers=1, microbatches=1).simulate(),
        "has no rows to evaluate",
    ),
    "program as csv": (
        lambda: (
            generate("gpipe", workers=1, microbatches=1).transform("convert-pipe-to-exec").to_csv()
        ),
        "is a program",
    ),
    "binary": (lambda: pipesched.loads(b"ML\xefR\x00\xff"), "."),
}


SMALL = generate("gpipe", workers=2, microbatches=2)
POINT = Configuration("gpipe", 2, 2)


def planned(**limits: Any) -> None:
    pipesched.plan("llama3-8b", "dgx-h100", gpus=8, global_batch=8, **limits)


WRONG_TYPES: dict[str, tuple[Callable[[], Any], str]] = {
    "no number": (
        lambda: generate("gpipe", workers=2.5, microbatches=2),  # type: ignore[arg-type]
        "workers is an integer; got 2.5",
    ),
    "family": (
        lambda: generate(3, workers=2, microbatches=2),  # type: ignore[arg-type]
        "family is a str; got 3",
    ),
    "path": (
        lambda: generate("gpipe", workers=2, microbatches=2, paths=[3]),  # type: ignore[list-item]
        "a path is a Path or a list of workers; got 3",
    ),
    "costs": (lambda: SMALL.simulate(3), "costs are a Costs; got 3"),  # type: ignore[arg-type]
    "times": (lambda: Costs(times=3), "times are text such as"),  # type: ignore[arg-type]
    "model": (lambda: Costs(model=3), "a model or system is a name"),  # type: ignore[arg-type]
    "choice": (
        lambda: SMALL.simulate(transport=3),  # type: ignore[arg-type]
        "transport is one of overlap, .* got 3",
    ),
    "one schedule": (
        lambda: pipesched.compare(SMALL),  # type: ignore[arg-type]
        "configurations are a list; got <schedule",
    ),
    "metric": (
        lambda: pipesched.compare([SMALL], metrics={"m": 3}),  # type: ignore[dict-item]
        "metric 'm' is a name with a function",
    ),
    "row": (
        lambda: Schedule.from_rows([5]),  # type: ignore[list-item]
        "the row of worker 0 is text or a list of entries; got 5",
    ),
    "slow workers": (
        lambda: pipesched.sensitivity(POINT, slow_workers=[3]),  # type: ignore[arg-type]
        r"slow_workers is a mapping such as \{3: 1.3\}; got \[3\]",
    ),
    "factor": (
        lambda: pipesched.sensitivity(POINT, slow_workers={1: [2]}),  # type: ignore[dict-item]
        r"the factor of worker 1 is a number; got \[2\]",
    ),
    "plan's schedules": (
        lambda: planned(schedules="1f1b"),
        r"schedules is a list such as \['1f1b', 'zb-v'\]; got '1f1b'",
    ),
    "columns of a CSV file": (
        lambda: Schedule.from_csv("0F0,0B0", keep_columns=1),  # type: ignore[arg-type]
        "keep_columns is True or False; got 1",
    ),
    "file": (lambda: pipesched.load(3), "path is a path; got 3"),  # type: ignore[arg-type]
    "progress": (
        lambda: pipesched.simulate_batch([POINT], progress=3),  # type: ignore[arg-type]
        "progress is a function; got 3",
    ),
}
"""One call for each kind of message. That every argument is checked is in test_wrong_types.py."""


@pytest.mark.parametrize("call", WRONG_TYPES)
def test_wrong_types(call: str) -> None:
    """They are errors of the package, and Python's for a wrong type."""
    do, message = WRONG_TYPES[call]
    with pytest.raises(TypeError, match=message) as raised:
        do()
    assert isinstance(raised.value, PipeSchedError)


@pytest.mark.parametrize("call", CALLS)
def test_errors(call: str) -> None:
    do, message = CALLS[call]
    with pytest.raises(PipeSchedError, match=message) as raised:
        do()
    assert raised.value.diagnostics
    assert all(found.message for found in raised.value.diagnostics)


def test_unknown_arguments_are_type_errors() -> None:
    schedule = generate("gpipe", workers=1, microbatches=1)
    with pytest.raises(TypeError, match="tims"):
        schedule.simulate(tims="F=1ms")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="costs or times"):
        schedule.simulate(Costs(), times="F=1ms")


@pytest.mark.parametrize("name", ["", " ", "a,b", "--help", "-x", " a", "a ", "a\nb", "\ud800"])
def test_names_of_families(name: str) -> None:
    """Names that a command line cannot give, or reads as something else, are refused."""
    with pytest.raises(PipeSchedError, match="the name of a family"):
        pipesched.register_family(name, lambda problem: [])
    assert name not in pipesched.families()


def test_warnings() -> None:
    first = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1"
    last = "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"
    with pytest.warns(pipesched.PipeSchedWarning, match="REDUCE_GRAD"):
        Schedule.from_csv(f"{first}\n{last}\n")
