"""The demo that runs on this machine, for commands that are given no address.

It leaves its masters' addresses in a file, and holds the lock of that file, which the system
releases however the demo ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from fleet import locks

NAME: Final = "demo.json"


class Addresses(msgspec.Struct, frozen=True):
    """A master's sockets."""

    iad: str
    master: str
    operator: str


class Running(msgspec.Struct, frozen=True):
    """A demo: its process, and its masters; the first one is asked."""

    pid: int
    masters: tuple[Addresses, ...]

    def address(self, socket: Literal["master", "operator"]) -> str:
        """The address of a socket of the master that is asked."""
        first = self.masters[0]
        return first.master if socket == "master" else first.operator


@contextmanager
def announced(masters: tuple[Addresses, ...]) -> Iterator[None]:
    """Inside, `found` knows of these masters. One demo at a time is announced, and none where the
    file cannot be written."""
    path = _file()
    with ExitStack() as held:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(locks.alone(path, BlockingIOError(), 0o600))
            path.write_bytes(msgspec.json.encode(Running(os.getpid(), masters)))
        yield


def found() -> Running | None:
    """The demo of this user that runs now."""
    try:
        number = os.open(_file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(number, "rb") as file:
        # Anybody can write to /tmp: only a file of this user is believed.
        if os.fstat(number).st_uid != os.getuid():
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # it is held by a demo
        else:
            return None
        try:
            running = msgspec.json.decode(file.read(), type=Running)
        except msgspec.DecodeError:
            return None  # it is being written
    return running if running.masters else None


def operator_of(master: str) -> str | None:
    """The operator address of the demo's master that has this public one; None if it has none."""
    running = found()
    if running is None:
        return None
    return next((each.operator for each in running.masters if each.master == master), None)


def _file() -> Path:
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sanderling" / NAME
    return Path(tempfile.gettempdir()) / f"sanderling-{os.getuid()}" / NAME
