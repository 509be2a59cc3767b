"""Desired state of a host: release, files, unit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from fleet.inventory.files import CONFIGURATION, HostFile

USER: Final = "sanderling"
SYSUSERS: Final = "/usr/lib/sysusers.d/sanderling.conf"
RULES: Final = "/usr/lib/udev/rules.d/60-sanderling.rules"
UNIT_FOLDER: Final = "/etc/systemd/system"
SHARE: Final = "share/sanderling"


class DesiredFile(msgspec.Struct, frozen=True):
    """A file at an absolute path. `restart`: the agent must restart to notice a change of it."""

    path: str
    sha256: str
    mode: int = 0o644
    owner: str = "root"
    restart: bool = True


class Desired(msgspec.Struct, frozen=True):
    """The desired state of a host by the inventory and a release; it keeps `keep` releases."""

    release: str
    bundle_bytes: int
    unit: str
    files: tuple[DesiredFile, ...]
    keep: int = 3


def shared_files(unit: str, shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files of a release's share/sanderling by their absolute path on the host; KeyError with the
    name of one that the release lacks."""
    return {
        SYSUSERS: shared["sanderling.sysusers"],
        RULES: shared["60-sanderling.rules"],
        f"{UNIT_FOLDER}/{unit}": shared[unit],
    }


def desired_files(
    files: tuple[HostFile, ...], shared: Mapping[str, bytes]
) -> tuple[DesiredFile, ...]:
    """A host's files. Those of its release come first, because the others need the user that they
    create."""
    of_release = [
        DesiredFile(path, digest(content), restart=path.endswith(".service"))
        for path, content in shared.items()
    ]
    of_inventory = [
        DesiredFile(
            f"{CONFIGURATION}/{file.path}",
            digest(file.content),
            file.mode,
            file.owner,
            file.restart,
        )
        for file in files
    ]
    return (*of_release, *of_inventory)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
