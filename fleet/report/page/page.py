"""Assembles the page: one self-contained HTML file."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Final

from fleet.report.page.markup import render
from fleet.report.page.sections import (
    climate,
    deadlines,
    health,
    load,
    moves,
    objectives,
    overview,
    placement,
    processing,
    sources,
    time_spent,
)
from fleet.report.page.shown import Shown

PAGE: Final = "index.html"
PICTURES: Final = "pictures"
SECTIONS: Final = (
    overview, climate, health, objectives, time_spent, deadlines, load, processing, placement,
    moves,
)  # fmt: skip


def compose(shown: Shown, made: sources.Made, executor: Executor) -> list[str]:
    """Write the page and its pictures beside the tables `shown`; returns the pictures' names."""
    begun = [executor.submit(section.section, shown) for section in SECTIONS]
    begun.append(executor.submit(sources.section, shown, made))
    parts = [each.result() for each in begun]
    folder = shown.folder / PICTURES
    folder.mkdir()
    pictures = {f"{p.name}.png": p.png for part in parts for p in part.pictures}
    for name, png in pictures.items():
        (folder / name).write_bytes(png)
    text = render("page.html", title="Fleet report", sections=parts, made=made)
    (shown.folder / PAGE).write_text(text, encoding="utf-8", errors="replace")
    return sorted(pictures)
