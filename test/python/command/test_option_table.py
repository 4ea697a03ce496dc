"""The verbs and options: their number, one meaning for each, and their old names."""

import argparse
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from pipesched import Costs
from pipesched.command import VERBS, VerbParser, main, parser
from pipesched.command.old_names import renew
from pipesched.command.options.table import OPTIONS
from test_command import Capture, failure_of, rows_of, text_of

MOST_VERBS, MOST_OPTIONS = 11, 300


def parser_of(verb: str) -> VerbParser:
    """The parser of a verb, with its arguments."""
    (verbs,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    made: VerbParser = verbs.choices[verb]
    made.fill()
    return made


def options_of(verb: str) -> list[argparse.Action]:
    """The options of a verb."""
    return [action for action in parser_of(verb)._actions if action.option_strings]


def test_verbs_and_options_are_few() -> None:
    count = sum(len(options_of(verb)) for verb in VERBS)
    assert len(VERBS) <= MOST_VERBS and count <= MOST_OPTIONS


def test_an_option_has_one_meaning() -> None:
    """The same flags and the same help text in all verbs, and no option is defined twice."""
    found: dict[str, set[object]] = defaultdict(set)
    for verb in VERBS:
        for action in options_of(verb):
            for flag in action.option_strings:
                found[flag].add((action.help, tuple(action.option_strings)))
    assert {flag: said for flag, said in found.items() if len(said) > 1} == {}


def test_stages_are_no_workers() -> None:
    """`stages` counts stages; the pipeline-parallel size counts workers."""
    assert OPTIONS["workers"].flags == ("--pp", "--pipeline-parallel")
    assert all("--stages" not in flags for flags in (o.flags for o in OPTIONS.values()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("compare 1f1b --workers 4", "simulate 1f1b --pp 4"),
        ("simulate a.mlir --svg x.svg --trace t", "simulate a.mlir --draw x.svg --draw trace:t"),
        ("simulate 1f1b --stages=4 --chunks=2", "simulate 1f1b --pp 4 --vpp 2"),
        ("generate VPP --waves 2", "convert VPP --option waves=2"),
        ("generate VPP --align", "convert VPP --pipeline pipe-align-slots"),
        ("generate VPP --format json", "convert VPP --to cells"),
        ("compare --memory 4 --jitter 5%", "simulate --activations 4 --disturbance jitter=5%"),
        ("compare --memory 60GiB --compare", "simulate --memory 60GiB --compare"),
        ("plan --slow-node 3=1.1,4=2", "plan --disturbance node3=1.1,node4=2"),
        ("plan --vocabulary whole", "plan --set vocabulary=whole"),
        ("run --model gpt --no-split-backward", "run gpt --option split-backward=false"),
        ("export gpt -o x.mlir --no-compare", "run gpt --export x.mlir --set compare=false"),
        ("overlap s.json --layers 3", "simulate s.json --set layers=3 --order all"),
        ("show --families", "show families"),
        ("sweep --split-backward true,false", "sweep --option split-backward=true,false"),
        ("fit a.csv --peak-tflops 9", "fit a.csv --set matrix.tflops=9"),
        ("completion zsh", "--print-completion zsh"),
    ],
)
def test_old_names_are_understood(old: str, new: str) -> None:
    words, said = renew(old.split())
    assert words == new.split() and said
    assert renew(words) == (words, "")


def test_old_names_are_said(capsys: Capture) -> None:
    sizes = ["--microbatches", "8"]
    new = rows_of(capsys, "simulate", "1f1b", "--pp", "4", *sizes)
    assert main(["compare", "1f1b", "--workers", "4", *sizes, "--format", "json"]) == 0
    printed = capsys.readouterr()
    said = "old names: compare is now simulate; --workers is now --pp 4\n"
    assert said in printed.err
    assert rows_of(capsys, "simulate", "1f1b", "--pp", "4", *sizes) == new


def test_families_may_follow_options(capsys: Capture) -> None:
    sizes = ["--pp", "4", "--microbatches", "8"]
    before = rows_of(capsys, "simulate", "1f1b", "gpipe", "zb-h1", *sizes)
    assert rows_of(capsys, "simulate", "1f1b", *sizes, "gpipe", "zb-h1") == before
    assert rows_of(capsys, "simulate", "1f1b", *sizes[:2], "gpipe", *sizes[2:], "zb-h1") == before
    for words in (["gpipe", "--nope"], ["--nope"]):
        assert "--nope" in failure_of(capsys, "simulate", "1f1b", *sizes, *words, status=2)


def test_names_of_descriptions_have_any_case(capsys: Capture) -> None:
    costs = ["--pp", "4", "--microbatches", "8", "--set", "network.bandwidth=0.5x"]
    given = rows_of(capsys, "simulate", "1f1b", *costs, *ON_H100)
    other = ["--model", "Llama3-8B", "--system", "DGX-H100"]
    assert rows_of(capsys, "simulate", "1f1b", *costs, *other) == given
    costs_of = (Costs(model=name, system="dgx-h100") for name in ("llama3-8b", "LLaMA3-8B"))
    one, two = (each.model_summary() for each in costs_of)
    assert one == two


ON_H100 = ["--model", "llama3-8b", "--system", "dgx-h100"]


def test_pictures_are_also_tex(tmp_path: Path) -> None:
    tex, tikz = (str(tmp_path / f"rows.{ending}") for ending in ("tex", "tikz"))
    for file in (tex, tikz):
        assert main(["convert", "1f1b", "--pp", "4", "--microbatches", "4", "-o", file]) == 0
    assert Path(tex).read_bytes() == Path(tikz).read_bytes()


# Rare options


def test_rare_options_are_set(capsys: Capture) -> None:
    costs = ["--model", "llama3-8b", "--system", "dgx-h100", "--pp", "4", "--microbatches", "8"]
    said = text_of(capsys, "simulate", "1f1b", *costs, "--set", "attention=unfused").splitlines()[0]
    assert said.startswith("assumed:") and "attention" not in said
    wrong = {
        ("--set", "attention=nothing"): "attention: invalid choice: 'nothing'",
        ("--set", "attension=fused"): "no attension; did you mean attention?",
        ("--set", "rank-order="): "rank-order: expected a value",
        ("--disturbance", "worker3=2,worker3=3"): "worker 3 is given twice",
        ("--disturbance", "wind=3"): "expected a slow worker, stage or node and its factor",
        ("--draw", "x.txt"): "draws html, svg, png, pdf, tikz, trace; found 'x.txt'",
    }
    for words, wanted in wrong.items():
        assert wanted in failure_of(capsys, "simulate", "1f1b", *costs, *words, status=2)


def test_help_lists_rare_options(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert "  rank-order" not in (said := capsys.readouterr().out)
    assert "  expert-dispatch      all-to-all|per-node|per-rank: " in said


# Completion

LINES = [
    (["sim"], {"simulate"}),
    (["simulate", "--pipe"], {"--pipeline-parallel"}),
    (["plan", "--system", "dgx-h"], {"dgx-h100", "dgx-h200"}),
    (["simulate", "--recompute", "f"], {"full"}),
    (["simulate", "kept"], {"kept.mlir"}),
    (["show", "--model", "llama3-8"], {"llama3-8b"}),
]


def test_completion(tmp_path: Path, capsys: Capture) -> None:
    """The completions of bash at the end of a line; shtab makes the script."""
    with pytest.raises(SystemExit):
        main(["--print-completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "kept.mlir").write_text("")
    for words, wanted in LINES:
        line = " ".join(["pipesched", *words])
        code = f"""source ./script; COMP_WORDS=({line}); COMP_CWORD={len(words)}; COMP_LINE="{line}"
_shtab_pipesched; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(
            ["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        offered = {word for word in done.stdout.split() if word.startswith(words[-1])}
        assert offered == wanted, (line, done.stderr)
