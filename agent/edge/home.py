"""The node's home among several masters, kept across restarts in a small file."""

# ruff: noqa: PTH105, PTH123 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import os
from collections.abc import Container

LONGEST = 64  # of an IAD's name


def kept_home(path: str, masters: Container[str]) -> str | None:
    """The home that was kept last; None if there is none, or if it is none of these any more."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            home = file.read(LONGEST + 1).strip()
    except OSError:
        return None
    return home if home in masters else None


def keep_home(path: str, home: str) -> str:
    """Keep it; says in one line why it cannot be. The master that it had before would say again
    where it is."""
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(f"{home}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
    except OSError as error:
        return f"{path}: {error.strerror}; after a restart its earlier master is asked first"
    return ""
