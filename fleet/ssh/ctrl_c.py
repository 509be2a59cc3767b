"""Ctrl-C as a flag instead of an exception, for loops that must not lose work in progress."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(note: Callable[[], object]) -> Iterator[None]:
    """Context manager: the first Ctrl-C only calls `note`; later ones do what they did before, that
    is raise KeyboardInterrupt.

    An exception may come between any two instructions: after a queue has handed out an item and
    before it is stored, or between two instructions that belong together. A lost item would be
    waited for forever. `note` runs in the main thread and must not take a lock; only reentrant
    calls such as SimpleQueue.put are allowed. In other threads, and if Ctrl-C is ignored, nothing
    changes.
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
            usual(number, frame)  # the former handler may do more than raise
        except KeyboardInterrupt:
            note()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        # A generator may be closed after other code has set its own handler.
        if signal.getsignal(signal.SIGINT) is interrupted:
            signal.signal(signal.SIGINT, before)
