"""A page as a test reads it: its elements, and its tables by rows."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

VOID = {"img", "meta", "link"}


class Number(NamedTuple):
    """What a `data` element says: exactly, and to people."""

    value: str
    text: str


class Page(HTMLParser):
    """All elements as (name, attributes); `tables` as (source, rows of Numbers); it fails where
    elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[tuple[str, list[list[Number]]]] = []
        self.text = ""
        self._open: list[str] = []
        self._value: str | None = None
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append((found.get("data-source") or "", []))
        elif tag == "tr" and self.tables and "table" in self._open:
            self.tables[-1][1].append([])
        elif tag == "data":
            self._value = found["value"]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        self._value = None

    def handle_data(self, data):
        if self._value is not None and "tr" in self._open:
            self.tables[-1][1][-1].append(Number(self._value, data))
        if "style" not in self._open:
            self.text += data

    def all(self, *names: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of these names, in order."""
        return [attributes for name, attributes in self.elements if name in names]
