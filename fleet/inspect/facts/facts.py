"""Typed facts of a host, as the probe reports them."""

from __future__ import annotations

from typing import Final

import msgspec

from fleet.common.msgspec_types import made_ready

# Bits of the firmware's `get_throttled`: now, and since boot.
THROTTLED: Final = {
    0: "under-voltage",
    1: "frequency capped",
    2: "throttled",
    3: "soft temperature limit",
}
SINCE_BOOT: Final = 16


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded leniently: a later probe may send more."""


class Releases(Base, frozen=True):
    """The releases in /opt/sanderling/releases. `previous` is the last other good release that was
    in use, by the journal; `before` is the release that undoing the last deployment restores: the
    current one if only files changed, empty if there is nothing to undo; `run` is that deployment.
    `python` is the Python version of the current one, "3.11"."""

    current: str = ""
    previous: str = ""
    before: str = ""
    run: str = ""
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
    # The release that its process was started from; empty if it is not running.
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
    """Whether the kernel considers its clock synchronised; None: unknown."""

    synchronised: bool | None = None
    max_error_s: float | None = None
    now_s: float = 0.0  # Unix time there


class Disk(Base, frozen=True):
    """A file system. `life_used_percent` is the card's own wear indicator, an upper bound."""

    total_bytes: int
    free_bytes: int
    free_inodes: int = 0
    read_only: bool = False
    device: str = ""
    life_used_percent: int | None = None


class Pending(Base, frozen=True):
    """A switch that is neither confirmed nor rolled back. `by`: whose, as user@machine; empty from
    earlier versions."""

    run: str
    release: str
    before: str = ""
    seconds_left: float | None = None  # None: no timer watches it
    by: str = ""


class Uploaded(Base, frozen=True):
    """The number of bytes of a bundle that have arrived."""

    name: str
    bytes: int


class Facts(Base, frozen=True):
    """Facts about one host."""

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
    throttled: int | None = None  # the firmware's bits; None: not a Raspberry Pi
    systemd: int = 0  # its version; 0: not the init
    failed_units: tuple[str, ...] = ()
    reboot_required: bool = False
    user: bool = False  # whether the user `sanderling` exists
    clock: Clock = Clock()
    disks: dict[str, Disk] = {}
    releases: Releases = Releases()
    units: dict[str, Unit] = {}
    files: dict[str, File] = {}  # by absolute path
    written: dict[str, tuple[str, ...]] = {}  # by unit: files ever written for it
    pending: Pending | None = None
    uploaded: Uploaded | None = None
    addresses: tuple[str, ...] = ()

    @property
    def troubles_now(self) -> tuple[str, ...]:
        """The firmware's present warnings."""
        return _bits(self.throttled or 0, 0)

    @property
    def troubles_since_boot(self) -> tuple[str, ...]:
        """The firmware's warnings since the host booted."""
        return _bits(self.throttled or 0, SINCE_BOOT)


made_ready(Facts)


def parse(answer: object) -> Facts:
    """Facts from the probe's document; msgspec.ValidationError."""
    return msgspec.convert(answer, Facts)


def _bits(value: int, shift: int) -> tuple[str, ...]:
    return tuple(text for bit, text in THROTTLED.items() if value >> (bit + shift) & 1)
