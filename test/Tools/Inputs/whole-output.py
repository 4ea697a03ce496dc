"""Checks that a tool's output replaces a file in one step, or not at all.

Usage: whole-output.py CASE TOOL FOLDER
"""

import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time

PROBLEM = "pipe.schedule @s workers 2 microbatches 2 { path on [0, 1] }\n"


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(a) for a in arguments], capture_output=True, timeout=300, **options)


def large(tool: str, folder: pathlib.Path) -> pathlib.Path:
    """A file that MLIR maps into memory, as it does with more than a few pages."""
    file = folder / "large.mlir"
    sizes = "workers=64 microbatches=2048"
    pipeline = f"--pass-pipeline=builtin.module(pipe-create{{{sizes}}}, pipe-schedule-1f1b)"
    made = run(tool, pipeline, "-o", file, input=b"")
    assert made.returncode == 0, made.stderr
    return file


def onto_itself(tool: str, folder: pathlib.Path) -> None:
    file = large(tool, folder)
    before = file.read_bytes()
    done = run(tool, file, "-o", file)
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert file.read_bytes() == before


def failing(tool: str, folder: pathlib.Path) -> None:
    broken, kept = folder / "broken.mlir", folder / "kept.mlir"
    broken.write_text("pipe.schedule @s workers")
    kept.write_text("as it was")
    assert run(tool, broken, "-o", kept).returncode != 0
    assert run(tool, "--no-such-option", f"-o={kept}").returncode != 0
    assert run(tool, "--help", "-o", kept).returncode == 0
    assert run(tool, "--show-dialects", "-o", kept).returncode == 0
    assert kept.read_text() == "as it was"


def take_signals() -> None:
    """Shells start background processes, and these their children, with Ctrl-C ignored."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def killed(tool: str, folder: pathlib.Path) -> None:
    kept = folder / "kept.mlir"
    kept.write_text("as it was")
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            [tool, "-", "-o", str(kept)], stdin=subprocess.PIPE, preexec_fn=take_signals
        )
        while not list(folder.glob(".pipesched-*")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=60) != 0
        assert kept.read_text() == "as it was"


def links_and_permissions(tool: str, folder: pathlib.Path) -> None:
    problem, file, link = folder / "in.mlir", folder / "real.mlir", folder / "link.mlir"
    problem.write_text(PROBLEM)
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to("real.mlir")
    assert run(tool, problem, "-o", link).returncode == 0
    assert link.is_symlink() and "@s" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    nowhere = folder / "nowhere.mlir"
    nowhere.symlink_to("later.mlir")
    assert run(tool, problem, "-o", nowhere).returncode == 0
    assert nowhere.is_symlink() and "@s" in (folder / "later.mlir").read_text()
    made = folder / "made.mlir"
    assert run(tool, problem, "-o", made, umask=0o027).returncode == 0
    assert stat.S_IMODE(made.stat().st_mode) == 0o640


def special(tool: str, folder: pathlib.Path) -> None:
    problem, fifo = folder / "in.mlir", folder / "fifo"
    problem.write_text(PROBLEM)
    for name, stream in (("/dev/stdout", "stdout"), ("/dev/stderr", "stderr")):
        found = run(tool, problem, "-o", name)
        assert found.returncode == 0 and b"@s" in getattr(found, stream), found
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    assert run(tool, problem, "-o", fifo).returncode == 0
    reader.join(timeout=60)
    assert "@s" in read[0] and stat.S_ISFIFO(fifo.stat().st_mode)
    both = folder / "both.txt"
    with both.open("wb") as out:
        out.write(b"first\n")
        out.flush()
        subprocess.run([tool, str(problem), "-o", "/dev/stdout"], stdout=out, check=True)
    assert both.read_text().startswith("first\n") and "@s" in both.read_text()


def refused(tool: str, folder: pathlib.Path) -> None:
    problem = folder / "in.mlir"
    problem.write_text(PROBLEM)
    found = run(tool, problem, "-o", folder)
    assert found.returncode == 1 and b"directory" in found.stderr, found
    locked = folder / "locked"
    locked.mkdir()
    (locked / "old.mlir").write_text("old")
    locked.chmod(0o555)
    if os.access(locked, os.W_OK):  # the superuser may write everywhere
        return
    for name, text in (("new.mlir", b"ermission denied"), ("old.mlir", b"its folder")):
        found = run(tool, problem, "-o", locked / name)
        assert found.returncode == 1 and text in found.stderr, found
    assert (locked / "old.mlir").read_text() == "old"


def full(tool: str, folder: pathlib.Path) -> None:
    """A disk that gets full while the tool writes, where this system lets us mount one."""
    file, disk = large(tool, folder), folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {disk}"
    if run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount).returncode != 0:
        return
    translate = tool.replace("pipesched-opt", "pipesched-translate")
    for command in ((tool, file), (translate, "--export-svg", file)):
        written = f'{mount} && exec "$@" -o {disk}/out'
        shell = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", written, "-")
        found = run(*shell, *command)
        said = f"error: cannot write '{disk}/out': No space left on device\n"
        assert (found.returncode, found.stderr.decode()) == (1, said), found


CASES = {
    "onto-itself": onto_itself,
    "failing": failing,
    "killed": killed,
    "links-and-permissions": links_and_permissions,
    "special": special,
    "refused": refused,
    "full": full,
}

folder = pathlib.Path(sys.argv[3])
CASES[sys.argv[1]](sys.argv[2], folder)
left = [path.name for path in folder.rglob("*pipesched-*")]
assert not left, left
