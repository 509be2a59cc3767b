"""Registry of fleets that run on this machine, for commands without an address.

A demo, or `fleet up`, writes its masters' addresses to a file and holds that file's lock, which
the kernel releases however it ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from fleet.common import locks
from fleet.inventory.folder import VARIABLE, NoFleetError, find

# What starts a fleet here; the name of its file begins with it.
Kind = Literal["demo", "up"]
# Variables with the address that a command asks.
ADDRESSES: Final = ("SANDERLING_MASTER", "SANDERLING_OPERATOR")
FILES: Final = ("demo*.json", "up*.json")


class Addresses(msgspec.Struct, frozen=True):
    """A master's sockets."""

    iad: str
    master: str
    operator: str


class Running(msgspec.Struct, frozen=True):
    """A fleet: the process that started it, its masters, of which the first is queried (none while
    it is starting), and the folder in which it was started. `directory` has its files, `runs` says
    what it was told, `trouble` why it has no live page."""

    pid: int
    masters: tuple[Addresses, ...]
    folder: str = ""
    kind: Kind = "demo"
    directory: str = ""
    runs: str = ""
    trouble: str = ""

    @property
    def called(self) -> str:
        """Name of the fleet for users."""
        return "demo" if self.kind == "demo" else "fleet of `fleet up`"

    @property
    def is_of_here(self) -> bool:
        """Whether it was started in the current folder."""
        return self.folder == _here()

    def address(self, socket: Literal["master", "operator"], iad: str | None = None) -> str | None:
        """The address of a socket of an IAD's master, by default of the one that is asked; None if
        the fleet has no such IAD."""
        for each in self.masters:
            if iad in (None, each.iad):
                return each.master if socket == "master" else each.operator
        return None


@contextmanager
def announced(
    masters: tuple[Addresses, ...],
    kind: Kind = "demo",
    directory: Path | None = None,
    runs: str = "",
    trouble: str = "",
) -> Iterator[None]:
    """Context manager: `found` returns these masters, unless the file cannot be written; without
    any, `starting` does."""
    path = _place() / f"{kind}-{os.getpid()}-{secrets.token_hex(4)}.json"
    # The file gets its final name when it is complete and locked, so that readers never see a
    # partial one.
    before = path.with_suffix(".new")
    with ExitStack() as held:
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(path.parent):
                raise PermissionError  # who owns it could put a link in a file's place
            _tidy()
            held.enter_context(locks.alone(before, BlockingIOError(), 0o600))
            for each in (before, path):
                held.callback(each.unlink, missing_ok=True)
            kept = str(directory.resolve()) if directory is not None else ""
            running = Running(os.getpid(), masters, _here(), kind, kept, runs, trouble)
            before.write_bytes(msgspec.json.encode(running))
            before.rename(path)
        yield


def found() -> list[Running]:
    """This user's running fleets, the preferred one first: that of this folder, otherwise the one
    that was started first."""
    return [fleet for fleet in _all() if fleet.masters]


def is_asked(master: str) -> bool:
    """Whether a command without an address asks this master, here."""
    if any(os.environ.get(name) for name in (VARIABLE, *ADDRESSES)):
        return False
    with suppress(NoFleetError):
        find()
        return False
    return any(fleet.masters[0].master == master for fleet in found()[:1])


def starting() -> list[Running]:
    """This user's fleets that are starting, in the same order."""
    return [fleet for fleet in _all() if not fleet.masters]


def _all() -> list[Running]:
    here = _here()
    fleets = [fleet for path in _files() if (fleet := _read(path)) is not None]
    return sorted(fleets, key=lambda fleet: fleet.folder != here)


def operator_of(master: str) -> str | None:
    """The operator address of the master here with this public address; None if there is none."""
    masters = (each for fleet in found() for each in fleet.masters)
    return next((each.operator for each in masters if each.master == master), None)


def _read(path: Path) -> Running | None:
    """The fleet that holds the lock of that file."""
    try:
        # Non-blocking, as opening a FIFO would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        number = os.open(path, flags)
    except OSError:
        return None
    with os.fdopen(number, "rb") as file:
        # Anybody can write to /tmp: only files of this user are trusted.
        if os.fstat(number).st_uid != os.getuid():
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # it is held: that fleet runs
        else:
            return None
        try:
            return msgspec.json.decode(file.read(), type=Running)
        except msgspec.DecodeError:
            return None


def _tidy() -> None:
    """Remove the files of fleets whose starter was killed."""
    for path in _files():
        if _read(path) is None:
            with suppress(OSError):  # it is another user's
                path.unlink(missing_ok=True)


def _files() -> list[Path]:
    """The files of fleets, running or not, oldest first."""
    files: list[tuple[int, Path]] = []
    if not _is_own(_place()):
        return []
    for pattern in FILES:
        for path in _place().glob(pattern):
            with suppress(OSError):
                files.append((path.lstat().st_mtime_ns, path))
    return [path for _, path in sorted(files)]


def _is_own(folder: Path) -> bool:
    """Whether only this user, and root, can put files into a folder: anybody can make one in
    /tmp."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not status.st_mode & 0o022


def _here() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # somebody removed it
        return ""


def _place() -> Path:
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sanderling"
    return Path(tempfile.gettempdir()) / f"sanderling-{os.getuid()}"
