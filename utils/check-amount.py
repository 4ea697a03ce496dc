#!/usr/bin/env python3
"""Compares the size of the project and the wording of its prose with stored limits.

- Lines: of all tracked files, and of the folders in FOLDERS.
- Words: how often each phrase of PHRASES occurs per 10,000 words of comments, docstrings,
  descriptions of TableGen and pages in Markdown, without their code.
- Places in the same prose: phrases of REFUSED, and sentences over MOST_WORDS words.

Prints each number with its limit, and fails when one is above its limit in amounts.json next to
this script. Limits may only fall: a change that must raise one edits the stored number and gives
the reason in its commit message. --update stores the numbers of now; --list prints the places.

Usage: check-amount.py [--root FOLDER] [--limits FILE] [--update] [--list]
"""

import argparse
import ast
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import tokenize

FOLDERS = {
    "all tracked files": "",
    "include lib tools runtime": "include lib tools runtime",
    "python": "python",
    "test unittests": "test unittests",
}
PHRASES = {
    "behind": "behind",
    "beside": "beside",
    "stand": "stands?",
    "what": "what",
    "those": "those",
    "of its own": "of its own",
    "alone": "alone",
    "begin": "begins?",
    "how many, how long": "how (?:many|long)",
    "so many": "so many",
    "tell apart": "(?:tells?|told) apart",
}
REFUSED = re.compile(
    r"\b(?:so many|tells? \w* ?apart|told apart|(?<!in |by )\w+ of its own"
    r"|(?<!there )(?:is|are) no (?!or\b|more|less|worse|\w+er\b)[a-z]+)\b"
)
MOST_WORDS = 35
CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
DESCRIPTION = re.compile(r"(?:description|summary) = (?:\[\{(.*?)\}\]|\"(.*?)\");", re.DOTALL)
COMMENT_BLOCK = re.compile(r"(?:^[ \t]*(?://|# )[^\n]*\n)+", re.MULTILINE)
PARAGRAPH_END = re.compile(r"\n[ \t/#]*\n|\n[ \t/#]*(?:[-*]|\d+\.) |\|")
COLUMNS = re.compile(r"\S   *\S|>>>|===|/\*|clang-format")
CODE_IN_PROSE = re.compile(r"^```.*?^```|^ {4,}\S.*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
QUOTED_CODE = re.compile(r"`[^`\n]*`")
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


def files_of_git(root):
    """Returns the files that git tracks or would track, by their names."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return {name: root / name for name in sorted(set(listed)) if (root / name).is_file()}


def docstrings(text):
    """Returns the docstrings of a Python source."""
    values = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr)]
    return [v.value for v in values if isinstance(getattr(v, "value", None), str)]


def comments(text):
    """Returns the comments of a Python source."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT]


def descriptions(text):
    """Returns the descriptions of a TableGen source, without their code."""
    return [CODE_IN_PROSE.sub(" ", long or short) for long, short in DESCRIPTION.findall(text)]


def prose(path, text):
    """Returns the prose of a file; none where the kind of file has none that is counted."""
    parts = []
    if path.suffix == ".md":
        return CODE_IN_PROSE.sub(" ", text)
    if path.suffix in {".h", ".c", ".cpp", ".td"}:
        parts = [part for part in CXX_COMMENT.findall(text) if part[0] == "/"]
        parts += descriptions(text) if path.suffix == ".td" else []
    elif path.suffix == ".py":
        parts = comments(text) + docstrings(text)
    elif path.suffix in {".sh", ".cmake"} or path.name == "CMakeLists.txt":
        parts = re.findall(r"(?:^|\s)#[^\n]*", text)
    return QUOTED_CODE.sub(" ", "\n".join(parts))


def long_sentences(path, text):
    """Yields the parts of sentences over MOST_WORDS words, which end with `.`, `:` or `;`. Trailing
    comments, and paragraphs with columns, are not read.
    """
    blocks = COMMENT_BLOCK.findall(text)
    if path.suffix == ".md":
        blocks = [CODE_IN_PROSE.sub(" ", text)]
    elif path.suffix == ".py":
        blocks += docstrings(text)
    elif path.suffix == ".td":
        blocks += descriptions(text)
    elif not prose(path, text):
        blocks = []
    for paragraph in PARAGRAPH_END.split("\n\n".join(blocks)):
        words = re.sub(r"\n[ \t/#]*", " ", "\n" + QUOTED_CODE.sub(" ", paragraph))
        for sentence in re.split(r"(?<=[.!?:;])\s+", words):
            if len(WORD.findall(sentence)) > MOST_WORDS and not COLUMNS.search(paragraph):
                yield sentence.strip()


def measure(root):
    """Returns the lines of each entry of FOLDERS, the rate of each entry of PHRASES, and the places
    of REFUSED and of long sentences as (file, text).
    """
    lines, words, found = dict.fromkeys(FOLDERS, 0), 0, dict.fromkeys(PHRASES, 0)
    refused, long = [], []
    patterns = {name: re.compile(rf"\b{phrase}\b") for name, phrase in PHRASES.items()}
    for name, path in files_of_git(root).items():
        content = path.read_bytes()
        for entry, folders in FOLDERS.items():
            if not folders or name.split("/")[0] in folders.split():
                lines[entry] += content.count(b"\n")
        if name.startswith("test/data/"):
            continue
        source = content.decode(errors="replace")
        long += [(name, sentence) for sentence in long_sentences(path, source)]
        text = re.sub(r"[\s/#]+", " ", prose(path, source).lower())
        refused += [(name, text[max(0, m.start() - 40) : m.end()]) for m in REFUSED.finditer(text)]
        words += len(WORD.findall(text))
        for phrase, pattern in patterns.items():
            found[phrase] += len(pattern.findall(text))
    rates = {phrase: 10_000 * count / max(words, 1) for phrase, count in found.items()}
    places = {"refused phrases": refused, f"sentences over {MOST_WORDS} words": long}
    counts = {kind: len(found) for kind, found in places.items()}
    return {"lines": lines, "per 10,000 words": rates, "places": counts}, places


def store(root, path):
    """Writes the numbers of now as the limits."""
    for _ in range(2):  # the first file adds its own lines to the count
        measured, _ = measure(root)
        rates = measured["per 10,000 words"]
        measured["per 10,000 words"] = {
            phrase: math.ceil(10 * rate) / 10 for phrase, rate in rates.items()
        }
        path.write_text(json.dumps(measured, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument(
        "--limits", type=pathlib.Path, default=pathlib.Path(__file__).with_name("amounts.json")
    )
    parser.add_argument("--update", action="store_true", help="store the numbers of now")
    parser.add_argument("--list", action="store_true", help="print the places")
    arguments = parser.parse_args()
    if arguments.update:
        store(arguments.root, arguments.limits)
    measured, places = measure(arguments.root)
    limits = json.loads(arguments.limits.read_text())
    for kind, found in places.items() if arguments.list else ():
        for name, text in found:
            print(f"{name}: {kind}: {text}")
    fails = False
    for group, numbers in measured.items():
        for name, number in numbers.items():
            limit = limits[group][name]
            rises = number > limit
            fails |= rises
            shown = f"{number:.1f}" if isinstance(number, float) else number
            end = ": shorten, or store the new limit and say why in the commit" if rises else ""
            print(f"{group}: {name}: {shown}, at most {limit}{end}")
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
