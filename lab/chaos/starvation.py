"""Processes that wait for a processor of a busy machine, second by second, as the kernel counts it.

One that waits for seconds does what a frozen one does: others take it for lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from lab.background import Background
from lab.chaos.history import CLIENTS, Starved

LOOK_S: Final = 1.0
# Of the time between two looks.
SHARE: Final = 0.5


class Starvation(Background):
    """Looks at the processes with these names, whose ids `pid` knows; a context manager. `found`
    has, by the clock `now_s`, when each of them waited for more than half of the time, and when
    the clients' own process did."""

    def __init__(
        self, names: Sequence[str], pid: Callable[[str], int], now_s: Callable[[], float]
    ) -> None:
        super().__init__("starvation")
        self._names = names
        self._pid = pid
        self._now_s = now_s
        self._seen: dict[str, tuple[int, float, float]] = {}
        self.found: list[Starved] = []

    def _run(self) -> None:
        at_s = self._now_s()
        while True:
            for name in self._names:
                self.look(name)
            if self._over.wait(LOOK_S):
                return
            before_s, at_s = at_s, self._now_s()
            if at_s - before_s > LOOK_S / SHARE:
                self.found.append(Starved(CLIENTS, before_s, at_s))

    def look(self, name: str) -> None:
        """Look at one of them."""
        before = self._seen.pop(name, None)
        # It may be away just now.
        with suppress(OSError, KeyError, RuntimeError, psutil.Error):
            pid = before[0] if before else self._pid(name)
            at_s, in_all_s = self._now_s(), waited_s(pid)
            self._seen[name] = pid, at_s, in_all_s
            if before and in_all_s - before[2] > SHARE * (at_s - before[1]):
                self.found.append(Starved(name, before[1], at_s))


def waited_s(pid: int) -> float:
    """For how long the main thread of a process has waited for a processor, in all. OSError."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
