"""Plans that were saved keep their throughput and memory, and can be optimized."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import plan
from pipesched.command import main
from pipesched.command.explain.rows import ending_of, saved, without_ending
from pipesched.command.verbs.plan import _whole_step
from pipesched.support.text import readable
from test_command import Capture, failure_of, rows_of, text_of

ONE: dict[str, Any] = {"top": 1, "microbatch_size": [1], "pp": [4], "chunks": [2]}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama3-8b", {"gpus": 16, "global_batch": 32, "tensor": [2], "context": [2]}),
    ("llama3-8b", {"gpus": 32, "global_batch": 32, "tensor": [2], "context": [1]}),
    ("mixtral-8x7b", {"gpus": 32, "global_batch": 32, "tensor": [2], "precision": "fp8"}),
]


@pytest.fixture(params=range(len(CASES)), scope="module")
def made(request: pytest.FixtureRequest) -> pipesched.Proposal:
    model, given = CASES[request.param]
    return plan(model, "dgx-h100", **{**ONE, **given}, memory="200GiB").fitting[0]


def save(proposal: pipesched.Proposal, folder: Path) -> str:
    file = folder / "saved.mlir"
    _whole_step(proposal, proposal.generate()).save(file)
    return str(file)


def test_numbers_stand_for_their_schedule(tmp_path: Path, capsys: Capture) -> None:
    """Verbs that read a schedule find it next to the JSON that `plan --save` wrote with it."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "8"]
    line += ["--global-batch", "8", "--top", "1", "--pp", "2", "--schedules", "1f1b"]
    assert main([*line, "--save", str(tmp_path)]) == 0
    (numbers,) = tmp_path.glob("01-*.json")
    for verb in ("simulate", "check", "show"):
        capsys.readouterr()
        printed = []
        for file in (numbers, numbers.with_suffix(".mlir")):
            printed.append(text_of(capsys, verb, str(file)))
        assert printed[0] == printed[1]
    numbers.with_suffix(".mlir").unlink()
    error = failure_of(capsys, "simulate", str(numbers))
    assert "a schedule is IR or PyTorch's CSV, not JSON" in error


def test_throughput_and_memory_are_kept(
    made: pipesched.Proposal, tmp_path: Path, capsys: Capture
) -> None:
    file = save(made, tmp_path)
    (row,) = csv.DictReader(io.StringIO(text_of(capsys, "simulate", file, "--format", "csv")))
    assert float(row["step_s"]) == made.step_s
    tokens = made.tokens_per_s_per_gpu
    # The tokens of a plan are of the middle of its band, which files do not have.
    computed = made.request.gpus * made.middle
    assert tokens and float(row["tokens_per_s"]) == pytest.approx(tokens * computed)
    assert made.mfu and float(row["mfu"]) == pytest.approx(made.mfu * made.middle, rel=1e-6)
    assert int(row["peak_bytes_per_gpu"]) == made.peak_bytes
    heading = text_of(capsys, "simulate", file)
    assert "tokens/s" in heading and "MFU" in heading and "memory/GPU" in heading


def test_saved_plans_do_the_same_work(tmp_path: Path, capsys: Capture) -> None:
    """Stages of saved plans share the layers of a model, however many there are; times of stages
    that files name are for one stage.
    """
    costs = "pipe-attach-model{name=llama3-8b},pipe-attach-system{name=dgx-h100}"
    for name in ("1f1b", "zb-v"):
        made = pipesched.generate(name, workers=4, microbatches=8)
        made.transform(costs).save(tmp_path / f"{name}.mlir")
        made.transform('pipe-attach-profile{times="F=1ms,I=1ms,W=1ms,comm=1us"}').save(
            tmp_path / f"{name}-timed.mlir"
        )
    files = [str(tmp_path / f"{name}.mlir") for name in ("1f1b", "zb-v")]
    assert "work differs" not in text_of(capsys, "simulate", *files)
    assert main(["simulate", *(file.replace(".mlir", "-timed.mlir") for file in files)]) == 0
    assert "work differs: times are those of one stage" in capsys.readouterr().out


def test_a_file_without_costs_has_none(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bare.mlir"
    pipesched.generate("1f1b", workers=2, microbatches=2).save(file)
    assert "MFU" not in text_of(capsys, "simulate", str(file))
    found = saved(pipesched.Schedule.from_file(file))
    assert found.accelerators is None and found.tokens(2) is None


@pytest.mark.parametrize("family", ["1f1b", "dualpipe", "zb-v", "interleaved-1f1b"])
@pytest.mark.parametrize("place", ["eager", "end"])
def test_the_end_of_a_step_is_taken_off_and_added(family: str, place: str) -> None:
    costs = (
        "pipe-attach-model{name=toy microbatch-size=1},pipe-attach-system{name=toy data-parallel=2}"
    )
    bare = pipesched.generate(family, workers=4, microbatches=8).transform(costs)
    whole = bare.transform(f"pipe-add-optimizer{{all-reduce={place}}}")
    assert ending_of(bare) is None and whole.rows != bare.rows
    assert without_ending(whole).rows == bare.rows
    ending = ending_of(whole)
    assert ending is not None and bare.transform(ending).rows == whole.rows


def test_a_saved_plan_is_optimized(tmp_path: Path, capsys: Capture) -> None:
    model, given = CASES[1]
    proposal = plan(model, "dgx-h100", **{**ONE, **given}, memory="200GiB").fitting[0]
    file, out = save(proposal, tmp_path), str(tmp_path / "better.mlir")
    line = ["optimize", file, "--max-evaluations", "20", "--time", "20s", "-o", out]
    printed = text_of(capsys, *line)
    assert "the end of the step was taken off for the search, and added again" in printed
    better = pipesched.Schedule.from_file(out)
    ending = ending_of(pipesched.Schedule.from_file(file))
    assert ending == "pipe-add-optimizer{all-reduce=eager}"
    assert without_ending(better).transform(ending).rows == better.rows
    before = pipesched.Schedule.from_file(file).simulate(transport="delay").execution.makespan_ps
    assert better.simulate(transport="delay").execution.makespan_ps <= before
    assert "which no pass takes off" in failure_of(capsys, *line, "--show-passes")


# Memory of a worker, or of each of its accelerators

SEARCH = [
    *("optimize", "--schedule", "1f1b", "--pp", "4", "--microbatches", "4"),
    *("--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"),
    *("--set", "accelerators=4"),
    *("--max-evaluations", "5", "--time", "20s"),
]


def test_memory_is_told_by_worker_and_accelerator(capsys: Capture) -> None:
    """It is the memory of each accelerator, stated or not."""
    for memory in ("60GiB", "60 GiB/gpu"):
        said = text_of(capsys, *SEARCH, "--memory", memory)
        assert "memory 240.0 GiB a worker of 4 accelerators, 60.0 GiB each" in said


def test_memory_of_unknown_accelerators(capsys: Capture) -> None:
    """Without a system a worker is one accelerator."""
    line = ["optimize", "--pp", "2", "--microbatches", "2", "--max-evaluations", "1"]
    said = [failure_of(capsys, *line, "--memory", text) for text in ("1GiB", "1GiB/GPU")]
    assert said[0] == said[1]


def test_bytes_are_readable(capsys: Capture) -> None:
    said = failure_of(capsys, *SEARCH, "--memory", "1GiB")
    assert "GiB" in said and "000000 bytes" not in said and "error: error" not in said
    assert readable("nothing of that kind") == "nothing of that kind"


TIMINGS = (
    ("--transport", "delay", "--schedules", "interleaved-1f1b"),
    ("--transport", "delay", "--vocabulary", "vocab-1"),
    ("--vocabulary", "vocab-1", "--sequence", "2048"),
    ("--schedules", "1f1b"),
)


@pytest.mark.parametrize("given", TIMINGS)
def test_a_saved_plan_says_how_it_was_timed(
    given: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """With the options that a plan names, or none if it names none, its files take the step that it
    printed.
    """
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16", *given]
    line += ["--global-batch", "16", "--top", "3", "--pp", "4", "--tp", "1"]
    assert main([*line, "--save", str(tmp_path)]) == 0
    said = re.findall(r"gives the step of (.*) with (.*)", capsys.readouterr().err)
    options = {name: text.split() for names, text in said for name in names.split(", ")}
    for file in tmp_path.glob("*.json"):
        (told,) = json.loads(file.read_text())
        is_usual = told["transport"] == "overlap" and told["receive_placement"] == "arrival"
        assert is_usual == (file.stem not in options)
        mlir = str(file.with_suffix(".mlir"))
        (row,) = rows_of(capsys, "simulate", mlir, *options.get(file.stem, ()))
        assert row["execution"]["makespan_ps"] / 1e12 == told["step_s"], file.stem
