"""Encrypted backup of the whole key store in one file.

    line       "sanderling-keys 1\\n": what it is, and the version of this form
    1 byte     log2 of scrypt's N; its r is 8 and p is 1
    16 bytes   salt
    12 bytes   nonce
    the rest   AES-256-GCM of the files, in MessagePack; all before it is authenticated too

Key: scrypt (RFC 7914) of the passphrase and salt. Salt and nonce are drawn for each backup.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from fleet.common import exits
from fleet.common.durable import exchange, sync
from fleet.common.files import read
from fleet.inventory.folder import Folder
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import (
    MAX_FILE,
    keep_from_git,
    read_private,
    require_private,
    write_file,
)
from fleet.keys.store import Store

MAGIC: Final = b"sanderling-keys "
VERSION: Final = b"1\n"
# 128 MiB and half a second per guess.
COST: Final = 17
COSTS: Final = range(10, 21)
SALT: Final = 16
NONCE: Final = 12
# A fleet of ten thousand nodes has a twelfth of it.
MAX_BACKUP: Final = 64 << 20
HEADER: Final = len(MAGIC) + len(VERSION) + 1 + SALT + NONCE
LEAST_PASSPHRASE: Final = 8
_FOLDERS: Final = ("curve", "ssh", "webhook")
_NAME: Final = re.compile(
    rf"({'|'.join(_FOLDERS)})/[A-Za-z0-9_+.-]{{1,200}}|(revoked|rotation)\.json"
)
_PUBLIC: Final = ".pub"
# Folders beside the store: time and process follow.
_RESTORED: Final = ".restored-"
_BEFORE: Final = ".before-"


class OtherStoreError(KeyStoreError):
    """A different key store exists already."""

    status = exits.REFUSED


class Content(msgspec.Struct, frozen=True):
    """The content of a backup: files by path below keys/."""

    files: dict[str, bytes]


def require_possible(store: Store, file: Path) -> None:
    """KeyStoreError if there is nothing to write, or no place for it; changes nothing."""
    if file.exists():
        raise KeyStoreError(f"{file} is there already; name another file")
    if not file.parent.is_dir():
        raise KeyStoreError(f"there is no folder {file.parent}; make it, or name another file")
    keys = store.folder.keys
    # Looked at without the lock of the store, for which its folder would be made.
    if not keys.exists() or not _read(keys):
        raise KeyStoreError(f"there are no keys in {keys}; fleet keys init makes them")


def backup(store: Store, file: Path, passphrase: str) -> int:
    """Write the store to a new file; returns the number of key files in it. KeyStoreError."""
    require_possible(store, file)
    require_long(passphrase)
    with store.writing():
        files = _read(store.folder.keys)
    write_file(file, seal(msgspec.msgpack.encode(Content(files)), passphrase))
    return len(files)


def restore(
    folder: Folder,
    file: Path,
    passphrase: str,
    *,
    replace: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> int:
    """Restore the keys of a backup; returns the number of key files written, 0 if they are the same
    already. KeyStoreError; OtherStoreError if the store has other keys, unless `replace`: then
    these are kept as keys.before-<time>. `say` gets a line about what a killed one has left."""
    try:
        sealed = read(file, MAX_BACKUP)
    except OSError as error:
        raise KeyStoreError(f"{file}: {error.strerror}") from None
    content = _content(open_sealed(sealed, passphrase, str(file)), file)
    with ExitStack() as alone:
        if folder.keys.exists():  # else there is nobody to wait for, and no place for a lock
            store = Store(folder)
            alone.enter_context(store.rotating())
            alone.enter_context(store.writing())
        for left in interrupted(folder):
            say(_tidy(left, content.files))
        if folder.keys.exists():
            there = _read(folder.keys)
            if there == content.files:
                return 0
            if there and not replace:
                raise OtherStoreError(
                    f"there are other keys in {folder.keys}; --replace puts those of the backup in "
                    "their place and keeps them beside"
                )
        _put(folder.keys, content.files)
    return len(content.files)


def interrupted(folder: Folder) -> list[Path]:
    """Folders that restores have left which were killed. They have secrets: what was written of the
    backup until then, or, once that had its place, the former keys."""
    return [
        each
        for each in sorted(folder.keys.parent.glob(f"{folder.keys.name}{_RESTORED}*"))
        if not Path("/proc", each.name.rpartition("-")[2]).exists()  # that is at work
    ]


def _tidy(left: Path, restored: dict[str, bytes]) -> str:
    """Remove what is a part of the backup; keep former keys under their name."""
    try:
        former = not _read(left).items() <= restored.items()
    except KeyStoreError:
        former = True  # nobody knows
    try:
        if not former:
            shutil.rmtree(left)
            return f"{left}, of a restore that was interrupted, is removed"
        before = left.with_name(left.name.replace(_RESTORED, _BEFORE, 1))
        left.rename(before)
    except OSError as error:
        raise KeyStoreError(
            f"{left}, of a restore that was interrupted, has secret keys and cannot be removed: "
            f"{error.strerror}; delete it"
        ) from None
    return f"a restore was interrupted; the keys from before it are kept as {before}"


def require_long(passphrase: str) -> None:
    """KeyStoreError for a passphrase that is easy to guess."""
    if len(passphrase) < LEAST_PASSPHRASE:
        raise KeyStoreError(f"the passphrase is shorter than {LEAST_PASSPHRASE} characters")


# --- the file ------------------------------------------------------------------------------------


def seal(plain: bytes, passphrase: str) -> bytes:
    """The backup of these bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, nonce = os.urandom(SALT), os.urandom(NONCE)
    header = MAGIC + VERSION + bytes([COST]) + salt + nonce
    return header + AESGCM(_key(passphrase, salt, COST)).encrypt(nonce, plain, header)


def open_sealed(sealed: bytes, passphrase: str, name: str) -> bytes:
    """Decrypt; KeyStoreError names the file."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if not sealed.startswith(MAGIC):
        raise KeyStoreError(f"{name} is no backup of keys")
    if not sealed.startswith(MAGIC + VERSION):
        raise KeyStoreError(f"{name} is of another version, or damaged; this one reads version 1")
    header, rest = sealed[:HEADER], sealed[HEADER:]
    cost = sealed[len(MAGIC + VERSION)] if len(sealed) > len(MAGIC + VERSION) else 0
    if len(header) < HEADER or cost not in COSTS:
        raise KeyStoreError(f"{name} is damaged")
    salt, nonce = header[-SALT - NONCE : -NONCE], header[-NONCE:]
    try:
        return AESGCM(_key(passphrase, salt, cost)).decrypt(nonce, rest, header)
    except MemoryError:
        needs = f"{1 << cost >> 10} MiB of memory"
        raise KeyStoreError(f"{name}: it takes {needs} to open it; free some") from None
    except (InvalidTag, ValueError):
        raise KeyStoreError(f"{name}: wrong passphrase, or the file is damaged") from None


def _key(passphrase: str, salt: bytes, cost: int) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=1 << cost, r=8, p=1).derive(passphrase.encode())


def _content(plain: bytes, file: Path) -> Content:
    try:
        content = msgspec.msgpack.decode(plain, type=Content)
    except msgspec.DecodeError as error:
        raise KeyStoreError(f"{file} cannot be read by this version: {error}") from None
    if not all(_NAME.fullmatch(name) for name in content.files):
        raise KeyStoreError(f"{file} has files that are none of a key store")
    return content


# --- the folder ----------------------------------------------------------------------------------


def _read(keys: Path) -> dict[str, bytes]:
    require_private(keys)
    found = {}
    folders = (keys, *(keys / each for each in _FOLDERS))
    for path in (each for folder in folders for each in _entries(folder)):
        name = path.relative_to(keys).as_posix()
        if path.is_dir() or not _NAME.fullmatch(name) or path.name.startswith("."):
            continue
        # Only the public half of the SSH key is readable by others.
        content = _read_public(path) if path.suffix == _PUBLIC else read_private(path)
        if content is not None:
            found[name] = content
    return found


def _entries(folder: Path) -> list[Path]:
    """KeyStoreError for a folder that cannot be read: a backup would lack what is in it."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KeyStoreError(f"cannot read {folder}: {error.strerror}") from None


def _read_public(path: Path) -> bytes:
    try:
        return read(path, MAX_FILE)
    except OSError as error:
        raise KeyStoreError(f"cannot read {path}: {error.strerror}") from None


def _put(keys: Path, files: dict[str, bytes]) -> None:
    """Write a whole store to a temporary folder, then swap it with the present one. On failure the
    keys are unchanged and the temporary folder is removed; a process that is killed leaves either
    the former keys or the new ones."""
    stamp = time.strftime("%Y%m%dT%H%M%S") + f"-{os.getpid()}"
    beside = keys.with_name(f"{keys.name}{_RESTORED}{stamp}")
    before = keys.with_name(f"{keys.name}{_BEFORE}{stamp}")
    swapped = False
    try:
        _write(beside, files)
        if not keys.exists():
            beside.rename(keys)
        else:
            keep_from_git(keys)
            if swapped := exchange(beside, keys):
                beside.rename(before)
            else:  # two steps, between which a kill leaves no keys in their place
                keys.rename(before)
                beside.rename(keys)
    except BaseException as error:
        if swapped:
            exchange(beside, keys)
        elif before.exists() and not keys.exists():
            before.rename(keys)
        shutil.rmtree(beside, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        raise KeyStoreError(f"cannot write {beside}: {error.strerror}") from None
    try:
        sync(keys.parent)
    except OSError as error:
        raise KeyStoreError(f"cannot write {keys}: {error.strerror}") from None


def _write(store: Path, files: dict[str, bytes]) -> None:
    store.mkdir(mode=0o700, parents=True)
    keep_from_git(store)
    for name, content in files.items():
        path = store / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_file(path, content, 0o644 if name.endswith(_PUBLIC) else 0o600)
