"""docs/results/speed.md: the newest result of each benchmark, in one table.

A run replaces the rows of the benchmarks that it ran; each row has its own date and load, since a
row says nothing about another one.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.output import Result
from lab import pages
from lab.provenance import load_average

NAME: Final = "speed"
HEADINGS: Final = (
    "measure", "here", "beside it", "ratio", "goal", "goal met", "load average", "date",
)  # fmt: skip
MET: Final = {True: "yes", False: "**no**", None: "–"}


def kept(results: Iterable[Result], folder: Path) -> Iterator[Result]:
    """The same results; each is in the page of `folder` before the next one is measured."""
    path = folder / NAME / "measures.csv"
    rows = {row[0]: row for row in _read(path)}
    page = folder / f"{NAME}.md"
    for each in results:
        rows[each["name"]] = [
            each["name"],
            f"{each['value']:,g} {each['unit']}",
            each["peer"] or "–",
            "–" if each["ratio"] is None else f"{each['ratio']:.2f}",
            each["goal"] or "–",
            MET[each["goal_met"]],
            f"{load_average():.1f}",
            time.strftime("%Y-%m-%d"),
        ]
        pages.write_csv(path, HEADINGS, [rows[name] for name in sorted(rows)])
        page.write_text(pages.filled(page.read_text("utf-8"), path.parent), "utf-8")
        yield each


def _read(path: Path) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]
