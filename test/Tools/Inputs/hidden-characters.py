"""Writes IR whose names hold control characters into the folder that is given."""

import sys
from pathlib import Path

NAME = "\x1b[2J\x9b\u202e"
ROWS = "workers 1 microbatches 1 {\n  path on [0]\n  worker 0 runs [0F0 0B0]\n}\n"
WRONG = 'worker 0 runs [0B0 0F0] loc("far\x1b[2J.mlir":3:1)'

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
files = {
    "names.mlir": f'pipe.schedule @"several{NAME}" {ROWS}pipe.schedule @"two{NAME}" {ROWS}',
    "twice.mlir": f'pipe.schedule @"same{NAME}" {ROWS}' * 2,
    "functions.mlir": f'func.func private @"same{NAME}"()\n' * 2,
    "syntax.mlir": 'module @"\x1b[2J" oops // \x1b[2J\n',
    "a\x1b[2J.odd": "oops\n",
    "location.mlir": "pipe.schedule @a " + ROWS.replace("worker 0 runs [0F0 0B0]", WRONG),
    "rows.csv": "0F0,\x1b[2J\n",
    "good.mlir": f'pipe.schedule @"a\x1b[2J\x9b\r\\\\b" {ROWS}',
    "mark.mlir": f"\ufeffpipe.schedule @marked {ROWS}",
    "mark-syntax.mlir": "\ufeffmodule oops\n",
    "escapes.mlir": f'pipe.schedule @"a\\FF\\EF\\BF\\BE\\01<" {ROWS}',
    "lines.mlir": "// a comment\roops\r\n",
}
for name, text in files.items():
    (folder / name).write_text(text, encoding="utf-8", newline="")
