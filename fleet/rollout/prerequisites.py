"""Prerequisites of a host, checked from its facts before it is changed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fleet.inspect.facts.facts import Disk, Facts
from fleet.rollout.changes import AnyChange, StoreRelease
from fleet.ssh.errors import Kind

MACHINES: Final = ("aarch64", "x86_64")
PYTHONS: Final = ("3.11", "3.12", "3.13")
# Minimum systemd for Type=notify with the settings of our units; Debian 12 has 252.
OLDEST_SYSTEMD: Final = 247
# Size of an unpacked release as a multiple of its bundle; and the free space that a host needs
# besides.
UNPACKED: Final = 6
RESERVE_BYTES: Final = 50_000_000
INODES: Final = 5_000


class Obstacle(NamedTuple):
    """Why a host cannot be deployed to, in one line with the remedy."""

    kind: Kind
    text: str


def obstacles(facts: Facts) -> list[Obstacle]:
    """Requirements of an agent that the host lacks."""
    found = []
    if facts.machine not in MACHINES:
        what = f"its machine is {facts.machine}, and releases are for {' and '.join(MACHINES)}"
        if facts.machine.startswith(("armv", "i686")):
            what += ": install a 64-bit system"
        found.append(Obstacle("failed", what))
    if facts.python not in PYTHONS:
        what = f"its /usr/bin/python3 is {facts.python}; {PYTHONS[0]} to {PYTHONS[-1]} will do"
        found.append(Obstacle("failed", f"{what}: install Debian 12 or later"))
    if facts.systemd < OLDEST_SYSTEMD:
        has = f"systemd {facts.systemd}" if facts.systemd else "no systemd"
        found.append(Obstacle("failed", f"it runs {has}; {OLDEST_SYSTEMD} or later will do"))
    for path, disk in facts.disks.items():
        if disk.read_only and path in {"/", "/opt", "/var/lib"}:
            found.append(Obstacle("failed", f"{path} is mounted read-only"))
    return found


def held(facts: Facts, is_own: Callable[[str], bool]) -> list[Obstacle]:
    """Whether another operator switched the host, and may yet decide on it: until its timer is over
    his changes and ours must not be mixed. `is_own` knows the runs of this fleet's folder, which
    are over."""
    pending = facts.pending
    if pending is None or (pending.seconds_left or 0.0) <= 0 or is_own(pending.run):
        return []
    what = f"{pending.by or 'another operator'} is deploying {pending.release} to it"
    text = f"{what} (run {pending.run}); that is over in {pending.seconds_left:.0f} s at most"
    return [Obstacle("failed", f"{text}: run the command again then")]


def room(facts: Facts, changes: list[AnyChange]) -> list[Obstacle]:
    """Whether there is room for the bundle, packed and unpacked."""
    stored = next((each for each in changes if isinstance(each, StoreRelease)), None)
    if stored is None:
        return []
    disk = facts.disks.get("/opt") or facts.disks.get("/") or Disk(1 << 60, 1 << 60, 1 << 30)
    needed = stored.bytes * (1 + UNPACKED) + RESERVE_BYTES
    if disk.free_bytes < needed:
        free, wanted = disk.free_bytes / 1e6, needed / 1e6
        return [
            Obstacle("disk_full", f"{free:.0f} MB free for /opt/sanderling, {wanted:.0f} needed")
        ]
    if disk.free_inodes < INODES:
        return [Obstacle("disk_full", f"{disk.free_inodes} inodes free, {INODES} needed")]
    return []
