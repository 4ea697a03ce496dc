"""Pictures in all formats: SVG with a width, PNG, PDF."""

import io
import re
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pipesched
import pytest
from pipesched import PipeSchedError
from pipesched.command import main

TIMES = "F=10ms,I=11ms,W=9ms,B=20ms,D=5ms,U=6ms,comm=0.7ms"


def simulated(family: str = "1f1b", pipeline: str | None = None) -> pipesched.Simulation:
    schedule = pipesched.generate(family, workers=4, microbatches=8, name=family)
    if pipeline:
        schedule = schedule.transform(pipeline)
    return schedule.simulate(times=TIMES)


def pixels(png: bytes) -> Any:
    """Rows of red, green and blue, 0 to 255."""
    image: Any = matplotlib.image.imread(io.BytesIO(png))
    return np.rint(image[:, :, :3] * 255).astype(int)


def size_of(svg: str) -> tuple[float, float]:
    width, height = re.findall(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg)[0]
    return float(width), float(height)


@pytest.mark.parametrize("width", [None, 640, "1600", "2000px"])
def test_png_is_as_wide_as_asked(width: int | str | None) -> None:
    svg = simulated().to_svg()
    wide, tall = size_of(svg)
    wanted = int(str(width).removesuffix("px")) if width else round(wide)
    found = pixels(svg.to_png(width)).shape
    assert found[1] == pytest.approx(wanted, abs=1)
    assert found[0] == pytest.approx(wanted * tall / wide, abs=1)


def test_png_on_paper_has_300_pixels_per_inch() -> None:
    assert pixels(simulated().to_svg().to_png("2.54cm")).shape[1] == pytest.approx(300, abs=1)


def test_pixels_have_the_colours_of_the_svg() -> None:
    """At the lower left of each wide cell is the colour that the style sheet gives it."""
    svg = simulated().to_svg()
    scale = 2
    found = pixels(svg.to_png(scale * size_of(svg)[0]))
    colours = dict(re.findall(r"\.(\w\d)\{fill:#(\w{6})\}", svg))
    shape = r'<rect class="([FB]0)" x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="24"'
    cells = re.findall(shape, svg)
    assert len(cells) == 2 * 4 * 8
    for name, x, y, _ in cells:
        pixel = found[int(scale * (float(y) + 22)), int(scale * (float(x) + 2))]
        assert bytes(pixel.tolist()).hex() == colours[name]


@pytest.mark.parametrize("width", ["180mm", "18cm", "510.24pt", "7.0866in"])
def test_pdf_has_the_width_on_paper(width: str) -> None:
    pdf = simulated().to_svg().to_pdf(width)
    box = re.search(rb"/MediaBox \[ *0 0 ([0-9.]+) ([0-9.]+) *\]", pdf)
    assert box is not None
    assert float(box[1]) == pytest.approx(180 / 25.4 * 72, abs=0.01)
    assert pdf == simulated().to_svg().to_pdf(width), "the same picture, the same bytes"


def test_svg_is_scaled() -> None:
    svg = simulated().to_svg()
    wide, tall = size_of(svg)
    assert f'width="500" height="{500 * tall / wide:.6g}" viewBox=' in svg.scaled(500)
    assert 'width="7in" height="' in svg.scaled("7in")
    assert svg.scaled(500).split("viewBox")[1] == svg.split("viewBox")[1]


@pytest.mark.parametrize(
    ("family", "pipeline"),
    [("dualpipe", None), ("1f1b", "pipe-add-offload"), ("chimera", "pipe-add-optimizer")],
)
def test_every_kind_of_picture_is_drawn(family: str, pipeline: str | None) -> None:
    run = simulated(family, pipeline)
    for variant in ("timed", "slots"):
        svg = pipesched.draw(run, run, variant=variant)
        assert len(np.unique(pixels(svg.to_png()).reshape(-1, 3), axis=0)) > 20


@pytest.mark.parametrize("width", ["wide", "-3", "0", "12ft", "1e3", ""])
def test_no_width(width: str) -> None:
    with pytest.raises(PipeSchedError, match=r"expected a width such as 1600.*found"):
        simulated().to_svg().to_png(width)


def test_too_many_pixels() -> None:
    with pytest.raises(PipeSchedError, match="at most 30000 on a side"):
        simulated().to_svg().to_png(40_000)


def test_too_few_pixels() -> None:
    with pytest.raises(PipeSchedError, match="a PNG of 1 x 0 pixels is too small"):
        simulated().to_svg().to_png(1)


def test_shapes_that_are_not_known_are_refused() -> None:
    svg = simulated().to_svg().replace("</svg>", "<circle/></svg>")
    with pytest.raises(PipeSchedError, match="cannot draw the shape 'circle'"):
        pipesched.Svg(svg).to_pdf()


def test_save(tmp_path: Path) -> None:
    run = simulated()
    begins = {
        "svg": b"<?xml",
        "png": b"\x89PNG",
        "pdf": b"%PDF",
        "tikz": b"% needs \\usepackage{tikz}",
        "html": b"<!doctype html>",
        "json": b'{"displayTimeUnit"',
    }
    for ending, begin in begins.items():
        run.save(tmp_path / f"run.{ending}")
        assert (tmp_path / f"run.{ending}").read_bytes().startswith(begin)
    run.save(tmp_path / "run.png", width=300)
    assert pixels((tmp_path / "run.png").read_bytes()).shape[1] == 300
    with pytest.raises(PipeSchedError, match=r"known endings: \.svg, \.png, \.pdf, \.tikz, \.html"):
        run.save(tmp_path / "run.gif")
    with pytest.raises(PipeSchedError, match=r"only \.svg, \.png, \.pdf, \.tikz have a width"):
        run.save(tmp_path / "run.html", width=300)
    schedule = pipesched.generate("1f1b", workers=2, microbatches=2)
    schedule.save(tmp_path / "rows.png", width=300)
    assert pixels((tmp_path / "rows.png").read_bytes()).shape[1] == 300
    with pytest.raises(PipeSchedError, match=r"'\.csv' has no width"):
        schedule.save(tmp_path / "rows.csv", width=300)


# The command


POINT = ["simulate", "--schedule", "1f1b", "--pp", "2", "--microbatches", "4"]


def test_simulate_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"run.{name}" for name in ("svg", "png", "pdf", "html", "trace")}
    options = [part for name, file in files.items() for part in (f"--{name}", str(file))]
    assert main([*POINT, *options, "--width", "400"]) == 0
    assert 'width="400"' in files["svg"].read_text()
    assert pixels(files["png"].read_bytes()).shape[1] == 400
    assert files["pdf"].read_bytes().startswith(b"%PDF")
    assert 'class="timelines"' in files["html"].read_text()
    assert "critical path" in files["trace"].read_text()
    assert "1f1b" not in capsys.readouterr().err


def test_several_schedules_of_a_file_on_one_scale(tmp_path: Path) -> None:
    file = tmp_path / "two.mlir"
    rows = pipesched.generate("1f1b", workers=2, microbatches=2, name="one").to_text()
    other = pipesched.generate("gpipe", workers=2, microbatches=2, name="two").to_text()
    body = [text.split("\n", 1)[1].rsplit("}", 1)[0] for text in (rows, other)]
    file.write_text("module {\n" + "".join(body) + "}\n")
    page, svg = tmp_path / "two.html", tmp_path / "two.svg"
    assert main(["simulate", str(file), "--draw", str(page), "--draw", str(svg)]) == 0
    assert page.read_text().count('class="facts"') == 2
    assert svg.read_text().count('class="t"') == 2


def test_convert_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.mlir"
    pipesched.generate("1f1b", workers=2, microbatches=4).save(file)
    for ending in ("png", "pdf", "svg", "html"):
        assert main(["convert", str(file), str(tmp_path / f"rows.{ending}")]) == 0
    assert main(["convert", str(file), str(tmp_path / "rows.png"), "--width", "1600"]) == 0
    assert pixels((tmp_path / "rows.png").read_bytes()).shape[1] == 1600
    assert (tmp_path / "rows.html").read_text().startswith("<!doctype html>")
    assert main(["convert", str(file), str(tmp_path / "rows.csv"), "--width", "1600"]) == 2
    assert main(["convert", str(file), str(tmp_path / "rows.png"), "--show-passes"]) == 2
    assert "--to svg has a line of passes" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [["--width", "wide"], ["--width", "100"]])
def test_a_width_that_is_none(extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main([*POINT, *extra])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert "width" in capsys.readouterr().err
