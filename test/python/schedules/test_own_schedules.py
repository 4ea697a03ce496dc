"""`compare` and `simulate` with schedules, programs and CSV of one's own."""

import json
from pathlib import Path

import pipesched
import pytest
from pipesched.command import main
from test_command import Capture, failure_of, rows_of, run_passes

TIMES = ["--times", "F=10ms,I=12ms,W=8ms,comm=1ms"]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """The same schedule in every form that is read, and another of another size."""
    made = pipesched.generate("zb-h1", workers=4, microbatches=8)
    files = {kind: str(tmp_path / f"{kind}.{kind}") for kind in ("mlir", "mlirbc", "csv")}
    for file in files.values():
        made.save(file)
    files["exec"] = str(tmp_path / "exec.mlir")
    made.transform("convert-pipe-to-exec").save(files["exec"])
    files["wide"] = str(tmp_path / "wide.mlir")
    pipesched.generate("1f1b", workers=8, microbatches=8).save(files["wide"])
    return files


def test_all_forms_beside_their_family(own: dict[str, str], capsys: Capture) -> None:
    files = [own[kind] for kind in ("mlir", "mlirbc", "csv", "exec")]
    rows = rows_of(capsys, "simulate", *files, "--schedules", "zb-h1,1f1b", *TIMES)
    found = {row["schedule"]: row for row in rows}
    assert set(found) == {"mlir", "mlirbc", "csv", "exec", "zb-h1", "1f1b"}
    step = found["zb-h1"]["step_s"]
    assert all(found[name]["step_s"] == step for name in ("mlir", "mlirbc", "csv", "exec"))
    assert [row["rank"] for row in rows] == [1, 1, 1, 1, 1, 6]
    assert found["csv"]["file"] == own["csv"] and found["zb-h1"]["file"] is None
    assert found["mlir"]["family"] == "zb-h1"
    assert {(row["workers"], row["microbatches"]) for row in rows} == {(4, 8)}


def test_files_alone_need_no_sizes(own: dict[str, str], capsys: Capture) -> None:
    assert main(["simulate", own["mlir"], own["exec"], *TIMES]) == 0
    printed = capsys.readouterr().out
    assert own["mlir"] in printed and "zb-v" not in printed


def test_other_sizes_are_groups_of_their_own(own: dict[str, str], capsys: Capture) -> None:
    line = ["simulate", own["mlir"], own["wide"], "--schedules", "1f1b", *TIMES]
    rows = rows_of(capsys, *line)
    ranks = [(row["workers"], row["schedule"], row["rank"]) for row in rows]
    assert ranks == [(4, "mlir", 1), (4, "1f1b", 2), (8, "wide", 1), (8, "1f1b", 1)]
    assert main(line) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("4 and 8 workers, ")
    assert "- 8 workers, 8 microbatches: " in printed
    several = rows_of(capsys, *line, "--microbatches", "8,16")
    assert {(r["workers"], r["microbatches"]) for r in several if r["schedule"] == "1f1b"} == {
        *((4, 8), (4, 16), (8, 8), (8, 16))
    }


def test_names_differ(tmp_path: Path, capsys: Capture) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    made = pipesched.generate("gpipe", workers=4, microbatches=8, name="1f1b")
    files = [str(tmp_path / folder / "x.mlir") for folder in ("a", "b")]
    for file in files:
        made.save(file)
    rows = rows_of(capsys, "simulate", *files, "--schedules", "1f1b", *TIMES)
    assert {row["schedule"] for row in rows} == {"1f1b", *(f"{file}:1f1b" for file in files)}
    assert main(["simulate", *files, "--schedules", "1f1b", *TIMES]) == 0
    assert f"{files[0]}:1f1b" in capsys.readouterr().out


def test_the_page_draws_them(own: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    line = ["simulate", own["mlir"], own["wide"], "--schedules", "1f1b", *TIMES]
    assert main([*line, "--draw", str(page)]) == 0
    assert page.read_text().count("<tr") >= 4


@pytest.mark.parametrize("step", ["none", "exposed"])
def test_a_training_step_of_a_file(step: str, own: dict[str, str], capsys: Capture) -> None:
    costs = ["--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"]
    given = [*costs, "--data-parallel", "2", "--optimizer-step", step]
    rows = rows_of(capsys, "simulate", own["mlir"], "--schedules", "zb-h1", *given)
    assert len({row["step_s"] for row in rows}) == 1
    rows = rows_of(capsys, "simulate", own["exec"], "--schedules", "zb-h1", *given)
    program = next(row for row in rows if row["file"])
    assert ("error" in program) == (step == "exposed")


@pytest.mark.parametrize("of", [[], ["--set", "times-of=worker"]])
def test_passes_of_files(
    of: list[str], own: dict[str, str], tmp_path: Path, capsys: Capture
) -> None:
    v = str(tmp_path / "v.mlir")
    pipesched.generate("v-half", workers=4, microbatches=8).save(v)
    given = [own["csv"], own["exec"], v, *TIMES, *of] if of else [own["csv"], own["exec"], *TIMES]
    given += ["--schedules", "zb-h1"]
    rows = rows_of(capsys, "simulate", *given)
    reports = json.loads(run_passes(capsys, "simulate", *given).replace("]\n[", ","))
    assert sorted(r["execution"]["makespan_ps"] / 1e12 for r in reports) == sorted(
        row["step_s"] for row in rows
    )


def test_own_costs_beside_none(own: dict[str, str], tmp_path: Path, capsys: Capture) -> None:
    """Separate times and unit slots cannot be compared."""
    timed = str(tmp_path / "timed.mlir")
    made = pipesched.generate("gpipe", workers=4, microbatches=8, name="timed")
    made.transform("pipe-attach-profile{times=F=1ms,B=2ms}").save(timed)
    for other in (["--schedules", "1f1b"], [own["mlir"]]):
        said = failure_of(capsys, "simulate", timed, *other)
        assert "timed names its own times, model or system, and" in said
    (row,) = rows_of(capsys, "simulate", timed)
    assert row["step_s"] == 0.033


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["--pp", "4"], 2, "--pp is about families; --schedules names them"),
        (["--vpp", "2"], 2, "--vpp is about families"),
        (["--name", "other"], 1, "there is no schedule or program 'other'"),
        (["nowhere.mlir"], 1, "nowhere.mlir: No such file"),
    ],
)
def test_mistakes(
    given: list[str], status: int, said: str, own: dict[str, str], capsys: Capture
) -> None:
    assert said in failure_of(capsys, "simulate", own["mlir"], *given, status=status)
    assert "is given twice" in failure_of(capsys, "simulate", own["mlir"], own["mlir"])
    assert "give --pp and --microbatches, or files" in failure_of(capsys, "simulate", status=2)


# Simulate


def test_simulate_takes_several(own: dict[str, str], capsys: Capture) -> None:
    files = [own[kind] for kind in ("mlir", "csv", "exec", "wide")]
    reports = rows_of(capsys, "simulate", *files, *TIMES)
    assert {report["file"] for report in reports} == {*files}
    same = [report for report in reports if report["file"] != own["wide"]]
    assert len({report["execution"]["makespan_ps"] for report in same}) == 1
    assert len({report["schedule"] for report in reports}) == 4
    assert main(["simulate", *files, *TIMES]) == 0
    assert "file" in (said := capsys.readouterr().out) and own["exec"] in said
    printed = json.loads(run_passes(capsys, "simulate", *files, *TIMES).replace("]\n[", ","))
    assert sorted(r["execution"]["makespan_ps"] for r in printed) == sorted(
        r["execution"]["makespan_ps"] for r in reports
    )


def test_simulate_says_whose_messages_are_free(tmp_path: Path, capsys: Capture) -> None:
    made = pipesched.generate("gpipe", workers=4, microbatches=8, name="timed")
    file = str(tmp_path / "timed.mlir")
    made.transform("pipe-attach-profile{times=F=1ms,B=2ms}").save(file)
    assert main(["simulate", file]) == 0
    said = capsys.readouterr().out
    assert "unit slots" not in said and "messages free (no comm) in timed, " in said
