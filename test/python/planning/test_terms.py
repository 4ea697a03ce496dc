"""Terms of predictions: what a step is shorter by if one of them is free."""

import pandas as pd
import pytest
from conftest import ROOT
from pipesched import Configuration, Costs
from pipesched.command import main
from pipesched.studies import terms

PAGE = (ROOT / "docs" / "Validation.md").read_text()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return terms.terms().frame.set_index(["source", "case"])


def test_terms_of_a_pipeline_by_hand() -> None:
    """Two workers, one microbatch, F of 2, B of 3 and messages of 1: 2 + 1 + 5 + 1 + 3 = 12 ps, of
    which each worker computes 5, and waits for two messages or the other's work.
    """
    times = {"F": 2, "B": 3, "comm": 1}
    point = Configuration("1f1b", 2, 1, costs=Costs(times=times), transport="delay")
    found = terms.shares(point)
    assert point.simulate().execution.makespan_ps == 12
    assert found["messages"] == pytest.approx(100 * 2 / 12)
    # Worker 0 waits 6 until its partner is done, and 1 for the message; worker 1 waits 3 before its
    # first cell and 4 behind its last one.
    assert found["pipeline"] == pytest.approx(100 * (6 + 7) / 24)
    assert set(found) == {"pipeline", "messages"}


def test_rows_exercise_the_terms_of_their_setting(frame: pd.DataFrame) -> None:
    assert set(terms.TERMS.values()) == set(frame.columns)
    exercised = ("idle_percent", "messages_percent", "tensor_percent", "update_percent")
    llama = frame.loc["2407.21783 table 4"].iloc[:2]
    for column in frame.columns:
        assert bool(llama[column].notna().all()) == (column in exercised), column
        assert bool(llama[column].isna().all()) == (column not in exercised), column
    long = frame.loc["torchtitan 2024-12 table 6"]
    assert long.context_percent.notna().tolist() == [False, True, True, True]
    assert long.context_percent.dropna().is_monotonic_increasing
    run = frame.loc["2412.19437 table 1"].iloc[0]
    assert run.all_to_all_percent > 0 and pd.isna(run.tensor_percent)
    # Half of the microbatches: more idle.
    many, few = llama.idle_percent
    assert few > many


def test_full_recomputation_is_a_quarter(frame: pd.DataFrame) -> None:
    """F again beside F and B of two."""
    rows = frame.filter(like="full recompute", axis=0)
    assert rows.recompute_percent.between(20, 30).all()


def test_page_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "terms"]) == 0
    printed = capsys.readouterr().out.split("\n\n")[0].split("\n", 1)[1]
    assert f"```text\n{printed}\n```" in PAGE
