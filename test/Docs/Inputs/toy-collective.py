"""Shows the toy collective in Python: names, instructions, groups, and what a page gets."""

import json
import pathlib
import re
import sys
from typing import get_args

from pipesched import Schedule
from pipesched._options import InstructionKind, Phase, names_of
from pipesched._program import PHASES

assert get_args(InstructionKind) == names_of(InstructionKind)
assert set(get_args(Phase)) == set(PHASES) - {"_"}

schedule = Schedule.from_file(pathlib.Path(sys.argv[1]))
for instruction in schedule.program(1)[:4]:
    print(instruction, instruction.group)
for group in schedule.groups:
    print(group.kind, group.microbatch, group.workers, group.stages, len(group.blocks))

# Phases without a cost have lower numbers.
print(*schedule.simulate().to_frame().phase.unique())

page = schedule.simulate().to_html()
facts = json.loads(re.search(r'class="facts">(.*?)</script>', page)[1])
print(facts["kinds"][-1], facts["phases"][26]["letter"], facts["phases"][26]["per_path"])
