"""Typed facts of a host, as the probe reports them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fleet.common.msgspec_types import made_ready

# Bits of the firmware's `get_throttled`: now, and since boot.
THROTTLED: Final = {
    0: "under-voltage",
    1: "frequency capped",
    2: "throttled",
    3: "soft temperature limit",
}
SINCE_BOOT: Final = 16


# What one host says must leave room on a terminal for what the others say: a word is longer than
# any unit's state or release's name, a list than any host's.
Word = Annotated[str, Meta(max_length=512)]
FilePath = Annotated[str, Meta(max_length=4096)]
MAX_LISTED: Final = 1024
MAX_DISKS: Final = 64
Words = Annotated[tuple[Word, ...], Meta(max_length=MAX_LISTED)]


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Decoded leniently: a later probe may send more."""


class Releases(Base, frozen=True):
    """The releases in /opt/sanderling/releases. `previous` is the last other good release that was
    in use, by the journal; `before` is the release that undoing the last deployment restores: the
    current one if only files changed, empty if there is nothing to undo; `run` is that deployment.
    `python` is the Python version of the current one, "3.11"."""

    current: Word = ""
    previous: Word = ""
    before: Word = ""
    run: Word = ""
    stored: Words = ()
    python: Word = ""


class Unit(Base, frozen=True):
    """A systemd unit, as `systemctl show` has it."""

    load: Word = "not-found"
    active: Word = "inactive"
    sub: Word = "dead"
    enabled: Word = ""
    result: Word = "success"
    restarts: int = 0
    status: Word = ""
    # The release that its process was started from; empty if it is not running.
    running: Word = ""
    # Whether the unit file changed since systemd read it.
    needs_reload: bool = False


class File(Base, frozen=True):
    """A file that Sanderling manages."""

    sha256: Word
    mode: int
    owner: Word
    group: Word


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
    device: Word = ""
    life_used_percent: int | None = None


class Pending(Base, frozen=True):
    """A switch that is neither confirmed nor rolled back. `by`: whose, as user@machine; empty from
    earlier versions."""

    run: Word
    release: Word
    before: Word = ""
    seconds_left: float | None = None  # None: no timer watches it
    by: Word = ""


class Uploaded(Base, frozen=True):
    """The number of bytes of a bundle that have arrived."""

    name: Word
    bytes: int


class Facts(Base, frozen=True):
    """Facts about one host."""

    hostname: Word
    machine: Word
    python: Word  # "3.11"
    os: Word = ""
    os_id: Word = ""
    kernel: Word = ""
    model: Word = ""
    boot_id: Word = ""
    uptime_s: float = 0.0
    load: float = 0.0
    memory_total_bytes: int = 0
    memory_available_bytes: int = 0
    celsius: float | None = None
    throttled: int | None = None  # the firmware's bits; None: not a Raspberry Pi
    systemd: int = 0  # its version; 0: not the init
    failed_units: Words = ()
    reboot_required: bool = False
    user: bool = False  # whether the user `sanderling` exists
    clock: Clock = Clock()
    disks: Annotated[dict[Word, Disk], Meta(max_length=MAX_DISKS)] = {}
    releases: Releases = Releases()
    units: Annotated[dict[Word, Unit], Meta(max_length=MAX_LISTED)] = {}
    files: dict[FilePath, File] = {}  # by absolute path
    written: dict[Word, tuple[FilePath, ...]] = {}  # by unit: files ever written for it
    pending: Pending | None = None
    uploaded: Uploaded | None = None
    addresses: Words = ()

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
