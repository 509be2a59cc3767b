"""Reproducible archives: the same files give the same bytes."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import PurePosixPath

from fleet.release.target import EPOCH_S
from fleet.release.tree import Entry


def packed(entries: dict[str, Entry]) -> bytes:
    """A tar of `entries` with their folders, sorted, root's, compressed with xz."""
    folders = {
        str(folder) for path in entries for folder in PurePosixPath(path).parents if folder.name
    }
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(_folder("."))
        for path in sorted({*entries, *folders}):
            if path in folders:
                archive.addfile(_folder(f"./{path}"))
            else:
                entry = entries[path]
                archive.addfile(_file(f"./{path}", entry), io.BytesIO(entry.content))
    return lzma.compress(raw.getvalue(), preset=6)


def _folder(path: str) -> tarfile.TarInfo:
    info = _roots(path, 0o755)
    info.type = tarfile.DIRTYPE
    return info


def _file(path: str, entry: Entry) -> tarfile.TarInfo:
    info = _roots(path, entry.mode)
    info.size = len(entry.content)
    if entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    return info


def _roots(path: str, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.mtime, info.uname, info.gname = mode, EPOCH_S, "root", "root"
    return info
