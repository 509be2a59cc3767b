"""Rotations of keys while everything runs, as `fleet keys rotate` makes them on hosts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final

from fleet.testbed.testbed import Testbed
from lab.background import Background
from lab.chaos.fault_plan import Fault
from lab.soak.hosted import Hosted

# Old and new keys are valid together for so long, before and after they are used: as by default for
# hosts, in a run of five minutes or more. Processes look at their files once a second, but on a
# busy machine a loop stood still for five seconds.
MAX_OVERLAP_S: Final = 30.0
OVERLAP: Final = 0.1  # of a run, at most
# After hosts have learned a key by a deployment.
MIN_OVERLAP_S: Final = 3.0


class Rotations(Background):
    """Rotates keys of `bed` in a run of so many seconds, where something is restarted every
    `every_s`: first of all masters and nodes, then again and again of all nodes. A context manager.
    `done` counts keys; `failed` has why no more were rotated. Hosts learn keys by deployments.

    A master that rotated its key keeps a listening socket more (docs/understand/trust.md), so that
    it does so in the warm-up.
    """

    def __init__(self, bed: Testbed, hosted: Hosted | None, seconds: float, every_s: float) -> None:
        super().__init__("rotations")
        self._hosted = hosted
        assert bed.keyring is not None
        self._keyring = bed.keyring
        self._every_s = every_s
        self._overlap_s = min(MAX_OVERLAP_S, OVERLAP * seconds)
        self.done = 0
        self.failed: list[str] = []
        self._masters_have_rotated = threading.Event()

    def wait(self, fault: Fault) -> None:
        """No master is restarted before masters have rotated their keys: those that try to reach it
        try their old keys, too, and are refused when these are forgotten."""
        if not {*self._keyring.masters}.isdisjoint(fault.targets):
            self._masters_have_rotated.wait()

    def _run(self) -> None:
        masters, nodes = self._keyring.masters, self._keyring.nodes
        try:
            # As long before a restart as after it.
            pause_s = self._every_s / 2.0
            names = masters + nodes
            while not self._over.wait(pause_s):
                if not self._rotate(names, self._hosted if names != nodes else None):
                    return
                self.done += len(names)
                names, pause_s = nodes, self._every_s - 2.0 * self._overlap_s % self._every_s
        except Exception as error:  # noqa: BLE001  # told with what was broken
            self.failed.append(f"keys were not rotated: {type(error).__name__}: {error}")
        finally:
            self._masters_have_rotated.set()

    def _rotate(self, names: Sequence[str], hosted: Hosted | None) -> bool:
        """Whether it came to its end."""
        with hosted.turn if hosted else nullcontext():
            for _ in self._keyring.rotation(names):
                begun_s = time.monotonic()
                if hosted:
                    hosted.push_keys()
                # One that is over leaves both keys valid.
                if self._over.wait(
                    max(MIN_OVERLAP_S, begun_s + self._overlap_s - time.monotonic())
                ):
                    return False
            self._masters_have_rotated.set()
            if hosted:
                hosted.push_keys()
        return True
