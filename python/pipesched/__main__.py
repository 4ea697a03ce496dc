"""`python -m pipesched` is the command `pipesched`."""

from __future__ import annotations

import sys

from pipesched.command import main

if __name__ == "__main__":
    sys.exit(main())
