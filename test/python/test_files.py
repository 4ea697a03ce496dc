"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipesched import generate
from pipesched._files import write_whole

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
    line = "import sys; from pipesched._files import write_whole; write_whole('/dev/stdout', b'2')"
    with both.open("wb") as out:
        out.write(b"1")
        out.flush()
        subprocess.run([sys.executable, "-c", line], stdout=out, check=True)
    assert both.read_bytes() == b"12"


def test_errors_name_the_path(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "none" / "x.mlir"):
        with pytest.raises(OSError, match=str(wrong)):
            write_whole(wrong, b"")
