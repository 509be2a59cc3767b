"""Areas for the completion of command lines: from a master, and for a short while from a file."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from agent.client import Client, NoReplyError
from agent.net.keys import KeyFiles

# Whoever presses the tab key waits no longer.
PATIENCE_MS: Final = 700.0
# What was found is believed for so long; also that nothing was.
KEPT_S: Final = 30.0
FAILED_S: Final = 5.0


class Kept(msgspec.Struct):
    """The file: areas with the names of their rooms, and when they were asked for (seconds since
    1970)."""

    asked_s: float
    areas: dict[str, str]


def known_areas(
    master: str,
    keys: KeyFiles | Sequence[KeyFiles] | None,
    *,
    now: Callable[[], float] = time.time,
    patience_ms: float = PATIENCE_MS,
) -> dict[str, str]:
    """The areas that the master knows, with the names of their rooms; none if it does not answer
    within `patience_ms`."""
    path = _file(master)
    kept = _read(path)
    if kept is not None and 0.0 <= now() - kept.asked_s < (KEPT_S if kept.areas else FAILED_S):
        return kept.areas
    found = _ask(master, keys, patience_ms)
    _write(path, Kept(now(), found))
    return found


def _ask(
    master: str, keys: KeyFiles | Sequence[KeyFiles] | None, patience_ms: float
) -> dict[str, str]:
    with suppress(NoReplyError, ValueError, OSError), Client(master, keys) as client:
        # An address where nobody is would be waited for longer than an answer.
        if client.is_connected(patience_ms / 1e3):
            answer = client.about(timeout_ms=patience_ms, label="fleet completion")
            return {each.area: each.name or "" for each in answer.results}
    return {}


def _file(master: str) -> Path:
    place = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    name = blake2b(f"{os.getuid()} {master}".encode(), digest_size=8).hexdigest()
    return Path(place) / f"sanderling-areas-{os.getuid()}" / f"{name}.json"


def _read(path: Path) -> Kept | None:
    try:
        # Anybody can write to /tmp: only files of this user are trusted.
        # Non-blocking, as opening a FIFO would wait for a writer.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            if os.fstat(number).st_uid != os.getuid():
                return None
            return msgspec.json.decode(file.read(), type=Kept)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(path: Path, kept: Kept) -> None:
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.parent.lstat().st_uid != os.getuid():
            return
        new = path.with_suffix(f".{os.getpid()}")
        number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.encode(kept))
        new.rename(path)
