"""Texts that others word, such as reasons of errors, without what a terminal might obey."""

from __future__ import annotations


def printable(text: str) -> str:
    """On one line, with a space for each character that is not printable. O(characters)."""
    return "".join([each if each.isprintable() else " " for each in text])


def one_line(text: str, most: int | None = None) -> str:
    """The same without more spaces than words need, cut at `most` characters."""
    return " ".join(printable(text).split())[:most]
