"""Files in the FAT boot partition of a card, through mtools: no mount, no root."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fleet.common.exits import CommandError
from fleet.image.target import BOOT_SIGNATURE

SECTOR: Final = 512
# Types in the partition table that a Pi boots from: FAT16 and FAT32, with and without LBA.
FAT_TYPES: Final = frozenset({0x04, 0x06, 0x0B, 0x0C, 0x0E})
TABLE, ENTRY, ENTRIES = 446, 16, 4
PATIENCE_S: Final = 120


class FatError(CommandError):
    """The boot partition cannot be used; the text is one line."""


def offset_of(first_sector: bytes) -> int:
    """Offset of the first FAT partition in bytes, by the partition table (MBR). FatError if there
    is none."""
    if len(first_sector) < SECTOR or first_sector[510:512] != BOOT_SIGNATURE:
        raise FatError("it has no partition table, so it is no image of a card")
    for number in range(ENTRIES):
        entry = first_sector[TABLE + number * ENTRY :][:ENTRY]
        start, sectors = struct.unpack_from("<II", entry, 8)
        if entry[4] in FAT_TYPES and start and sectors:
            return int(start) * SECTOR
    raise FatError("it has no FAT partition, so a Pi cannot start from it")


class Fat:
    """The first FAT partition of an image, or of a card.

    `path` may be below /proc/self/fd; then `descriptor` is passed on to mtools.
    """

    def __init__(self, path: str | Path, descriptor: int | None = None) -> None:
        if shutil.which("mcopy") is None:
            raise FatError("mcopy is missing; apt install mtools")
        with open(path, "rb") as file:  # noqa: PTH123 - a device, not only a path
            first = file.read(SECTOR)
        try:
            offset = offset_of(first)
        except FatError as error:
            # Below /proc the path says nothing: then it is the card that is written to.
            raise FatError(str(error) if descriptor is not None else f"{path}: {error}") from None
        self._drive = f"{path}@@{offset}"
        self._pass = () if descriptor is None else (descriptor,)

    def names(self, folder: str = "") -> list[str]:
        """Paths of the entries of a folder; [] if there is no such folder."""
        done = self._run("mdir", "-b", f"::/{folder}")
        lines = done.stdout.decode(errors="replace").splitlines()
        return [line.removeprefix("::/").rstrip("/") for line in lines if line.startswith("::/")]

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file."""
        done = self._run("mcopy", "-n", f"::/{name}", "-")
        if done.returncode == 0:
            return done.stdout
        if b"not found" in done.stderr or b"No match" in done.stderr:
            return None
        raise FatError(f"{name} cannot be read from the boot partition: {_said(done)}")

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, and the folders above it."""
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            # It fails if the folder exists; if it failed for another reason, the next command
            # fails, too.
            self._run("mmd", "-D", "s", f"::/{'/'.join(parts[:depth])}")
        done = self._run("mcopy", "-D", "o", "-", f"::/{name}", content=content)
        if done.returncode:
            raise FatError(f"{name} cannot be written to the boot partition: {_said(done)}")

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        self._run("mdeltree", f"::/{name}")

    def copy_out(self, names: Mapping[str, Path]) -> None:
        """Copy files to paths on this machine."""
        for name, place in names.items():
            done = self._run("mcopy", "-n", "-D", "o", f"::/{name}", str(place))
            if done.returncode:
                raise FatError(f"{name} is not in the boot partition: {_said(done)}")

    def _run(
        self, program: str, *arguments: str, content: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        # mtools' own consistency checks are for floppy disks and would reject a card's partition.
        environment = {**os.environ, "MTOOLS_SKIP_CHECK": "1"}
        try:
            return subprocess.run(
                [program, "-i", self._drive, *arguments],
                input=content,
                stdin=subprocess.DEVNULL if content is None else None,
                capture_output=True,
                check=False,
                env=environment,
                pass_fds=self._pass,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise FatError(f"{program} does not come back; is the card still there?") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join(done.stderr.decode(errors="replace").split()) or "no reason given"
