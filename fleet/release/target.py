"""Build targets, and a one-line error for a target that cannot be built."""

from __future__ import annotations

import platform
import sys
from typing import Final, NamedTuple

from fleet.common.exits import FAILED, CommandError

PYTHON_OF: Final = {"bookworm": "3.11", "trixie": "3.13"}  # Debian's suites
MACHINES: Final = ("aarch64", "x86_64")  # as uname -m
# Built against the older suite's C library; the later one's is compatible.
GLIBC_MINOR: Final = 36
# Where releases are on a host.
RELEASES: Final = "/opt/sanderling/releases"
# Timestamp of every file in a release (1980-01-01, the earliest that a wheel can hold).
EPOCH_S: Final = 315_532_800


class ReleaseError(CommandError):
    """A release that does not exist or cannot be built, in one line for people."""

    status = FAILED


class Target(NamedTuple):
    """The machine and Python of hosts."""

    machine: str  # as uname -m: aarch64, x86_64
    python: str  # 3.11

    def __str__(self) -> str:
        return f"{self.machine}-py{self.python}"

    @property
    def triplet(self) -> str:
        """The architecture in the notation of compilers and Debian's folders."""
        return f"{self.machine}-linux-gnu"

    @property
    def has_this_machine(self) -> bool:
        """Whether this machine's native compiler produces code for it."""
        return self.machine == platform.machine()

    @property
    def has_this_python(self) -> bool:
        """Whether the running Python produces byte code for it."""
        return self.python == f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def site_packages(self) -> str:
        """Path of its modules, in a release."""
        return f"lib/python{self.python}/site-packages"

    @property
    def platforms(self) -> list[str]:
        """Platform tags of the wheels that run there, the most specific first (PEP 600)."""
        new = [f"manylinux_2_{minor}_{self.machine}" for minor in range(GLIBC_MINOR, 16, -1)]
        return [*new, f"manylinux2014_{self.machine}"]


def parse(text: str) -> Target:
    """The inverse of `str`. ValueError for anything else."""
    machine, separator, python = text.partition("-py")
    if machine not in MACHINES or not separator or python not in PYTHON_OF.values():
        raise ValueError(f"{text!r} is no target; one is aarch64-py3.11")
    return Target(machine, python)
