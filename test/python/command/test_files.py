"""Files appear whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipesched import Measurement, Schedule, generate, load, sweep, systems
from pipesched.command import VERBS, main
from pipesched.command.options.paths import WRITTEN
from pipesched.support.files import check_file, check_folder, write_whole
from test_option_table import parser_of

MARK = b"\xef\xbb\xbf"
"""The first bytes that Windows' programs write before UTF-8."""

SAVE = """
import sys, resource, signal
from pipesched import generate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
schedule = generate("1f1b", workers=8, microbatches=64)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
schedule.save(sys.argv[1])
"""


def test_a_full_disk_keeps_what_stands_there(tmp_path: Path) -> None:
    file = tmp_path / "kept.mlir"
    file.write_text("as it was")
    done = subprocess.run([sys.executable, "-c", SAVE, str(file)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "File too large" in done.stderr and "kept.mlir" in done.stderr
    assert file.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["kept.mlir"]


KILLED = SAVE.replace("SIG_IGN", "SIG_DFL")


def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    """The signal that ends it comes in the middle of the writing."""
    file = tmp_path / "kept.mlir"
    file.write_text("as it was")
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], capture_output=True)
    assert done.returncode == -signal.SIGXFSZ
    assert file.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["kept.mlir"]


@pytest.mark.parametrize("isNamed", [False, True])
def test_new_files_have_the_permissions_of_others(
    isNamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isNamed:  # as on a system without unnamed files
        monkeypatch.setattr("pipesched.support.files._open_unnamed", lambda folder: None)
    other, made = tmp_path / "other", tmp_path / "made"
    other.write_bytes(b"")
    write_whole(made, b"text")
    assert made.read_bytes() == b"text" and made.stat().st_mode == other.stat().st_mode
    assert made.stat().st_nlink == 1 and len(os.listdir(tmp_path)) == 2
    with pytest.raises(OSError, match="none"):
        write_whole(tmp_path / "none" / "x", b"")


MEASUREMENT = Path(__file__).parents[3] / "test/data/measurements/zb-v.json"


def test_measurements_are_files_as_others(tmp_path: Path) -> None:
    marked, file = tmp_path / "marked.json", tmp_path / "kept.json"
    marked.write_bytes(MARK + MEASUREMENT.read_bytes())
    assert Measurement.from_file(marked).to_json() == MEASUREMENT.read_text().strip()
    file.write_text("as it was")
    made = f"Measurement.from_file({str(marked)!r})"
    save = SAVE.replace('generate("1f1b", workers=8, microbatches=64)', made)
    save = save.replace("import generate", "import Measurement")
    done = subprocess.run([sys.executable, "-c", save, str(file)], capture_output=True, text=True)
    assert "File too large" in done.stderr and "kept.json" in done.stderr
    assert file.read_text() == "as it was"


def test_empty_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = str(tmp_path / "a.mlir")
    generate("1f1b", workers=2, microbatches=2).save(schedule)
    line = ["simulate", schedule, "--times", "F=1ms,B=2ms"]
    for words in (["-o", ""], ["--draw", "svg:"], ["--draw", "trace:"]):
        assert main([*line, *words]) == 2
        assert "is empty, wanted the name of a file" in capsys.readouterr().err
    assert main(["show", schedule, "--draw", "html:"]) == 2


LINES = {
    "show": ["families"],
    "simulate": ["--schedules", "1f1b", "--pp", "2", "--microbatches", "2"],
    "optimize": ["--pp", "2", "--microbatches", "2", "--times", "F=1ms,I=1ms,W=1ms"],
    "plan": ["--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "8", "--global-batch", "8"],
    "run": ["gpt", "--schedules", "1f1b"],
    "sweep": ["--schedules", "1f1b", "--pp", "2", "--microbatches", "2"],
    "check": ["kept.mlir"],
    "convert": ["kept.mlir"],
    "fit": ["kept.mlir"],
    "reproduce": ["table1"],
    "whatif": ["kept.mlir", "--offload", "half"],
}


def refuse(*_: object) -> int:
    raise AssertionError("the verb runs although its answer cannot be written")


@pytest.mark.parametrize("verb", VERBS)
def test_outputs_are_checked_first(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"pipesched.command.verbs.{verb}")
    monkeypatch.setattr(module, "run", refuse)
    monkeypatch.chdir(tmp_path)
    Path("kept.mlir").write_text("as it was")
    Path("folder").mkdir()
    flags = [("", "output")] if verb == "convert" else []
    words = parser_of(verb).format_help()
    flags += [(f"--{name}", name) for name in WRITTEN if f"--{name} " in words]
    flags += [("--draw", "html:")] if "--draw " in words else []
    assert flags
    for flag, name in flags:
        folders = [("plan", "save"), ("reproduce", "output"), ("run", "output")]
        folders += [("run", "save-parameters"), ("optimize", "cache")]
        is_folder = (verb, name) in folders
        wrong = {"none/x": "No such file or directory", "folder": "Is a directory"}
        wrong |= {"kept.mlir/x": "Not a directory"}
        if is_folder:
            wrong = {"kept.mlir": "File exists", "kept.mlir/x": "Not a directory"}
        for path, cause in wrong.items():
            given = f"{name}{path}" if name == "html:" else path
            assert main([verb, *LINES[verb], *filter(None, (flag, given))]) == 1
            said = f"error: {flag or '--output'} {path}: {cause}\n"
            assert capsys.readouterr().err == said
    assert sorted(os.listdir()) == ["folder", "kept.mlir"]
    assert Path("kept.mlir").read_text() == "as it was"


def test_checked_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check writes nothing, and says that writing would."""
    for is_named in (False, True):
        if is_named:  # as on a system without unnamed files
            monkeypatch.setattr("pipesched.support.files._open_unnamed", lambda folder: None)
        check_file(str(tmp_path / "new"))
        check_folder(str(tmp_path / "a" / "b"))
        assert os.listdir(tmp_path) == []
    for device in ("/dev/stdout", "/dev/null"):
        check_file(device)
    link = tmp_path / "link"
    link.symlink_to("none/new")
    for path in (link, tmp_path, Path("/dev/fd/999")):
        with pytest.raises(OSError) as checked:
            check_file(str(path))
        with pytest.raises(OSError) as written:
            write_whole(path, b"")
        assert str(checked.value) == str(written.value)


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder of a user who may not write everywhere, as whom the test runs."""
    nobody = 65534
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if os.geteuid() != 0:
            yield folder
            folder.chmod(0o700)
            return
        os.chown(folder, nobody, nobody)
        os.setresuid(nobody, nobody, 0)
        try:
            yield folder
        finally:
            os.setresuid(0, 0, 0)


def test_checked_permissions(own_folder: Path) -> None:
    (own_folder / "file").write_text("")
    (own_folder / "file").chmod(0o400)
    own_folder.chmod(0o500)
    for path in ("file", "new"):
        with pytest.raises(PermissionError, match=path):
            check_file(str(own_folder / path))
    with pytest.raises(PermissionError, match="new"):
        check_folder(str(own_folder / "new"))


RUN = "import sys; from pipesched.command import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("words", [["show", "families"], ["--version"], ["--help"]])
@pytest.mark.parametrize("output", ["/dev/full", "closed pipe"])
def test_output_that_cannot_be_written(words: list[str], output: str) -> None:
    out = os.open(output, os.O_WRONLY) if output == "/dev/full" else closed_pipe()
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True)
    os.close(out)
    assert done.returncode == 1
    said = "" if output == "closed pipe" else "No space left on device"
    assert said in done.stderr and "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def test_no_standard_output(tmp_path: Path) -> None:
    """If the caller has closed it, an answer cannot be given, and files can."""
    shell = ["bash", "-c", 'exec "$@" >&-', "-", sys.executable, "-c", RUN]
    done = subprocess.run([*shell, "show", "families"], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: standard output: Bad file descriptor\n")
    file = tmp_path / "families.txt"
    subprocess.run([*shell, "show", "families", "-o", str(file)], check=True)
    assert "1f1b" in file.read_text()


def test_no_standard_error(tmp_path: Path) -> None:
    """Its output must not go into a file."""
    shell = ["bash", "-c", 'exec "$@" 2>&-', "-", sys.executable, "-c", RUN]
    file = tmp_path / "schedule.mlir"
    words = ["convert", "1f1b", "--pp", "2", "--microbatches", "2", "-o", str(file)]
    assert subprocess.run([*shell, *words]).returncode == 0
    assert file.read_text().startswith("module {")
    wrong = subprocess.run([*shell, "show", "--nothing"], stdout=subprocess.PIPE, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    unread = subprocess.run([*shell, "show", str(tmp_path / "none.mlir")], stdout=subprocess.PIPE)
    assert (unread.returncode, unread.stdout) == (1, b"")


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "real.mlir", tmp_path / "link.mlir"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to("real.mlir")
    generate("1f1b", workers=2, microbatches=2).save(link)
    assert link.is_symlink() and "pipe.schedule" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to("later")
    write_whole(nowhere, b"text")
    assert nowhere.is_symlink() and (tmp_path / "later").read_bytes() == b"text"


def test_special_files_are_written_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    write_whole(fifo, b"to a pipe")
    reader.join(timeout=60)
    assert read == [b"to a pipe"] and stat.S_ISFIFO(fifo.stat().st_mode)
    write_whole("/dev/stderr", b"to an inherited descriptor")
    assert capfd.readouterr().err == "to an inherited descriptor"


def test_an_inherited_descriptor_is_not_truncated(tmp_path: Path) -> None:
    both = tmp_path / "both.txt"
    imports = "import sys; from pipesched.support.files import write_whole"
    line = f"{imports}; write_whole('/dev/stdout', b'2')"
    with both.open("wb") as out:
        out.write(b"1")
        out.flush()
        subprocess.run([sys.executable, "-c", line], stdout=out, check=True)
    assert both.read_bytes() == b"12"


def test_errors_name_the_path(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "x.mlir"):
        with pytest.raises(OSError, match=str(wrong)):
            write_whole(wrong, b"")


WAIT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
print("started", flush=True)
from pipesched import Costs
try:
    Costs(model=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_wait_for_a_writer_can_be_interrupted(tmp_path: Path) -> None:
    fifo = tmp_path / "model.json"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", WAIT, str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for _ in range(30):  # the first signals may come before the wait
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
                break
            process.send_signal(signal.SIGINT)
        if process.poll() is None:
            process.kill()
        assert process.stdout.read() == "interrupted\n"


def test_byte_order_marks(tmp_path: Path) -> None:
    schedule = generate("1f1b", workers=2, microbatches=2)
    for suffix in (".csv", ".mlir"):
        file = tmp_path / f"marked{suffix}"
        schedule.save(file)
        file.write_bytes(MARK + file.read_bytes())
        assert [len(load(file)), Schedule.from_file(file).workers] == [1, 2]
    system = tmp_path / "system.json"
    fields = {**systems()["toy"], "name": "marked", "aliases": []}
    system.write_bytes(MARK + json.dumps(fields).encode())
    assert main(["show", "--system", str(system), "-o", str(tmp_path / "shown")]) == 0
    times = tmp_path / "times.json"
    times.write_bytes(MARK + b'{"F": "1ms", "B": "2ms"}')
    grid = {"family": "1f1b", "workers": 2, "microbatches": 2, "times": str(times)}
    assert sweep(grid)["makespan_ps"].tolist() == [9_000_000_000]
