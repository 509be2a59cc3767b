"""Test files in turns: CI runs a part of a long target, another one for each commit.

A file's part is decided by its path alone, so a file that is added moves no other.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable


def turn(text: str) -> Callable[[str], bool]:
    """Whether it is a file's turn, given its path below the project's root. "7/2": files are in two
    parts, it is the seventh turn. ValueError."""
    found = re.fullmatch(r"([0-9]{1,9})/([1-9][0-9]{0,3})", text)
    if found is None:
        raise ValueError(f"--turn {text}: two numbers are expected, such as 7/2")
    number, parts = map(int, found.groups())
    return lambda file: zlib.crc32(file.encode()) % parts == number % parts
