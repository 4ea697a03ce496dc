"""files.py PAGE FOLDER: writes the files that a page prints: each block of code after a line that
ends in the name of a file, as in "`main.cpp`:".
"""

import re
import sys
from pathlib import Path

NAMED = re.compile(r"`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)

page, folder = map(Path, sys.argv[1:])
found = NAMED.findall(page.read_text())
if not found:
    sys.exit(f"{page} prints no files")
folder.mkdir(parents=True, exist_ok=True)
for name, text in found:
    file = folder / name
    if file.exists():
        sys.exit(f"{page} prints {name} twice")
    file.write_text(text)
    print(name)
