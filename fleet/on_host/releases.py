"""Releases on a host: receives and unpacks bundles, removes old ones."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import lzma
import os
import shutil
import signal
import stat
import tarfile
from collections.abc import Iterator
from typing import Any

from fleet.on_host.files import current, read_json, sync_file_system, sync_folder
from fleet.on_host.host import Failure, Host, Json
from fleet.on_host.places import JOURNAL, RELEASES

# Maximum silence of the operator during an upload.
PATIENCE_S = 30
CHUNK = 1 << 18
# What a bundle may become; a release takes a twentieth of it.
MAX_UNPACKED = 1 << 31
# The one link of a release that leads out of it, and where.
INTERPRETER = ("bin/python3", "/usr/bin/python3")


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
    except Failure:
        os.unlink(upload)
        raise
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
    written by root: what it holds is checked, though its sha256 is the one that the operator has,
    who may have got it from elsewhere."""
    partial = f"{folder}/{release}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.mkdir(partial, 0o755)
    try:
        try:
            with tarfile.open(bundle, "r:xz") as archive:
                if hasattr(tarfile, "fully_trusted_filter"):  # `checked` knows what a release has
                    archive.extraction_filter = tarfile.fully_trusted_filter
                archive.extractall(partial, checked(archive))  # noqa: S202 - as above
            with open(f"{partial}/RELEASE", encoding="utf-8") as file:
                said = file.read(256).strip()
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, FileNotFoundError) as error:
            raise Failure(f"the bundle is none: {' '.join(str(error).split())}") from None
        if said != release:
            raise Failure(f"the bundle holds release {said}, not {release}")
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


def checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files, folders and links of a bundle, each below its folder; Failure for anything else,
    and when they take more than a release ever does."""
    size = 0
    for member in archive:
        place = os.path.normpath(member.name)
        known = member.isreg() or member.isdir() or member.issym()
        # A file there would be written over the interpreter that the link leads to.
        through = f"{place}/".startswith(f"{INTERPRETER[0]}/") and not member.issym()
        if not known or through or _leaves(place):
            raise Failure(f"the bundle holds {member.name!r}, which no release has")
        leads = os.path.join(os.path.dirname(place), member.linkname)
        if member.issym() and _leaves(leads) and (place, leads) != INTERPRETER:
            raise Failure(f"the bundle holds {member.name!r}, a link to {member.linkname!r}")
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            raise Failure(f"the bundle holds {member.name!r}, which would run with other rights")
        size += member.size
        if size > MAX_UNPACKED:
            raise Failure(f"the bundle becomes more than {MAX_UNPACKED >> 30} GiB")
        yield member


def _leaves(path: str) -> bool:
    path = os.path.normpath(path)
    return path.startswith("/") or path.split("/")[0] == ".."


def has_byte_code(folder: str) -> bool:
    return any(name.endswith(".pyc") for _, _, names in os.walk(folder) for name in names)


def remove(host: Host, releases: list[str], but: str = "") -> Json:
    """Remove releases other than the one in use, and remains of uploads except that of `but`."""
    folder = host.at(RELEASES)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    left_over = {name for name in names if name.endswith((".partial", ".upload"))}
    pending = read_json(host, f"{JOURNAL}/pending.json") or {}
    for name in ({*releases} & {*names} | left_over) - {current(host), pending.get("before"), but}:
        path = f"{folder}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return {"ok": True}
