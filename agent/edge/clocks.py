"""System clocks: monotonic and wall time, the synchronisation flag, the boot id."""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import time
from typing import Final

from agent.edge import kernel_clock

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Clocks:
    """The clocks of this machine; tests substitute their own."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 UTC, as far as this node knows."""
        return time.time()

    def synchronised(self) -> bool:
        """Whether the kernel reports the wall clock as synchronised from the network."""
        return kernel_clock.synchronised()


def boot_id() -> str:
    """The kernel's id of this boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
