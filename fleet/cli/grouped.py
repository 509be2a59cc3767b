"""Groups of commands whose help has a whole line for each command, under headings of what one wants
to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

# Longer than any line: click cuts with dots what is longer than this.
BOUNDLESS = 10_000
# Of more commands none is named after a name that is like none of them: --help has all.
MAX_NAMED = 12


class Grouped(click.Group):
    """`headings` are names of commands under each; those under none come last, and names without a
    command are left out."""

    def __init__(
        self, *args: Any, headings: Mapping[str, Sequence[str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.headings = headings or {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; UsageError, which says what there is."""
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        from agent.wire.listing import did_you_mean  # only an error needs it

        known = [each for each in self.list_commands(ctx) if not self.commands[each].hidden]
        few = f"; there are {', '.join(known)}" if len(known) <= MAX_NAMED else ""
        hint = did_you_mean(name.lower(), known, "")
        raise click.UsageError(f"No such command {name!r}{f'; {hint}' if hint else few}", ctx)

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
