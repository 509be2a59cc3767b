"""Result tables, rendered for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from rich.console import Console
from rich.table import Table as Drawn

from fleet.terminal import screen
from fleet.terminal.wrapping import fits


class Table(Struct, frozen=True):
    """Rows of text; the first `left` columns are left-aligned, and name a row. On a narrow terminal
    the columns `folds` are folded."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    left: int = 1
    folds: Collection[str] = ()

    def markdown(self) -> str:
        """The table's lines in Markdown, without the title."""
        sides = ["---" if i < self.left else "---:" for i in range(len(self.headings))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, sides, *self.rows))

    def show(self, console: Console) -> None:
        """Title and table. On a terminal that is too narrow for it rows and columns change
        places, if that fits: a table for each name before the last."""
        screen.line(console, self.title, style="bold")
        table = self.drawn()
        if self.left and console.is_terminal and not fits(table, console):
            parts = [(name, part.drawn()) for name, part in self._turned()]
            if all(fits(part, console) for _, part in parts):
                for name, part in parts:
                    if name:
                        screen.line(console, name)
                    screen.show_table(console, part)
                return
        screen.show_table(console, table)

    def drawn(self) -> Drawn:
        """The table for a terminal, without the title."""
        table = screen.plain_table(*self.headings, left=self.left, folds=self.folds)
        for row in self.rows:
            table.add_row(*row)
        return table

    def _turned(self) -> Iterator[tuple[str, Table]]:
        last = self.left - 1
        groups: dict[str, list[Sequence[str]]] = {}
        for row in self.rows:
            groups.setdefault("  ".join(row[:last]), []).append(row)
        for name, rows in groups.items():
            headings = (self.headings[last], *(row[last] for row in rows))
            turned = [
                (heading, *(row[place] for row in rows))
                for place, heading in enumerate(self.headings)
                if place > last
            ]
            yield name, Table("", headings, turned)
