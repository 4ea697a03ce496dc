"""Numbers at their limits, for functions that take numbers in C++: each in turn is negative, 0, or
so large that sums and products of it overflow. The answer may be an error, but it comes within
seconds.
"""

from __future__ import annotations

import contextlib
import faulthandler
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pipesched import PipeSchedError, _core

EXTREMES = (-(2**63), -(2**32), -1, 0, 3, 1000, 2**31 - 1, 2**32, 2**62, 2**63 - 1)
INTS = tuple(number for number in EXTREMES if abs(number) < 2**31)
UNIT = (0, 0, 0, 0, "")
TEXT = """pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3]
}"""


@contextlib.contextmanager
def answered() -> Iterator[None]:
    """Ends the process, with the place, if an answer takes a minute."""
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        with contextlib.suppress(PipeSchedError):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def generate(family: str, workers: int, microbatches: int, options: dict[str, int]) -> None:
    with answered():
        given = [(name, str(value)) for name, value in options.items()]
        _core.Module.generate("s", family, workers, microbatches, given, [])


@pytest.mark.parametrize("family", [row[0] for row in _core.families()])
def test_problems(family: str) -> None:
    for number in EXTREMES:
        generate(family, number, 4, {})
        generate(family, 2, number, {})
        for name, _, _ in _core.family_options():
            generate(family, 2, 4, {name: number})


def test_turns_of_many_workers_are_refused() -> None:
    """Slots times workers are limited where each worker takes turns in each slot."""
    with pytest.raises(PipeSchedError):
        _core.Module.generate("s", "vocab-v-half", 65536, 4, [], [])


def costs(
    numbers: tuple[int, ...] = (0, 0, 0, -1, 0),
    deployment: tuple[tuple[str, str], ...] = (),
    parameter_bytes: Any = None,
) -> _core.Costs:
    return _core.Costs(
        (1, "gpt3-175b"), (1, "a100-sxm-80gb"), None, numbers, (0, 0, 0, 0, 0), deployment,
        parameter_bytes,
    )  # fmt: skip


def use(made: _core.Costs, microbatches: int = 4) -> None:
    """Every use of costs."""
    uses: tuple[Callable[[], object], ...] = (
        lambda: (made.peak_flops, _core.sizes(made), made.model()),
        lambda: _core.layer_parts(made, microbatches),
        lambda: _core.balance_layers(made, microbatches, [0, 1]),
        lambda: _core.evaluate_configuration(
            _core.Configuration("1f1b", 2, 4, [], [], made, UNIT, 0)
        ),
    )
    for each in uses:
        with answered():
            each()


def test_costs() -> None:
    replicas = costs(deployment=(("data-parallel", "4"),))
    for number in EXTREMES:
        use(costs(), number)
        use(replicas, number)
        for field in range(5):
            numbers = [0, 0, 0, -1, 0]
            numbers[field] = number
            with answered():
                use(costs(tuple(numbers)))
        with answered():
            use(costs(parameter_bytes=[number] * 3))
        for name, *_ in _core.deployment():
            with answered():
                use(costs(deployment=((name, str(number)),)))


def test_layers() -> None:
    for number in EXTREMES:
        layers = [[number] + [0] * 11, [0] * 6 + [1, 1, 1, number, 0, 0]]
        for order in range(5):
            for percents in ((100, 100), (number, 100), (100, number)):
                for pair in (layers, []):
                    with answered():
                        _core.schedule_pair(pair, pair, order, "", percents[0] == 100, *percents)
        for counts, each, first, last in (
            ([number, 2], [1, number], 0, 0),
            ([number], [1], number, 1),
            ([1], [number], 1, number),
        ):
            for worker in (1, *INTS):
                with answered():
                    _core.balance_loads([0, worker], counts, each, first, last)


def test_measured_times() -> None:
    made = _core.evaluate_configuration(_core.Configuration("1f1b", 2, 4, [], [], None, UNIT, 0))
    for number in EXTREMES:
        with answered():
            _core.text([made], number, False)
        for count in range(65):
            with answered():
                times = np.full(count, number), np.full(count, max(number, 0))
                _core.measured(made, "m", *times, number).report()


def test_paths() -> None:
    for number in EXTREMES:
        for takes in ((number, 4, 1), (0, number, 1), (0, 4, number)):
            with answered():
                _core.Module.problem("s", 2, 4, [([0, 1], [takes], None, None, [], False)], 0)
        for sizes in ((number, 4, 0), (2, number, 0), (2, 4, number)):
            with answered():
                _core.Module.problem("s", *sizes[:2], [], sizes[2])
        for lengths in (([1, number], None), (None, [1, number])):
            with answered():
                _core.Module.problem("s", 2, 4, [([0, 1], [], *lengths, [], False)], 0)
        with answered():
            _core.Module.problem("s", 2, 4, [([0, 1], [], None, None, [number], False)], 0)
        with answered():
            _core.Module.import_torch_csv("0F0,0B0\n1F0,1B0\n", "f", False, number)


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        ((0, 99, 0, False, 0), r"expected the number of a phase \(.*\), found 99"),
        ((-1, 0, 0, False, 0), "expected a stage from 0 to 16777215, found -1"),
        ((1, 11, 1, False, 0), "expected a stage from 0 to 0, found 1"),
        ((0, 0, 2**31, False, 0), "expected a number from 0 to 2147483647, found 2147483648"),
        ((0, 11, -1, False, 0), "expected a number of slots from 0 to 2147483647, found -1"),
        ((0, 0, 0, False, 1), "expected a slice from 0 to 0, found 1"),
    ],
)
def test_numbers_that_are_no_cell(cell: tuple[Any, ...], wanted: str) -> None:
    module = _core.Module.parse(TEXT, "s")
    with pytest.raises(PipeSchedError, match=f"worker 1, cell 0: {wanted}"):
        module.with_rows([[], [cell]], None)


def test_numbers_of_enums_and_workers() -> None:
    module = _core.Module.parse(TEXT, "s")
    placement, program = _core.placement(module, 0), _core.program(module, 0, 0)
    calls: tuple[Callable[[int], object], ...] = (
        lambda number: _core.program(module, 0, number),
        lambda number: _core.evaluate(module, 0, None, (number, 0, 0, 0, "")),
        lambda number: module.export_torch_csv(0, number),
        lambda number: module.with_rows([[], []], (number, 0)),
        lambda number: _core.schedule_pair([], [], number, "", True, 100, 100),
        placement.stages,
        placement.parameter_sets,
        program.instructions,
    )
    for number in (-1, 1000, 2**31 - 1):
        assert placement.path_of(number) == -1
        for call in calls:
            with pytest.raises(PipeSchedError, match=f"expected .*, found {number}"):
                call(number)
