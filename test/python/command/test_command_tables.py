"""Tables fit: a terminal shows as much as it has room for and names the rest; files have all."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from pipesched.command import main
from pipesched.command.render.output import Column, View, table_text
from pipesched.command.verbs import trainings
from pipesched.command.verbs.fit import COLUMNS, SAMPLES
from rich.cells import cell_len
from test_command import Capture, failure_of, text_of

COSTS = ["--model", "llama3-70b", "--system", "dgx-h100", "--global-batch", "32"]
LINE = ["simulate", "1f1b", "zb-h1", "VPP", "--pp", "8", "--microbatches", "32", *COSTS]
PLAN = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "64"]
LINES = {
    "compare": LINE,
    "simulate": ["simulate", "1f1b", "--pp", "8", "--microbatches", "32", *COSTS],
    "sweep": ["sweep", "--schedules", "1f1b,zb-v", "--pp=8", "--microbatches=32", *COSTS],
    "plan": [*PLAN, "--global-batch", "128", "--pp", "2,4", "--schedules", "1f1b,zb-v"],
    "model": ["show", "--model", "qwen3-235b-a22b"],
    "families": ["show", "families"],
    "systems": ["show", "systems"],
}


SAME = "all rows: "
"""The start of a line with the columns that are the same in all rows."""


def in_terminal(columns: int, *words: str) -> list[str]:
    """The lines that the command prints in a terminal of this many columns."""
    reads, writes = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pipesched", *words],
        stdout=writes,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns)},
    )
    os.close(writes)
    found = b""
    while True:
        try:
            part = os.read(reads, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        found += part
    os.close(reads)
    assert process.wait() == 0
    return found.decode().replace("\r\n", "\n").splitlines()


def table_of(lines: list[str]) -> list[str]:
    """The lines of the first table: below the title, up to an empty line."""
    titles = ("assumed:", "band", "no band", "changed:", "order:", "note:", "times ", "work ", SAME)
    body = lines[: lines.index("")] if "" in lines else lines
    body = joined(body)
    start = max((i + 1 for i, line in enumerate(body) if line.startswith(titles)), default=0)
    return body[start:]


def joined(lines: list[str]) -> list[str]:
    """The lines, with each sentence that a narrow terminal has broken in one line."""
    found: list[str] = []
    for line in lines:
        is_more = line.startswith("  ") and line[2] != " " and "  " not in line[2:]
        if is_more and found and "  " not in found[-1].strip():
            found[-1] += line[1:]
        else:
            found.append(line)
    return found


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("columns", [100, 80])
def test_fits_a_terminal(name: str, columns: int) -> None:
    """No line is longer, and each column is shown or named."""
    printed = in_terminal(columns, *LINES[name])
    same = next((line for line in joined(printed) if line.startswith(SAME)), SAME)
    lines = table_of(printed)
    hidden = [line for line in lines if line.startswith("(no room for ")]
    rows = [line for line in lines if line not in hidden]
    assert max(map(cell_len, rows)) <= columns
    whole = table_of(in_terminal(columns, *LINES[name], "--columns", "all"))
    missing = hidden[0].removeprefix("(no room for ").partition(":")[0] if hidden else ""
    headings = [each for each in missing.split(", ") if each]
    named = [part.split()[0] for part in same.removeprefix(SAME).split("; ") if part]
    shown = [*rows[0].split(), *named]
    assert (name == "plan") == bool(named) and not {*named} & {*rows[0].split()}
    assert [word for word in whole[0].split() if word not in shown] == [
        word for heading in headings for word in heading.split() if word not in rows[0].split()
    ]
    for heading in headings:
        assert heading in whole[0]


def test_changes_of_a_plan_fit(tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    line = [*PLAN, "--global-batch", "128", "--pp", "2", "--schedules", "1f1b"]
    line += ["--cp", "1", "--tp", "1", "--top", "1"]
    assert main([*line, "--format", "json", "-o", plan]) == 0
    changes = ["--lose-node", "1", "--set", "network.bandwidth=0.5x"]
    for columns in (100, 80):
        lines = joined(in_terminal(columns, "whatif", plan, *changes))
        assert max(map(cell_len, lines[1:])) <= columns
        assert lines[1].split()[-1] == "why"


def test_expected_times_of_plans_are_shown() -> None:
    for columns in (80, 100):
        head = table_of(in_terminal(columns, *LINES["plan"]))[0].split()
        assert head[:3] == ["step", "from", "to"]


def test_what_rows_lack_is_shown() -> None:
    """A row that is faster but does not fit is never shown as if it did."""
    line = [*PLAN, "--global-batch", "128", "--pp", "4", "--schedules", "1f1b"]
    line += ["--tp", "1", "--cp", "1"]
    head, *rows = table_of(in_terminal(100, *line, "--memory", "32GiB"))
    assert "missing/GPU" in head and any("GiB" in row.partition("GiB")[2] for row in rows)
    assert "missing/GPU" not in " ".join(in_terminal(200, *line, "--memory", "200GiB"))


def test_files_and_pipes_have_all_columns(tmp_path: Path, capsys: Capture) -> None:
    printed = text_of(capsys, *LINE)
    assert "communication" in printed and "no room" not in printed
    file = tmp_path / "table.txt"
    assert in_terminal(60, *LINE, "-o", str(file)) == []
    assert file.read_text() == printed


def test_chosen_columns(capsys: Capture) -> None:
    assert main([*LINE, "--columns", "Schedule,step,peak_bytes_per_gpu"]) == 0
    head = next(line for line in capsys.readouterr().out.splitlines() if "step  " in line)
    assert head.split() == ["schedule", "step", "memory/GPU"]
    assert "the closest is 'step'" in failure_of(capsys, *LINE, "--columns", "stepp")
    said = failure_of(capsys, *LINE, "--columns", "step", "--format", "json", status=2)
    assert "--columns is about tables" in said
    assert "communication_ratio" in json.loads(text_of(capsys, *LINE, "--format", "json"))[0]


def test_tables_of_trainings_and_fits_fit() -> None:
    """Their longest usual values; the subject of a row stays."""
    training = {
        **dict.fromkeys(("rank", "predicted_rank"), 10),
        "schedule": "interleaved-1f1b-4-chunks",
        **dict.fromkeys(("step_s", "predicted_s"), 0.1234567),
        **dict.fromkeys(("error", "own_error", "idle_ratio", "predicted_idle_ratio"), 0.123456),
        **dict.fromkeys(("samples_per_s", "tokens_per_s"), 123456),
        "activations": 16,
        **dict.fromkeys(("first_loss", "last_loss"), 4.5504),
    }
    fit = {
        **{"part": "network", "kind": "all_reduce", "use": "predicted", "samples": 123},
        **{"sizes": 20, "from": "123.4 MB", "to": "1.234 GB", "median_error": 0.1234},
        **{"worst_error": -0.1234, "worst": "ncclDevKernel_AllReduce_RING_LL 12.3 MB " * 2},
        **{"name": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "dtype": "bf16"},
        **{"size": "123.4 GFLOP", "group": 8, "count": 123, "measured_s": 0.1234567},
        **{"predicted_s": 0.1234567, "error": 0.123456},
    }
    for columns, row in ((trainings.COLUMNS, training), (COLUMNS, fit), (SAMPLES, fit)):
        text = table_text([row] * 2, columns, View(100))
        lines = [line for line in text.splitlines() if "no room for" not in line]
        assert max(map(len, lines)) <= 100, text
        whole = table_text([row] * 2, columns, View())
        assert "no room" not in whole and max(map(len, whole.splitlines())) > 100
    assert "interleaved-1f1b-4-chunks" in table_text([training], trainings.COLUMNS, View(100))


def test_details_go_first() -> None:
    columns = [
        Column("name", "name", left=True),
        Column("a", "a", detail=1),
        Column("b", "b", detail=2),
        Column("c", "c", detail=2),
        Column("why", "why", left=True, wraps=True),
    ]
    rows = [{"name": "x" * 20, "a": "1" * 10, "b": "2" * 10, "c": "3" * 10, "why": "word " * 20}]
    for width, hidden in ((100, []), (78, ["c"]), (66, ["b", "c"]), (50, ["a", "b", "c"])):
        text = table_text(rows, columns, View(width))
        found = [line for line in text.splitlines() if "no room for" in line]
        wanted = [f"(no room for {', '.join(hidden)}: --columns all)"] if hidden else []
        assert found == wanted, width
        table = [line for line in text.splitlines() if line not in found]
        assert max(map(len, table)) <= width
        assert text.count("word") == 20
