"""The questions of docs/Planning.md: each command proposes the answer of the page, with the steps
of the answer and of the published layout.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from pipesched.command import main
from test_command import Capture

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "docs" / "Planning.md").read_text().partition("## Questions and answers\n")[2]
QUESTIONS = re.findall(r"(?ms)^\*\*(.+?)\.\*\* (.+?)\n\n", SECTION.partition("## ")[0])
SLOW = ("Qwen3-235B on 128 H100", "DeepSeek-V3 on 2,048 H800")
"""Searches of a minute."""
UNPUBLISHED = ("A slow node", "63 accelerators", "A mixed cluster")
"""Questions for which no layout is published."""
PUBLISHED = json.loads((ROOT / "test/data/huggingface/published.json").read_text())
LLAMA = next(each["config"] for each in PUBLISHED if each["name"] == "llama-3.2-3b")


def proposed(capsys: Capture, line: str) -> tuple[int, str, str]:
    """The exit status of a command, its first configuration in words, and its expected step."""
    status = main([*shlex.split(line)[1:], "--top", "1"])
    printed = capsys.readouterr().out
    words = re.search(r"^- best: (.+)$|^- (.+?) misses ", printed, re.M)
    step = re.search(r"^01-\S+ +([\d.]+) s ", printed, re.M)
    assert words and step, printed
    return status, words[1] or words[2], step[1]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param(*each, id=each[0], marks=[pytest.mark.long] if each[0] in SLOW else [])
        for each in QUESTIONS
    ],
)
def test_answers(
    question: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(LLAMA))
    Path("examples").symlink_to(ROOT / "examples")
    text = " ".join(text.split())
    told = re.match(r"`(pipesched plan [^`]+)` proposes (.+?): \*\*([\d.]+) s\*\*", text)
    assert told, text
    command, answer, step = told.groups()
    assert proposed(capsys, command) == (0, answer, step)
    theirs = re.search(r"`(--[^`]+)`[^*]*: \*\*([\d.]+) s\*\*( without fitting)?", text)
    assert bool(theirs) == (question not in UNPUBLISHED)
    if theirs:
        status, _, published = proposed(capsys, f"{command} {theirs[1]}")
        assert (status, published) == (1 if theirs[3] else 0, theirs[2])


def test_all_questions_are_read() -> None:
    assert len(QUESTIONS) == SECTION.partition("## ")[0].count("`pipesched plan ") == 10
