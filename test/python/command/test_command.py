"""The command: every verb in every format, its error messages, and the files that it leaves."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched.command import VERBS, main, parser
from pipesched.command.explain import ranking
from pipesched.results.report import IdleByCause

TIMES = "F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms"
POINT = ["simulate", "--pp", "8", "--microbatches", "24", "--times", TIMES, "--transport", "delay"]
COMMAND = [sys.executable, "-c", "import sys; from pipesched.command import main; sys.exit(main())"]
SMALL_GPT = ["--model-option", "layers=4", "--model-option", "width=16"]
READY = "print('ready', file=sys.stderr, flush=True)"
"""The text of a process on standard error as soon as it can be interrupted."""
COSTS = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "32"]

Capture = pytest.CaptureFixture[str]


def rows_of(capsys: Capture, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
    """Returns the rows that the verb prints as JSON; it must print nothing else on standard
    output.
    """
    assert main([*arguments, "--format", "json"]) == status
    rows = json.loads(capsys.readouterr().out)
    assert isinstance(rows, list)
    return rows


def text_of(capsys: Capture, *arguments: str, status: int = 0) -> str:
    """Returns the standard output of the verb."""
    assert main(arguments) == status
    return capsys.readouterr().out


def failure_of(capsys: Capture, *arguments: str, status: int = 1) -> str:
    """Returns the error message of the verb; standard output must stay empty."""
    try:
        found: object = main(arguments)
    except SystemExit as ended:  # of argparse
        found = ended.code
    assert found == status
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.fixture
def schedule(tmp_path: Path) -> str:
    """A file with the four by four 1F1B."""
    file = tmp_path / "schedule.mlir"
    pipesched.generate("1f1b", workers=4, microbatches=4).save(file)
    return str(file)


# Compare


def test_published_bubbles(capsys: Capture) -> None:
    """Qi et al., Zero Bubble Pipeline Parallelism, table 4, 1.5B model, simulated as there."""
    rows = rows_of(capsys, *POINT, "--schedules", "1f1b,zb-h1")
    bubbles = {row["schedule"]: round(row["span_bubble_ratio"], 4) for row in rows}
    assert bubbles == {"zb-h1": 0.1585, "1f1b": 0.2431}
    assert [row["rank"] for row in rows] == [1, 2]
    keys = "schedule stages microbatches step_s idle_ratio span_bubble_ratio formula_bubble_ratio"
    more = "table_bubble_ratio peak_activations peak_bytes rank workers"
    assert all(set(f"{keys} {more}".split()) <= set(row) for row in rows)


def test_compare_is_the_reports(capsys: Capture) -> None:
    sizes = ("--pp", "4", "--microbatches", "8:16:4")
    rows = rows_of(capsys, "simulate", *sizes, "--schedules", "gpipe,VPP,zb-v", *COSTS)
    made = [row for row in rows if "error" not in row]
    assert len(rows) == 9
    assert {row["microbatches"] for row in made} == {8, 16}
    held: dict[str, Any] = {"parameter_bytes": "megatron"}
    costs = pipesched.Costs(model="llama3-70b", system="dgx-h100", global_batch=32, **held)
    for row in made:
        point = pipesched.Configuration(row["schedule"], 4, row["microbatches"], costs=costs)
        report = point.simulate()
        assert report.memory is not None
        assert row["step_s"] == report.execution.makespan_ps / 1e12
        assert row["peak_bytes"] == report.memory.peak_bytes.max()
        causes = sum(row[f"{cause.name}_ratio"] for cause in fields(IdleByCause))
        assert causes == pytest.approx(row["idle_ratio"])
        assert row["expected_s"] == row["step_s"] * row["band"]["middle_ratio"]
        assert row["tokens_per_s"] == pytest.approx(32 * 8192 / row["expected_s"])
        model = json.loads(costs._raw.model())
        assert row["mfu"] == pytest.approx(
            row["tokens_per_s"] * model["flops_per_token"] / (4 * 8 * 989.4e12)
        )


def test_a_size_without_schedule_is_a_row(capsys: Capture) -> None:
    arguments = ["simulate", "--pp", "4", "--microbatches", "9", "--schedules"]
    rows = rows_of(capsys, *arguments, "1f1b,dualpipe")
    assert "even number of microbatches" in rows[1]["error"]
    assert rows[1]["rank"] is None
    assert "even number of microbatches" in failure_of(capsys, *arguments, "dualpipe")


def test_equal_steps_share_a_rank(capsys: Capture) -> None:
    rows = rows_of(
        capsys, "simulate", "--pp", "4", "--microbatches", "8", "--schedules", "gpipe,1f1b,zb-h1"
    )
    assert [row["rank"] for row in rows] == [1, 2, 2]


def test_options_go_to_families_that_have_them(capsys: Capture) -> None:
    arguments = ["simulate", "--pp", "4", "--microbatches", "8", "--vpp", "3", "--schedules"]
    rows = rows_of(capsys, *arguments, "Interleaved1F1B,1F1B")
    step = {row["schedule"]: row["step_s"] for row in rows}
    options = pipesched.FamilyOptions(chunks=3)
    point = pipesched.Configuration("interleaved-1f1b", 4, 8, options).simulate()
    # The three stages of a worker divide its slots.
    whole = point.execution.makespan_ps / 1e12
    assert step["interleaved-1f1b"] == pytest.approx(whole / 3, rel=1e-6)
    assert "option --vpp" in failure_of(capsys, *arguments, "1f1b")


# Pages


@pytest.fixture
def page(tmp_path: Path, capsys: Capture) -> Path:
    file = tmp_path / "page.html"
    assert main([*POINT, "--schedules", "1f1b,zb-h1,dualpipe", "--draw", str(file)]) == 0
    assert capsys.readouterr().err == f"wrote {file}\n"
    return file


def test_page_needs_nothing_else(page: Path) -> None:
    """test_pages.py tests it in a browser."""
    text = page.read_text()
    assert not re.search(r"""href\s*=|url\(|@import|<link|<script[^>]*\ssrc|https?://""", text)
    assert text.count('<div class="timelines">') == 1
    assert text.count("<tr") == 1 + 3


def test_page_of_many_cells(tmp_path: Path, capsys: Capture) -> None:
    """None is left out, however many there are."""
    file = tmp_path / "page.html"
    arguments = ["simulate", "--pp", "8", "--microbatches", "2048", "--schedules", "1f1b,gpipe"]
    assert main([*arguments, "--draw", str(file)]) == 0
    assert re.findall(r'"cells":(\d+)', file.read_text()) == ["32768", "32768"]


# The other verbs


def test_show_lists(capsys: Capture) -> None:
    families = rows_of(capsys, "show", "families")
    assert [row["family"] for row in families] == list(pipesched.families())
    assert {row["name"] for row in rows_of(capsys, "show", "models")} == set(pipesched.models())
    assert main(["show", "systems"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(
        pipesched.systems()
    )


def test_show_model(capsys: Capture) -> None:
    assert (
        main(["show", "--model", str(ROOT / "models" / "llama3-70b.json"), "--format", "json"]) == 0
    )
    model = json.loads(capsys.readouterr().out)
    assert model["parameters"] == model["active_parameters"] == 70_553_706_496
    assert model["flops_per_token"] > 6 * 69e9
    assert model["activation_bytes_per_block"] > 0
    assert (
        main(["show", "--model", "llama3-70b", "--microbatch-size", "2", "--format", "json"]) == 0
    )
    twice = json.loads(capsys.readouterr().out)
    assert twice["activation_bytes"] == 2 * model["activation_bytes"]


def test_show_system(capsys: Capture) -> None:
    assert main(["show", "--system", "h100-dgx", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == pipesched.systems()["dgx-h100"]
    assert main(["show", "--system", str(ROOT / "systems" / "toy.json")]) == 0
    assert "matrix.tflops" in capsys.readouterr().out
    assert main(["show", "--system", str(ROOT / "test" / "data" / "calculon" / "system.json")]) == 0
    assert "\u2026" not in capsys.readouterr().out


def test_show_schedule(schedule: str, capsys: Capture) -> None:
    assert "worker 0  F0 F1 F2 F3 " in text_of(capsys, "show", schedule)
    cells = rows_of(capsys, "show", schedule)
    assert len(cells) == 32
    assert cells[0] == {
        "schedule": "schedule",
        "worker": 0,
        "index": 0,
        "stage": 0,
        "phase": "F",
        "microbatch": 0,
        "queue": "compute",
        "pair": -1,
    }


def test_generate(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["convert", "VPP", "--pp", "2", "--microbatches", "4"]
    made = pipesched.generate("interleaved-1f1b", workers=2, microbatches=4)
    assert text_of(capsys, *arguments) == made.to_text()
    assert text_of(capsys, *arguments, "--to", "torch-csv") == made.to_csv()
    assert len(json.loads(text_of(capsys, *arguments, "--to", "cells"))) == 32
    assert text_of(capsys, *arguments, "-o", "-") == made.to_text()
    for ending in ("mlir", "mlirbc", "csv", "svg"):
        file = tmp_path / f"schedule.{ending}"
        assert main([*arguments, "-o", str(file)]) == 0
        assert file.stat().st_size > 0
    wrong = failure_of(capsys, *arguments, "-o", str(tmp_path / "schedule"))
    assert "what to write; known endings" in wrong


def test_simulate(schedule: str, tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.json"
    reports = rows_of(capsys, "simulate", schedule, "--times", "F=1ms,B=2ms", "--draw", str(trace))
    assert reports[0]["execution"]["makespan_ps"] == 21_000_000_000
    assert json.loads(trace.read_text())
    assert main(["simulate", schedule, "--format", "csv"]) == 0
    row = next(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(row["step_s"]) == 21e-6
    generated = ["simulate", "--schedule", "1f1b", "--pp", "4", "--microbatches", "4"]
    assert rows_of(capsys, *generated)[0]["execution"]["makespan_ps"] == 21_000_000


def test_verify(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bad.mlir"
    file.write_text(
        "pipe.schedule @s workers 2 microbatches 2 {\n"
        "  path on [0, 1]\n"
        "  worker 0 runs [0F0 0B0 0F1 0B1]\n"
        "  worker 1 runs [1F1 1F0 1B1 1B0]\n}\n"
    )
    assert main(["check", str(file), "--messages", "unbounded"]) == 1
    printed = capsys.readouterr()
    assert re.search(r"^s +schedule +unbounded +no$", printed.out, re.MULTILINE)
    assert "deadlock" in printed.err or "wait" in printed.err


@pytest.fixture
def program(schedule: str, tmp_path: Path) -> str:
    file = str(tmp_path / "program.mlir")
    assert main(["convert", schedule, file, "--to", "exec"]) == 0
    return file


def test_verify_programs(program: str, capsys: Capture) -> None:
    for messages in ("unbounded", "fifo", "batched"):
        rows = rows_of(capsys, "check", program, "--messages", messages)
        assert [(row["kind"], row["valid"]) for row in rows] == [("program", True)]
    rows = rows_of(capsys, "check", program, "--messages", "rendezvous", status=1)
    assert not rows[0]["valid"]
    assert "wait" in rows[0]["diagnostics"][0]
    given = ["check", program, "--receive-placement", "consumer"]
    assert "--receive-placement" in failure_of(capsys, *given, status=2)
    assert "exec.program" in run_passes(capsys, "check", program)


def test_verify_answers_only_what_was_examined(tmp_path: Path, capsys: Capture) -> None:
    """A step that fails is not an answer: no table is printed."""
    file = tmp_path / "problem.mlir"
    file.write_text("pipe.schedule @s workers 2 microbatches 2 {\n  path on [0, 1]\n}\n")
    assert "s has no rows to verify" in failure_of(capsys, "check", str(file))


def test_convert(schedule: str, tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "table.csv"
    assert main(["convert", schedule, str(table)]) == 0
    assert main(["convert", str(table), "-", "--to", "mlir"]) == 0
    assert "worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]" in capsys.readouterr().out
    assert "exec.program" in text_of(capsys, "convert", schedule, "-", "--to", "exec")
    assert "known endings" in failure_of(capsys, "convert", schedule, str(tmp_path / "x.txt"))


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("simulate nowhere.mlir", 1, "error: nowhere.mlir: No such file"),
        ("simulate", 2, "give --pp and --microbatches, or files"),
        ("show models --sequence 3", 2, "--sequence is about --model"),
        ("show --model llama3-7b", 1, "the closest is"),
        ("simulate --pp 4 --microbatches 8 --schedules 1f1bb", 1, "the closest is '1f1b'"),
        ("simulate --pp 4 --microbatches 8 --times F=18.5", 1, "expected a unit (ps, ns"),
        ("simulate --pp 4 --microbatches 8 --model toy", 2, "--model needs --system"),
        ("convert dualpipe --pp 4 --microbatches 9", 1, "the nearest are 8 and 10"),
        ("convert 1f1b --pp 4 --microbatches 9 --vpp 2", 1, "chunks"),
    ],
)
def test_mistakes(arguments: str, status: int, said: str, capsys: Capture) -> None:
    assert said in failure_of(capsys, *arguments.split(), status=status)


@pytest.mark.parametrize("microbatches", ["0", "x", "8:4", "8:16:0", "8,,9", "-1", "1:99999999"])
def test_bad_ranges(microbatches: str, capsys: Capture) -> None:
    failure_of(capsys, "simulate", "--pp", "4", f"--microbatches={microbatches}", status=2)


# Help


@pytest.mark.parametrize("verb", VERBS)
def test_example_of_help(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for needed in {"run": ["torch"], "export": ["torch", "torch_mlir"]}.get(verb, []):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    tools = [str(ROOT / "build" / preset / "bin") for preset in ("release", "dev")]
    monkeypatch.setenv("PATH", ":".join([*tools, os.environ["PATH"]]))
    made = pipesched.generate("1f1b", workers=4, microbatches=8)
    made.save("schedule.mlir")
    made.save("schedule.csv")
    shutil.copy(ROOT / "test" / "data" / "fit" / "kernels.csv", "measured.csv")
    page = (ROOT / "docs" / "Fitting.md").read_text()
    Path("steps.json").write_text("[{" + page.partition("    [{")[2].partition("}]")[0] + "}]")
    recipe = (ROOT / "docs" / "Check.md").read_text().partition("```sh\n")[2].partition("```")[0]
    Path("train_llama3_70b.sh").write_text(recipe)
    segments = json.loads((ROOT / "docs/schemas/layer-segments.schema.json").read_text())
    Path("segments.json").write_text(json.dumps(segments["examples"][0]))
    with pytest.raises(SystemExit):
        parser().parse_args([verb, "--help"])
    example = capsys.readouterr().out.partition("example:\n")[2].replace("\\\n", " ")
    lines = [shlex.split(line) for line in example.splitlines() if line.strip()]
    assert lines
    for program, *arguments in lines:
        assert program == "pipesched"
        small = SMALL_GPT if arguments[:2] == ["run", "gpt"] else []
        assert main([*arguments, *small]) == 0


# Documentation


def test_documented_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The lines of docs/Command.md after `$` print the output in the page."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "Command.md").read_text().replace("\\\n    >", "")
    blocks = "".join(
        line[4:] if line.startswith("    ") else "" if line.strip() else "\n"
        for line in text.splitlines(keepends=True)
    )
    sessions = [session.split("\n", 1) for session in re.split(r"(?m)^\$ ", blocks)[1:]]
    assert len(sessions) > 5
    for command, printed in sessions:
        program, *arguments = shlex.split(command)
        assert program == "pipesched"
        small = SMALL_GPT if arguments[:2] == ["run", "gpt"] else []
        found = text_of(capsys, *arguments, *small)
        assert [line for line in found.splitlines() if line] == [
            line for line in printed.splitlines() if line
        ]


# The same as passes


def tools() -> Path:
    for preset in ("dev", "release"):
        folder = ROOT / "build" / preset / "bin"
        if all((folder / f"pipesched-{tool}").exists() for tool in ("opt", "translate")):
            return folder
    pytest.skip("the tools are not built")


def run_passes(capsys: Capture, *arguments: str) -> str:
    """Runs the command line that --show-passes prints and returns its output."""
    line = text_of(capsys, *arguments, "--show-passes")
    environment = {**os.environ, "PATH": f"{tools()}:{os.environ['PATH']}"}
    shell = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(shell, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "costs",
    [
        ["--times", "F=3ms,I=4ms,W=1ms,comm=1ms", "--set", "times-of=stage"],
        ["--times", "F=3ms,B=5ms", "--set", "times-of=worker"],
        COSTS,
    ],
)
@pytest.mark.parametrize("transport", ["overlap", "blocking"])
def test_passes_of_compare(costs: list[str], transport: str, capsys: Capture) -> None:
    arguments = ["simulate", "--pp", "4", "--microbatches", "8,16", "--transport", transport]
    arguments += ["--schedules", "gpipe,VPP,looped-bfs,zb-v,dualpipe", *costs]
    reports = json.loads(run_passes(capsys, *arguments))
    rows = rows_of(capsys, *arguments)
    assert len(rows) == 10
    made = [row for row in rows if "error" not in row]
    assert {
        (r["family"], r["microbatches"]): r["execution"]["makespan_ps"] / 1e12 for r in reports
    } == {(row["schedule"], row["microbatches"]): row["step_s"] for row in made}


def test_runtime_of_pytorch(tmp_path: Path, capsys: Capture) -> None:
    times = ["--times", "F=1ms,I=1ms,W=1ms,FB=2ms", "--set", "runtime=torch"]
    compared = ["simulate", "--pp", "4", "--microbatches", "8", "--schedules", "dualpipe-v"]
    (row,) = rows_of(capsys, *compared, *times)
    assert row["step_s"] == 0.054
    (report,) = json.loads(run_passes(capsys, *compared, *times))
    assert report["execution"]["runtime"] == "torch"
    file = tmp_path / "v.mlir"
    pipesched.generate("dualpipe-v", workers=4, microbatches=8).save(file)
    (simulated,) = rows_of(capsys, "simulate", str(file), *times)
    assert simulated["execution"] == report["execution"]


@pytest.mark.parametrize(
    "options",
    [[], ["--option", "split-backward=true"], ["--vpp", "3", "--option", "gradient-after=I"]],
)
def test_passes_of_generate(options: list[str], capsys: Capture) -> None:
    arguments = ["convert", "VPP", "--pp", "4", "--microbatches", "8", *options]
    arguments += ["--pipeline", "pipe-align-slots"]
    if "gradient-after=I" in options:
        arguments += ["--option", "split-backward=true"]
    passes = run_passes(capsys, *arguments)
    assert text_of(capsys, *arguments).strip() == passes.strip()


def test_passes_of_files(schedule: str, capsys: Capture) -> None:
    shown = text_of(capsys, "show", schedule)
    assert run_passes(capsys, "show", schedule) == shown
    timed = ["simulate", schedule, "--times", "F=3ms,B=5ms"]
    (report,) = json.loads(run_passes(capsys, *timed))
    assert report.items() <= rows_of(capsys, *timed)[0].items()
    assert "@schedule" in run_passes(capsys, "check", schedule)
    converted = text_of(capsys, "convert", schedule, "-", "--to", "torch-csv")
    assert run_passes(capsys, "convert", schedule, "x.csv") == converted


def test_passes_of_models(capsys: Capture) -> None:
    model = json.loads(text_of(capsys, "show", "--model", "llama3-70b", "--format", "json"))
    assert (
        json.loads(run_passes(capsys, "show", "--model", "llama3-70b"))[0]["blocks"]
        == model["blocks"]
    )


# Files and processes


def test_reader_that_has_enough() -> None:
    generate = [*COMMAND, "convert", "1f1b", "--pp", "64", "--microbatches", "512"]
    command = f"{shlex.join(generate)} | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "module {\n "
    assert done.stderr == ""


def interrupted(arguments: list[str], *, after: float) -> tuple[int, str, str]:
    """The exit status and the output of a command that gets SIGINT some seconds after its start."""
    code = COMMAND[-1].replace("sys.exit", f"{READY}; sys.exit")
    command = [*COMMAND[:-1], code, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and process.stderr.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_interrupt() -> None:
    slow = ["simulate", "--pp", "64", "--microbatches", "64:4096", "--schedules", "1f1b"]
    assert interrupted(slow, after=3) == (130, "", "interrupted\n")


def test_columns_are_keys(capsys: Capture) -> None:
    rows = rows_of(capsys, *POINT, "--schedules", "1f1b")
    # `uses` is of --memory.
    assert {column.key for column in ranking.COLUMNS} - set(rows[0]) == {"error", "uses"}
