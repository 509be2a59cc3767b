"""Other signals that end a command, taken as Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """The end of the terminal and SIGTERM raise KeyboardInterrupt in this block, once each, so that
    it ends the processes that it started. What is ignored, as by nohup, stays so. For the main
    thread."""
    before = {each: signal.getsignal(each) for each in ENDING}
    taken = [each for each in ENDING if before[each] is not signal.SIG_IGN]
    for each in taken:
        signal.signal(each, _interrupt)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, before[each])


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
