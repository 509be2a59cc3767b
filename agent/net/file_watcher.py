"""File watcher: reloads key files and allow-lists when they change."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from agent.wire.config import ConfigError

T = TypeVar("T")


class Watched(Generic[T]):
    """The result of `read(path)`, kept current. An unusable version leaves the previous one in
    force."""

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self.path = path
        self._read = read
        # Taken before reading, so that the next refresh notices a change in between.
        self._seen = _signature(path)
        self.value = read(path)

    def refresh(self) -> bool:
        """Reload the file if it has changed; whether `value` has changed.

        ConfigError, once for each unusable version.
        """
        signature = _signature(self.path)
        if signature == self._seen:
            return False
        self._seen = signature
        before, self.value = self.value, self._read(self.path)
        return before != self.value


def _signature(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib costs the edge agent 0.6 MiB
    except OSError as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            raise ConfigError(f"{path}: {error.strerror}") from None
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode
