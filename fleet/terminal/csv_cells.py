"""Formats values for the cells of a CSV file."""

from __future__ import annotations

from datetime import datetime
from typing import Final

# A spreadsheet would run a text with such a start as a formula.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def exact(value: object) -> str:
    """A value as the CSV files have it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("+00:00") + "Z"
    return str(value)


def cell(value: object) -> str:
    """A value as a CSV cell: a text that a spreadsheet would run gets a leading ``'``, and NULs,
    which CSV readers reject, are removed."""
    text = exact(value)
    if isinstance(value, str):
        text = text.replace("\0", "")
        return f"'{text}" if text.startswith(FORMULA) else text
    return text
