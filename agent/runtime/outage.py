"""An outage that is reported once when it begins, and once when it ends."""

from __future__ import annotations

from collections.abc import Callable


class Outage:
    """Of a disk that refuses changes, for example: each of them fails, one line says so."""

    def __init__(self, report: Callable[[str], object], over: str = "") -> None:
        """`over` is the line for its end."""
        self._report = report
        self._over = over
        self.lasts = False

    def fail(self, line: str) -> None:
        """Something failed; `line` is reported if it is the first in a row."""
        if not self.lasts:
            self._report(line)
        self.lasts = True

    def succeed(self) -> None:
        """Something did not fail."""
        if self.lasts and self._over:
            self._report(self._over)
        self.lasts = False
