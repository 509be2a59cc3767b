"""Ctrl-C at any instruction of a piece of code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Final

# Only a test that fails waits so long.
PATIENCE_S: Final = 60


class HangsError(BaseException):
    """What should have ended goes on; no handler of exceptions is to keep it."""


class Presser:
    """Counts the instructions of the main thread in some modules, and presses Ctrl-C before those
    with the numbers in `at`."""

    def __init__(self, modules: tuple[ModuleType, ...], at: tuple[int, ...] = ()) -> None:
        self.count = 0
        self._files = {module.__file__ for module in modules}
        self._at = at

    def trace(self, frame: FrameType, what: str, _: Any) -> Callable[..., Any] | None:
        """What sys.settrace takes."""
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode":
            self.count += 1
            if self.count in self._at:
                signal.raise_signal(signal.SIGINT)
        return self.trace


@contextmanager
def pressed(*modules: ModuleType, at: tuple[int, ...] = ()) -> Iterator[Presser]:
    """Inside, Ctrl-C is pressed; HangsError rather than waiting forever."""

    def hangs(*_: object) -> None:
        raise HangsError(f"Ctrl-C before instructions {at}")

    presser = Presser(modules, at)
    before, tracing = signal.signal(signal.SIGALRM, hangs), sys.gettrace()
    signal.alarm(PATIENCE_S)
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks when tracing begins
    sys.settrace(presser.trace)
    try:
        yield presser
    finally:
        sys.settrace(tracing)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
