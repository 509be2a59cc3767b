"""Result pages: Markdown written by hand, with marked tables that are filled from CSV files.

    <!-- table: loads -->
    | policy | queries/s |
    | --- | ---: |
    | EDFQ | 7.45 |
    <!-- end -->

in ``results/simulation.md`` is ``results/simulation/loads.csv``. An experiment writes the CSV files
and has the page filled; whoever reruns it reads the sentences around the tables again.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from fleet.terminal.tables import Table
from lab.provenance import Provenance

MARKED: Final = re.compile(r"<!-- table: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
RULE: Final = re.compile(r"\|(?: *:?-+:? *\|)+")
# A cell of a column of numbers: 12.3 %, −5, +7 (6 … 9), < 1, – for none.
NUMBER: Final = re.compile(r"[+−<>–-]? ?\d|–$|$")
NOT_THERE: Final = "*Not part of this run.*\n"


def write_csv(path: Path, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a CSV file, with the folders above it; returns `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(headings)
        writer.writerows(rows)
    return path


def write(
    folder: Path,
    name: str,
    tables: Mapping[str, Table],
    origin: Provenance,
    more: Mapping[str, str] | None = None,
) -> Path:
    """Write the tables of a run, and its provenance with the rows `more`, to ``<name>/*.csv`` in
    `folder`; then fill the page ``<name>.md`` there. A folder without that page gets one that has
    the tables alone: no sentence in it can be about another run. Returns the page's path."""
    shown = {"provenance": origin.table(**(more or {})), **tables}
    for stale in (folder / name).glob("*.csv"):
        stale.unlink()
    for key, table in shown.items():
        write_csv(folder / name / f"{key}.csv", table.headings, table.rows)
    page = folder / f"{name}.md"
    text = page.read_text("utf-8") if page.exists() else _bare(name, shown)
    page.write_text(filled(text, folder / name), encoding="utf-8")
    return page


def filled(text: str, folder: Path) -> str:
    """`text` with every marked table as the CSV file of its name in `folder` has it. The page says
    how columns are aligned; in a table that is new there, or has other columns, numbers go to the
    right."""

    def table(found: re.Match[str]) -> str:
        key, before = found.groups()
        path = folder / f"{key}.csv"
        body = _markdown(path, before) if path.exists() else NOT_THERE
        return f"<!-- table: {key} -->\n{body}<!-- end -->"

    return MARKED.sub(table, text)


def _bare(name: str, tables: Mapping[str, Table]) -> str:
    parts = [f"# {name}\n"]
    for key, table in tables.items():
        title = f"## {table.title or key}\n\n"
        parts.append(f"{title}<!-- table: {key} -->\n<!-- end -->\n")
    return "\n".join(parts)


def _markdown(path: Path, before: str) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        headings, *rows = csv.reader(file)
    rule = next(filter(RULE.fullmatch, before.splitlines()), "")
    if rule.count("|") != len(headings) + 1:
        columns = [[row[n] for row in rows] for n in range(len(headings))]
        sides = ["---:" if all(map(NUMBER.match, column)) else "---" for column in columns]
        rule = _line(sides)
    cells = [[cell.replace("|", r"\|") for cell in row] for row in (headings, *rows)]
    return "\n".join([_line(cells[0]), rule, *map(_line, cells[1:])]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
