"""Deployments of a release while everything runs."""

from __future__ import annotations

import itertools
import time
from typing import Final

from fleet.testbed.testbed import TestbedError
from lab.background import Background
from lab.soak.hosted import Hosted

DEPLOYS: Final = 4
# None begins later in a run.
LATEST: Final = 0.8


class Deploys(Background):
    """Has the hosts of `hosted` switch to another release and back, again and again in a run of so
    many seconds, none of them at its end. A context manager. `done` counts switches of a
    host; `failed` has why no more were made."""

    def __init__(self, hosted: Hosted, seconds: float) -> None:
        super().__init__("deploys")
        self._hosted = hosted
        self._pause_s = seconds / (DEPLOYS + 1)
        self._latest_s = time.monotonic() + LATEST * seconds
        self.done = 0
        self.failed: list[str] = []

    def _run(self) -> None:
        hosted = self._hosted
        try:
            turns = itertools.cycle((hosted.other_release(), hosted.release))
            for release, _ in zip(turns, range(DEPLOYS), strict=False):
                if self._over.wait(self._pause_s) or time.monotonic() > self._latest_s:
                    return
                hosted.switch(release)
                self.done += 1
        except TestbedError as error:
            self.failed.append(f"a release was not deployed: {error}")
