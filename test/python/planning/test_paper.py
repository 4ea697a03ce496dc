"""Published results compared with ours, and the verdicts on findings."""

import json
import math
import os
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pipesched
import pytest
from conftest import ROOT
from pipesched import Configuration, Costs, PipeSchedError
from pipesched.command import main
from pipesched.paper import (
    TARGETS,
    Check,
    Finding,
    asymmetric,
    figures,
    findings,
    picture_files,
    setting,
    table1,
)
from pipesched.paper.setting import SYSTEMS, Scheme
from pipesched.support.options import Slots
from test_command import Capture, failure_of, rows_of, tools

Rows = list[dict[str, Any]]


# Table I


def by_cell(rows: Rows) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["system"], row["schedule"]): row for row in rows}


@pytest.mark.parametrize("durations", ["model", "inverted"])
def test_table1(durations: str, capsys: Capture, tmp_path: Path) -> None:
    cells = by_cell(rows_of(capsys, "reproduce", "table1", "--durations", durations))
    assert len(cells) == 18
    assert {schedule for _, schedule in cells} == {"chimera", "hanayo"}
    assert {system for system, _ in cells} == set(SYSTEMS)
    largest = 0.015 if durations == "model" else 0.006
    for key, (runtime, idle) in table1.PUBLISHED.items():
        row = cells[key]
        assert row["published_runtime_s"] == runtime
        assert row["published_idle_percent"] == idle
        assert row["runtime_s"] == pytest.approx(runtime, rel=largest)
        assert row["idle_percent"] == pytest.approx(idle, abs=0.8)
        assert row["runtime_error_percent"] == pytest.approx(
            100 * (row["runtime_s"] / runtime - 1), abs=1e-9
        )
    for (system, _), row in cells.items():
        assert ("published_runtime_s" in row) == (not system.startswith("slow_nw"))
        loses = cells[system, "hanayo"]["runtime_s"] > cells[system, "chimera"]["runtime_s"]
        assert loses == (system == "slow_nw_fast_cp")


def busy_s(system: str) -> float:
    return 8 * sum(table1.INVERTED_S[setting.compute_of(system)])


@pytest.mark.parametrize("durations", get_args(table1.Durations))
@pytest.mark.parametrize("system", SYSTEMS)
def test_closed_forms(system: str, durations: table1.Durations) -> None:
    """The closed forms that hold for the printed numbers also hold for sizes without printed
    numbers.
    """
    inverted = durations == "inverted"
    for scheme in ("chimera", "hanayo"):
        timed = table1.simulate(system, scheme, durations)
        wanted = table1.closed_form_s(system, scheme)
        exact = inverted and scheme == "chimera"
        worst = 0.012 if system == "slow_nw_fast_cp" else 0.006
        largest = 1e-4 if exact else worst if inverted else 0.015
        assert timed.runtime_s == pytest.approx(wanted, rel=largest)
        idle = 100 * (1 - busy_s(system) / wanted)
        assert timed.idle_percent == pytest.approx(idle, abs=0.8)


def test_closed_forms_are_the_printed_numbers() -> None:
    """So closed forms and study cannot be wrong in the same way."""
    for (system, scheme), printed in table1.PUBLISHED.items():
        wanted = table1.closed_form_s(system, scheme)
        assert wanted == pytest.approx(printed.runtime_s, abs=0.03)
        assert 100 * (1 - busy_s(system) / wanted) == pytest.approx(printed.idle_percent, abs=0.03)


# Time


@pytest.mark.parametrize("scheme", setting.SCHEMES)
def test_profile_of_stages_is_the_model(scheme: Scheme) -> None:
    """The stage times, before hops are charged, give the same makespan as the model."""
    point = setting.configuration(scheme, 4, 8, setting.costs("baseline", 8))
    report = point.simulate()
    assert point.costs is not None
    times: dict[str, Any] = {**setting.stage_times(report)}
    times["comm"] = setting.message_ps(point.costs)
    profiled = Configuration(
        point.family, 4, 8, point.options, point.paths, Costs(times=times), transport="blocking"
    )
    assert profiled.simulate().execution.makespan_ps == report.execution.makespan_ps


def test_hops_are_charged() -> None:
    """Two workers, one wave, one microbatch: two hops between workers and one turn, both ways."""
    costs = Costs(times={"F": 100, "I": 200, "W": 300, "comm": 7})
    point = Configuration("greedy", 2, 1, paths=[[0, 1, 1, 0]], costs=costs, transport="blocking")
    timed = setting.simulate(point)
    assert timed.report.execution.makespan_ps == 4 * 600 + 4 * 7
    assert timed.runtime_ps == 4 * 600 + 6 * 7
    assert timed.busy_ps == 4 * 600
    assert timed.idle_percent == pytest.approx(100 * (1 - 2400 / (2 * 2442)))


def test_message_of_a_microbatch() -> None:
    """2^29 bytes at eight microbatches, by bandwidth and latency; half at sixteen, unless fixed."""
    latency = 500_000
    for n, volume, size in ((8, "scaled", 2**29), (16, "scaled", 2**28), (16, "fixed", 2**29)):
        costs = setting.costs("baseline", n, volume)
        assert setting.message_ps(costs) == pytest.approx(size * 20 + latency, abs=1)


# Figures


def test_figure3() -> None:
    frame = figures.figure3().frame
    assert len(frame) == 2 * 4 * 63
    plain = frame[frame.schedule.isin(["gpipe", "1f1b"])]
    wanted = 100 * (plain.stages - 1) / (plain.microbatches + plain.stages - 1)
    assert (plain.table_percent - wanted).abs().max() < 1e-9
    assert (plain.formula_percent - wanted).abs().max() < 1e-9
    chimera = frame[frame.schedule == "chimera"]
    wanted = 100 * (chimera.stages - 2) / (2 * chimera.microbatches + chimera.stages - 2)
    assert (chimera.formula_percent - wanted).abs().max() < 1e-9
    known = chimera[chimera.published_table_percent.notna()]
    assert len(known) == 2
    assert known.table_percent.round().tolist() == [13, 26]


def steps(volume: setting.MessageVolume = "scaled", **options: Any) -> pd.DataFrame:
    return figures.figure4(message_volume=volume, **options).frame


def test_figure4() -> None:
    frame = steps()
    assert len(frame) == 9 * 2 * 4 * 6
    wide = frame.pivot(
        index=["system", "stages", "microbatches"], columns="schedule", values="runtime_s"
    )
    assert (wide["gpipe"] == wide["1f1b"]).all()
    cell = frame.set_index(["system", "stages", "microbatches", "schedule"]).runtime_s
    for system in SYSTEMS:
        for scheme in ("chimera", "hanayo"):
            timed = table1.simulate(system, scheme)
            assert cell[system, 8, 8, scheme] == timed.runtime_s


def test_message_volume() -> None:
    """Messages that do not shrink with the number of microbatches cost more the more microbatches
    there are.
    """
    options = {"stages": [8], "systems": ["slow_nw_fast_cp"]}
    scaled, fixed = steps("scaled", **options), steps("fixed", **options)
    same = scaled.microbatches == 8
    assert (scaled.runtime_s[same] == fixed.runtime_s[same]).all()
    more = scaled.microbatches > 8
    assert (scaled.runtime_s[more] < fixed.runtime_s[more]).all()
    plain = fixed[fixed.schedule == "1f1b"].runtime_s
    assert plain.iloc[-1] > 1.5 * plain.min()


def test_figure5() -> None:
    frame = figures.figure5().frame.set_index(["schedule", "stages", "microbatches"])
    block = 4096 * 4096 * (34 + 5 * 80 * 4096 / 4096)
    for d in (4, 8):
        for n in figures.MICROBATCHES:
            share = 128 // n * block * 128 // d / 2**30
            assert frame.activation_gib["gpipe", d, n] == pytest.approx(n * share)
            assert frame.activation_gib["1f1b", d, n] == pytest.approx(min(n, d) * share)
            once = frame.persistent_gib["gpipe", d, n]
            assert frame.persistent_gib["chimera", d, n] == pytest.approx(2 * once)
            assert frame.peak_gib["1f1b", d, n] == pytest.approx(
                once + frame.activation_gib["1f1b", d, n]
            )


def test_memory_conventions() -> None:
    """If only one stage is counted, Li and Hoefler's Chimera takes less memory than 1F1B."""
    lower = figures.lower_than_1f1b(figures.figure5().frame)
    by = lower.set_index(["schedule", "convention"]).lower
    assert by["chimera-units", figures.CONVENTIONS["stage_activation_gib"]] == 11
    assert by["chimera-units", figures.CONVENTIONS["peak_gib"]] == 0
    assert by["chimera", figures.CONVENTIONS["activation_gib"]] == 0


@pytest.mark.parametrize("slots", get_args(Slots))
def test_even_against_even(slots: Slots) -> None:
    options: dict[str, Any] = {"stages": [4], "microbatches": [6], "systems": ["baseline"]}
    frame = asymmetric.figure6(ratio="3:3", slots=slots, **options).frame
    assert frame.even_to_asymmetric.tolist() == [1]
    assert frame.even_worker_gib.tolist() == frame.asymmetric_worker_gib.tolist()


@pytest.mark.parametrize(("ratio", "d", "n"), [("1:2", 4, 8), ("3:1", 6, 7), ("5:7", 2, 200)])
def test_figure6_of_any_size(ratio: str, d: int, n: int) -> None:
    frame = asymmetric.figure6(
        stages=[d], microbatches=[n], ratio=ratio, systems=["baseline"]
    ).frame
    (row,) = frame.to_dict("records")
    first, second = map(int, ratio.split(":"))
    made = asymmetric.schedule(ratio, d, n)
    assert f"blocks [{row['blocks'] * 2 * first // (first + second) // d}" in made.to_text()
    costs = asymmetric.costs("baseline", n, row["blocks"])
    report = made.simulate(costs, transport="blocking")
    assert row["asymmetric_s"] == report.execution.makespan_ps / 1e12
    assert row["sequences"] == n * asymmetric.sequences(n)
    # With equally many microbatches on each path, every worker has the same work.
    assert (len(set(report.execution.busy_ps.tolist())) == 1) == (n % 2 == 0)
    assert len(row["even_worker_gib"]) == d


def test_slots_by_blocks_pay_where_unit_slots_do_not() -> None:
    options: dict[str, Any] = {
        "stages": [4],
        "microbatches": [8, 16],
        "systems": ["fast_nw_fast_cp"],
    }
    unit = asymmetric.figure6(slots="unit", **options).frame.even_to_asymmetric
    blocks = asymmetric.figure6(slots="blocks", **options).frame.even_to_asymmetric
    assert (unit < 1).all()
    assert (blocks > 1).all()


def test_nearest_blocks() -> None:
    with pytest.raises(PipeSchedError, match="a multiple of 12; the nearest: 96 and 108"):
        asymmetric.figure6(stages=[4], microbatches=[8], blocks=100)
    with pytest.raises(PipeSchedError, match="nearest: 12$"):
        asymmetric.figure6(stages=[4], microbatches=[8], blocks=7)
    for ratio in ("1", "1:2:3", "0:1", "a:b", "-1:2"):
        with pytest.raises(PipeSchedError, match="ratio"):
            asymmetric.figure6(stages=[4], microbatches=[8], ratio=ratio)


def test_nearest_microbatches() -> None:
    for n, nearest in ((5, "4 and 8"), (100, "64 and 128"), (129, "128")):
        with pytest.raises(PipeSchedError, match=f"nearest that do: {nearest}$"):
            figures.figure4(microbatches=[n])


# Findings


def test_verdicts() -> None:
    yes, no = Check("a", True, ""), Check("b", False, "")
    assert Finding(1, "", (yes, yes)).verdict == "met"
    assert Finding(1, "", (yes, no)).verdict == "partly met"
    assert Finding(1, "", (no, no)).verdict == "not met"


@pytest.fixture(scope="module")
def ours() -> tuple[Finding, ...]:
    """All findings with verdicts for our numbers."""
    return findings.all_findings()


def test_verdicts_of_ours(ours: tuple[Finding, ...]) -> None:
    found = {finding.number: finding for finding in ours}
    assert {number: finding.verdict for number, finding in found.items()} == {
        1: "met",
        2: "met",
        3: "partly met",
        4: "met",
        5: "partly met",
        6: "met",
    }
    failed = [c.says for c in found[3].checks if not c.holds]
    assert [re.sub(":.*", "", says) for says in failed] == [
        "baseline, D = 4",
        "fast_nw_slow_cp, D = 8",
        "mid_nw_slow_cp, D = 8",
    ]
    assert all(type(c.holds) is bool for finding in found.values() for c in finding.checks)


def worse(frame: pd.DataFrame, rows: "pd.Series[bool]", column: str, by: float) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[rows, column] *= by
    return changed


def failing(finding: Finding) -> int:
    return sum(not check.holds for check in finding.checks)


def test_verdicts_hang_on_the_numbers() -> None:
    """Changing a number changes the verdict."""
    table = table1.table1().frame
    hanayo = table.schedule == "hanayo"
    assert failing(table1.finding4(worse(table, hanayo, "runtime_s", 2))) == 4
    assert failing(table1.finding4(worse(table, hanayo, "runtime_s", 0.5))) == 4

    bubbles = figures.figure3().frame
    chimera = bubbles.schedule == "chimera"
    assert failing(figures.finding2(worse(bubbles, chimera, "table_percent", 3))) == 3
    less = worse(bubbles, chimera, "difference_points", -1)
    assert failing(figures.finding2(less)) == 1

    scaled, memory = steps(), figures.figure5().frame
    gpipe = scaled.schedule == "gpipe"
    assert failing(figures.finding1(scaled, bubbles, memory)) == 0
    slower = worse(scaled, gpipe, "runtime_s", 1.001)
    assert failing(figures.finding1(slower, bubbles, memory)) == 1
    held = worse(memory, memory.schedule == "1f1b", "activation_gib", 100)
    assert failing(figures.finding1(scaled, bubbles, held)) == 1
    grows = worse(
        memory, (memory.schedule == "gpipe") & (memory.microbatches == 8), "activation_gib", 1.1
    )
    assert failing(figures.finding1(scaled, bubbles, grows)) == 1

    fixed = steps("fixed")
    before = failing(figures.finding3(scaled, fixed))
    never = worse(scaled, scaled.schedule == "chimera", "runtime_s", 3)
    assert failing(figures.finding3(never, fixed)) == 8
    assert failing(figures.finding3(scaled, scaled)) == before + 1

    points = asymmetric.figure6().frame
    everywhere = points.even_to_asymmetric > 0
    before = failing(asymmetric.finding5(points))
    fast = worse(points, everywhere, "even_to_asymmetric", 1.2)
    assert failing(asymmetric.finding5(fast)) == before + 1
    lower = worse(points, everywhere, "asymmetric_peak_gib", 0.5)
    assert failing(asymmetric.finding5(lower)) == before + 1
    even = worse(points, everywhere, "asymmetric_spread_percent", 0)
    assert failing(asymmetric.finding5(even)) == before - 1


def test_rankings() -> None:
    same = findings.ranking(pd.Series({"a": 2.0, "b": 1.0, "c": 2.0}))
    assert same == (("b",), ("a", "c"))
    columns = ["formula", "table", *SYSTEMS]
    ranked = pd.DataFrame({column: [same] * 3 for column in columns})
    finding = findings.finding6(ranked)
    assert finding.verdict == "not met"
    ranked.loc[:, "table"] = pd.Series([findings.ranking(pd.Series({"a": 1.0}))] * 3)
    assert [check.holds for check in findings.finding6(ranked).checks] == [True, True, False, True]


# The verb


def test_targets(capsys: Capture) -> None:
    assert "the closest is 'figure4'" in failure_of(capsys, "reproduce", "figur4")
    assert "known: table1, " in failure_of(capsys, "reproduce", "everything")
    said = failure_of(capsys, "reproduce", "figure3", "--ratio", "1:2", status=2)
    assert said.endswith("error: figure3 has no --set ratio, which is for figure6\n")
    wrong = ("reproduce", "figure4", "--systems", "baseline,slow")
    assert "found 'slow'" in failure_of(capsys, *wrong, status=2)


def test_an_assumption_of_table1_is_varied(capsys: Capture) -> None:
    """Other systems, sizes and settings have no printed numbers; messages of half the bandwidth
    take as long as on a system that states it.
    """
    slower = ["--system", "Baseline", "--set", "network.bandwidth=0.5x"]
    rows = rows_of(capsys, "reproduce", "table1", *slower, "--pp", "4", "--microbatches", "8,16")
    assert [(row["stages"], row["microbatches"]) for row in rows] == [(4, 8)] * 2 + [(4, 16)] * 2
    assert all("published_runtime_s" not in row and "closed_form_s" not in row for row in rows)
    given = pipesched.systems()["baseline"]
    given["network"]["bandwidth_gb_per_s"] /= 2
    costs = Costs(model="paper-gpt", system=given, microbatch_size=16, framework="none")
    alone = setting.simulate(setting.configuration("chimera", 4, 8, costs))
    assert rows[0]["runtime_s"] == alone.runtime_s
    (usual, _) = rows_of(capsys, "reproduce", "table1", "--system", "baseline")
    assert usual["published_runtime_s"] == 59.32
    assert "durations=inverted are those" in failure_of(
        capsys, "reproduce", "table1", "--set", "durations=inverted", "--pp", "4", status=1
    )


def test_an_assumption_of_figures_is_varied(capsys: Capture) -> None:
    sizes = ["--pp", "4", "--microbatches", "8"]
    slower = ["--set", "matrix.tflops=0.5x", "--system", "baseline"]
    for figure, key in (("figure4", "runtime_s"), ("figure6", "even_s")):
        usual = rows_of(capsys, "reproduce", figure, *sizes, "--system", "baseline")
        changed = rows_of(capsys, "reproduce", figure, *sizes, *slower)
        assert all(b[key] > 1.3 * a[key] for a, b in zip(usual, changed, strict=True))
    few = ["--set", "model.hidden=0.5x"]
    usual = rows_of(capsys, "reproduce", "figure5", *sizes)
    changed = rows_of(capsys, "reproduce", "figure5", *sizes, *few)
    assert all(b["peak_gib"] < a["peak_gib"] for a, b in zip(usual, changed, strict=True))
    said = failure_of(capsys, "reproduce", "figure3", *few, status=2)
    assert "figure3 has no --set, which is for table1" in said


def test_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table1", "--format", "json"]) == 0
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert main(["reproduce", "table1"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "wrote out/table1.png\nwrote out/table1.svg\n"
    assert (tmp_path / "out" / "table1.png").read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "out" / "table1.svg").read_bytes()
    arguments = ["reproduce", "table1", "--format", "csv", "-o", "deep/down"]
    assert main(arguments) == 0
    assert (tmp_path / "deep" / "down" / "table1.svg").read_bytes() == first
    capsys.readouterr()
    (tmp_path / "file").write_text("")
    assert "file: " in failure_of(capsys, "reproduce", "table1", "-o", "file")


def test_pictures_are_the_same_every_time() -> None:
    study = asymmetric.figure6(stages=[2, 4], microbatches=[4, 8], systems=["baseline"])
    first = picture_files(study.draw)
    assert set(first) == {
        f"figure6-1-2-blocks{part}.{ending}"
        for part in ("", "-memory")
        for ending in ("png", "svg")
    }
    assert picture_files(study.draw) == first


def test_all(capsys: Capture) -> None:
    rows = rows_of(capsys, "reproduce", "all")
    assert list(dict.fromkeys(row["target"] for row in rows)) == list(TARGETS)
    alone = rows_of(capsys, "reproduce", "table1")
    assert [{**row, "target": "table1"} for row in alone] == [
        row for row in rows if row["target"] == "table1"
    ]
    assert all(value is not None and value == value for row in rows for value in row.values())


def run_line(line: str) -> float:
    environment = {**os.environ, "PATH": f"{tools()}:{os.environ['PATH']}"}
    shell = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=True)
    (report,) = json.loads(done.stdout)
    execution: dict[str, Any] = report["execution"]
    return float(execution["makespan_ps"]) / 1e12


@pytest.mark.parametrize("durations", get_args(table1.Durations))
def test_passes_of_table1(durations: table1.Durations) -> None:
    study = table1.table1(durations)
    assert len(study.passes) == len(study.frame)
    for line, runtime in zip(study.passes[:6], study.frame.runtime_s, strict=False):
        assert run_line(line) == pytest.approx(runtime, rel=1e-12)


@pytest.mark.parametrize("slots", get_args(Slots))
def test_passes_of_figure6(slots: Slots) -> None:
    options: dict[str, Any] = {"stages": [4], "microbatches": [8], "systems": ["baseline"]}
    study = asymmetric.figure6(slots=slots, **options)
    (row,) = study.frame.to_dict("records")
    assert [run_line(line) for line in study.passes] == [row["even_s"], row["asymmetric_s"]]


def test_passes_of_findings_are_refused(capsys: Capture) -> None:
    said = failure_of(capsys, "reproduce", "findings", "--show-passes")
    assert "no command line of passes" in said


# Documentation


PAGE = (ROOT / "docs" / "Paper.md").read_text()


def test_table_of_the_page() -> None:
    """Table I in docs/Paper.md equals the study's."""
    frame = table1.table1().frame.set_index(["system", "schedule"])
    lines = re.findall(r"^\| (\w+) \| ([\d.]+ / .*) \|$", PAGE, re.MULTILINE)
    assert [system for system, _ in lines] == list(SYSTEMS)
    for system, line in lines:
        wanted = []
        for column, printed in (
            ("runtime_s", "published_runtime_s"),
            ("idle_percent", "published_idle_percent"),
        ):
            for scheme in table1.SCHEMES:
                row = frame.loc[(system, scheme)]
                closed = row.closed_form_s
                form = closed if column == "runtime_s" else 100 * (1 - busy_s(system) / closed)
                known = not math.isnan(row[printed])
                shown = f"{row[printed]:.2f}" if known else f"({form:.2f})"
                wanted.append(f"{row[column]:.2f} / {shown}")
        assert line.split(" | ") == wanted


def rows_of_the_page(*columns: str) -> list[list[str]]:
    """The rows of the table with these columns."""
    head = re.escape(f"| {' | '.join(columns)} |")
    table = re.search(rf"^{head}\n\|[-|]+\|\n((?:\|.*\|\n)+)", PAGE, re.MULTILINE)
    assert table is not None
    return [line.strip("| ").split(" | ") for line in table[1].splitlines()]


SIZES = [f"N={n}" for n in figures.MICROBATCHES]


def test_figures_of_the_page() -> None:
    lead = figures.figure4().digest
    assert lead is not None
    known = lead.set_index(["system", "stages"])
    for system, d, *shown in rows_of_the_page("system", "D", *SIZES):
        assert shown == [f"{known[n][system, int(d)]:.1f}" for n in SIZES]
    for system, d, slots, *shown in rows_of_the_page("system", "D", "slots", *SIZES):
        options: dict[str, Any] = {"stages": [int(d)], "slots": slots, "systems": [system]}
        gains = 100 * (asymmetric.figure6(**options).frame.even_to_asymmetric - 1)
        assert shown == [f"{each:.1f}" for each in gains]


def test_findings_of_the_page(ours: tuple[Finding, ...]) -> None:
    rows = rows_of_the_page("finding", "verdict", "what holds, and what does not")
    assert [(int(number), verdict) for number, verdict, _ in rows] == [
        (finding.number, finding.verdict) for finding in ours
    ]


def test_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^    pipesched (reproduce .*)$", PAGE, re.MULTILINE)
    assert "reproduce all" in lines  # `test_all` runs this line
    for line in lines:
        if line != "reproduce all":
            assert main(line.split()) == 0
    assert (tmp_path / "out" / "table1.png").exists()
    targets = [name.strip("`") for name, *_ in rows_of_the_page("target", "what", "options")]
    assert targets == list(TARGETS)
