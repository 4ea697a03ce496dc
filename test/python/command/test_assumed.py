"""Verbs print their assumptions, and each default that they list moves an answer by over 1 %."""

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched import FamilyOptions
from pipesched.command import main
from pipesched.command.options.table import rare_of
from pipesched.command.verbs import overlap
from test_command import Capture, rows_of, text_of
from test_option_table import parser_of

MODEL = ["--model", "llama3-70b", "--system", "dgx-h100"]
SMALL = ["--model", "qwen3-0.6b", "--system", "dgx-h100"]
EXPERTS = [
    *("--model", "qwen3-30b-a3b", "--system", "dgx-h100"),
    *("--data-parallel", "2", "--global-batch", "16"),
]
LONG = [*MODEL, "--sequence", "65536", "--microbatch-size", "1"]
NODES_OF_72 = [
    *("--model", "qwen3-30b-a3b", "--system", "gb200-nvl72", "--expert-parallel", "64"),
    *("--set", "accelerators=1", "--data-parallel", "64", "--global-batch", "512"),
]
PAPER = ["--model", "paper-gpt", "--system", "slow_nw_fast_cp"]
MEASURES = ("step_s", "tokens_per_s", "peak_bytes", "peak_bytes_per_gpu")

CASES: dict[str, tuple[str, str, str]] = {
    "sequence": ("sequence 8192", "1f1b MODEL", "4096"),
    "attention": ("attention cudnn", "1f1b MODEL", "unfused"),
    "precision": ("precision bf16", "1f1b MODEL", "fp8"),
    "recompute": ("recompute none", "1f1b MODEL", "full"),
    "microbatch-size": ("microbatch size 128 (the model's batch of 1024)", "1f1b MODEL", "1"),
    "global-batch": ("microbatch size 128", "1f1b MODEL", "64"),
    "accelerators": ("GPUs/worker 8", "1f1b MODEL", "4"),
    "sequence-parallel": ("sequence parallelism on", "1f1b MODEL", "false"),
    "dp": ("pipelines 1", "1f1b MODEL", "2"),
    "sharding": ("sharding optimizer", "1f1b MODEL --dp 2 --global-batch 16", "none"),
    "rank-order": (
        "rank order data",
        "1f1b MODEL --dp 2 --set accelerators=1 --global-batch 16 --optimizer-step exposed",
        "pipeline",
    ),
    "balance": ("layers even", "1f1b --model llama3-8b --system dgx-h100", "cost"),
    "ep": ("expert parallelism 1", "1f1b EXPERTS", "16"),
    "expert-balance": ("expert balance 1", "1f1b EXPERTS --ep 16", "1.5"),
    "expert-dispatch": ("expert dispatch per-rank", "1f1b EXPERTS --ep 16", "all-to-all"),
    "pair-order": (
        "pair order deepseek",
        "combined-1f1b EXPERTS --ep 16 --rates data-sheet",
        "in-turn",
    ),
    "rates": ("rates under load", "1f1b MODEL", "data-sheet"),
    "for": ("memory as in Megatron-LM", "1f1b MODEL", "torchtitan"),
    "tensor-overlap": ("tensor overlap backward", "1f1b MODEL", "none"),
    "kernel-launch": ("kernel launch graphs", "1f1b NODES_OF_72", "single"),
    "used-per-node": ("used per node 64", "1f1b NODES_OF_72", "72"),
    "context-exchange": ("context exchange ring", "1f1b MODEL --cp 8 --global-batch 8", "gather"),
    "transport": ("transport overlap", "zb-v PAPER", "blocking"),
    "receive-placement": ("receive placement arrival", "chimera PAPER", "consumer"),
    "runtime": ("runtime table", "zb-auto PAPER", "torch"),
    "optimizer-step": ("optimizer step none", "chimera MODEL --global-batch 8", "exposed"),
    "vpp": ("chunks 2", "VPP MODEL", "5"),
    "waves": ("waves one", "hanayo PAPER", "2"),
    "pairs": ("pairs one", "chimera PAPER", "2"),
    "activations": ("memory 2D", "zb-auto PAPER", "8"),
    "construction": ("construction concat", "chimera PAPER", "doubling"),
    "slices": ("slices 4", "seq1f1b MODEL", "2"),
    "slice-cut": ("slice cut tokens", "seq1f1b LONG", "work"),
    "slice-exchange": ("slice exchange none", "slimpipe LONG", "pairs"),
    "vocabulary": ("vocabulary vocab-1", "vocab-1f1b MODEL", "vocab-2"),
    "backward": ("% of F", "vocab-1f1b MODEL", "200"),
    "embedding": ("embedding in S and T", "interlaced-1f1b SMALL --global-batch 64", "true"),
    "split-backward": ("split-backward", "hanayo MODEL", "false"),
    "gradient-after": ("gradient-after", "hanayo PAPER --option split-backward=true", "I"),
}
"""By option: the text without it, a command line with names of `COSTS`, and another value."""

COSTS = {
    **{"MODEL": MODEL, "SMALL": SMALL, "EXPERTS": EXPERTS, "LONG": LONG},
    **{"NODES_OF_72": NODES_OF_72, "PAPER": PAPER},
}

NO_DEFAULT = {"times", "model", "system", "set", "option", "pp", "microbatches"}
"""The unit of a comparison, which the title names, and options of own families, whose functions
have separate defaults.
"""

SAID_OTHERWISE = {"times-of"}
"""Said first, or refused: test_times_of.py."""

WHOLE = {
    *("cp", "gradient-buckets", "expert-exposed", "tensor-exposed", "forward-only"),
    *("expert-tensor", "shard-groups"),
}
"""Not listed, since the default is the plain case: whole sequences and experts, state that all
pipelines divide, exchanges that nothing hides, and steps with backwards.
"""

SAME = {"tp"}
"""With --cp, another name of the accelerators of a worker."""

OF_ORDERS = {*overlap.RARE}
"""Options that only `--order` has."""

BELOW = {"group"}
"""Moved no answer by 1 % in any case that was tried."""


def words_of(option: str, value: str) -> list[str]:
    """An option and its value on the command line."""
    if f"--{option}" in parser_of("simulate")._option_string_actions:
        return [f"--{option}", value]
    is_of_families = option.replace("-", "_") in FamilyOptions.__annotations__
    return ["--option" if is_of_families else "--set", f"{option}={value}"]


def test_pairs_of_a_file_are_seen(tmp_path: Path, capsys: Capture) -> None:
    """The rows say whether cells overlap, for any name of the family."""
    costs = [*EXPERTS, "--expert-parallel", "16"]
    for family, listed in (("combined-1f1b", True), ("1f1b", False)):
        made = pipesched.generate(family, workers=8, microbatches=8).to_text()
        file = tmp_path / f"{family}.mlir"
        file.write_text(made.replace(f'family "{family}"', 'family "another"'))
        assert ("pair order deepseek" in text_of(capsys, "simulate", str(file), *costs)) == listed


def compared(capsys: Capture, given: list[str]) -> tuple[dict[str, Any], str]:
    """The row of a comparison, and its assumptions."""
    line = ["simulate", "--pp", "8", "--microbatches", "8", "--schedules", *given]
    assert main([*line, "--format", "json"]) == 0
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    return row, next((w for w in printed.err.splitlines() if w.startswith("assumed: ")), "")


@pytest.mark.parametrize("option", CASES)
def test_listed_defaults_move_answers(option: str, capsys: Capture) -> None:
    said, line, value = CASES[option]
    given = [each for word in line.split() for each in COSTS.get(word, [word])]
    row, assumed = compared(capsys, given)
    assert said in assumed
    other, then = compared(capsys, [*given, *words_of(option, value)])
    assert said not in then
    pairs = [(row[name], other[name]) for name in MEASURES if row[name] and other[name]]
    assert max(abs(b / a - 1) for a, b in pairs) > 0.01


def test_parts_of_sequences_share_the_optimizer(capsys: Capture) -> None:
    given = ["1f1b", *MODEL, "--cp", "2", "--global-batch", "8"]
    row, assumed = compared(capsys, given)
    assert "sharding optimizer" in assumed
    whole, _ = compared(capsys, [*given, "--sharding", "none"])
    assert row["peak_bytes"] < 0.9 * whole["peak_bytes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tp", "3"], "Megatron-LM takes tensor 3 only if it divides the 8 key-value heads"),
        (["--tp", "16"], ""),
        (
            ["--tp", "16", "--for", "torchtitan"],
            "torchtitan cannot divide 8 key-value heads by tensor",
        ),
    ],
)
def test_heads_that_the_framework_refuses(words: list[str], said: str, capsys: Capture) -> None:
    """The rule is the same as for the lines of plans, and of check."""
    sizes = ["--pp", "2", "--microbatches", "4", "--model", "llama3-8b", "--system", "dgx-h100"]
    assert said in (out := text_of(capsys, "simulate", "1f1b", *sizes, *words))
    assert ("note: llama3-8b: " in out) == bool(said)


def test_every_option_is_considered() -> None:
    """A new option of costs, timing or families has to say where its default is printed."""
    made = parser_of("simulate")
    groups = ("costs", "timing", "families")
    flagged = (g._group_actions for g in made._action_groups if g.title in groups)
    found = {action.option_strings[0].removeprefix("--") for some in flagged for action in some}
    rare = rare_of(made)
    assert rare is not None
    families = {*FamilyOptions.__annotations__} - {"chunks", "slices", "memory"}
    found |= {name.replace("_", "-") for name in (*rare.rare, *families)}
    listed = {*CASES, *NO_DEFAULT, *SAID_OTHERWISE, *WHOLE, *SAME, *BELOW}
    assert found == listed | {name.replace("_", "-") for name in OF_ORDERS}


def test_the_line_stands_under_the_title(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    line = ["simulate", "--pp", "8", "--microbatches", "16,32", "--schedules", "1f1b", *MODEL]
    title, assumed, band, heading, *_ = text_of(capsys, *line, "--draw", str(page)).splitlines()
    assert title == "8 workers, llama3-70b on dgx-h100"
    assert assumed.startswith("assumed: sequence 8192, attention cudnn, ")
    assert "microbatch size 64 at N=16/32 at N=32 (the model's batch of 1024)" in assumed
    assert band.startswith("band: 80 % of steps")
    assert heading.split()[:2] == ["N", "rank"]
    assert "assumed: sequence 8192, attention cudnn" in page.read_text()
    rows = rows_of(capsys, *line)
    assert [(row["microbatch_size"], row["sequence"]) for row in rows] == [(64, 8192), (32, 8192)]
    assert rows[0]["accelerators"] == 8
    assert rows[0]["peak_bytes_per_gpu"] == -(-rows[0]["peak_bytes"] // 8)


def test_what_is_given_is_not_listed(capsys: Capture) -> None:
    everything = [
        *("--sequence", "8192", "--set", "attention=fused", "--precision", "bf16"),
        *("--recompute", "none", "--global-batch", "32", "--set", "accelerators=8"),
        *("--set", "sequence-parallel=false", "--data-parallel", "1", "--transport", "overlap"),
        *("--receive-placement", "arrival", "--set", "runtime=table", "--optimizer-step", "none"),
        *("--option", "gradient-after=I", "--option", "split-backward=true"),
        *("--set", "balance=auto", "--reserve", "parts", "--rates", "load"),
        *("--set", "tensor-overlap=backward"),
    ]
    said = compared(capsys, ["1f1b", *MODEL, *everything])[1]
    assert said == "assumed: memory as in Megatron-LM (2 + 4 + 12 bytes a parameter)"


def test_other_rates_are_said(capsys: Capture) -> None:
    """Whether a system's rates are under load, which make a step longer, or it has no others."""
    for name, system in pipesched.systems().items():
        line = ["1f1b", "--model", "llama3-8b", "--system", name, "--microbatch-size", "1"]
        row, said = compared(capsys, line)
        sheet, given = compared(capsys, [*line, "--rates", "data-sheet"])
        assert "rates" not in given
        if "load" in system:
            assert said.endswith(", rates under load"), name
            assert row["step_s"] > 1.01 * sheet["step_s"], name
        else:
            assert "rates as the system has them (none under load)" in said, name
            assert row["step_s"] == sheet["step_s"], name


def test_free_messages_are_said(capsys: Capture) -> None:
    assert "messages free (no comm)" in compared(capsys, ["1f1b", "--times", "F=1ms,B=2ms"])[1]
    with_comm, said = compared(capsys, ["1f1b", "--times", "F=1ms,B=2ms,comm=0.2ms"])
    assert "messages" not in said and "transport overlap" in said
    without, _ = compared(capsys, ["1f1b", "--times", "F=1ms,B=2ms"])
    assert with_comm["step_s"] > 1.01 * without["step_s"]
    assert "messages free" in compared(capsys, ["1f1b"])[1]


def test_notes_of_readers_are_said(capsys: Capture) -> None:
    file = str(ROOT / "test" / "data" / "huggingface" / "bloom.json")
    model = json.loads(pipesched.Costs(model=file)._raw.model())
    notes = model["notes"]
    assert any("sequences of 2048 tokens" in note for note in notes)
    line = ["simulate", "--pp", "2", "--microbatches", "8", "--schedules", "1f1b"]
    assert main([*line, "--model", file, "--system", "dgx-h100", "--microbatch-size", "1"]) == 0
    printed = capsys.readouterr().out
    for note in notes:
        assert f"\nnote: {model['model']}: {note}\n" in printed


@pytest.mark.parametrize(
    ("option", "said", "value", "key"),
    [
        ("--sequence", "sequence 8192", "4096", "step_s"),
        ("--set", "attention cudnn", "attention=unfused", "step_s"),
        ("--set", "attention cudnn", "attention=flash-2", "step_s"),
        ("--precision", "precision bf16", "fp8", "step_s"),
        ("--transport", "transport overlap", "blocking", "step_s"),
        ("--reserve", "reserve CUDA context 0.95GiB + collectives 7GB", "50%", "step_s"),
    ],
)
def test_plan_says_what_it_assumed(
    option: str, said: str, value: str, key: str, capsys: Capture
) -> None:
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16", "--top", "1"]
    line += ["--global-batch", "32", "--schedules", "zb-v", "--pp", "4", "--tp", "1"]
    line += ["--format", "json", "--recompute", "none", "--cp", "1"]
    found = []
    for given in (line, [*line, option, value]):
        assert main(given) in (0, 1)
        printed = capsys.readouterr()
        found.append((json.loads(printed.out), printed.err))
    (rows, err), (others, then) = found
    assert said in err and said not in then
    assert rows[0]["sequence"] == 8192 and rows[0]["attention"] == "cudnn"
    moved = abs(others[0][key] / rows[0][key] - 1) > 0.01
    assert moved or others[0]["fits"] != rows[0]["fits"]


@pytest.mark.parametrize(
    ("parts", "said", "given"),
    [(["--ep", "4"], "expert balance 1,", ["--set", "expert-balance=1.5"])],
)
def test_plan_says_how_parts_are_divided(
    parts: list[str], said: str, given: list[str], capsys: Capture
) -> None:
    line = ["plan", "--model", "qwen3-30b-a3b", "--system", "dgx-h100", "--gpus", "32", "--top"]
    line += ["1", "--global-batch", "128", "--schedules", "1f1b", "--pp", "4", "--tp", "2"]
    line += ["--cp", "1"]
    steps = []
    for more in ([], given):
        assert main([*line, *parts, *more, "--format", "json"]) == 0
        printed = capsys.readouterr()
        steps.append(json.loads(printed.out)[0]["step_s"])
        assert (said in printed.err) == (not more)
        assert "sequence parallelism on, " in printed.err
    assert abs(steps[1] / steps[0] - 1) > 0.01


def test_optimize_says_what_it_assumed(capsys: Capture) -> None:
    line = ["optimize", "1f1b", "--pp", "2", "--microbatches", "4"]
    line += ["--model", "llama3-8b", "--system", "dgx-h100", "--max-evaluations", "100"]
    assert main(line) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "holds no schedule" in printed.err
    first = printed.err.splitlines()[0]
    for said in ("128 (the model's batch of 512)", "layers even", "memory what the system has"):
        assert said in first
    assert "the model's batch" not in text_of(capsys, *line, "--microbatch-size", "1")
    times = ["optimize", "--pp", "2", "--microbatches", "2", "--times", "F=1ms,I=1ms,W=1ms"]
    assert "memory unlimited, time at most 30s, " in text_of(capsys, *times).splitlines()[1]


def test_the_other_verbs_say_it(tmp_path: Path, capsys: Capture) -> None:
    assert main(["simulate", "--schedule", "VPP", "--pp", "4", "--microbatches", "8"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("assumed: messages free (no comm), ") and "chunks 2" in first
    sweep = ["sweep", "--schedules", "1f1b", "--pp", "4", "--microbatches", "8"]
    assert main([*sweep, "--model", "llama3-8b,mixtral-8x7b", "--system", "dgx-h100"]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert "microbatch size 64 (the model's batch of 512)" in second
    assert "sequence 8192 or " in second or "sequence 8192," in second
    assert main([*sweep, "--system", "dgx-h100", "--model", "llama3-8b", "--format", "csv"]) == 0
    assert capsys.readouterr().err.startswith("assumed: sequence 8192, ")


def test_sweeps_say_the_batch_of_each_model(capsys: Capture) -> None:
    line = ["sweep", "--schedules", "1f1b", "--pp", "4", "--microbatches", "8"]
    assert main([*line, "--model", "llama3-8b,llama3-70b", "--system", "dgx-h100"]) == 0
    said = "microbatch size 64 (the model's batch of 512) or 128 (the model's batch of 1024), "
    assert said in capsys.readouterr().out.splitlines()[1]


def test_jitter_says_its_seed(capsys: Capture) -> None:
    line = ["sweep", "--schedules", "1f1b", "--pp", "4", "--microbatches", "8"]
    line += ["--format", "json", "--disturbance"]
    steps = {}
    for text in ("jitter=50%", "jitter=50%,seed=0", "jitter = 50%, seed = 1", "worker3=1.3"):
        assert main([*line, text]) == 0
        printed = capsys.readouterr()
        assert ("jitter with seed 0" in printed.err) == (text == "jitter=50%")
        steps[text] = json.loads(printed.out)[0]["step_s"]
    without, zero, one, _ = steps.values()
    assert without == zero and abs(one / zero - 1) > 0.01
    assert main([*line, "none", "--disturbance", "worker0=1.1,jitter=5%"]) == 0
    assert "jitter with seed 0" in capsys.readouterr().err


def test_memory_has_the_same_name_in_all_verbs(tmp_path: Path, capsys: Capture) -> None:
    costs = ["--model", "llama3-8b", "--system", "dgx-h100", "--global-batch", "16"]
    sizes = ["--microbatches", "8"]
    verbs = [
        ["simulate", "--pp", "4", *sizes, "--schedules", "1f1b"],
        ["simulate", "--schedule", "1f1b", "--pp", "4", *sizes],
        ["sweep", "--schedules", "1f1b", "--pp", "4", *sizes],
        ["plan", "--gpus", "8", "--top", "1"],
    ]
    for verb in verbs:
        printed = text_of(capsys, *verb, *costs)
        assert "memory/GPU" in printed and "memory/worker" not in printed
    times = ["--times", "F=1ms,B=2ms", "--model", "llama3-8b", "--microbatch-size", "1"]
    assert "memory/worker" in text_of(capsys, *verbs[0], *times)
