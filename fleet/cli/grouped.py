"""Groups of commands whose help has a whole line for each command, under headings of what one wants
to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

# Longer than any line: click cuts with dots what is longer than this.
BOUNDLESS = 10_000


class Grouped(click.Group):
    """`headings` are names of commands under each; those under none come last, and names without a
    command are left out."""

    def __init__(
        self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.headings = headings or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list for each heading."""
        left = {name: self.commands[name] for name in self.list_commands(ctx)}
        left = {name: command for name, command in left.items() if not command.hidden}
        width = max(map(len, left), default=0)
        for heading, names in self.headings.items():
            found = [(name, left.pop(name)) for name in names if name in left]
            _write(formatter, heading, found, width)
        _write(formatter, "Other" if self.headings else "Commands", left.items(), width)


def _write(
    formatter: click.HelpFormatter,
    heading: str,
    commands: Iterable[tuple[str, click.Command]],
    width: int,
) -> None:
    rows = [
        (name.ljust(width), command.get_short_help_str(limit=BOUNDLESS))
        for name, command in commands
    ]
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)
