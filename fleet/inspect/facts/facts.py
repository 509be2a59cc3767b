"""Typed facts of a host, as the probe reports them."""

from __future__ import annotations

from typing import Final

import msgspec

from fleet.common.typed import made_ready

# Bits of the firmware's `get_throttled`: now, and since boot.
THROTTLED: Final = {
    0: "under-voltage",
    1: "frequency capped",
    2: "throttled",
    3: "soft temperature limit",
}
SINCE_BOOT: Final = 16


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Read leniently: a later probe may say more."""


class Releases(Base, frozen=True):
    """What is in /opt/sanderling/releases. `previous` is the last other one that was in use and
    good, by the journal; `before` what undoing the last deployment brings, which is the current
    one if only files were changed: empty if there is nothing to undo. `python` is the version that
    the current one was made for, "3.11"."""

    current: str = ""
    previous: str = ""
    before: str = ""
    stored: tuple[str, ...] = ()
    python: str = ""


class Unit(Base, frozen=True):
    """A systemd unit, as `systemctl show` has it."""

    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    enabled: str = ""
    result: str = "success"
    restarts: int = 0
    status: str = ""
    # The release that its process was started from; empty if it does not run.
    running: str = ""
    # Whether the unit file changed since systemd read it.
    needs_reload: bool = False


class File(Base, frozen=True):
    """A file that Sanderling manages."""

    sha256: str
    mode: int
    owner: str
    group: str


class Clock(Base, frozen=True):
    """Whether the kernel thinks that its clock is right; None: it does not say."""

    synchronised: bool | None = None
    max_error_s: float | None = None
    now_s: float = 0.0  # Unix time there


class Disk(Base, frozen=True):
    """A file system. `life_used_percent` is what the card says of its own wear, upper bound."""

    total_bytes: int
    free_bytes: int
    free_inodes: int = 0
    read_only: bool = False
    device: str = ""
    life_used_percent: int | None = None


class Pending(Base, frozen=True):
    """A deployment that was switched to and neither confirmed nor rolled back."""

    run: str
    release: str
    before: str = ""
    seconds_left: float | None = None  # None: no timer watches it


class Uploaded(Base, frozen=True):
    """So many bytes of a bundle have arrived."""

    name: str
    bytes: int


class Facts(Base, frozen=True):
    """What one host is and has."""

    hostname: str
    machine: str
    python: str  # "3.11"
    os: str = ""
    os_id: str = ""
    kernel: str = ""
    model: str = ""
    boot_id: str = ""
    uptime_s: float = 0.0
    load: float = 0.0
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    celsius: float | None = None
    throttled: int | None = None  # bits of the firmware; None: no Raspberry Pi
    systemd: int = 0  # its version; 0: not the init
    failed_units: tuple[str, ...] = ()
    reboot_required: bool = False
    user: bool = False  # whether there is a user `sanderling`
    clock: Clock = Clock()
    disks: dict[str, Disk] = {}
    releases: Releases = Releases()
    units: dict[str, Unit] = {}
    files: dict[str, File] = {}  # by absolute path
    written: dict[str, tuple[str, ...]] = {}  # by unit: what deployments ever wrote for it
    pending: Pending | None = None
    uploaded: Uploaded | None = None
    addresses: tuple[str, ...] = ()

    @property
    def troubles_now(self) -> tuple[str, ...]:
        """What the firmware complains about at the moment."""
        return _bits(self.throttled or 0, 0)

    @property
    def troubles_since_boot(self) -> tuple[str, ...]:
        """What it complained about since the host was started."""
        return _bits(self.throttled or 0, SINCE_BOOT)


made_ready(Facts)


def parse(answer: object) -> Facts:
    """Facts from the probe's document; msgspec.ValidationError."""
    return msgspec.convert(answer, Facts)


def _bits(value: int, shift: int) -> tuple[str, ...]:
    return tuple(text for bit, text in THROTTLED.items() if value >> (bit + shift) & 1)
