"""Bundles: a release for one target in one file, which a host only has to unpack."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fleet.common import files
from fleet.common.durable import sync
from fleet.inventory.folder import Folder, cache
from fleet.inventory.model import RELEASE_ID
from fleet.release import sources as sources_
from fleet.release import wheelhouse
from fleet.release.target import ReleaseError, Target, parse

__all__ = ["Bundle", "ReleaseError", "Target", "build", "find", "stored"]

# Folder of downloads and compiled modules; by default the fleet's `releases`.
_SUFFIX: Final = ".tar.xz"
# Stored beside a release's bundles: the commit of its sources, and the differences from it. It is
# not in the bundles, because equal sources must give equal bytes whatever their commit.
ORIGIN: Final = "origin.json"
MAX_ORIGIN: Final = 16 << 20


class Bundle(NamedTuple):
    """A stored bundle."""

    release: str
    target: Target
    path: Path
    sha256: str
    bytes: int
    origin: sources_.SourceRevision | None = None  # None: not known


def build(folder: Folder, target: Target, *, say: Callable[[str], None]) -> Bundle:
    """The bundle of these sources for `target`; built if it is not stored. Takes seconds to
    minutes; `say` gets progress lines. ReleaseError says in one line why it cannot be built."""
    checkout = sources_.checkout()
    sources = sources_.read(checkout)
    _record(folder, sources.release, sources_.origin(checkout), say)
    path = _path(folder, sources.release, target)
    if not path.is_file():
        content = _made(folder, sources, target, say)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            file.write(content)
        whole = Path(file.name)
        whole.chmod(0o644)
        sync(whole)  # what has its name is not made again: after a power cut it may be empty
        whole.replace(path)
    return _bundle(path)


def _record(
    folder: Folder, release: str, origin: sources_.SourceRevision, say: Callable[[str], None]
) -> None:
    """Store the commit of a release; `say` gets a line about uncommitted changes."""
    if changes := origin.told(release):
        say(changes)
    path = folder.releases / release / ORIGIN
    if _origin(path.parent) == origin:
        return  # keeps the folder's time, which is the release's
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{ORIGIN}")
    whole.write_bytes(msgspec.json.encode(origin._asdict()) + b"\n")
    whole.replace(path)


def origin_of(folder: Folder, release: str) -> sources_.SourceRevision | None:
    """The origin stored beside a release; None if there is none, or it is unreadable."""
    return _origin(folder.releases / release)


def _origin(release: Path) -> sources_.SourceRevision | None:
    try:
        content = files.read(release / ORIGIN, MAX_ORIGIN)
        return msgspec.json.decode(content, type=_Origin).origin
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


class _Origin(msgspec.Struct, frozen=True):
    """The file beside a release's bundles."""

    commit: str
    changed: tuple[str, ...]

    @property
    def origin(self) -> sources_.SourceRevision:
        return sources_.SourceRevision(self.commit, self.changed)


def stored(folder: Folder) -> list[Bundle]:
    """All bundles of the fleet's folder, the latest release first. What has no name of a release is
    left out: it could not be in an inventory, and might break a line."""
    if not folder.releases.is_dir():
        return []
    releases = [
        path
        for path in folder.releases.iterdir()
        if re.match(RELEASE_ID, path.name) and path.is_dir()
    ]
    latest_first = sorted(releases, key=lambda path: (-path.stat().st_mtime, path.name))
    return [_bundle(path) for release in latest_first for path in _bundles(release)]


def find(folder: Folder, release: str, target: Target) -> Bundle:
    """The bundle of `release` for `target`. ReleaseError lists the stored ones."""
    if not release or not re.match(RELEASE_ID, release):
        raise ReleaseError(f"{release!r} is no name of a release")
    path = _path(folder, release, target)
    if path.is_file():
        return _bundle(path)
    others = [each.name.removesuffix(_SUFFIX) for each in _bundles(path.parent)]
    if others:
        raise ReleaseError(f"release {release} is stored for {', '.join(others)}, not for {target}")
    known = list(dict.fromkeys(bundle.release for bundle in stored(folder)))
    if known:
        raise ReleaseError(f"release {release} is not stored; there is {', '.join(known)}")
    raise ReleaseError("no release is stored; `fleet release build` makes one")


def _path(folder: Folder, release: str, target: Target) -> Path:
    return folder.releases / release / f"{target}{_SUFFIX}"


def _bundles(release: Path) -> list[Path]:
    """The bundle files in a release's folder, not what only has such a name."""
    found = []
    for path in sorted(release.glob(f"*{_SUFFIX}")):
        try:
            parse(path.name.removesuffix(_SUFFIX))
        except ValueError:
            continue
        if path.is_file():
            found.append(path)
    return found


def _bundle(path: Path) -> Bundle:
    target = parse(path.name.removesuffix(_SUFFIX))
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise ReleaseError(f"{path}: {error.strerror}") from None
    return Bundle(path.parent.name, target, path, digest, size, _origin(path.parent))


def _made(
    folder: Folder, sources: sources_.Sources, target: Target, say: Callable[[str], None]
) -> bytes:
    """The bytes of a bundle."""
    from fleet.release import byte_code, lock, wheel
    from fleet.release.archive import packed
    from fleet.release.tree import Tree

    tree = Tree(sources.release, target)
    tree.share(sources.shared)
    wanted = lock.pinned(sources.lock, target)
    caches = cache(folder.releases)
    for each in wheelhouse.provide(caches / "wheelhouse", wanted, target, say):
        if each.suffix == ".whl":
            tree.add_wheel(each)
            continue
        with tempfile.TemporaryDirectory() as built:
            tree.add_wheel(wheelhouse.wheel_of_sdist(each, Path(built)))
    with tempfile.TemporaryDirectory() as built:
        own = wheel.build(sources, target, Path(built), caches=caches, say=say)
        tree.add_wheel(own, scripts=True)
    if target.has_this_python:
        tree.add_byte_code(byte_code.compiled(tree))
    say(f"packing {sources.release} for {target}")
    return packed(tree.entries)
