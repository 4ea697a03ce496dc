"""`pipesched run` in real processes on gloo: trainings, failures, and no leftover process."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pipesched
import pytest
from conftest import ROOT
from pipesched.command import main
from pipesched.command.verbs import trainings

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)
LIMIT = 300
"""Seconds for a command, on a machine with other work."""

SOON = 60.0
"""Ranks that did not learn of a failure would wait for their time limit, 300 s."""

COMMAND = [sys.executable, "-c", "import sys; from pipesched.command import main; sys.exit(main())"]
SMALL = "gpt --model-option layers=2 --model-option width=16 --model-option context=16"
SIZES = "--pp 2 --microbatches 4 --steps 6 --set warmup=1 --set calibration=2"
BATCHES = """

def batches(size, seed):
    chance = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randn(size, 4, generator=chance)
        yield x, x.sum(1, keepdim=True)
"""
TOY = """
import torch
from torch import nn

class Late(nn.Module):
    count = 0

    def forward(self, x):
        Late.count += 1
        {late}
        return x

def model(width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), Late(), nn.Linear(width, 1))

def loss(output, target):
    return nn.functional.mse_loss(output, target)
"""


@pytest.fixture
def marked() -> Iterator[dict[str, str]]:
    """An environment that all processes of a test have, so that leftover ones are found."""
    mark = uuid.uuid4().hex
    yield {**os.environ, "PIPESCHED_TEST": mark}
    end = time.monotonic() + SOON
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes(mark) == {}


def processes(mark: str) -> dict[int, str | None]:
    """The ranks of the processes with that mark by their ids; None for others."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            entries = (folder / "environ").read_text().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if variables.get("PIPESCHED_TEST") == mark:
            found[int(folder.name)] = variables.get("LOCAL_RANK")
    return found


def toy(folder: Path, late: str) -> str:
    """A model whose second layer performs an action when it runs; returns the file's name."""
    file = folder / "toy.py"
    file.write_text(TOY.format(late=late) + BATCHES)
    return str(file)


def start(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def begin(arguments: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Starts the verb and waits for its first step."""
    process = start(arguments.split(), environment)
    assert process.stderr is not None
    said = ""
    while "step 1 of" not in said:
        said += (read := process.stderr.readline())
        assert read, said
    return process


def finish(arguments: str, environment: dict[str, str], status: int = 0) -> tuple[str, str]:
    """Runs the verb to its end; returns its output."""
    process = start(arguments.split(), environment)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == status, err
    return out, err


# Trainings


@needs_torch
def test_schedules_train_alike(tmp_path: Path, marked: dict[str, str]) -> None:
    made = pipesched.generate("1f1b", workers=2, microbatches=4, name="stepped")
    made = made.transform("pipe-add-optimizer{all-reduce=eager}")
    made.save(tmp_path / "stepped.mlir")
    schedules = f"zb-v,chimera,{tmp_path}/stepped.mlir,optimized"
    line = f"--schedules {schedules} {SMALL} {SIZES} --dtype float64 --activations 2"
    line += " --set search-seconds=2"
    out, err = finish(f"{line} --model-option layers=4 --format json -o {tmp_path}/out", marked)
    rows = json.loads(out)
    assert {row["schedule"] for row in rows} == {"zb-v", "chimera", "stepped", "optimized"}
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert sorted(row["predicted_rank"] for row in rows) == [1, 2, 3, 4]
    for row in rows:
        assert len(row["losses"]) == 6 and len(row["step_times_s"]) == 3
        assert row["losses"] == pytest.approx(rows[0]["losses"], rel=1e-9)
        assert row["first_loss"] > 1.01 * row["last_loss"]
        assert 0 < row["step_s"] and 0 < row["predicted_s"] and 0 < row["idle_ratio"] < 1
        assert row["tokens_per_s"] == pytest.approx(16 * row["samples_per_s"])
    assert "the model's parts take " in err and "optimized: found" in err
    assert "zb-v, chimera, stepped, optimized: step 6 of 6, loss " in err
    for row in rows:
        name = row["schedule"]
        saved = pipesched.Measurement.from_file(tmp_path / "out" / f"{name}.measurement.json")
        assert saved.step_s == row["step_s"]
        assert (tmp_path / "out" / f"{name}.svg").read_text().startswith("<?xml")
        assert json.loads((tmp_path / "out" / f"{name}.trace.json").read_text())["traceEvents"]
        again = pipesched.Schedule.from_file(tmp_path / "out" / f"{name}.mlir")
        assert again == saved.schedule


@needs_torch
def test_slices_train_as_whole_microbatches(tmp_path: Path, marked: dict[str, str]) -> None:
    line = f"--schedules 1f1b,seq1f1b,slimpipe,zb-h1 {SMALL} {SIZES} --dtype float64 --slices 4"
    out, _ = finish(f"{line} --format json -o {tmp_path}/out", marked)
    rows = {row["schedule"]: row for row in json.loads(out)}
    for row in rows.values():
        assert row["losses"] == pytest.approx(rows["1f1b"]["losses"], rel=1e-9)
        assert 0 < row["step_s"] and 0 < row["predicted_s"]
    assert pipesched.Schedule.from_file(tmp_path / "out" / "seq1f1b.mlir").slices == 4


@needs_torch
def test_embeddings_in_shards_train_alike(tmp_path: Path, marked: dict[str, str]) -> None:
    made = pipesched.generate("zb-v", workers=2, microbatches=4, name="spread")
    made.transform("pipe-spread-vocabulary{embedding=true}").save(tmp_path / "spread.mlir")
    schedules = f"1f1b,vocab-1f1b,{tmp_path}/spread.mlir --embedding"
    line = f"--schedules {schedules} {SMALL} {SIZES} --dtype float64"
    out, _ = finish(f"{line} --format json -o {tmp_path}/out", marked)
    rows = json.loads(out)
    assert {row["schedule"] for row in rows} == {"1f1b", "vocab-1f1b", "spread"}
    for row in rows:
        assert row["losses"] == pytest.approx(rows[0]["losses"], rel=1e-9)
        assert 0 < row["step_s"] and 0 < row["predicted_s"]
        saved = pipesched.Schedule.from_file(tmp_path / "out" / f"{row['schedule']}.mlir")
        assert ("0E0 0A0" in saved.to_text()) == (row["schedule"] != "1f1b")


def with_batches(text: str) -> str:
    return text if "def batches" in text else text + BATCHES


def losses_alone(text: str) -> list[float]:
    """The losses of six steps of the model of a file, without a pipeline."""
    import torch

    source: dict[str, Any] = {}
    exec(with_batches(text), source)
    torch.manual_seed(3)
    model, loss = source.get("whole", source["model"])().double(), source["loss"]
    parameters = [*model.parameters()]
    parameters += loss.parameters() if isinstance(loss, torch.nn.Module) else []
    optimizer = torch.optim.AdamW(dict.fromkeys(parameters), lr=0.01)
    data = source["batches"](16, 3)
    losses = []
    for _ in range(6):
        x, y = (each.double() if each.is_floating_point() else each for each in next(data))
        found = loss(model(x), y)
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(found.item())
    return losses


REPEATED = """
import torch
from torch import nn

def model() -> nn.Sequential:
    layer, activation = nn.Linear(4, 4), nn.Tanh()
    return nn.Sequential(layer, activation, nn.Linear(4, 4), activation, layer, nn.Linear(4, 1))

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, output, target):
        return nn.functional.mse_loss(self.scale * output, target)

loss = Loss()
"""


ANY = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})
        self.head = nn.Linear(4, 1)
        self.layers["c"].weight = self.embed.weight

    def forward(self, x):
        kept = h = self.embed(x)
        for layer in self.layers.values():
            h = torch.tanh(layer(h)) + kept
        return self.head(h)

def model():
    return Model()

def cuts(model):
    return ["head", *(f"layers.{name}" for name in model.layers)]

loss = nn.functional.mse_loss
"""


TIED_LOSS = """
import torch
from torch import nn

FIRST = nn.Linear(4, 4)

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = FIRST.weight

    def forward(self, output, target):
        return nn.functional.mse_loss((output @ self.weight.T).sum(1, keepdim=True), target)

def model() -> nn.Sequential:
    FIRST.reset_parameters()
    return nn.Sequential(FIRST, *(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))

loss = Loss()
"""


COUNTED = """
import torch
from torch import nn

def model() -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))

loss = nn.CrossEntropyLoss()

def valid_tokens(target):
    return (target != -100).sum()

def batches(size, seed):
    chance = torch.Generator().manual_seed(seed)
    while True:
        target = torch.randint(4, (size,), generator=chance)
        target[::3] = -100
        target[: size // 4] = -100
        yield torch.randn(size, 4, generator=chance), target
"""


MODELS = {
    "a child that stands there twice, and a loss with parameters": (REPEATED, "1f1b,chimera"),
    "no nn.Sequential, with a tie, and a value that skips stages": (ANY, "zb-v,1f1b"),
    "a loss with a weight of the model, which is one in each training": (TIED_LOSS, "1f1b,zb-v"),
    "a mean over tokens": (COUNTED, "1f1b,chimera"),
}


@needs_torch
@pytest.mark.parametrize(("text", "schedules"), MODELS.values(), ids=MODELS)
def test_models_train_as_without_a_pipeline(
    text: str, schedules: str, tmp_path: Path, marked: dict[str, str]
) -> None:
    file = tmp_path / "own.py"
    file.write_text(with_batches(text))
    wanted = losses_alone(text)
    for divide in ("even", "measured") if text is ANY else ("even",):
        line = f"--schedules {schedules} {file} {SIZES} --dtype float64 --divide {divide}"
        out, _ = finish(f"{line} --seed 3 --lr 0.01 --format json", marked)
        for row in json.loads(out):
            assert row["losses"] == pytest.approx(wanted, rel=1e-9)


@needs_torch
@pytest.mark.parametrize(
    ("cuts", "said"),
    [
        ("", "returned a Model; wanted an nn.Sequential, whose children are divided among the sta"),
        ("cuts = lambda model: 'head'", "returned a str; wanted a list of names of modules"),
        ("cuts = lambda model: ['haed']", "'haed', which is no module of the model"),
    ],
)
def test_modules_that_cannot_be_cut(
    cuts: str, said: str, tmp_path: Path, marked: dict[str, str]
) -> None:
    file = tmp_path / "any.py"
    file.write_text(ANY.replace("def cuts(", "def unused(") + BATCHES + cuts)
    line = f"--schedules 1f1b {file} {SIZES} --divide even"
    assert said in finish(line, marked, status=1)[1]


@needs_torch
def test_text(tmp_path: Path, marked: dict[str, str]) -> None:
    line = f"--schedules 1f1b,gpipe {SMALL} {SIZES} --threads 1 --set one-by-one=true --divide even"
    out, err = finish(f"{line} -o {tmp_path}/out --draw {tmp_path}/page.html", marked)
    assert "compute B" in (tmp_path / "out" / "1f1b.txt").read_text()
    page = (tmp_path / "page.html").read_text()
    facts = re.findall('class="facts">(.*?)</script>', page, re.DOTALL)
    ranked = [line.split()[2] for line in out.splitlines()[2:4]]
    drawn = [name for schedule in ranked for name in (schedule, f"{schedule}, measured")]
    assert [json.loads(each)["title"] for each in facts] == drawn
    assert page.count("<li>") == out.count("\n- ") > 2 and f"wrote {tmp_path}/page.html" in err
    assert out.startswith("gpt, 2 workers on gloo, 4 microbatches of 4, float32, 6 steps\n")
    assert "the schedules have the same losses in all steps" in out
    assert err.startswith("2 workers on gloo, 1 thread each")
    assert err.index("1f1b: step 6 of 6") < err.index("gpipe: step 1 of 6")
    assert f"wrote {tmp_path}/out/gpipe.svg" in err
    assert "parts take" not in err


@needs_torch
def test_torchrun(tmp_path: Path, marked: dict[str, str]) -> None:
    line = f"--schedules 1f1b {SMALL} {SIZES} --format csv".split()
    script = ["--no-python", *COMMAND, "run", *line]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", "2", *script],
        capture_output=True,
        text=True,
        env=marked,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    header, row = done.stdout.splitlines()  # Only rank 0 answers.
    assert header.startswith("rank,predicted_rank,schedule,")
    assert row.startswith("1,1,1f1b,2,4,")


def test_torchrun_with_other_workers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "3")
    assert main(["run", "--schedules", "1f1b", *SMALL.split(), *SIZES.split()]) == 2
    wanted = "torchrun has started 3 ranks (WORLD_SIZE), and there are 2 workers"
    assert wanted in capsys.readouterr().err


@needs_torch
def test_example_loop(tmp_path: Path, marked: dict[str, str]) -> None:
    script = ROOT / "examples" / "train.py"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", "2", str(script), "1f1b", "zb-v"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=marked,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in lines if ", loss " in line]
    assert len(losses) == 4
    assert losses[0] == losses[2] > losses[1] == pytest.approx(losses[3], rel=1e-3)
    assert sum("measured" in line and "predicted" in line for line in lines) == 2
    assert (tmp_path / "zb-v.svg").read_text().startswith("<?xml")


def test_agreement() -> None:
    def outcome(name: str, *losses: float) -> Any:
        return SimpleNamespace(name=name, losses=losses)

    alike = [outcome("a", 4.0, 3.0), outcome("b", 4.0, 3.001), outcome("c", 4.0, 3.002)]
    assert trainings.Agreement.compare(alike, "float32").holds
    assert not trainings.Agreement.compare(alike, "float64").holds
    apart = trainings.Agreement.compare([outcome("a", 4.0, 3.0), outcome("b", 4.0, 3.1)], "float32")
    assert not apart.holds
    assert "different losses: step 2: a 3, b 3.1; wanted at most" in apart.text
    assert not trainings.Agreement.compare(
        [alike[0], outcome("b", 4.0, float("nan"))], "float32"
    ).holds


# Failures


@needs_torch
def test_exception_in_a_rank(tmp_path: Path, marked: dict[str, str]) -> None:
    model = toy(tmp_path, "if Late.count == 7: raise ValueError('too late')")
    begin = time.monotonic()
    out, err = finish(f"--schedules 1f1b {model} --pp 3 --microbatches 4", marked, 1)
    assert time.monotonic() - begin < SOON
    assert out == ""
    assert "error: rank 1 failed:\nTraceback" in err
    assert "toy.py" in err and "container.py" not in err
    assert "ValueError: too late\nin the pipeline: rank 1, at" in err
    assert "compute 1F2" in err.splitlines()[-1]


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--set memory-budget=1", "MemoryBudgetError: 0F1 makes this rank hold 2 activations"),
        ("--microbatch-size 1", "`batches` of"),
    ],
)
def test_errors_of_ranks(arguments: str, said: str, tmp_path: Path, marked: dict[str, str]) -> None:
    model = toy(tmp_path, "pass")
    if "size" in arguments:
        text = Path(model).read_text().replace("while True:", "for _ in range(3):")
        Path(model).write_text(text)
    line = f"--schedules 1f1b {model} --pp 2 --microbatches 4 {arguments}"
    assert said in finish(line, marked, 1)[1]


@needs_torch
@pytest.mark.parametrize("ending", ["interrupt", "kill_rank", "stop_rank", "kill_parent"])
def test_ended_from_outside(ending: str, tmp_path: Path, marked: dict[str, str]) -> None:
    model = toy(tmp_path, "pass")
    line = f"--schedules 1f1b {model} --pp 2 --microbatches 4 --steps 1000000"
    process = begin(f"{line} --set timeout=8", marked)
    ranks = {rank: pid for pid, rank in processes(marked["PIPESCHED_TEST"]).items() if rank}
    assert sorted(ranks) == ["0", "1"]
    if ending == "interrupt":
        process.send_signal(signal.SIGINT)
    elif ending == "kill_rank":
        os.kill(ranks["1"], signal.SIGKILL)
    elif ending == "stop_rank":
        os.kill(ranks["1"], signal.SIGSTOP)
    else:
        process.kill()
    out, err = process.communicate(timeout=SOON)
    assert out == ""
    if ending == "interrupt":
        assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted")
    elif ending == "kill_rank":
        assert (process.returncode, err.splitlines()[-1]) == (
            1,
            "error: rank 1 was killed by SIGKILL",
        )
    elif ending == "stop_rank":
        assert process.returncode == 1
        assert "error: rank 1 is stopped (SIGSTOP, or a debugger)\nrank 0 " in err
        assert "Traceback" not in err


@needs_torch
def test_a_lost_connection_is_told_in_words() -> None:
    """As gloo raises it if a rank has ended, or if another program connects to one of its ports."""
    from pipesched.torch.training._launch import failure_of

    place = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] "
    try:
        raise RuntimeError(f"{place}Connection reset by peer. This is typically caused by a bug")
    except RuntimeError as error:
        failure = failure_of(error, 1)
    assert failure.kind == "lost"
    assert failure.text.startswith(f"rank 1 lost its connection to another rank: {place}Connection")
    assert "another program has connected to a port" in failure.text
    assert "Traceback" not in failure.text and "typically" not in failure.text


# Arguments


def test_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from pipesched.command import main; "
    line = f"run --schedules 1f1b {SMALL} {SIZES}".split()
    command = [sys.executable, "-c", code + "sys.exit(main())", *line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1
    assert done.stderr == (
        "error: pipesched run needs PyTorch, which pipesched does not install: pip install torch\n"
    )


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("--schedules 1f1c", 1, "no schedule family '1f1c'"),
        ("--schedules missing.mlir", 1, "missing.mlir: No such file"),
        ("--schedules three.mlir", 1, "three.mlir: three has 3 workers, wanted 2"),
        ("--schedules 1f1b --vpp 2", 1, "none of 1f1b has the option --vpp"),
        ("--schedules dualpipe --pp 3", 1, "takes an even number"),
        ("--schedules 1f1b --steps 3", 2, "--steps 3 leaves none to measure"),
        ("--schedules 1f1b --set memory-budget=2XB", 2, "--set memory-budget is '2XB'"),
        ("--schedules 1f1b --backend nccl", 1, "needs a GPU for each of the 2 workers"),
        ("--schedules 1f1b --model-option layer=3", 1, "did you mean layers?"),
        ("--schedules 1f1b --model-option layers=x", 1, "option layers is 'x'; wanted int"),
        ("--schedules 1f1b --model-option layers", 2, "wanted NAME=VALUE"),
        ("--schedules 1f1b nowhere", 1, "or one that ships: gpt"),
        ("--schedules 1f1b empty", 1, "the folder empty has no model.py"),
        ("--schedules 1f1b no_loss.py", 1, "no_loss.py has no function `loss`"),
        ("--schedules 1f1b broken.py", 1, "ZeroDivisionError"),
        ("--schedules 1f1b needs.py", 1, "needs depth; give --model-option depth=..."),
    ],
)
def test_mistakes(
    arguments: str,
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "nccl" in arguments:
        import torch

        if torch.cuda.device_count() > 1:
            pytest.skip("there are GPUs")
    monkeypatch.chdir(tmp_path)
    pipesched.generate("1f1b", workers=3, microbatches=4, name="three").save("three.mlir")
    (tmp_path / "empty").mkdir()
    functions = "def model(depth): pass\n", "def loss(a, b): pass\n", "def batches(n, s): pass\n"
    (tmp_path / "no_loss.py").write_text(functions[0] + functions[2])
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "needs.py").write_text("".join(functions))
    monkeypatch.setattr(sys, "path", list(sys.path))
    own = {"nowhere", "empty", "no_loss.py", "broken.py", "needs.py"}
    model = [] if own & {*arguments.split()} else ["gpt"]
    assert main(["run", *model, *SIZES.split(), *arguments.split()]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


@needs_torch
@pytest.mark.parametrize("missing", ["pp", "microbatches"])
def test_sizes_that_are_missing(missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"pp": "2", "microbatches": "4"}
    given = [part for name, n in sizes.items() if name != missing for part in (f"--{name}", n)]
    assert main(["run", "--schedules", "1f1b", "gpt", *given]) == 2
    assert f"--{missing} is missing" in capsys.readouterr().err
