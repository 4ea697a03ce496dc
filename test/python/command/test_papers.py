"""Parts of answers for papers: tables in LaTeX, and the sources of families in BibTeX."""

import re
import shutil
import subprocess
from pathlib import Path

import pipesched
import pytest
from pipesched.command import main
from pipesched.command.render.output import Column
from pipesched.command.render.papers import bibtex, latex_table
from pipesched.viz.image import latex_of
from test_command import Capture, failure_of, rows_of

SIZES = ["--pp", "4", "--microbatches", "8"]
COSTS = ["--model", "llama3-8b", "--system", "dgx-h100", "--microbatch-size", "1"]
LINES = {
    "compare": ["simulate", "1f1b", "zb-v", *SIZES, *COSTS],
    "sweep": ["sweep", "--schedules", "1f1b,zb-h1", *SIZES, *COSTS],
    "simulate": ["simulate", "1f1b", *SIZES, *COSTS],
    "plan": [
        *("plan", *COSTS[:4], "--gpus", "8", "--global-batch", "16", "--pp", "4"),
        *("--top", "2", "--cp", "1"),
    ],
    "families": ["show", "families"],
    "system": ["show", "--system", "dgx-h100"],
}


def printed(capsys: Capture, *line: str, status: int = 0) -> str:
    assert main(list(line)) == status
    return capsys.readouterr().out


def cells_of(table: str) -> list[list[str]]:
    """The texts of a table, by its lines."""
    lines = [line.strip() for line in table.splitlines() if line.endswith(r"\\\\"[:2])]
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line[:-2])] for line in lines]


@pytest.mark.parametrize("name", LINES)
def test_tables_are_those_of_text(name: str, capsys: Capture) -> None:
    """Each line has as many cells as the table has columns, and the values of the text."""
    found = printed(capsys, *LINES[name], "--format", "latex")
    table = found[found.index("\\begin{tabular}") :]
    sides = table[len("\\begin{tabular}{") : table.index("}\n")]
    rows = cells_of(table)
    assert len(rows) > 1 and {len(row) for row in rows} == {len(sides)}
    assert table.rstrip().endswith("\\end{tabular}")
    assert all(line.startswith("% ") for line in found[: -len(table)].splitlines())
    text = " ".join(printed(capsys, *LINES[name]).split())
    for row in rows:
        for cell in row:
            plain = re.sub(r"\\([&%$#_{}])", r"\1", cell).replace("~", " ")
            plain = plain.replace("\\textasciitilde{}", "~").replace("\\textasciicircum{}", "^")
            assert " ".join(plain.split()) in text, cell


def test_columns_are_chosen(capsys: Capture) -> None:
    line = [*LINES["compare"], "--format", "latex", "--columns", "schedule,step,mfu"]
    assert cells_of(printed(capsys, *line))[0] == ["schedule", "step", "MFU"]
    assert "--columns is about tables" in failure_of(
        capsys, *LINES["compare"], "--format", "bibtex", "--columns", "step", status=2
    )


def test_special_characters() -> None:
    odd = r"50 % of {a_b} & c$ #1 ~ ^ \\"
    column = Column(r"a_%", "x", left=True)
    table = latex_table([{"x": odd}], [column], title="100 % \n\\end")
    assert latex_of(odd) in table and r"a\_\%" in table
    assert all(line.startswith("%") for line in table.splitlines()[:2])
    assert not re.search(r"(?<!\\)[$#]", table)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_takes_them(tmp_path: Path, capsys: Capture) -> None:
    body = printed(capsys, *LINES["compare"], "--format", "latex")
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "page.tex").write_text(f"{page}{body}\\end{{document}}\n")
    subprocess.run(
        ["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, check=True, capture_output=True
    )


# Pictures


def tikz(tmp_path: Path, *line: str) -> tuple[str, str]:
    """A picture as TikZ and as SVG."""
    file = tmp_path / "picture.tikz"
    assert main([*line, "--draw", str(file), "--draw", str(tmp_path / "picture.svg")]) == 0
    return file.read_text(), (tmp_path / "picture.svg").read_text()


def test_tikz_has_the_shapes_of_svg(tmp_path: Path) -> None:
    found, svg = tikz(tmp_path, *LINES["simulate"])
    assert found.count(" rectangle ") == svg.count("<rect ")  # the paper is the bounding box
    assert found.count(" -- ") == svg.count("<line ")
    assert found.count("\\node") == svg.count("<text ")
    named = set(re.findall(r"(?:fill|draw)=(\w+)", found)) | set(re.findall(r"color{(\w+)}", found))
    defined = re.findall(r"\\definecolor{(\w+)}{HTML}{[0-9A-F]{6}}", found)
    assert named == set(defined) and len(defined) == len(named)


def test_tikz_has_a_width(tmp_path: Path) -> None:
    def unit(width: str) -> float:
        text, _ = tikz(tmp_path, *LINES["simulate"], *(["--width", width] if width else []))
        return float(re.findall(r"\[x=([\d.]+)pt,y=-\1pt\]", text)[0])

    assert unit("") == pytest.approx(2 * unit("80mm"), rel=1e-4)
    simulation = pipesched.generate("zb-v", workers=4, microbatches=4).simulate()
    simulation.save(tmp_path / "own.tikz", width="100mm")
    assert (tmp_path / "own.tikz").read_text() == simulation.to_svg().to_tikz("100mm")
    with pytest.raises(pipesched.PipeSchedError, match="16383pt"):
        simulation.save(tmp_path / "own.tikz", width="9000mm")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("family", ["1f1b", "dualpipe-v"])
def test_latex_takes_pictures(family: str, tmp_path: Path) -> None:
    schedule = pipesched.generate(family, workers=4, microbatches=8)
    both = pipesched.draw(schedule.simulate(), schedule.simulate()).to_tikz("120mm")
    (tmp_path / "both.tikz").write_text(both)
    schedule.save(tmp_path / "slots.tikz")
    page = "\\documentclass{article}\\usepackage{tikz}\\begin{document}\n"
    body = "\n\n".join(f"\\noindent\\input{{{name}.tikz}}" for name in ("both", "slots"))
    (tmp_path / "page.tex").write_text(f"{page}{body}\n\\end{{document}}\n")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]
    over = [float(each) for each in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert over == pytest.approx([160 / 25.4 * 72.27 - 345], abs=0.1)  # of a line of 345 pt


# Families


def entries_of(text: str) -> dict[str, dict[str, str]]:
    """The entries of BibTeX, whose braces have to be closed."""
    found = {}
    for entry in re.findall(r"(?ms)^@misc\{.*?^\}$", text):
        assert entry.count("{") == entry.count("}")
        key, _, rest = entry[len("@misc{") :].partition(",")
        found[key] = dict(re.findall(r"(?m)^  (\w+) = \{(.*)\},$", rest))
    return found


def test_every_family_is_cited(capsys: Capture) -> None:
    """An entry for each source; entries of arXiv have the number that the family names."""
    text = printed(capsys, "show", "families", "--format", "bibtex")
    entries = entries_of(text)
    cited = {name for line in re.findall(r"(?m)^% (.*)$", text) for name in line.split(", ")}
    families = pipesched.families()
    assert cited == set(families)
    numbers = {e["eprint"] for e in entries.values() if "eprint" in e}
    wanted = {m for f in families.values() for m in re.findall(r"arXiv ([\d.]+)", f.source)}
    assert numbers == wanted
    for family in families.values():
        if family.source.startswith("Shardy"):
            continue
        (year,) = re.findall(r" (20\d\d), arXiv", family.source)
        (same,) = [e for e in entries.values() if e.get("eprint", "?") in family.source]
        assert same["author"] and same["title"]
        assert same["year"] == year and same["author"]


def test_families_of_answers(capsys: Capture) -> None:
    compared = entries_of(printed(capsys, *LINES["compare"], "--format", "bibtex"))
    assert {e["eprint"] for e in compared.values()} == {"2104.04473", "2405.15362"}
    planned = printed(capsys, *LINES["plan"], "--format", "bibtex")
    names = {row["schedule"] for row in rows_of(capsys, *LINES["plan"])}
    assert {n for line in re.findall(r"(?m)^% (.*)$", planned) for n in line.split(", ")} == names
    said = failure_of(capsys, "show", "--system", "dgx-h100", "--format", "bibtex")
    assert "no row is of a family" in said


def test_families_of_ones_own() -> None:
    """They are cited by the source that they are registered with, or by where their code is."""

    def serial(problem: pipesched.Schedule) -> list[list[str]]:
        return [[f"{w}F0", f"{w}B0"] for w in range(problem.workers)]

    pipesched.register_family("mine", serial, source="Doe and Roe 2031, arXiv 3101.00001")
    pipesched.register_family("plain_one", serial)
    assert pipesched.families()["mine"].source == "Doe and Roe 2031, arXiv 3101.00001"
    found = entries_of(bibtex([{"family": "mine"}, {"family": "plain_one"}]))
    mine = found["doe2031-3101.00001"]
    assert mine["author"] == "Doe and Roe" and mine["year"] == "2031"
    assert "plain_one" in found and ":" in found["plain_one"]["note"]
    assert found["plain_one"]["key"] == "plain_one"
    with pytest.raises(TypeError, match="the source of a family"):
        pipesched.register_family("third", serial, source=7)  # type: ignore[call-overload]
