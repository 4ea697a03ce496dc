"""Every golden file is imported, verified and exported again.

Without idle slots a file comes back in its order; with --keep-columns it comes back
byte for byte. Where PyTorch's own lowering of a file is at hand
(NAME__comms_full.csv), the export of NAME.csv is that lowering, and so is the export of
the lowering itself. Where only its messages are (NAME__comms_sendrecv.csv), an import
warns that PyTorch would not divide gradients. A file of replicated stages is compared
with the rows of its import, and its export is refused.

usage: torch-csv-golden.py PIPESCHED_OPT PIPESCHED_TRANSLATE FOLDER [SHARE]

With a SHARE of N, only each N-th file of a check is read, from the first one on.
"""

import collections
import pathlib
import re
import subprocess
import sys

opt, translate, folder, *share = sys.argv[1:]
share = int(*share) if share else 1
MESSAGE = re.compile(r"\d+(SEND_[FB]\d+|RECV_[FB]\d+|UNSHARD|RESHARD|REDUCE_GRAD)")
NO_REDUCTION = (
    "warning: the file has messages but no REDUCE_GRAD, where PyTorch's runtime divides"
    " gradients by the {} microbatches; an export writes it"
)
PAIR = re.compile(r"\((\w+);(\w+)\)OVERLAP_F_B")
ROW = re.compile(r"^ *worker \d+ runs \[(.*)\]$", re.MULTILINE)
CELL = re.compile(r"(\d+)([FBIW]\d+)")


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def checked(command, text=None, warning=None):
    done = run(command, text)
    said = re.findall("warning: .*", done.stderr) if warning else done.stderr
    wanted = [warning] if warning else ""
    assert done.returncode == 0 and said == wanted, f"{command}: {done.stderr}"
    return done.stdout


def imported(path, *options):
    warning = None
    if "__comms_sendrecv" in path.name:
        warning = NO_REDUCTION.format(re.search(r"_N(\d+)", path.name)[1])
    command = [translate, "--import-torch-csv", *options, str(path)]
    module = checked(command, warning=warning)
    return checked([opt, "--pass-pipeline=builtin.module(pipe-verify)"], module)


def exported(module, form="compute_only"):
    command = [translate, "--export-torch-csv", f"--torch-csv-format={form}"]
    return checked(command, module)


def orders(text):
    """The cells of each row, without idle slots, messages and parameter actions."""
    rows = [[token.strip() for token in line.split(",")] for line in text.splitlines()]
    return [[t for t in row if t and not MESSAGE.fullmatch(t)] for row in rows]


def check_round_trip(path):
    text = path.read_text()
    module = imported(path)
    assert orders(exported(module)) == orders(text), f"{path}: another order"
    assert orders(exported(module, "compute_comms")) == orders(text), path
    if "__comms" not in path.name:
        kept = imported(path, "--keep-columns")
        assert exported(kept) == text, f"{path}: other columns"


def check_messages(path):
    """`path` is PyTorch's lowering of another golden file."""
    source = path.with_name(path.name.replace("__comms_full", ""))
    for module in (imported(source), imported(source, "--keep-columns"), imported(path)):
        assert exported(module, "compute_comms") == path.read_text(), f"{path}: differs"


def check_replicas(path):
    text = path.read_text()
    stages = len(text.splitlines())  # one stage per worker and path
    module = imported(path, f"--torch-replicas={stages}")
    wanted = [
        " ".join(CELL.sub(lambda cell: f"{int(cell[1]) % stages}{cell[2]}", token) for token in row)
        for row in orders(PAIR.sub(r"\1+\2", text))
    ]
    assert ROW.findall(module) == wanted, f"{path}: other rows"
    refused = run([translate, "--export-torch-csv"], module)
    assert refused.returncode != 0 and refused.stdout == "", path
    assert "replicated stages cannot be written" in refused.stderr, refused.stderr


found = collections.Counter()
counts = {check_round_trip: 0, check_messages: 0, check_replicas: 0}


def count(check, path):
    found[check] += 1
    if found[check] % share == 1 % share:
        check(path)
        counts[check] += 1


for path in sorted(pathlib.Path(folder).glob("*.csv")):
    if path.name.startswith("deepseek_dualpipe_"):
        count(check_replicas, path)
        continue
    count(check_round_trip, path)
    if path.name.endswith("__comms_full.csv"):
        count(check_messages, path)

for check, number in counts.items():
    print(f"{check.__name__}: {number} files")
