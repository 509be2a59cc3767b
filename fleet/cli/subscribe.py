"""Click command: `fleet subscribe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fleet.cli.connecting import connecting
from fleet.cli.options import IDENTIFIER, WINDOW, Parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.net.keys import KeyFiles
    from agent.wire.predicates import Filter


def _filter(text: str) -> Filter:
    from agent.wire.predicate_language import read_filter

    return read_filter(text)


FILTER = Parsed("filter", _filter)


@click.command(short_help="Print each alert that matches a filter, as it arrives.")
@click.argument("wanted", metavar="FILTER", type=FILTER, required=False)
@connecting("master", several=True)
@click.option(
    "--durable",
    "durable",
    metavar="NAME",
    type=IDENTIFIER,
    help="Keep alerts under this name while nobody listens: the same command continues later.",
)
@click.option("--after", type=click.IntRange(min=0), help="With --durable: last position known.")
@click.option("--count", type=click.IntRange(min=1), help="End after this many alerts.")
@click.option(
    "--for", "--lasting", "lasting_s", type=WINDOW, help="How long; by default until Ctrl-C."
)
@click.option("--detach", is_flag=True, help="With --durable: create the subscription, and exit.")
@click.option("--unsubscribe", is_flag=True, help="With --durable: end it, and forget its alerts.")
@click.option("--json", "as_json", is_flag=True, help="Print each alert as a line of JSON.")
def subscribe(
    master: str,
    wanted: Filter | None,
    durable: str | None,
    after: int | None,
    count: int | None,
    lasting_s: float | None,
    detach: bool,
    unsubscribe: bool,
    as_json: bool,
    keys: KeyFiles | Sequence[KeyFiles] | None,
) -> int:
    """Print each alert that matches FILTER, as it arrives; '*' matches all.

    \b
    fleet subscribe --iad iad4 'metric = "temperature" and value > 30'
    fleet subscribe --iad iad4 'area under "b1/f4" and kind = "raised"' --for 8h
    fleet subscribe --iad iad4 'trigger in ("hot", "smoke")' --durable pager

    Exit status: 0 done, 1 nothing to unsubscribe, 2 wrong usage, 3 refused, 4 no reply, 130
    interrupted.
    """
    from fleet.query import subscribe as command

    for option, given in (
        ("--after", after is not None),
        ("--detach", detach),
        ("--unsubscribe", unsubscribe),
    ):
        if given and durable is None:
            raise click.UsageError(f"{option} goes with --durable NAME")
    if detach and unsubscribe:
        raise click.UsageError("--detach makes a subscription, --unsubscribe ends it; choose one")
    if unsubscribe and durable is not None:
        return command.end(master, durable, keys)
    if wanted is None:
        raise click.UsageError("say which alerts: 'value > 30', or '*' for all")
    return command.run(
        command.Options(
            master=master,
            wanted=wanted,
            durable=durable,
            after=after,
            count=count,
            lasting_s=lasting_s,
            detach=detach,
            as_json=as_json,
        ),
        keys,
    )
