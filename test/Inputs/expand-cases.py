#!/usr/bin/env python3
# Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes out the cases of a test of invalid IR, one after the other for -split-input-file.

A table starts with `// CASES` and the IR that its cases share, in which @@ marks the differing
part. Each case has a comment, the messages (`// error: MESSAGE`, also note, remark and warning)
before the line that they point to, and the lines for @@:

    // CASES
    pipe.schedule @s workers 1 microbatches 2 {
      path on [0]
      worker 0 runs [@@]
    }

    // a stage without a microbatch
    // error: no microbatch after '0F'; wanted a cell as 2F0
    0F
    // two cells without a space
    // error: unknown cell '0F0B0'; wanted a cell as 2F0
    0F0B0

A case ends before the next comment or empty line, a table before `// -----`. All other IR is
unchanged. A table without a case, and a case without a message, are errors: their test would pass
for any output of the tool.
"""

import re
import sys

_MESSAGE = re.compile(r" *// (error|note|remark|warning): (.*)")


def _read_cases(lines):
    """Yields the lines of each case: comments, messages and code in their order."""
    case, has_code = [], False
    for line in lines:
        is_comment = line.lstrip().startswith("//")
        begins = is_comment and not _MESSAGE.match(line)
        if not line or (begins and has_code):
            if case:
                yield case
            case, has_code = [], False
        if line:
            case.append(line)
            has_code |= not is_comment
    if case:
        yield case


def _expand(shared, case):
    """Returns the lines of `shared` with the case in the place of @@."""
    at = next(i for i, line in enumerate(shared) if "@@" in line)
    before, after = shared[at].split("@@")
    comments, body = [], []
    for line in case:
        if message := _MESSAGE.match(line):
            body.append(f"// expected-{message[1]} @below {{{{{message[2]}}}}}")
        elif line.lstrip().startswith("//"):
            comments.append(line)
        else:
            body.append(before + line + after)
    return comments + shared[:at] + body + shared[at + 1 :]


def _split_tables(lines):
    """Yields each part of a file, split at `// CASES` and `// -----`, without these lines."""
    part, is_table = [], False
    for line in [*lines, "// -----"]:
        if line in ("// CASES", "// -----"):
            yield is_table, part
            part, is_table = [], line == "// CASES"
        else:
            part.append(line)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().splitlines()
    chunks = []
    for is_table, part in _split_tables(lines):
        if not is_table:
            if any(line and not line.startswith("//") for line in part):
                chunks.append(part)
            continue
        end = part.index("")
        cases = list(_read_cases(part[end:]))
        for case in cases or [part[:end]]:
            if not any(_MESSAGE.match(line) for line in case):
                sys.exit(f"error: {sys.argv[1]}: no message in:\n" + "\n".join(case))
        chunks += [_expand(part[:end], case) for case in cases]
    print("\n\n// -----\n\n".join("\n".join(chunk) for chunk in chunks))


if __name__ == "__main__":
    main()
