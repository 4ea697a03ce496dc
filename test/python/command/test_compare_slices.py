"""The sentence of `compare` about slices: lengths, reasons, memory and context parallelism."""

import re

import pytest
from pipesched import Costs, generate
from test_command import Capture, text_of

SIZES = ("--pp", "8", "--microbatches", "64", "--slices", "4")
COSTS = ("--model", "qwen3-4b", "--system", "h100-sxm", "--microbatch-size", "1")


def sentences(capsys: Capture, *arguments: str) -> list[str]:
    return re.findall(r"^- .*slices gain.*$", text_of(capsys, "simulate", *arguments), re.MULTILINE)


def step(family: str, sequence: int, cut: str, **options: int) -> float:
    costs = Costs(
        model="qwen3-4b",
        system="h100-sxm",
        microbatch_size=1,
        accelerators=1,
        sequence=sequence,
        slice_cut=cut,
    )
    made = generate(family, workers=8, microbatches=64, **options)  # type: ignore[arg-type]
    return float(made.simulate(costs).execution.makespan_ps)


def test_names_the_length_from_which_slices_gain(capsys: Capture) -> None:
    (line,) = sentences(
        capsys, "1f1b", "seq1f1b", *SIZES, *COSTS, "--set", "accelerators=1", "--sequence", "16384",
        "--set", "slice-cut=work",
    )  # fmt: skip
    found = re.search(r"slices gain from sequences of ([\d,]+) tokens on", line)
    assert found, line
    first = int(found[1].replace(",", ""))
    assert step("seq1f1b", first, "work", slices=4) < step("1f1b", first, "work")
    assert step("seq1f1b", first // 2, "work", slices=4) >= step("1f1b", first // 2, "work")
    assert re.search(r"cells take 0\.\d % longer", line)
    assert re.search(r"waits [\d.]+ % of the step in place of [\d.]+ %", line)
    assert re.search(r"with [\d.]+ GiB in place of [\d.]+ GiB an accelerator", line)
    assert "with context parallelism of 2 on 4 workers of twice the accelerators 1f1b" in line


def test_says_where_equal_tokens_lose(capsys: Capture) -> None:
    """The pipeline waits for the slices that see most: cutting by work is named, with its step."""
    (line,) = sentences(
        capsys, "1f1b", "seq1f1b", *SIZES, *COSTS, "--set", "accelerators=1", "--sequence", "16384"
    )
    assert "slices gain at none of the lengths tried, 1,024 to 1,048,576 tokens" in line
    found = re.search(r"\(--set slice-cut=work\) seq1f1b takes ([\d.]+) s", line)
    assert found, line
    assert float(found[1]) == pytest.approx(step("seq1f1b", 16384, "work", slices=4) / 1e12, 1e-3)
    assert line.endswith("so that slices are slower")


def test_one_line_for_each_size_and_none_without_both(capsys: Capture) -> None:
    sizes = ("--pp", "4", "--microbatches", "4,8")
    costs = (*COSTS, "--set", "accelerators=1")
    lines = sentences(capsys, "1f1b", "seq1f1b", *sizes, "--slices", "2", *costs)
    assert [line.split(":")[0] for line in lines] == ["- 4 microbatches", "- 8 microbatches"]
    assert not sentences(capsys, "seq1f1b", *sizes, "--slices", "2", *costs)
    assert not sentences(capsys, "1f1b", "gpipe", *sizes, *costs)
    assert not sentences(capsys, "1f1b", "seq1f1b", *sizes, "--slices", "2")  # unit slots


def test_lengths_that_cannot_be_cut_are_left_out(capsys: Capture) -> None:
    """1,536 tokens are not three slices of a multiple of 1,024, but 3,072 are three equal ones."""
    lines = sentences(
        capsys, "1f1b", "seq1f1b", "--pp", "3", "--microbatches", "8", "--slices", "3", *COSTS,
        "--set", "accelerators=1", "--sequence", "3072",
    )  # fmt: skip
    (line,) = lines
    assert "context parallelism" not in line  # three workers have no half
