"""The demo that runs on this machine, for commands that are told no address.

It leaves its masters' addresses in a file, and holds the lock of that file: whoever ends, however,
holds none.
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
    """Inside, `found` knows of these masters; of one demo at a time, and where no file can be
    written of none."""
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
        # Nobody else's word is taken: /tmp is everybody's.
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
    """The operator's address of a master of the demo, by that for queries; None of another one."""
    running = found()
    if running is None:
        return None
    return next((each.operator for each in running.masters if each.master == master), None)


def _file() -> Path:
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sanderling" / NAME
    return Path(tempfile.gettempdir()) / f"sanderling-{os.getuid()}" / NAME
