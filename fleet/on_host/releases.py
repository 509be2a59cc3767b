"""Releases on a host: receives and unpacks bundles, removes old ones."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import os
import shutil
import signal
import tarfile
from typing import Any

from fleet.on_host.bundles import DAMAGE, Unusable, members, opened
from fleet.on_host.files import current, sync_file_system, sync_folder
from fleet.on_host.host import Failure, Host, Json
from fleet.on_host.pending import recorded
from fleet.on_host.places import RELEASES

# Maximum silence of the operator during an upload.
PATIENCE_S = 30
CHUNK = 1 << 18


def stage(host: Host, request: Json, source: Any) -> Json:
    """Receive the rest of a bundle, check all of it, and unpack it."""
    release = request["release"]
    folder = host.at(RELEASES)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    remove(host, request["remove"], but=request["name"])
    if os.path.exists(f"{folder}/{release}/RELEASE"):
        return {"ok": True}
    upload = f"{folder}/{request['name']}"
    receive(upload, request["offset"], request["bytes"], source)
    host.say(at="unpacking")
    with open(upload, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != request["sha256"]:
        os.unlink(upload)
        raise Failure("the bundle arrived damaged, and was removed", "lost")
    try:
        unpack(upload, folder, release)
    finally:
        os.unlink(upload)
    return {"ok": True}


def receive(upload: str, offset: int, size: int, source: Any) -> None:
    """Append the received bytes to the `offset` bytes that are there."""

    def silent(*_: object) -> None:
        raise Failure(f"the operator has been silent for {PATIENCE_S} s", "lost")

    signal.signal(signal.SIGALRM, silent)
    with open(upload, "ab", buffering=0) as file:
        if file.tell() < offset:
            raise Failure(f"only {file.tell()} of {offset} bytes are there; run the command again")
        file.truncate(offset)
        file.seek(offset)
        left = size - offset
        while left:
            signal.alarm(PATIENCE_S)
            piece = source.read1(min(CHUNK, left))
            signal.alarm(0)
            if not piece:
                raise Failure(f"{left} bytes of the bundle did not come", "lost")
            left -= len(piece)
            try:
                while piece:
                    piece = piece[file.write(piece) :]
            except OSError:
                os.unlink(upload)  # a full disk needs the room
                raise


def unpack(bundle: str, folder: str, release: str) -> None:
    """Unpack into a temporary folder; rename it when everything is on stable storage. A bundle is
    written by root: `members` knows what it may hold."""
    partial = f"{folder}/{release}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.mkdir(partial, 0o755)
    try:
        try:
            with open(bundle, "rb") as file, opened(file) as archive:
                if hasattr(tarfile, "fully_trusted_filter"):
                    archive.extraction_filter = tarfile.fully_trusted_filter
                archive.extractall(partial, members(archive))  # noqa: S202 - as above
            with open(f"{partial}/RELEASE", encoding="utf-8") as text:
                said = text.read(256).strip()
        except Unusable as error:
            raise Failure(str(error)) from None
        except (*DAMAGE, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise Failure(f"the bundle is none: {' '.join(str(error).split())}") from None
        if said != release:
            raise Failure(f"the bundle holds release {said!r}, not {release}")
        if not has_byte_code(f"{partial}/lib"):
            compileall.compile_dir(f"{partial}/lib", quiet=2, workers=1, stripdir=partial)
        sync_file_system(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # A folder without RELEASE was not unpacked completely.
    shutil.rmtree(f"{folder}/{release}", ignore_errors=True)
    os.rename(partial, f"{folder}/{release}")
    sync_folder(folder)


def has_byte_code(folder: str) -> bool:
    return any(name.endswith(".pyc") for _, _, names in os.walk(folder) for name in names)


def remove(host: Host, releases: list[str], but: str = "") -> Json:
    """Remove releases other than the one in use, and remains of uploads except that of `but`."""
    folder = host.at(RELEASES)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    left_over = {name for name in names if name.endswith((".partial", ".upload"))}
    pending = None
    with contextlib.suppress(Failure):  # it is damaged
        pending = recorded(host, "pending")
    before = pending["before"] if pending else ""
    for name in ({*releases} & {*names} | left_over) - {current(host), before, but}:
        path = f"{folder}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return {"ok": True}
