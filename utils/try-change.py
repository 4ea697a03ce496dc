#!/usr/bin/env python3
"""Makes changes that pages docs/Add*.md describe, in a copy of the sources, and builds with them.

This shows that a page is complete: a change is a list of insertions, each next to the line that
a sentence "`file` mentions `text`" of the page is about, and may change no other file. The change
is a text of parts that begin with one of

    ==== before `lib/Facts/Facts.cpp` mentions `getNumLayers`
    ==== after `lib/Facts/Facts.cpp` mentions `getNumLayers`
    ==== behind `lib/Facts/Facts.cpp` mentions `getNumLayers`
    ==== new `lib/Schedule/Toy.cpp`

and go on with the lines to insert: before or after the first line with the text, or behind its
paragraph, at the next empty line; or with those of a new file. The name of a new file has a
placeholder on the page, so that it is not looked up there.

Several changes, each with a page of its own, are made in one copy, since building costs most. A
change does not see the lines of another one: it is made as if it were alone.

Of the build folder, whose targets have to be up to date, only what depends on changed files is
built again; everything else is linked from there. Nothing is written outside of --out, which gets
the folders `tree` and `build`.

A second build folder may link what the first one builds, as that of the Python module does: its
targets are built in the folder `module`, on what the first one has built there.

With --flags=-O0 compilers get this option behind all others, and precompiled headers are built
with it too: what is compiled for a few calls compiles in a third of the time.

Usage: try-change.py CHANGE... --page PAGE... --build build/release --out FOLDER [--most N]
[--jobs J] [--flags=FLAGS] [--targets FILE...] [--module-build build/python --module-targets
FILE...]; fails if a page does not describe its change, if a change is of more than N files, or if
something does not compile. Prints the files of each change.
"""

import argparse
import collections
import concurrent.futures
import filecmp
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

PART = re.compile(r"==== (before|after|behind|new) `([^`\n]+)`(?:\s+mentions\s+`([^`\n]+)`)?\s*$")
LEFT_OUT = ("build", ".git", ".venv", "dist")


class Mistake(Exception):
    """A change that cannot be made, or does not compile."""


# The change


def parts_of(text):
    """Returns (line, kind, file, anchor, lines) of each part."""
    parts = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.startswith("===="):
            match = PART.match(line)
            if match is None or (match[1] == "new") != (match[3] is None):
                raise Mistake(f"{number}: expected ==== before|after|behind `file` mentions `x`, "
                              f"or ==== new `file`, found {line.strip()!r}")
            parts.append((number, *match.groups(), []))
        elif not parts:
            raise Mistake(f"{number}: expected a part, found {line.strip()!r}")
        else:
            parts[-1][-1].append(line)
    return parts


def mentions_of(page):
    """The sentences of a page, as the check of pages reads them."""
    spec = importlib.util.spec_from_file_location(
        "guides", pathlib.Path(__file__).with_name("check-guides.py"))
    guides = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guides)
    text = guides.FENCED.sub("", page.read_text(encoding="utf-8"))
    return {(match[1], match[2]) for match in guides.MENTIONS.finditer(text)}


class Tree:
    """A copy of the sources, whose lines know which change has inserted them."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {}  # file -> [(line, change, None of the sources)]

    def read(self, file):
        if file not in self.lines:
            text = (self.folder / file).read_text(encoding="utf-8")
            self.lines[file] = [(line, None) for line in text.splitlines(keepends=True)]
        return self.lines[file]

    def insert(self, change, kind, file, anchor, new):
        """Inserts at the place that the file has for this change; returns whether it has one."""
        lines = self.read(file)
        seen = [i for i, (_, owner) in enumerate(lines) if owner in (None, change)]
        place = next((k for k, i in enumerate(seen) if anchor in lines[i][0]), None)
        if place is None:
            return False
        while kind == "behind" and place < len(seen) and lines[seen[place]][0].strip():
            place += 1
        if kind == "after":
            index = seen[place] + 1
        else:
            index = seen[place] if place < len(seen) else len(lines)
        lines[index:index] = [(line, change) for line in new]
        return True

    def write(self):
        for file, lines in self.lines.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(line for line, _ in lines), encoding="utf-8")


def apply(change, parts, tree, said, page):
    """Makes the change in `tree` and returns the files in their order."""
    changed = {}
    for number, kind, file, anchor, lines in parts:
        changed[file] = None
        path = tree.folder / file
        if kind == "new":
            if file in tree.lines or path.exists():
                raise Mistake(f"{number}: {file} is there already")
            tree.lines[file] = [(line, change) for line in lines]
        elif (file, anchor) not in said:
            raise Mistake(f"{number}: {page} does not say that {file} mentions {anchor}")
        elif file not in tree.lines and not path.is_file():
            raise Mistake(f"{number}: {page} mentions {file}, which does not exist")
        elif not tree.insert(change, kind, file, anchor, lines):
            raise Mistake(f"{number}: no line of {file} mentions {anchor}")
    return list(changed)


def apply_all(arguments, root, tree):
    """Makes all changes and returns the files of each."""
    files = []
    for change, page in zip(arguments.changes, arguments.page):
        try:
            parts = parts_of(change.read_text(encoding="utf-8"))
            files.append(apply(change, parts, tree, mentions_of(root / page), page))
            if len(files[-1]) > arguments.most:
                raise Mistake(f" changes {len(files[-1])} files, "
                              f"expected at most {arguments.most}")
        except Mistake as mistake:
            raise Mistake(f"{change}:{mistake}") from None
    tree.write()
    return files


# The build


Edge = collections.namedtuple("Edge", "rule outputs inputs command")


def read_edges(build):
    """The edges of build.ninja by output, with the headers that compilers found."""
    def ask(*words):
        return subprocess.run(["ninja", "-C", build, *words], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    commands = {row["output"]: row["command"] for row in json.loads(ask("-t", "compdb", "-x"))}
    headers, output = collections.defaultdict(list), None
    for line in ask("-t", "deps").splitlines():
        if line.startswith("    "):
            # A compiler cache may write names from the build folder on.
            headers[output].append(os.path.normpath(os.path.join(build, line.strip())))
        elif ": #deps" in line:
            output = line.partition(": #deps")[0]
    text = (build / "build.ninja").read_text(encoding="utf-8").replace("$\n", "")
    text = text.replace("${cmake_ninja_workdir}", f"{build}/")
    edges = {}
    for line in text.splitlines():
        if not line.startswith("build "):
            continue
        left, right = re.split(r"(?<!\$):", line[len("build "):], maxsplit=1)
        words = [word.replace("$ ", " ").replace("$:", ":")
                 for word in re.split(r"(?<!\$) +", right) if word]
        if "||" in words:
            words = words[:words.index("||")]
        outputs = [os.path.relpath(w, build) if w.startswith(f"{build}/") else w
                   for w in left.split() if w != "|"]
        outputs = list(dict.fromkeys(outputs))
        inputs = [w for w in words[1:] if w != "|"] + headers[outputs[0]]
        edge = Edge(words[0], outputs, inputs, commands.get(outputs[0]))
        edges.update(dict.fromkeys(outputs, edge))
    return edges


def precompiled(edges, users):
    """Those of the edges that precompile headers for the users."""
    inputs = {path for edge in users for path in edge.inputs}
    return [edge for edge in edges
            if edge.outputs[0].endswith(".pch") and edge.outputs[0] in inputs and edge not in users]


class Build:
    """Builds again what depends on changed files, in a folder of links to all that does not."""

    def __init__(self, root, build, out, flags, below=None):
        """Builds in `out` / "build", or on another Build in `out` / "module"."""
        self.root, self.build, self.flags, self.below = root, build, flags, below
        self.tree, self.out = out / "tree", out / ("module" if below else "build")
        self.edges = read_edges(build)
        self.dirty = {}  # path as in build.ninja -> whether it differs from the original

    def link(self):
        """Fills the new build folder with links."""
        for folder, folders, files in os.walk(self.build):
            # The new folder may be inside of the old one, as those of tests are.
            folders[:] = [name for name in folders
                          if name != "Output" and pathlib.Path(folder, name) != self.out.parent]
            copy = self.out / pathlib.Path(folder).relative_to(self.build)
            copy.mkdir(parents=True, exist_ok=True)
            for name in files:
                if name.endswith("_cxx.cxx"):  # of a unity build: includes sources by their paths
                    text = pathlib.Path(folder, name).read_text(encoding="utf-8")
                    (copy / name).write_text(self.moved(text), encoding="utf-8")
                else:
                    (copy / name).symlink_to(pathlib.Path(folder, name))

    def key(self, path):
        """A path as build.ninja spells outputs."""
        return os.path.relpath(path, self.build) if path.startswith(f"{self.build}/") else path

    def order(self, targets):
        """All edges that the targets need, each behind those that it needs."""
        found, seen = [], set()
        stack = [(target, False) for target in targets]
        while stack:
            path, is_done = stack.pop()
            edge = self.edges.get(path)
            if edge is None or (not is_done and edge.outputs[0] in seen):
                continue
            if is_done:
                found.append(edge)
                continue
            seen.add(edge.outputs[0])
            stack.append((path, True))
            stack += [(self.key(each), False) for each in edge.inputs]
        return found

    def is_dirty(self, edge):
        return any(self.dirty.get(self.key(path), False) for path in edge.inputs)

    def moved(self, command):
        """The command on the new folders. Python packages stay, and precompiled headers unless
        they are built with other flags."""
        builds = {str(each.build): each for each in (self, self.below) if each}
        names = "|".join(map(re.escape, builds))
        paths = re.compile(rf"(?P<build>{names})(?![\w-])(?P<pch>/CMakeFiles/[^ ]*cmake_pch)?|"
                           rf"{re.escape(str(self.root))}(?![\w-])(?!/\.venv\b)")

        def place(match):
            if match["pch"] and not self.flags:
                return match[0]
            folder = builds[match["build"]].out if match["build"] else self.tree
            return f"{folder}{match['pch'] or ''}"

        return paths.sub(place, command)

    def run(self, edge):
        """Runs the command of an edge in the new folders; raises Mistake if it fails."""
        for output in edge.outputs:
            (self.out / output).unlink(missing_ok=True)
        command = self.moved(edge.command)
        if "_COMPILER_" in edge.rule:
            command = f"{command} {self.flags}"
        done = subprocess.run(command, shell=True, cwd=self.out, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Mistake(f"{edge.outputs[0]} is not built: {done.stdout}")

    def finish(self, edge):
        """Outputs that are as before make nothing else dirty."""
        for output in edge.outputs:
            self.dirty[output] = edge.command is None or not filecmp.cmp(
                self.out / output, self.build / output, shallow=False)

    def make(self, changed, targets, jobs):
        """Builds the targets and returns how many commands ran."""
        self.dirty = {str(self.root / file): True for file in changed}
        if self.below:
            self.dirty |= {str(self.below.build / path): flag
                           for path, flag in self.below.dirty.items()}
        steps = {"generate": [], "compile": [], "link": []}
        for edge in self.order(targets):
            kind = "compile" if "_COMPILER_" in edge.rule else "link" if "_LINKER_" in edge.rule \
                else "generate"
            steps[kind].append(edge)
        count = sum(map(self.make_one, steps["generate"]))
        compiled = [edge for edge in steps["compile"] if self.is_dirty(edge)]
        headers = precompiled(steps["compile"], compiled) if self.flags else []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.run, headers))
            list(pool.map(self.run, compiled))
        for edge in compiled:
            self.finish(edge)
        count += len(headers) + len(compiled)
        return count + sum(map(self.make_one, steps["link"]))

    def make_one(self, edge):
        """Returns whether a command ran."""
        if not self.is_dirty(edge):
            return False
        if edge.command:
            self.run(edge)
        self.finish(edge)
        return bool(edge.command)


def build_all(arguments, root, out, changed):
    """Builds the targets with what has changed; returns how many commands ran."""
    build = Build(root, arguments.build.resolve(), out, arguments.flags)
    build.link()
    count = build.make(changed, arguments.targets, arguments.jobs)
    if arguments.module_build:
        module = Build(root, arguments.module_build.resolve(), out, arguments.flags, build)
        module.link()
        count += module.make(changed, arguments.module_targets, arguments.jobs)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("changes", type=pathlib.Path, nargs="+", metavar="change")
    parser.add_argument("--page", type=pathlib.Path, nargs="+", required=True,
                        help="one of each change")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--most", type=int, default=8, help="files that a change may have (8)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--flags", default="", help="of compilers, behind all others")
    parser.add_argument("--targets", nargs="*", default=(), help="without it, nothing is built")
    parser.add_argument("--module-build", type=pathlib.Path)
    parser.add_argument("--module-targets", nargs="*", default=())
    arguments = parser.parse_args()
    if len(arguments.page) != len(arguments.changes):
        parser.error(f"{len(arguments.changes)} changes have {len(arguments.page)} pages")
    root, out = arguments.root.resolve(), arguments.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root, out / "tree", ignore=lambda folder, names: [
        name for name in names if pathlib.Path(folder) == root and name in LEFT_OUT])
    try:
        files = apply_all(arguments, root, Tree(out / "tree"))
        for each in files:
            print(*each, sep="\n")
    except Mistake as mistake:
        print(mistake, file=sys.stderr)
        return 1
    try:
        if arguments.targets:
            count = build_all(arguments, root, out, sorted(set().union(*files)))
            print(f"{count} commands", file=sys.stderr)
    except Mistake as mistake:
        print(*arguments.changes, end=f": {mistake}\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
