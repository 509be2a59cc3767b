"""Atomic, durable file replacement, and the log of actions on the host."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import hashlib
import json
import os
import pwd
import stat
import time

from fleet.on_host.host import Failure, Host, Json
from fleet.on_host.places import CURRENT, JOURNAL

JOURNAL_LINES = 500
# That of an allow-list of ten thousand nodes is a tenth.
MAX_FILE = 16 << 20

Owner = tuple[int, int]


def write(host: Host, path: str, content: bytes, mode: int = 0o644, owner: Owner = (0, 0)) -> None:
    """Replace a file atomically: a reader sees the old one or the new one."""
    target = host.at(path)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    beside = f"{target}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        if not host.root:
            os.fchown(file.fileno(), *owner)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, target)
    sync_folder(os.path.dirname(target))


def has_user(name: str) -> bool:
    """Whether there is such a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def user(host: Host, name: str) -> Owner:
    """A user's uid and gid; Failure if there is no such user."""
    if host.root:
        return 0, 0
    try:
        person = pwd.getpwnam(name)
    except KeyError:
        raise Failure(f"there is no user {name} yet; fleet deploy makes that user") from None
    return person.pw_uid, person.pw_gid


def is_there(host: Host, path: str, content: bytes, mode: int, owner: Owner) -> bool:
    """Whether the file already has the wanted content, mode and owner."""
    try:
        status = os.lstat(host.at(path))
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != mode:
            return False
        if not host.root and (status.st_uid, status.st_gid) != owner:
            return False
        with open(host.at(path), "rb") as file:
            return file.read() == content
    except OSError:
        return False


def write_files(host: Host, unit: str, files: list[Json]) -> list[str]:
    """Write the files that differ from what is wanted, in order; returns their paths."""
    written = []
    for file in files:
        content, owner = base64.b64decode(file["content"]), user(host, file["owner"])
        if not is_there(host, file["path"], content, file["mode"], owner):
            write(host, file["path"], content, file["mode"], owner)
            written.append(file["path"])
    found = read_json(host, f"{JOURNAL}/written.json") or {}
    before = found.get(unit)
    known = [path for path in before if isinstance(path, str)] if isinstance(before, list) else []
    ours = sorted({*known, *(file["path"] for file in files)})
    if found.get(unit) != ours:
        write_json(host, f"{JOURNAL}/written.json", found | {unit: ours})
    return written


def digest_of(host: Host, path: str) -> str | None:
    """The SHA-256 of a file's content; None if there is no such file, or it cannot be read."""
    try:
        return hashlib.sha256(read(host.at(path))[0]).hexdigest()
    except OSError:
        return None


def write_json(host: Host, path: str, value: object) -> None:
    write(host, path, json.dumps(value).encode(), 0o600)


def read_json(host: Host, path: str) -> Json | None:
    """The object in a file; None if there is none, or it cannot be read."""
    try:
        found = json.loads(read(host.at(path))[0])
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read(path: str) -> tuple[bytes, os.stat_result]:
    """A file's content and status. OSError, also for a pipe or device, and for a large one."""
    with open(path, "rb", opener=at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_size > MAX_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return file.read(MAX_FILE), status


def at_once(path: str, flags: int) -> int:
    """An opener that does not wait for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def sync_folder(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_file_system(path: str) -> None:
    """Sync everything written below `path` with one call, instead of one for each file."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(number):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(number)


def set_current(host: Host, release: str) -> None:
    """Set the link `current` with one rename; without a release it is removed."""
    link = host.at(CURRENT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{link}.new")
    if not release:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        return
    os.symlink(f"releases/{release}", f"{link}.new")
    os.replace(f"{link}.new", link)
    sync_folder(os.path.dirname(link))


def current(host: Host) -> str:
    try:
        return os.path.basename(os.readlink(host.at(CURRENT)))
    except OSError:
        return ""


def record(host: Host, **entry: object) -> None:
    """Add a line to the host's own journal, which keeps only the latest ones."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry}
    path = f"{JOURNAL}/journal.jsonl"
    try:
        text = read(host.at(path))[0].decode(errors="replace")
        before = text.splitlines()[1 - JOURNAL_LINES :]
    except OSError:  # an action that was carried out does not fail because of it
        before = []
    write(host, path, "".join(f"{each}\n" for each in [*before, json.dumps(line)]).encode(), 0o600)


def ended(host: Host, run: str) -> Json | None:
    """The last line in the host's own journal about a run; None if there is none."""
    try:
        text = read(host.at(f"{JOURNAL}/journal.jsonl"))[0].decode(errors="replace")
    except OSError:
        return None
    for line in reversed(text.splitlines()):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("run") == run:
                return found
    return None
