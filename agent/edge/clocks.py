"""The node's clocks, as the kernel gives them."""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import time
from typing import Final

from agent.edge import kernel_clock

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Clocks:
    """The clocks of this machine; a test gives others."""

    def monotonic(self) -> float:
        """Seconds since some moment of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 UTC, as far as this node knows."""
        return time.time()

    def synchronised(self) -> bool:
        """Whether the wall clock is set from the network, as far as the kernel knows."""
        return kernel_clock.synchronised()


def boot_id() -> str:
    """The kernel's name for this boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
