"""The sentence of `compare` about vocabulary shards: the fastest, also against uneven layers."""

import re
from pathlib import Path

import pytest
from heavy_head import heavy_head
from pipesched import Configuration, Costs
from pipesched.command import main
from pipesched.command.render.output import seconds
from pipesched.results.configuration import head_in_layers
from pipesched.support.options import Balance

Capture = pytest.CaptureFixture[str]

SIZES = ("--pp", "4", "--microbatches", "16", "--microbatch-size", "1")
COSTS = ("--system", "a100-sxm-80gb", "--rates", "data-sheet")


def sentences(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["simulate", *arguments, *SIZES, *COSTS]) == 0
    return re.findall(r"^- .*in shards.*$|^- .*of shards.*$", capsys.readouterr().out, re.MULTILINE)


def costs_of(file: str, balance: Balance = "auto") -> Costs:
    return Costs(
        model=file, system=COSTS[1], rates="data-sheet", microbatch_size=1, balance=balance
    )


def step(family: str, file: str, balance: Balance = "auto") -> float:
    costs = costs_of(file, balance=balance)
    point = Configuration(family, 4, 16, costs=costs)
    return float(point.simulate().execution.makespan_ps) / 1e12


def test_says_which_wins_beside_uneven_layers(capsys: Capture, tmp_path: Path) -> None:
    file = heavy_head(tmp_path, 262144)
    (line,) = sentences(capsys, "1f1b", "interlaced-1f1b", "--model", file)
    found = re.search(r"the head takes as long as ([\d.]+) layers; interlaced-1f1b takes", line)
    assert found and float(found[1]) > 5, line
    steps = [step("interlaced-1f1b", file), step("1f1b", file), step("1f1b", file, balance="cost")]
    shards, even, uneven = (seconds(each) for each in steps)
    assert f"takes {shards}, 1f1b {even} and 1f1b of uneven layers {uneven}: " in line
    ahead = 100 * (min(steps[1:]) / steps[0] - 1)
    assert f"the vocabulary in shards wins, {ahead:.1f} % ahead" in line


def test_a_light_head_needs_no_shards(capsys: Capture, tmp_path: Path) -> None:
    (line,) = sentences(capsys, "zb-h1", "interlaced-1f1b", "--model", heavy_head(tmp_path, 512))
    assert "as long as 0.0 layers" in line
    assert re.search(r"zb-h1 wins, [\d.]+ % ahead of shards", line)


def test_whole_heads_alone_say_nothing(capsys: Capture, tmp_path: Path) -> None:
    assert not sentences(capsys, "1f1b", "zb-h1", "--model", heavy_head(tmp_path, 262144))


def test_a_head_in_layers_follows_its_flops(tmp_path: Path) -> None:
    weights = []
    for vocabulary in (65536, 131072):
        file = heavy_head(tmp_path, vocabulary)
        weights.append(head_in_layers(costs_of(file)))
    assert weights[0] and weights[1]
    assert weights[1] / weights[0] == pytest.approx(2, rel=0.05)


def test_a_vocabulary_with_fewer_entries_than_workers_is_refused(
    capsys: Capture, tmp_path: Path
) -> None:
    """A whole head needs no entry for each worker."""
    file = heavy_head(tmp_path, 3)
    main(["simulate", "1f1b", "vocab-1f1b", "--model", file, *SIZES, *COSTS])
    shown = capsys.readouterr()
    wanted = "the vocabulary of model 'spread' has 3 entries, fewer than the 4 workers of a path"
    (line,) = [line for line in (shown.out + shown.err).splitlines() if wanted in line]
    assert "vocab-1f1b" in line
    main(["simulate", "1f1b", "vocab-1f1b", "--model", heavy_head(tmp_path, 5), *SIZES, *COSTS])
    shown = capsys.readouterr()
    assert "entries, fewer" not in shown.out + shown.err


def test_shards_hold_a_padded_vocabulary(tmp_path: Path) -> None:
    """On 4 workers 32,001 to 32,008 entries are 32,008: two more on each than 32,000 are. Head and
    embedding have 2,048 parameters of 16 bytes for each.
    """
    peaks = {}
    for vocabulary in (32000, 32001, 32008):
        costs = costs_of(heavy_head(tmp_path, vocabulary))
        found = Configuration("vocab-1f1b", 4, 16, costs=costs).simulate().memory
        assert found is not None
        peaks[vocabulary] = int(found.peak_bytes[-1])
    assert peaks[32001] - peaks[32000] > 2 * 2 * 2048 * 16
    assert peaks[32001] == pytest.approx(peaks[32008], rel=1e-5)
