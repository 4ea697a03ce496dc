"""Checks that a tool refuses IR that is nested deeply in any way, and reads it if it is not.

usage: refuses-deep-ir.py TOOL [ARGUMENT...]
"""

import subprocess
import sys

OP = '"a.b"() {{x = {}}} : () -> ()\n'
TYPE = '"a.b"() : () -> {}\n'


def around(opening, inner, closing):
    return lambda depth: opening * depth + inner + closing * depth


def aliases(depth):
    lines = ["#a0 = []\n", *(f"#a{i} = [#a{i - 1}]\n" for i in range(1, depth))]
    return "".join(lines) + OP.format(f"#a{depth - 1}")


def operators(depth):
    names = [f"d{i}" for i in range(depth)]
    return OP.format(f"affine_map<({', '.join(names)}) -> ({' + '.join(names)})>")


def inside(form, nest):
    return lambda depth: form.format(nest(depth))


KINDS = {
    "modules": around("module {\n", "", "}\n"),
    "regions": around('"a.b"() ({\n', "", "}) : () -> ()\n"),
    "lists": inside(OP, around("[", "", "]")),
    "dictionaries": inside(OP, around("{y = ", "1", "}")),
    "types": inside(TYPE, around("tuple<", "i32", ">")),
    "functions": lambda depth: TYPE.format("(" + "() -> (" * depth + "i32" + ")" * (depth + 1)),
    "locations": inside('"a.b"() : () -> () loc({})\n', around("callsite(", '"x"', ' at "y")')),
    "signs": lambda depth: OP.format("affine_map<(d0) -> (" + "-" * depth + "d0)>"),
    "aliases": aliases,
    "operators": operators,
}


def said(command, text):
    result = subprocess.run(command, input=text.encode(), capture_output=True)
    return result.returncode, result.stderr.decode(errors="replace")


def main():
    command = sys.argv[1:]
    for kind, make in KINDS.items():
        status, error = said(command, make(50_000))
        if status != 1 or "error:" not in error or "more than" not in error:
            sys.exit(f"deep {kind}: status {status}, {error[:300]}")
        status, error = said(command, make(20))
        if status < 0 or "more than" in error:
            sys.exit(f"{kind} of a usual depth: status {status}, {error[:300]}")


if __name__ == "__main__":
    main()
