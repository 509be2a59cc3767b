"""The recorder (`recorder.c`) from this side: built, given to a process, its log read, its control
page written."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("recorder.c")
# The values of the C file's `enum kind`.
OPEN, CLOSE, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, MARK, UNKNOWN, READ = range(12)
MARK_FD: Final = 1_000_077
HEAD: Final = struct.Struct("<BBHIiiq")
MADE, EMPTIED = 1, 2

# What fails on a full disk, on one remounted read-only, on one whose device is gone.
FULL: Final = (errno.ENOSPC, (OPEN, WRITE, TRUNCATE, MKDIR))
READ_ONLY: Final = (errno.EROFS, (OPEN, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR))
BROKEN: Final = (errno.EIO, (OPEN, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR))
NO_SYNC: Final = (errno.EIO, (SYNC,))


class Operation(NamedTuple):
    """One change; paths are relative to the folder, "" is the folder itself."""

    kind: int
    made: int
    fd: int
    error: int
    offset: int
    path: str
    data: bytes


class UnknownChange(Exception):
    """A change of the files that the model of the disk does not know."""


def unavailable() -> str:
    """Why nothing can be recorded here, or ""."""
    if os.uname().sysname != "Linux":
        return "the recorder needs Linux"
    return "" if shutil.which("gcc") else "the recorder needs gcc"


@cache
def built(folder: str) -> str:
    """The recorder as a shared object in `folder`."""
    made = f"{folder}/recorder.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, "-o", made, SOURCE, "-ldl"], check=True)
    return made


def mark(text: str) -> None:
    """Put a mark into the log of this process; OSError where no recorder is loaded."""
    os.write(MARK_FD, text.encode())


class _Page(ctypes.Structure):
    """The C file's `struct control`."""

    _fields_ = (
        ("clock_ns", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("kinds", ctypes.c_uint32),
        ("after", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("failed", ctypes.c_int64),
        ("clock_state", ctypes.c_int64),
    )


class Control:
    """The control page; every process that maps the file steers the recorded one."""

    def __init__(self, path: str) -> None:
        with Path(path).open("a+b") as file:
            file.truncate(ctypes.sizeof(_Page))
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_Page))
        self._page = _Page.from_buffer(self._map)

    def fail(self, what: tuple[int, tuple[int, ...]], *, after: int = 0, count: int = 1 << 60):
        """Let the operations of `what` (error, kinds) fail: `after` pass, then `count` fail."""
        error, kinds = what
        self._page.error = 0  # nothing fails while the rest is set
        self._page.kinds = sum(1 << kind for kind in kinds)
        self._page.after = after
        self._page.count = count
        self._page.error = error

    def mend(self) -> int:
        """Nothing fails any more; returns how many operations have failed since the beginning."""
        self._page.error = 0
        return self._page.failed

    def shift_clock(self, seconds: float) -> None:
        """Set the wall clock `seconds` off the truth."""
        self._page.clock_ns = round(seconds * 1e9)

    def synchronised(self, state: bool) -> None:
        """What the kernel says of the wall clock."""
        self._page.clock_state = 1 if state else 2


def environment(
    recorder: str, folder: str, log: str, *, control: str = "", boot: str = "", random: str = ""
) -> dict[str, str]:
    """The environment of a process whose changes in `folder` are to be recorded in `log`."""
    given = dict(os.environ)
    given |= {"LD_PRELOAD": recorder, "TORTURE_FOLDER": os.path.realpath(folder)}
    given |= {"TORTURE_LOG": log}
    given |= {"TORTURE_CONTROL": control} if control else {}
    given |= {"TORTURE_BOOT": boot} if boot else {}
    given |= {"TORTURE_RANDOM": random} if random else {}
    return given


def operations(log: bytes, folder: str) -> Iterator[Operation]:
    """The log, in order; a torn record at its end is left out. UnknownChange."""
    root = os.path.realpath(folder)
    at = 0
    while at + HEAD.size <= len(log):
        kind, made, path_length, data_length, fd, error, offset = HEAD.unpack_from(log, at)
        at += HEAD.size
        if at + path_length + data_length > len(log):
            return
        path = log[at : at + path_length].decode()
        at += path_length
        data = log[at : at + data_length]
        at += data_length
        if kind == UNKNOWN:
            raise UnknownChange(path)
        if kind == RENAME:
            data = os.path.relpath(data.decode(), root).encode()
        if path:
            path = os.path.relpath(path, root)
        yield Operation(kind, made, fd, error, offset, "" if path == "." else path, data)
