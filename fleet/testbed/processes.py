"""Child processes that never outlive this process, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import psutil
from msgspec import Struct

from agent.runtime.sqlite import is_held

LAST_LINES: Final = 5
LAST_BYTES: Final = 4_096


class Leash:
    """A pipe whose read end is the children's standard input. Nothing is written to it: its end,
    which also comes if this process is killed, tells them to stop (`--exit-on-stdin-eof`)."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe2(os.O_CLOEXEC)

    def drop(self) -> None:
        """Close the pipe: every remaining child stops by itself."""
        for fd in (self._write_end, self.read_end):
            os.close(fd)


class Child:
    """One child process. Its output goes to `log`. It has its own process group, so that only the
    starter gets Ctrl-C, and then stops the children in order."""

    def __init__(self, name: str, command: list[str], log: Path, leash: Leash) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._log_start = output.tell()  # after what an earlier process wrote
            self._process = subprocess.Popen(
                command,
                stdin=leash.read_end,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def end(self) -> str:
        """How it ended, in one line."""
        status = self._process.poll()
        if status is None:
            return f"{self.name} is running"
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"{self.name} ended with {how}"

    def how_it_ended(self) -> str:
        """The exit status in words, then the last lines of its output."""
        return "\n".join([self.end, *(f"  {line}" for line in self.last_lines())])

    def last_lines(self) -> list[str]:
        """The last lines that it wrote."""
        with self.log.open("rb") as file:
            file.seek(max(self._log_start, file.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-LAST_LINES:]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the child has ended."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; whether it did."""
        try:
            self._process.wait(max(0.0, timeout_s))
        except subprocess.TimeoutExpired:
            return False
        return True


def stop(children: Iterable[Child], patience_s: float) -> list[str]:
    """SIGTERM to all, then SIGKILL to those that still run after `patience_s`; returns the names of
    the latter."""
    children = [child for child in children if child.running]
    for child in children:
        child.signal(signal.SIGTERM)
    give_up_s = time.monotonic() + patience_s
    stubborn = [child for child in children if not child.wait(give_up_s - time.monotonic())]
    for child in stubborn:
        child.signal(signal.SIGKILL)
    for child in stubborn:
        child.wait(patience_s)
    return [child.name for child in stubborn]


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Context manager: SIGINT and SIGTERM take effect at the end, because nothing may intervene
    between the start of a child and its registration, or while children are being stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])


class Holder(Struct, frozen=True):
    """A live process that has files open for writing; without a pid, one that cannot be seen."""

    name: str
    pid: int | None = None


def holders(folder: Path) -> list[Holder]:
    """Other processes that write files in `folder`, by pid. An agent always has one open: the lock
    of its history or state. A process whose files may not be listed, such as one in a container, is
    known by the locks that it holds."""
    root = folder.resolve()
    found = _writers(root)
    seen = {path for _, paths in found for path in paths}
    unseen = [path for path in root.rglob("*.lock") if path not in seen and is_held(path)]
    named = [holder for holder, _ in found]
    return named + [Holder(f"what holds {os.path.relpath(path)}") for path in sorted(unseen)]


def _writers(root: Path) -> list[tuple[Holder, list[Path]]]:
    """Processes whose files may be listed, by pid, with those that they write below `root`."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with suppress(psutil.Error):
            files = [Path(file.path) for file in process.open_files() if file.mode != "r"]
            if own := [path for path in files if root in path.parents]:
                found.append((Holder(_name(process), process.pid), own))
    return sorted(found, key=lambda each: each[0].pid or 0)


def _name(process: psutil.Process) -> str:
    """The program's name, also where the kernel cut it and the program is a script."""
    cut = process.name()
    return next((name for w in process.cmdline() if (name := Path(w).name).startswith(cut)), cut)


def in_words(found: list[Holder]) -> str:
    """List of the processes, and the command that ends them."""
    pids = [str(holder.pid) for holder in found if holder.pid is not None]
    named = ", ".join(
        holder.name if holder.pid is None else f"{holder.name} ({holder.pid})" for holder in found
    )
    if not pids:
        return f"{named}: `fuser` as root names the process"
    return f"{named}; `kill {' '.join(pids)}` ends {'it' if len(pids) == 1 else 'them'}"


def agent_command(name: str) -> list[str]:
    """The command of an agent, from the environment that runs this; FileNotFoundError if it is not
    installed there."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run `make` in the checkout, or install again")
    return [str(path)]
