"""What builders of published runs chose, as plans see it."""

from __future__ import annotations

import pytest
from conftest import ROOT
from pipesched import PipeSchedError
from pipesched.command import main
from pipesched.studies import plans


def test_published_layouts_fit_and_the_page_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Their builders ran them, so they must fit; throughput is that of the page."""
    assert main(["reproduce", "plans"]) == 0
    lines = capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]
    assert len(lines) == 10
    page = (ROOT / "docs" / "Planning.md").read_text()
    for line in lines:
        assert line.rstrip() in page
    assert all("   yes  " in line for line in lines[1:])


def test_unknown_runs_are_named() -> None:
    with pytest.raises(PipeSchedError, match="no published run 'gpt5'; there are 405b-8192"):
        plans.plans(["gpt5"])


def test_chosen_degrees_are_kept() -> None:
    """A plan of what is printed has what is printed."""
    run = next(run for run in plans.RUNS if run.key == "nemotron")
    found = plans.theirs(run).to_dict()
    names = {"tensor": "tensor", "stages": "pipeline", "context": "context", "chunks": "chunks"}
    assert [found[name] for name in names.values()] == [run.chosen[name] for name in names]
    assert found["fits"] and found["gpus"] == run.gpus
