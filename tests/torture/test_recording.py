"""The recorder on a small program whose writes are known: nothing is left out, faults hit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.torture import recording
from tests.torture.disk import Survival, replayed
from tests.torture.recording import Control, Operation, UnknownChange

WRITER = """
import os, sys
folder = sys.argv[1]
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        print(error.errno, end=" ")
fd = os.open(folder + "/a", os.O_RDWR | os.O_CREAT)
os.write(1_000_077, b"begun")
for n in range(3):
    os.write(fd, bytes([65 + n]) * 600)
    attempt(os.fdatasync, fd)
os.pwrite(fd, b"!", 5)
os.ftruncate(fd, 1500)
with open(folder + "/b", "ab") as file:
    file.write(b"1")
    file.flush()
    file.write(b"2")
os.mkdir(folder + "/sub")
os.replace(folder + "/b", folder + "/sub/c")
with open(folder + "/gone-shm", "w") as file:
    file.write("not recorded")
with open(folder + "/gone", "w") as file:
    file.write("x")
os.unlink(folder + "/gone")
os.close(fd)
"""


def run(
    program: str, recorder: str, folder: Path, *, control: str = "", boot: str = ""
) -> tuple[list[Operation], str]:
    """What the program did to the files of `folder`/disk, and what it printed."""
    disk, log = folder / "disk", folder / "log"
    disk.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program, disk],
        env=recording.environment(recorder, str(disk), str(log), control=control, boot=boot),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return list(recording.operations(log.read_bytes(), str(disk))), done.stdout


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_the_log_holds_all_that_a_program_did(recorder: str, tmp_path: Path) -> None:
    log, _ = run(WRITER, recorder, tmp_path)
    disk = replayed("ordered", log)
    survivors = disk.image(Random(1), Survival("all", 1.0, 0.0, garbage=False))
    assert survivors == files_in(tmp_path / "disk")
    assert set(survivors) == {"a", "sub/c"}
    assert disk.marks == ["begun"]
    assert [done.kind for done in log].count(recording.SYNC) == 3
    # A log that was cut anywhere is read up to there.
    raw = (tmp_path / "log").read_bytes()
    for length in Random(2).sample(range(len(raw)), 50):
        begun = list(recording.operations(raw[:length], str(tmp_path / "disk")))
        assert begun == log[: len(begun)]


def test_what_the_model_does_not_know_is_refused(recorder: str, tmp_path: Path) -> None:
    program = 'import os, sys; open(sys.argv[1] + "/a", "w"); os.truncate(sys.argv[1] + "/a", 5)'
    with pytest.raises(UnknownChange, match="truncate"):
        run(program, recorder, tmp_path)


def test_the_nth_sync_fails(recorder: str, tmp_path: Path) -> None:
    control = Control(str(tmp_path / "control"))
    control.fail(recording.NO_SYNC, after=1, count=1)
    log, printed = run(WRITER, recorder, tmp_path, control=str(tmp_path / "control"))
    assert printed == "5 "
    assert [done.error for done in log if done.kind == recording.SYNC] == [0, 5, 0]
    assert control.mend() == 1


def test_a_full_disk_takes_a_part_and_lets_files_shrink(recorder: str, tmp_path: Path) -> None:
    control = Control(str(tmp_path / "control"))
    program = """
import os, sys
fd = os.open(sys.argv[1] + "/a", os.O_RDWR)
print(os.write(fd, b"-" * 3000), os.pwrite(fd, b"+", 0))
for attempt in (lambda: os.write(fd, b"x" * 5000), lambda: os.open("%s/b", os.O_CREAT)):
    try:
        print(attempt())
    except OSError as error:
        print(error.errno)
os.ftruncate(fd, 10)
os.unlink(sys.argv[1] + "/a")
""".replace("%s", str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a").write_bytes(bytes(100))
    control.fail(recording.FULL)
    _, printed = run(program, recorder, tmp_path, control=str(tmp_path / "control"))
    assert printed.split() == ["1500", "1", "2500", "28"]


def test_clocks_and_the_boot_id(recorder: str, tmp_path: Path) -> None:
    control = Control(str(tmp_path / "control"))
    control.shift_clock(-14 * 86_400)
    control.synchronised(False)
    (tmp_path / "boot").write_text("second\n")
    program = """
import ctypes, time
print(time.time(), ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256)))
print(open("/proc/sys/kernel/random/boot_id").read().strip())
"""
    before = time.time()
    _, printed = run(
        program, recorder, tmp_path, control=str(tmp_path / "control"), boot=str(tmp_path / "boot")
    )
    told, state, boot = printed.split()
    assert before <= float(told) + 14 * 86_400 <= time.time() + 0.001
    assert (state, boot) == ("5", "second")


def test_marks_need_the_recorder() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        recording.mark("nobody listens")
    assert "LD_PRELOAD" not in os.environ
