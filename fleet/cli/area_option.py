"""The option for areas. A shell completes them from the master that would be asked; that never
raises, and waits for the master a moment only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from fleet.cli.connecting import connecting
from fleet.cli.options import AREA

F = TypeVar("F", bound=Callable[..., Any])


def areas_to(what: str, *, required: bool = True) -> Callable[[F], F]:
    """The option for areas to `what`. Words without an option are refused, since most are areas."""
    option = click.option(
        "--area",
        "areas",
        type=AREA,
        multiple=True,
        required=required,
        shell_complete=complete_area,
        help=f"Area to {what}; repeat it for more.",
    )
    stray = click.argument(
        "stray", cls=_Stray, nargs=-1, expose_value=False, is_eager=True, callback=_refuse
    )
    return lambda command: option(stray(command))


class _Stray(click.Argument):
    """Words that no command takes; the usage does not show it."""

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return []


def _refuse(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> None:
    if words:
        raise click.UsageError(
            f"unexpected argument '{words[0]}'; an area needs its option: --area {words[0]}"
        )


def complete_area(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completes an area, each with the name of its room."""
    import contextlib
    import io

    known: dict[str, str] = {}
    # The shell shows what is printed in the middle of the line that is being typed.
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        from fleet.query.known_areas import known_areas

        def ask(master: str, keys: Any) -> int:
            known.update(known_areas(master, keys))
            return 0

        given = ("address", "of_iad", "folder", "key", "server_keys")
        connecting("master", several=True)(ask)(
            **{name: context.params.get(name) for name in given}
        )
    below = {
        each: known.get(each, "")
        for area in known
        for end in range(area.count("/") + 1)
        for each in ["/".join(area.split("/")[: end + 1])]
    }
    return [
        CompletionItem(area, help=name or None)
        for area, name in sorted(below.items())
        if area.startswith(begun)
    ]
