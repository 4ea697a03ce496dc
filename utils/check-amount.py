#!/usr/bin/env python3
"""Compares the size of the project and the wording of its prose with stored limits.

- Lines: of all tracked files, and of the folders in FOLDERS.
- Words: how often each phrase of PHRASES occurs per 10,000 words of comments, docstrings,
  descriptions of TableGen and pages in Markdown, without their code.

Prints each number with its limit, and fails when one is above its limit in amounts.json next to
this script. Limits may only fall: a change that must raise one edits the stored number and gives
the reason in its commit message. --update stores the numbers of now.

Usage: check-amount.py [--root FOLDER] [--limits FILE] [--update]
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
CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
DESCRIPTION = re.compile(r"(?:description|summary) = (?:\[\{(.*?)\}\]|\"(.*?)\");", re.DOTALL)
CODE_IN_PROSE = re.compile(r"^```.*?^```|^ {4,}\S.*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
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


def python_prose(text):
    """Returns the comments and docstrings of a Python source."""
    parts = [
        token.string.lstrip("#")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(text)):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Expr) and isinstance(getattr(value, "value", None), str):
            parts.append(value.value)
    return "\n".join(parts)


def prose(path, text):
    """Returns the prose of a file; none where the kind of file has none that is counted."""
    if path.suffix == ".md":
        return CODE_IN_PROSE.sub(" ", text)
    if path.suffix in {".h", ".c", ".cpp", ".td"}:
        comments = [part for part in CXX_COMMENT.findall(text) if part[0] == "/"]
        if path.suffix == ".td":
            found = DESCRIPTION.findall(text)
            comments += [CODE_IN_PROSE.sub(" ", long or short) for long, short in found]
        return "\n".join(comments)
    if path.suffix == ".py":
        return python_prose(text)
    if path.suffix in {".sh", ".cmake"} or path.name == "CMakeLists.txt":
        return "\n".join(re.findall(r"(?:^|\s)#[^\n]*", text))
    return ""


def measure(root):
    """Returns the lines of each entry of FOLDERS, and the rate of each entry of PHRASES."""
    lines, words, found = dict.fromkeys(FOLDERS, 0), 0, dict.fromkeys(PHRASES, 0)
    patterns = {name: re.compile(rf"\b{phrase}\b") for name, phrase in PHRASES.items()}
    for name, path in files_of_git(root).items():
        content = path.read_bytes()
        for entry, folders in FOLDERS.items():
            if not folders or name.split("/")[0] in folders.split():
                lines[entry] += content.count(b"\n")
        if name.startswith("test/data/"):
            continue
        text = " ".join(prose(path, content.decode(errors="replace")).lower().split())
        words += len(WORD.findall(text))
        for phrase, pattern in patterns.items():
            found[phrase] += len(pattern.findall(text))
    rates = {phrase: 10_000 * count / max(words, 1) for phrase, count in found.items()}
    return {"lines": lines, "per 10,000 words": rates}


def store(root, path):
    """Writes the numbers of now as the limits."""
    for _ in range(2):  # the first file adds its own lines to the count
        measured = measure(root)
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
    arguments = parser.parse_args()
    if arguments.update:
        store(arguments.root, arguments.limits)
    measured = measure(arguments.root)
    limits = json.loads(arguments.limits.read_text())
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
