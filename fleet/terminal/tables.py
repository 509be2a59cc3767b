"""Result tables, rendered for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.console import Console

from fleet.terminal import screen


class Table(Struct, frozen=True):
    """Rows of text; the first `left` columns are left-aligned."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def markdown(self) -> str:
        """The table's lines in Markdown, without the title."""
        sides = ["---" if i < self.left else "---:" for i in range(len(self.headings))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, sides, *self.rows))

    def show(self, console: Console) -> None:
        """Title and table."""
        screen.line(console, self.title, style="bold")
        table = screen.plain_table(*self.headings, left=self.left)
        for row in self.rows:
            table.add_row(*row)
        screen.show_table(console, table)
