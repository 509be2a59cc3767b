"""The destination of an image: a card's block device, or a file in place of a card."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from pathlib import Path
from typing import Final

from fleet.image.devices import Unfit
from fleet.image.writing import CHUNK

# Alignment of addresses, offsets and lengths that satisfies O_DIRECT on every disk.
ALIGNMENT: Final = 4096
BOOT_SIGNATURE: Final = b"\x55\xaa"


class Target:
    """An open device or file; a `fleet.image.writing.Card`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._direct = _reopened_direct(descriptor)
        self._page = mmap.mmap(-1, CHUNK)

    @property
    def path(self) -> str:
        """A path by which other programs open exactly this device, even if its name was reassigned;
        they must inherit the descriptor."""
        return f"/proc/self/fd/{self.descriptor}"

    @property
    def number(self) -> str:
        """The device's number, as lsblk prints it."""
        device = os.fstat(self.descriptor).st_rdev
        return f"{os.major(device)}:{os.minor(device)}"

    def write(self, offset: int, data: memoryview) -> int:
        """Bytes written."""
        return os.pwrite(self.descriptor, data, offset)

    def sync(self) -> None:
        """Flush all written data to the medium, and drop it from the page cache."""
        os.fsync(self.descriptor)
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, offset: int, length: int) -> bytes:
        """Read from the medium, bypassing the page cache if the file system allows it."""
        aligned = offset % ALIGNMENT == 0 and length % ALIGNMENT == 0 and length <= CHUNK
        if self._direct is None or not aligned:
            return os.pread(self.descriptor, length, offset)
        with memoryview(self._page)[:length] as page:
            found = os.preadv(self._direct, [page], offset)
            return bytes(page[:found])

    def close(self) -> None:
        """Let go of it."""
        if self._direct is not None:
            os.close(self._direct)
        os.close(self.descriptor)
        self._page.close()


def open_device(path: str) -> Target:
    """Open a block device exclusively: Unfit if something on this machine uses it."""
    try:
        # For a block device, O_EXCL fails if it is mounted or in use, and prevents mounting while
        # it is open. (O_CREAT is not given: nothing is created.)
        descriptor = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Unfit(f"{path} is in use; unmount what is on it") from None
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise Unfit(
                f"{path} may not be written by you; sudo chown $USER {path} allows it until the "
                "card is taken out"
            ) from None
        raise Unfit(f"{path}: {error.strerror}") from None
    if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unfit(f"{path} is no block device")
    return Target(descriptor)


def check_file(path: Path, image: Path) -> None:
    """Unfit unless the file is new, empty, or an image of a card, and so may be overwritten."""
    if not path.exists():
        if not path.parent.is_dir():
            raise Unfit(f"{path.parent} is no folder")
        return
    if not path.is_file():
        raise Unfit(f"{path} is neither a disk nor a file")
    if path.samefile(image):
        raise Unfit(f"{path} is the image itself")
    require_image(path)


def require_image(path: Path) -> None:
    """Unfit for a file that is neither empty nor an image of a card."""
    with path.open("rb") as file:
        head = file.read(512)
    if head and (len(head) < 512 or not head.endswith(BOOT_SIGNATURE)):
        raise Unfit(f"{path} is there and does not look like a card's image; remove it first")


def open_file(path: Path, size: int) -> Target:
    """A sparse file of `size` bytes, readable only by its owner, because it will contain keys. One
    command at a time writes to it, as to a device: Unfit, OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.ftruncate(descriptor, size)
    except BlockingIOError:
        os.close(descriptor)
        raise Unfit(f"{path} is written by another command; try again when it is done") from None
    except OSError:
        os.close(descriptor)
        raise
    return Target(descriptor)


def _reopened_direct(descriptor: int) -> int | None:
    """The same file, opened with O_DIRECT; None if that is not possible."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return None
