#!/usr/bin/env python3
"""Compiles each public header by itself, without precompiled headers.

A source file gets a precompiled header before its own includes, so a header that forgets an include
still compiles there. It fails only for users.

Usage: check-headers.py BUILD_FOLDER [HEADER...]; reads compile_commands.json of the folder, in
which generated headers must be built. Checks all headers under include/ and runtime/include/
unless some are named.
Prints the compiler's errors and fails if there are any.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

# A source file of a library that uses MLIR; its flags fit all headers.
MODEL_SOURCE = "lib/Target/TranslateRegistration.cpp"
WITH_VALUE = {"-o", "-MT", "-MF", "-MQ"}
FOLDERS = ("include", "runtime/include")
DROPPED = {"-c", "-MD", "-MMD", "-Winvalid-pch"}


def compiler_flags(build):
    """Returns the compile command of this source without its files, and its folder."""
    commands = json.loads((build / "compile_commands.json").read_text())
    for command in commands:
        if command["file"].endswith(MODEL_SOURCE):
            break
    else:
        sys.exit(f"{build}/compile_commands.json: {MODEL_SOURCE} not found")
    words = iter(shlex.split(command["command"]))
    flags = []
    for word in words:
        if word in WITH_VALUE or word == "-Xclang":
            next(words)
        elif word not in DROPPED and word != command["file"] and "ccache" not in word:
            flags.append(word)
    return flags, command["directory"]


def check(flags, folder, header):
    """Returns the complaints of the compiler about one header; empty if it is sound."""
    folders = [pathlib.Path(name).resolve() for name in FOLDERS]
    include = next(path for path in folders if path in header.parents)
    name = header.relative_to(include).as_posix()
    result = subprocess.run(
        [*flags, f"-I{include}", "-fsyntax-only", "-Werror", "-x", "c++", "-"],
        input=f'#include "{name}"\n',
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return result.stderr if result.returncode else ""


def main():
    build = pathlib.Path(sys.argv[1])
    headers = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    for name in FOLDERS if not headers else ():
        headers += sorted(pathlib.Path(name).resolve().rglob("*.h"))
    flags, folder = compiler_flags(build)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for error in pool.map(lambda header: check(flags, folder, header), headers):
            failed += bool(error)
            sys.stdout.write(error)
    print(f"{len(headers)} headers, {failed} do not compile by themselves")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
