"""Ctrl-C as a flag instead of an exception, for loops that must not lose work in progress."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(note: Callable[[], object]) -> Iterator[None]:
    """Inside, the first Ctrl-C only calls `note`; later ones do what they did before, raise
    KeyboardInterrupt.

    An exception comes between any two instructions: after a queue has handed out an item and before
    anyone has it, or between two orders that belong together. What is lost then is waited for
    forever. `note` is called there instead, in the main thread, and may take no lock: only
    what is reentrant, such as SimpleQueue.put. In other threads, and where Ctrl-C is ignored,
    nothing changes.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    usual = before
    first = True

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not first:
            usual(number, frame)
            return
        first = False
        try:
            usual(number, frame)  # it may have more to do than to raise
        except KeyboardInterrupt:
            note()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        # A generator may be closed after others have set theirs.
        if signal.getsignal(signal.SIGINT) is interrupted:
            signal.signal(signal.SIGINT, before)
