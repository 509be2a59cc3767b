"""The command line of `fleet service`: options and their checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fleet.parameters import ADDRESS, AREA, CHANNEL, NAME, SLO, TIMEOUT

F = TypeVar("F", bound=Callable[..., Any])


def _shared(wait: str) -> Callable[[F], F]:
    """The options of every command here."""

    def add(command: F) -> F:
        for option in (
            click.option("--json", "as_json", is_flag=True, help="Print the wire's JSON."),
            click.option(
                "--timeout",
                "timeout_ms",
                type=TIMEOUT,
                default=wait,
                show_default=True,
                help="How long it may take.",
            ),
            click.option(
                "--operator", type=ADDRESS, required=True, help="Operator socket of a master."
            ),
        ):
            command = option(command)
        return command

    return add


def _run(operator: str, request: Any, timeout_ms: float, as_json: bool) -> int:
    from fleet import service as commands

    return commands.run(operator, request, timeout_ms=timeout_ms, as_json=as_json)


@click.group(context_settings={"max_content_width": 100})
def service() -> None:
    """Set services up between IADs, and change them while they run.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 no reply.
    """


@service.command()
@click.argument("name", type=NAME)
@click.option(
    "--capability", type=CHANNEL, required=True, help="What is sensed, such as temperature."
)
@click.option(
    "--area",
    "areas",
    type=AREA,
    multiple=True,
    required=True,
    help="Area to cover; give it again for more.",
)
@click.option("--slo", type=SLO, required=True, help="Tail-latency objective: p99=800ms.")
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(0, 1e6, min_open=True),
    required=True,
    help="λ: queries per second, all query schedulers together.",
)
@click.option(
    "--scheduler",
    "schedulers",
    type=NAME,
    multiple=True,
    help="An IAD that only schedules; give it again for more.",
)
@click.option(
    "--only", type=NAME, multiple=True, help="Buy from this IAD only; give it again for more."
)
@click.option(
    "--fewest",
    type=click.IntRange(1, 500),
    default=1,
    show_default=True,
    help="How many IADs must serve.",
)
@click.option(
    "--relax",
    type=click.FloatRange(1, 100),
    default=1.0,
    show_default=True,
    help="How many times longer or rarer the terms of a counter-offer may be.",
)
@click.option(
    "--redundant", is_flag=True, help="Where two IADs cover an area, ask both; the first wins."
)
@_shared("10s")
def create(
    name: str,
    capability: str,
    areas: tuple[str, ...],
    slo: Any,
    rate_per_s: float,
    schedulers: tuple[str, ...],
    only: tuple[str, ...],
    fewest: int,
    relax: float,
    redundant: bool,
    operator: str,
    timeout_ms: float,
    as_json: bool,
) -> int:
    """Set a service up: discover IADs, negotiate, provision, form the pool."""
    from agent.wire.operator import CreateService
    from fleet import service as commands

    request = CreateService(
        id="create",
        service=name,
        capability=capability,
        areas=areas,
        slo=slo,
        rate_per_s=rate_per_s,
        schedulers=schedulers,
        only=only,
        fewest=fewest,
        relax=relax,
        redundant=redundant,
        timeout_ms=timeout_ms,
    )
    return _run(operator, request, timeout_ms + commands.GRACE_MS, as_json)


@service.command(name="list")
@_shared("2s")
def list_(operator: str, timeout_ms: float, as_json: bool) -> int:
    """Print the services that a master is a member or the owner of."""
    from agent.wire.operator import ListServices

    return _run(operator, ListServices("list"), timeout_ms, as_json)


@service.command()
@click.argument("name", type=NAME)
@_shared("2s")
def show(name: str, operator: str, timeout_ms: float, as_json: bool) -> int:
    """Print the pool of one service."""
    from fleet import service as commands

    return commands.show(operator, name, timeout_ms=timeout_ms, as_json=as_json)


@service.command()
@click.argument("name", type=NAME)
@click.argument("iad", type=NAME)
@_shared("15s")
def add(name: str, iad: str, operator: str, timeout_ms: float, as_json: bool) -> int:
    """Take one more IAD into a running pool."""
    from agent.wire.operator import AddIad

    return _run(operator, AddIad("add", name, iad), timeout_ms, as_json)


@service.command()
@click.argument("name", type=NAME)
@click.argument("iad", type=NAME)
@_shared("15s")
def remove(name: str, iad: str, operator: str, timeout_ms: float, as_json: bool) -> int:
    """Take an IAD out of a running pool; what it has open it finishes."""
    from agent.wire.operator import RemoveIad

    return _run(operator, RemoveIad("remove", name, iad), timeout_ms, as_json)


@service.command()
@click.argument("name", type=NAME)
@_shared("15s")
def drop(name: str, operator: str, timeout_ms: float, as_json: bool) -> int:
    """End a service at all its members."""
    from agent.wire.operator import DropService

    return _run(operator, DropService("drop", name), timeout_ms, as_json)
