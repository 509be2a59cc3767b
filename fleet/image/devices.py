"""Guards against overwriting the wrong block device, based on lsblk's output."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from fleet.common.exits import REFUSED, CommandError

COLUMNS: Final = (
    "PATH,MAJ:MIN,TYPE,SIZE,RO,RM,HOTPLUG,MODEL,VENDOR,SERIAL,TRAN,FSTYPE,LABEL,PARTLABEL,"
    "MOUNTPOINTS"
)
# File system types of a device that is part of something else, such as a RAID or a volume group.
MEMBERS: Final = {
    "linux_raid_member": "a RAID",
    "isw_raid_member": "a RAID",
    "ddf_raid_member": "a RAID",
    "LVM2_member": "an LVM volume group",
    "crypto_LUKS": "an encrypted disk",
    "zfs_member": "a ZFS pool",
    "bcache": "a cached disk",
}
# Mount points that this machine needs to run.
SYSTEM: Final = ("/", "/boot", "/boot/efi", "/boot/firmware", "/usr", "/var", "/home", "/opt")


class Unfit(CommandError):
    """A device that must not be written to; the text is one line with the reason."""

    status = REFUSED


class Device(Struct, frozen=True):
    """A block device as lsblk describes it. `size` is in bytes."""

    path: str
    type: str
    size: int
    number: str = field(name="maj:min")
    ro: bool = False
    rm: bool = False
    hotplug: bool = False
    model: str | None = None
    vendor: str | None = None
    serial: str | None = None
    tran: str | None = None
    fstype: str | None = None
    label: str | None = None
    partlabel: str | None = None
    mountpoints: tuple[str | None, ...] = ()
    children: tuple[Device, ...] = ()

    def family(self) -> Iterator[Device]:
        """The device, its partitions, and everything built on them."""
        yield self
        for child in self.children:
            yield from child.family()

    @property
    def mounted(self) -> list[str]:
        """Its mount points; ``[SWAP]`` if it is used as swap."""
        return [each for each in self.mountpoints if each]

    @property
    def title(self) -> str:
        """Name of the device for people."""
        words = [(self.vendor or "").strip(), (self.model or "").strip()]
        name = " ".join(word for word in words if word) or "unnamed"
        return f"{name}, {size_text(self.size)}" + (f", {self.tran}" if self.tran else "")


class _Listing(Struct):
    blockdevices: tuple[Device, ...]


def parse(listing: bytes) -> tuple[Device, ...]:
    """The devices in the output of ``lsblk --json --bytes``; msgspec.DecodeError if it is
    invalid."""
    return msgspec.json.decode(listing, type=_Listing).blockdevices


def listed() -> tuple[Device, ...]:
    """The devices of this machine. Unfit if they cannot be listed."""
    command = ["lsblk", "--json", "--bytes", "--output", COLUMNS]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        return parse(done.stdout)
    except FileNotFoundError:
        raise Unfit("lsblk is missing; apt install util-linux") from None
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise Unfit(f"lsblk does not say what devices there are: {error}") from error


def card(
    devices: Sequence[Device],
    path: str,
    needed_bytes: int,
    in_use: Mapping[str, str] | None = None,
) -> Device:
    """The disk `path` (without symbolic links), if it may be overwritten with `needed_bytes`.

    Only a whole, removable disk that is not in use here and not part of anything else. `in_use`
    gives other uses of devices, in words, by number such as ``8:1``. Unfit otherwise.
    """
    disk = _whole(devices, path)
    if disk.size == 0:
        raise Unfit(f"{path} has no card in it")
    _refuse_used(disk, in_use or {})
    if not (disk.rm or disk.hotplug):
        raise Unfit(f"{path} ({disk.title}) is built into this machine; only cards and USB disks "
                    "are written to")  # fmt: skip
    for each in disk.family():
        if part_of := MEMBERS.get(each.fstype or ""):
            raise Unfit(
                f"{each.path} is part of {part_of}; if nobody needs it: wipefs --all {each.path}"
            )
    if disk.ro:
        raise Unfit(f"{path} is read-only; cards have a switch for that")
    if disk.size < needed_bytes:
        raise Unfit(f"{path} has {size_text(disk.size)}, the image needs {size_text(needed_bytes)}")
    return disk


def _whole(devices: Sequence[Device], path: str) -> Device:
    """The disk at this path; Unfit if it is anything else."""
    for top in devices:
        for each in top.family():
            if each.path != path:
                continue
            if each.type == "disk":
                return each
            if each.type == "part":
                raise Unfit(f"{path} is a partition; the whole card is {top.path}")
            if each.type == "loop":
                raise Unfit(f"{path} is a loop device; write to its file instead")
            raise Unfit(f"{path} is no disk but of type {each.type}")
    raise Unfit(f"{path} is no block device of this machine")


def _refuse_used(disk: Device, in_use: Mapping[str, str]) -> None:
    places = [(place, each) for each in disk.family() for place in each.mounted]
    for place, each in places:
        if place in SYSTEM:
            raise Unfit(f"{disk.path} holds this machine's system: {place} is on {each.path}")
    for each in disk.family():
        if kept := in_use.get(each.number):
            raise Unfit(f"{disk.path} holds {kept}")
    for place, each in places:
        if place == "[SWAP]":
            raise Unfit(f"{each.path} is in use as swap; swapoff {each.path} first")
        raise Unfit(f"{each.path} is mounted at {place}; umount {each.path} first")
    for each in disk.family():
        if each.type not in {"disk", "part"}:
            raise Unfit(f"{disk.path} is in use: {each.path} ({each.type}) is made of it")


def contents(disk: Device) -> list[str]:
    """Its partitions, one line each, with size, file system and label."""
    lines = []
    for each in disk.family():
        names = [each.fstype or "", each.label or each.partlabel or ""]
        about = " ".join(name for name in names if name)
        if each is not disk or about:
            lines.append(f"{each.path}  {size_text(each.size)}  {about or 'unknown content'}")
    return lines or ["no partitions"]


def size_text(size_bytes: int) -> str:
    """In powers of ten, as on the packaging of cards: ``31.9 GB``."""
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1e3:.0f} kB"
