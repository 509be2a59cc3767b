"""The page and its files, read once, compressed, with their fingerprints."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

FOLDER: Final = Path(__file__).parents[1] / "static"
INDEX: Final = "index.html"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
PLAIN: Final = frozenset((".png", ".woff2"))  # compressed as they are


class StaticFile(Struct, frozen=True):
    """A file: `packed` is empty if compression does not help."""

    body: bytes
    packed: bytes
    media_type: str
    etag: str


def read_static(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """The files below `folder`, by their paths there; of unknown kinds none."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = TYPES.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        body = path.read_bytes()
        packed = b"" if path.suffix in PLAIN else gzip.compress(body, 9, mtime=0)
        found[path.relative_to(folder).as_posix()] = StaticFile(
            body,
            packed if len(packed) < len(body) else b"",
            kind,
            f'"{sha256(body).hexdigest()[:32]}"',
        )
    return found
