"""Base of what an experiment does beside its run, in a thread of its own."""

from __future__ import annotations

import threading
from typing import Self


class Background:
    """Runs while its context is open. `_run` of a subclass looks at `_over`, or waits for it, and
    returns soon after it is set."""

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError
