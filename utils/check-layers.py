#!/usr/bin/env python3
"""Checks that libraries depend on each other as docs/Architecture.md says.

The table of its section "Libraries" has a row for each library. The first column names the
folders of the library, the second the libraries that it may use; everything that these use is
allowed as well. Rows of other folders are ignored.

A second table has a row for each library with folders, its rooms: a room may only use the rooms
before it. `.` means the files that are in none. Packages of Python have rows of the same form, with
their modules and packages. Imports inside functions and for type checkers may go the other way,
since importing the module does not run them.

It checks the #include lines of include/PipeSched/<Folder> and lib/<Folder>, the LINK_LIBS and
MLIR_LIBS of lib/<Folder>/CMakeLists.txt, and that the table and the folders are complete. Sources
of runtime/ may include nothing of the project but each other, and nothing of LLVM and MLIR.

Usage: check-layers.py [--root FOLDER]; prints `file:line: what` and fails if there are findings.
"""

import argparse
import ast
import pathlib
import re
import sys

TABLE = "docs/Architecture.md"
ROW = re.compile(r"\| *(`(?:lib|include)/.*?) *\| *(.*?) *\| .*\|$")
ROOMS = re.compile(r"\| *`lib/(\w+)` *\| *((?:`[\w.]+`(?: < )?)+) *\|$")
PACKAGE = re.compile(r"\| *`(python/[\w/]+)` *\| *((?:`\w+`(?: < )?)+) *\|$")
INCLUDE = re.compile(r'\s*#?\s*include\s+["<]([^">]+)[">]')
SUFFIXES = {".h", ".c", ".cpp", ".td"}
MLIR = "MLIR"
FACTS_ONLY = ("Dialect/Pipe", "Dialect/Exec")  # ops only state facts
COMPUTING = {"Analysis", "CostModel", "Evaluation", "Optimize"}
INIT_ALL = "InitAll.h"
RUNTIME = "runtime"
NOT_IN_RUNTIME = ("PipeSched/", "PipeSched-c/", "llvm", "mlir")


def library_of(path):
    """Returns the library that a path below include/ or lib/ belongs to."""
    parts = pathlib.PurePath(path).parts
    if parts[0] == "include":
        parts = parts[1:]
    if parts[0] == "PipeSched-c":
        return "CAPI"
    parts = parts[1:]  # PipeSched, or lib
    if parts[0] in (INIT_ALL, "InitAll.cpp"):
        return INIT_ALL
    if len(parts) == 1 and parts[0] != "Dialect":
        return None if "." in parts[0] else parts[0]
    return "/".join(parts[:2]) if parts[0] == "Dialect" else parts[0]


def room_of(path):
    """Returns the folder of its library that a path is in, `.` for none."""
    parts = pathlib.PurePath(path).parts
    parts = parts[2:] if parts[0] == "include" else parts[1:]
    return parts[1] if len(parts) > 2 else "."


def entry_of(path):
    """Returns the module or folder to which a file of a package belongs."""
    return path.parts[0].removesuffix(".py")


def first_imports(tree):
    """Yields the imports that run when a module is imported."""
    ahead = list(tree.body)
    while ahead:
        node = ahead.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            ahead += node.orelse
            ahead += node.body if "TYPE_CHECKING" not in ast.unparse(node.test) else []
        elif isinstance(node, (ast.Try, ast.With)):
            ahead += node.body


def imported_names(node, own):
    """Returns the modules that an import of the module `own` loads, as lists of names."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".") for alias in node.names]
    base = list(own[: -node.level]) if node.level else []
    base += node.module.split(".") if node.module else []
    return [[*base, alias.name] for alias in node.names]


class Layers:
    """The table, and everything that violates it."""

    def __init__(self, root):
        self.root = root
        self.found = []
        self.uses = {}  # library -> (line of the table, names in its row)
        self.rooms = {}  # library -> its rooms, in order
        self.packages = {}  # folder of a Python package -> (line of the table, entries in order)
        self.libraries = {}  # CMake target -> library
        self.links = {}  # library -> libraries that its link line names
        self.includes = {}  # library -> {library: (file, line) of the first include}

    def report(self, file, line, what):
        self.found.append(f"{file}:{line}: {what}")

    def read_table(self):
        lines = (self.root / TABLE).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if rooms := ROOMS.match(line):
                self.rooms[rooms[1]] = re.findall(r"`([\w.]+)`", rooms[2])
            if package := PACKAGE.match(line):
                self.packages[package[1]] = (number, re.findall(r"`(\w+)`", package[2]))
            row = ROW.match(line)
            for place in re.findall(r"`([^`]+)`", row[1]) if row else ():
                if not (self.root / place).exists():
                    self.report(TABLE, number, f"{place} does not exist")
                elif place != "include/PipeSched-c":
                    self.uses[library_of(place)] = (number, re.findall(r"`([^`]+)`", row[2]))

    def allowed(self, library, seen=()):
        """Returns the libraries that a library may use: its row, and the rows of these."""
        if library in seen or library not in self.uses:
            return set()
        names = self.uses[library][1]
        return set(names).union(*(self.allowed(name, (*seen, library)) for name in names))

    def check_table(self):
        for library, (line, names) in self.uses.items():
            for name in names:
                if name != MLIR and name not in self.uses:
                    self.report(TABLE, line, f"`{name}` has no row of its own")
            if library in self.allowed(library):
                self.report(TABLE, line, f"{library} depends on itself")
        for library in FACTS_ONLY:
            for name in sorted(self.allowed(library) & COMPUTING):
                line = self.uses[library][0]
                self.report(TABLE, line, f"{library} holds facts: it must not depend on {name}")

    def check_folders(self):
        for base in ("include/PipeSched", "lib"):
            top = [path for path in (self.root / base).iterdir() if path.name != "Dialect"]
            below = list((self.root / base).glob("Dialect/*"))
            for path in sorted(top + below):
                name = path.relative_to(self.root).as_posix()
                if path.is_dir() and library_of(name) not in self.uses:
                    self.report(name, 1, f"this library has no row in {TABLE}")

    def check_rooms(self):
        """Reports folders of libraries that have no place in the order, and the reverse."""
        for library in sorted(self.uses):
            files = [
                path.relative_to(self.root).as_posix()
                for base in ("include/PipeSched", "lib")
                for path in (self.root / base / library).rglob("*")
                if path.suffix in SUFFIXES and not library.startswith("Dialect")
            ]
            found = {room_of(file) for file in files}
            if found == {"."}:
                continue
            for room in sorted(found ^ set(self.rooms.get(library, ()))):
                what = "has no place among the rooms" if room in found else "does not exist"
                self.report(TABLE, 1, f"lib/{library}/{room} {what}")

    def check_room(self, library, target, file, line, name):
        """Reports an include of a room of the same library that does not come before."""
        order = self.rooms.get(library)
        rooms = room_of(file), room_of(target)
        if not order or rooms[0] == rooms[1] or not set(rooms) <= set(order):
            return
        if order.index(rooms[0]) < order.index(rooms[1]):
            before = ", ".join(order[: order.index(rooms[0])]) or "no other room"
            self.report(
                file, line, f"includes {name}, but {TABLE} lets {rooms[0]} depend on {before}"
            )

    def check_use(self, library, used, file, line, how):
        """Reports a use that the table does not allow."""
        if used in (None, library) or library not in self.uses:
            return
        allowed = self.allowed(library)
        if used not in allowed:
            rule = ", ".join(sorted(allowed)) or "no other library"
            self.report(file, line, f"{how}, but {TABLE} lets {library} depend on {rule}")

    def check_includes(self):
        for base in ("include/PipeSched", "include/PipeSched-c", "lib"):
            for path in sorted((self.root / base).rglob("*")):
                if path.suffix in SUFFIXES:
                    self.check_source(path)

    def check_source(self, path):
        file = path.relative_to(self.root).as_posix()
        library = library_of(file)
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            target = include and self.included(path, include[1])
            used = library_of(target) if target and target != MLIR else target
            if used == library:
                self.check_room(library, target, file, number, include[1])
            if used:
                self.check_use(library, used, file, number, f"includes {include[1]}")
                self.includes.setdefault(library, {}).setdefault(used, (file, number))

    def check_runtime(self):
        """Reports includes that would make the runtime need more than C11."""
        for path in sorted((self.root / RUNTIME).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, 1):
                include = INCLUDE.match(line)
                if include and include[1].startswith(NOT_IN_RUNTIME):
                    file = path.relative_to(self.root).as_posix()
                    what = f"includes {include[1]}, but the runtime depends on C and POSIX alone"
                    self.report(file, number, what)

    def check_packages(self):
        """Reports entries of Python packages without a place in their order, and imports that
        violate it.
        """
        for folder, (line, order) in self.packages.items():
            home = self.root / folder
            files = [path.relative_to(home) for path in sorted(home.rglob("*.py"))]
            files = [path for path in files if not path.parts[0].startswith("__")]
            found = {entry_of(path) for path in files}
            for entry in sorted(found ^ set(order)):
                what = "has no place in the order" if entry in found else "does not exist"
                self.report(TABLE, line, f"{folder}/{entry} {what}")
            for path in files:
                if entry_of(path) in order:
                    self.check_imports(folder, order, path)

    def check_imports(self, folder, order, path):
        """Reports imports of entries of the same package that do not come before."""
        file = f"{folder}/{path.as_posix()}"
        package = folder.split("/")[1:]
        before = order[: order.index(entry_of(path)) + 1]
        tree = ast.parse((self.root / file).read_text(encoding="utf-8"))
        for node in first_imports(tree):
            for names in imported_names(node, [*package, *path.with_suffix("").parts]):
                used = names[len(package)] if names[:-1][: len(package)] == package else None
                if used in order and used not in before:
                    what = f"imports {'.'.join(names)}, but {TABLE} lets {before[-1]} depend on "
                    what += ", ".join(before[:-1]) or "no other"
                    self.report(file, node.lineno, what)

    def included(self, path, name):
        """Returns the path of an included file of ours, MLIR for one of MLIR's, else None."""
        if name.startswith("PipeSched"):
            return "include/" + name
        if name.startswith(("mlir/", "mlir-c/")):
            return MLIR
        beside = (path.parent / name).resolve()
        lib = (self.root / "lib").resolve()
        if lib in beside.parents and beside.exists():
            return "lib/" + beside.relative_to(lib).as_posix()
        return None

    def check_links(self):
        calls = []
        for path in sorted((self.root / "lib").rglob("CMakeLists.txt")):
            file = path.relative_to(self.root).as_posix()
            calls += [(file, *call) for call in library_calls(path.read_text(encoding="utf-8"))]
        for file, _, target, _ in calls:
            folder = file.removesuffix("CMakeLists.txt").rstrip("/")
            name = INIT_ALL if folder == "lib" else library_of(folder)
            self.libraries.setdefault(target, name)
        for file, line, target, words in calls:
            library = self.libraries[target]
            names = self.links.setdefault(library, set())
            for at, word in words:
                used = MLIR if word.startswith(MLIR) else self.libraries.get(word, word)
                names.add(used)
                self.check_use(library, used, file, line + at, f"{target} links {word}")

    def check_reached(self):
        """Reports libraries that a library includes but that no link line gives it."""
        for library, includes in self.includes.items():
            if library not in self.links:
                continue
            reached, ahead = {library, MLIR}, [library]
            while ahead:
                new = self.links.get(ahead.pop(), set()) - reached
                reached |= new
                ahead += new
            for used, (file, line) in includes.items():
                if used not in reached:
                    self.report(file, line, f"{library} uses {used} and does not link it")

    def run(self):
        self.read_table()
        self.check_table()
        self.check_folders()
        self.check_rooms()
        self.check_includes()
        self.check_runtime()
        self.check_links()
        self.check_reached()
        self.check_packages()
        if not self.includes:
            self.report(TABLE, 1, "no includes found")
        return self.found


def library_calls(text):
    """Yields (line, target, [(lines below it, library)]) of each link line."""
    call = re.compile(
        r"^(?:add_pipesched_library|(?:mlir_)?target_link_libraries)\(\s*(\w+)([^()]*)\)", re.M
    )
    for match in call.finditer(text):
        section, used = "SOURCES", []
        if "target_link_libraries" in match[0]:
            section = "MLIR_LIBS" if match[0].startswith("mlir") else "LINK_LIBS"
        for below, line in enumerate(match[0].split("\n")):
            for word in line.replace("(", " ").replace(")", " ").split():
                if word in ("LINK_LIBS", "MLIR_LIBS", "DEPENDS"):
                    section = word
                elif (word.startswith("MLIR") and section == "MLIR_LIBS") or (
                    section == "LINK_LIBS" and word.startswith("PipeSched") and word != match[1]
                ):
                    used.append((below, word))
        yield text.count("\n", 0, match.start()) + 1, match[1], used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    found = Layers(parser.parse_args().root).run()
    for line in sorted(found):
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
