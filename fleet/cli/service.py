"""Click commands: `fleet service`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.area_option import areas_to
from fleet.cli.asking import asks
from fleet.cli.grouped import Grouped
from fleet.cli.options import CHANNEL, NAME, SLO, Number

if TYPE_CHECKING:
    from fleet.query.service import Asker


_ROOM = "fleet.query.service"


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def service() -> None:
    """Set services up between IADs, and change them while they run.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 no reply.
    """


@service.command(short_help="Set a service up: find IADs, negotiate, form the pool.")
@click.argument("name", type=NAME)
@click.option(
    "--capability", type=CHANNEL, required=True, help="What is sensed, such as temperature."
)
@areas_to("cover")
@click.option("--slo", type=SLO, required=True, help="Tail-latency objective: p99=800ms.")
@click.option(
    "--rate",
    "rate_per_s",
    type=Number(0, 1e6, min_open=True),
    required=True,
    help="λ: queries per second, all query schedulers together.",
)
@click.option(
    "--scheduler",
    "schedulers",
    type=NAME,
    multiple=True,
    help="An IAD that only schedules; repeat it for more.",
)
@click.option(
    "--only", type=NAME, multiple=True, help="Buy from this IAD only; repeat it for more."
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
    type=Number(1, 100),
    default=1.0,
    show_default=True,
    help="Factor by which a counter-offer's latency may be longer, or its rate lower.",
)
@click.option(
    "--redundant", is_flag=True, help="Where two IADs cover an area, ask both; the first wins."
)
@asks("10s", _ROOM)
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
    ask: Asker,
) -> int:
    """Set a service up: discover IADs, negotiate, provision, form the pool.

    Exit status: 0 all areas are served, 1 set up but some are not, 2 wrong usage, 3 refused,
    4 no reply.
    """
    from agent.wire.operator import CreateService
    from fleet.query.service import GRACE_MS

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
        timeout_ms=ask.timeout_ms,
    )
    return ask.run(request, extra_ms=GRACE_MS)


@service.command(name="list")
@asks("2s", _ROOM)
def list_(ask: Asker) -> int:
    """Print the services that a master is a member or the owner of."""
    from agent.wire.operator import ListServices

    return ask.run(ListServices("list"))


@service.command()
@click.argument("name", type=NAME)
@asks("2s", _ROOM)
def show(name: str, ask: Asker) -> int:
    """Print the pool of one service."""
    return ask.show(name)


@service.command()
@click.argument("name", type=NAME)
@click.argument("iad", type=NAME)
@asks("15s", _ROOM)
def add(name: str, iad: str, ask: Asker) -> int:
    """Take one more IAD into a running pool."""
    from agent.wire.operator import AddIad

    return ask.run(AddIad("add", name, iad))


@service.command()
@click.argument("name", type=NAME)
@click.argument("iad", type=NAME)
@asks("15s", _ROOM)
def remove(name: str, iad: str, ask: Asker) -> int:
    """Take an IAD out of a running pool; it finishes what it has open."""
    from agent.wire.operator import RemoveIad

    return ask.run(RemoveIad("remove", name, iad))


@service.command()
@click.argument("name", type=NAME)
@asks("15s", _ROOM)
def drop(name: str, ask: Asker) -> int:
    """End a service at all its members."""
    from agent.wire.operator import DropService

    return ask.run(DropService("drop", name))
