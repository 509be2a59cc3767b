"""Further releases for a fleet, made from a stored bundle: the same but for a few files.

Compiling each of them from a copy of the sources would take minutes.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from fleet.inventory.folder import Folder
from fleet.release import sources
from fleet.release.bundle import Bundle, find, stored
from testkit.root_file_system import ROOT

Edit = Callable[[bytes], bytes]
SITE_PACKAGES: Final = "lib/python3.11/site-packages"
MAIN: Final = "agent/edge/main.py"
CACHE: Final = ROOT / "var/cache"
FAST: Final = 0


def latest(folder: Folder) -> Bundle:
    """The bundle that was made last."""
    return stored(folder)[0]


def another(folder: Folder, edits: dict[str, Edit], *, marker: str) -> str:
    """Store a release that differs from the first in these modules, and by `marker`, a version; its
    id."""
    before = stored(folder)[-1]
    release = f"{marker}-{hashlib.sha256(before.release.encode()).hexdigest()[:8]}"
    path = folder.releases / release / before.path.name
    if path.exists():
        return release
    path.parent.mkdir()
    partial = path.with_suffix(".partial")
    with tarfile.open(before.path) as old, tarfile.open(partial, "w:xz", preset=FAST) as new:
        for member in old:
            source = old.extractfile(member) if member.isfile() else None
            if source is None:
                new.addfile(member)
                continue
            content = _edited(member.name, source.read(), edits)
            if content is None:
                continue
            # It stands in the first lines of programs, and alone in RELEASE.
            if PurePosixPath(member.name).parent.name in {"bin", ""}:
                content = content.replace(before.release.encode(), release.encode())
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
    partial.rename(path)
    return find(folder, release, before.target).release


def _edited(name: str, content: bytes, edits: dict[str, Edit]) -> bytes | None:
    """What a file becomes; None for byte code of an edited module, which would hide the edit."""
    file = PurePosixPath(name)
    for module, edit in edits.items():
        path = PurePosixPath(SITE_PACKAGES, module)
        if file == path:
            return edit(content)
        if file.parent == path.parent / "__pycache__" and file.name.startswith(f"{path.stem}."):
            return None
    return content


def crashing(content: bytes) -> bytes:
    """The module, but an agent that imports it ends with a traceback, unless it only checks its
    configuration: then it would not be taken into use at all."""
    crash = 'raise RuntimeError("this release crashes")'
    return content + f'\nimport sys\nif "--check" not in sys.argv:\n    {crash}\n'.encode()


def keep(folder: Folder) -> None:
    """Keep the latest bundle, and what was downloaded for it, for the next fleet."""
    _link(folder, Folder(CACHE), latest(folder).release)


def bring(folder: Folder) -> None:
    """Have what `keep` kept, as far as it is of these sources."""
    _link(Folder(CACHE), folder, sources.read(sources.checkout()).release)


def _link(old: Folder, new: Folder, release: str) -> None:
    for name in ("wheelhouse", "headers", release):
        for path in (old.releases / name).rglob("*"):
            target = new.releases / path.relative_to(old.releases)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(path)
