"""Click commands: `fleet areas`, `fleet channels`, `fleet services`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.area_option import areas_to
from fleet.cli.connecting import connecting
from fleet.cli.options import AS_JSON, NAME, patience

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles
    from fleet.query.about import Asker


def _asks(command: Callable[..., int]) -> Callable[..., int]:
    """The options of all three; the command gets `ask`."""

    @connecting("master", several=True)
    @areas_to("list, with all below it; by default all", required=False)
    @click.option(
        "--service",
        type=NAME,
        default="default",
        help="Service to query; by default `default`, or all where there is none of that name.",
    )
    @patience("5s", "How long to wait for other masters.")
    @AS_JSON
    @functools.wraps(command)
    def asking(
        master: str,
        areas: tuple[str, ...],
        service: str,
        timeout_ms: float,
        as_json: bool,
        keys: KeyFiles | list[KeyFiles] | None,
        **options: Any,
    ) -> int:
        from fleet.query.about import Asker

        return command(Asker(master, areas, service, timeout_ms, as_json, keys), **options)

    return asking


@click.command(short_help="List the areas that can be queried, and their channels.")
@_asks
def areas(ask: Asker) -> int:
    """List the areas that can be queried: channels, raised triggers, when heard.

    Exit status: 0 complete, 1 partial, 2 wrong usage, 3 refused, 4 no reply.
    """
    return ask.areas_()


@click.command()
@_asks
def channels(ask: Asker) -> int:
    """List the channels that can be queried, with their units.

    Exit status: 0 complete, 1 partial, 2 wrong usage, 3 refused, 4 no reply.
    """
    return ask.channels()


@click.command()
@_asks
def services(ask: Asker) -> int:
    """List the services that can be queried, and what they sense.

    Exit status: 0 complete, 1 partial, 2 wrong usage, 3 refused, 4 no reply.
    """
    return ask.services()
