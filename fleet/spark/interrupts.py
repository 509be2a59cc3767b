"""Ctrl-C while Spark works: the process ends within two seconds, whatever it waits for.

Python handles a signal between two instructions of its main thread, which may be far away: a wait
for Java continues, a lock is held by a waiting thread, and threads are joined at exit. So a
separate thread is woken by the descriptor that the C handler writes to. It ends Java, which breaks
every wait for it; whatever still runs after that is killed. The lake loses nothing by this: a
change of its tables is in the journal or it is not.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, TextIO

from fleet.common import exits

# Time that Java has to delete its temporary files before it is killed.
GRACE_S: Final = 0.4
# Time after Ctrl-C within which this process may unwind before it is killed.
LIMIT_S: Final = 1.1
LOOK_S: Final = 0.05
# Time after that for a line on stderr, then for deleting temporary files.
DELETE_S: Final = 0.3

_scratch: list[str] = []


def scratch(prefix: str) -> str:
    """A folder for the temporary files of Java, which deletes nothing if it is killed. This process
    deletes it, however Ctrl-C ends it."""
    folder = tempfile.mkdtemp(prefix=prefix)
    _scratch.append(folder)
    atexit.register(_delete_scratch)
    return folder


def _delete_scratch() -> None:
    for folder in _scratch:
        shutil.rmtree(folder, ignore_errors=True)


class Interrupts:
    """State of Ctrl-C: pressed, raised in the main thread, reported on stderr."""

    def __init__(self) -> None:
        self.pressed = False
        self.raised = False
        self._told = threading.Lock()

    def tells(self) -> bool:
        """Whether the caller is the one that reports Ctrl-C: true once, for one thread."""
        return self._told.acquire(blocking=False)

    def await_telling(self) -> None:
        """Return if the caller is to report Ctrl-C; if `cut_off` has done so, wait for its end."""
        if not self.tells():
            threading.Event().wait()

    def end(
        self,
        others: Callable[[], list[int]],
        cut_off: Callable[[], object],
        *,
        kill: Callable[[int, int], object] = os.killpg,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """End the process groups that `others` finds, with SIGTERM until GRACE_S; `cut_off` at
        LIMIT_S, whatever fails before. Groups that appear later are ended, too: Java may be about
        to start."""
        began_s = clock()
        asked: set[int] = set()
        try:
            while (passed_s := clock() - began_s) < LIMIT_S:
                for group in others():
                    if passed_s < GRACE_S and group in asked:
                        continue
                    asked.add(group)
                    with suppress(ProcessLookupError, PermissionError):
                        kill(group, signal.SIGTERM if passed_s < GRACE_S else signal.SIGKILL)
                pause(LOOK_S)
        finally:
            cut_off()

    def at_exit(self) -> None:
        """Exit here: unloading libraries would take a second on a busy machine, for nothing."""
        if self._told.locked():
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(exits.INTERRUPTED)

    def cut_off(self) -> NoReturn:
        """End this process regardless of its threads."""
        if self.tells():
            os.write(2, b"fleet: interrupted\n")
        else:
            time.sleep(DELETE_S)  # the main thread may be about to write it
        # Java is gone; a disk that stands still must not keep the process.
        cleaner = threading.Thread(target=_delete_scratch, daemon=True)
        cleaner.start()
        cleaner.join(DELETE_S)
        os._exit(exits.INTERRUPTED)


@contextmanager
def heard() -> Iterator[Interrupts]:
    """Context manager: Ctrl-C ends the processes that this one has started in sessions of their
    own, then this one. It leaves as KeyboardInterrupt, whatever the broken waits raise.

    No effect outside the main thread, or if Ctrl-C is ignored (a background job).
    """
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or before is signal.SIG_IGN:
        yield interrupts
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def listen() -> None:
        # Other signals write their number, too; an empty read is the end of the context.
        while read := ours.recv(64):
            if signal.SIGINT in read:
                interrupts.pressed = True
                interrupts.end(_children_in_sessions, interrupts.cut_off)

    def raised(_number: int, _frame: FrameType | None) -> None:
        # A second Ctrl-C would only disturb what the first has started.
        if not interrupts.raised:
            interrupts.pressed = interrupts.raised = True
            # Errors in other threads and finalizers are expected now. The hooks are not restored:
            # the process is about to end, and threads may outlive this block.
            sys.stderr = _MainThreadOnly(sys.stderr)
            sys.unraisablehook = lambda _: None
            raise KeyboardInterrupt

    thread = threading.Thread(target=listen, name="ctrl-c", daemon=True)
    thread.start()
    # Exit handlers run in reverse order of registration: later ones run before this one.
    atexit.register(interrupts.at_exit)
    wakeup_before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, raised)
    try:
        yield interrupts
        if interrupts.pressed:
            raise KeyboardInterrupt
    except BaseException:
        if interrupts.pressed:
            # The next run must not overlap with a Java that still writes.
            while _children_in_sessions() or _is_starting_one():
                time.sleep(LOOK_S)
            interrupts.await_telling()
            raise KeyboardInterrupt from None
        raise
    finally:
        if not interrupts.pressed:
            signal.signal(signal.SIGINT, before)
            signal.set_wakeup_fd(wakeup_before)
            atexit.unregister(interrupts.at_exit)
            theirs.close()
            thread.join()
            ours.close()


class _MainThreadOnly(io.TextIOBase):
    """Standard error without what other threads write about their broken waits."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if threading.current_thread() is threading.main_thread():
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


def _children_in_sessions() -> list[int]:
    """Process groups of processes that this one has started in sessions of their own."""
    import psutil

    own = os.getsid(0)
    found = []
    for pid in _children():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(pid) != own and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(os.getpgid(pid))
    return found


def _is_starting_one() -> bool:
    """Whether a child is still a copy of this process: one that is about to begin a session of its
    own and to run Java there. If this process ended first, nobody would end that Java."""
    own = Path("/proc/self/cmdline").read_bytes()
    for pid in _children():
        with suppress(OSError):  # a child that ends; a zombie's command line is empty
            if Path(f"/proc/{pid}/cmdline").read_bytes() == own:
                return True
    return False


def _children() -> list[int]:
    """The children, from the kernel's list if it has one: scanning all processes takes long."""
    import psutil

    found = []
    try:
        for task in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # a thread that ends
                found += [int(pid) for pid in (task / "children").read_text().split()]
    except OSError:
        return [child.pid for child in psutil.Process().children()]
    return found
