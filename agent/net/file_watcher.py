"""Files that are read again when they change: key files and allow-lists."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from agent.wire.config import ConfigError

T = TypeVar("T")


class Watched(Generic[T]):
    """What `read(path)` made of a file. A version that cannot be used leaves the one before in
    force."""

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self.path = path
        self._read = read
        # Taken before reading: a change in between is seen the next time.
        self._seen = _signature(path)
        self.value = read(path)

    def refresh(self) -> bool:
        """Read the file again if it has changed; whether `value` is another one now.

        ConfigError, once for each version that cannot be used.
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
