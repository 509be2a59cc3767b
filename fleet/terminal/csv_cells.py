"""Formats values for the cells of a CSV file."""

from __future__ import annotations

from datetime import datetime
from typing import Final

# A spreadsheet would run a text with such a start as a formula; the last four are the first ones as
# wide as an ideograph.
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")
# Characters that no CSV file needs: a terminal would obey some, and CSV readers reject NUL.
CONTROLS: Final = dict.fromkeys({*range(32), *range(127, 160)} - {*map(ord, "\t\n\r")})


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
    """A value as a CSV cell: a text that a spreadsheet would run gets a leading ``'``, and control
    characters but for tabs and line ends are removed."""
    text = exact(value)
    if isinstance(value, str):
        if not text.isprintable():
            text = text.translate(CONTROLS)
        return f"'{text}" if text.startswith(FORMULA) else text
    return text
