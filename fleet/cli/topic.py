"""Click commands: `fleet topic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fleet.cli.asking import asks
from fleet.cli.connecting import connecting
from fleet.cli.grouped import Grouped
from fleet.cli.options import AREA, CHANNEL, INTERVAL, NAME, SLO, TEXT, F, Parsed, patience

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles
    from fleet.query.topic import Asker


def _channels(text: str) -> tuple[str, ...]:
    return tuple([CHANNEL.parse(each) for each in text.split(",")])


def _setting(text: str) -> tuple[str, Any]:
    from fleet.query.topic import setting

    return setting(text)


def _limit(text: str) -> tuple[str, float]:
    from fleet.query.topic import limit

    return limit(text)


CHANNELS = Parsed("channels", _channels)
SETTING = Parsed("name=value", _setting)
LIMIT = Parsed("name=value", _limit)
# Options of what has a processor: topics, and clones.
OF_CHANNELS = click.option(
    "--channels", type=CHANNELS, default=(), help="Only these: temperature,humidity. Default all."
)
PARAMETERS = click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    help='A parameter of the processor: name=value, or \'name=["a","b"]\'. Repeat for more.',
)
_OBJECTIVE = click.option(
    "--slo",
    type=SLO,
    help="Objective for the time from a message's arrival until it is processed: p90=1s.",
)
_LIMITED = click.option(
    "--limit",
    "limits",
    type=LIMIT,
    multiple=True,
    help="Limits of the processor: memory=128M, cpu=0.5s, waiting=5000. Repeat for more.",
)


def bounded(command: F) -> F:
    """The options for how fast a processor is to be, and what it may take."""
    return _OBJECTIVE(_LIMITED(command))


@click.group(
    cls=Grouped,
    context_settings={"max_content_width": 100},
    short_help="Topics: readings and messages that masters process.",
)
def topic() -> None:
    """Topics of a master: their inputs and processors; publish to them.

    To receive a topic's outputs: fleet subscribe 'topic = "NAME"'.

    Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 no reply.
    """


@topic.command()
@click.argument("name", type=NAME)
@click.option(
    "--area",
    "areas",
    type=AREA,
    multiple=True,
    help="Area whose readings go in; repeat it for more. Without it only published messages.",
)
@OF_CHANNELS
@click.option("--every", "every_s", type=INTERVAL, help="With --area: how often, such as 5s.")
@click.option(
    "--service",
    type=TEXT,
    default="default",
    show_default=True,
    help="With --area: the service to query.",
)
@click.option(
    "--processor",
    type=TEXT,
    default="",
    help="The processor of each message; without it messages are put out unchanged.",
)
@PARAMETERS
@bounded
@click.option(
    "--standby", is_flag=True, help="Another master of the pool takes it over if its own dies."
)
@asks("5s", "fleet.query.topic")
def create(
    name: str,
    areas: tuple[str, ...],
    channels: tuple[str, ...],
    every_s: float | None,
    service: str,
    processor: str,
    settings: tuple[tuple[str, Any], ...],
    slo: Any,
    limits: tuple[tuple[str, float], ...],
    standby: bool,
    ask: Asker,
) -> int:
    """Create a topic at a master.

    \b
    fleet topic create comfort --area b1/f4 --channels temperature,humidity \\
      --every 5s --processor comfort_index --slo p90=1s
    fleet topic create notes

    The same again changes nothing. Exit status: 0 created, 2 wrong usage, 3 refused, 4 no reply.
    """
    return ask.create(
        name,
        areas=areas,
        channels=channels,
        every_s=every_s,
        service=service,
        processor=processor,
        parameters=dict(settings),
        slo=slo,
        limits=dict(limits),
        standby=standby,
    )


@topic.command(name="list")
@asks("2s", "fleet.query.topic")
def list_(ask: Asker) -> int:
    """List a master's topics."""
    return ask.list()


@topic.command()
@click.argument("name", type=NAME)
@asks("2s", "fleet.query.topic")
def show(name: str, ask: Asker) -> int:
    """Print one topic, and the state of its processor."""
    return ask.show(name)


@topic.command(short_help="Remove a topic, with its processor's state.")
@click.argument("name", type=NAME)
@asks("5s", "fleet.query.topic")
def remove(name: str, ask: Asker) -> int:
    """Remove a topic, with its processor's state and everything that waits for it."""
    return ask.remove(name)


@topic.command(short_help="Restart a processor that failed too often.")
@click.argument("name", type=NAME)
@asks("5s", "fleet.query.topic")
def enable(name: str, ask: Asker) -> int:
    """Restart a processor that failed too often, or is in a long pause."""
    return ask.enable(name)


@topic.command(short_help="Publish a message to a topic of any master.")
@click.argument("name", type=NAME)
@click.argument("attributes", type=SETTING, nargs=-1, required=True)
@connecting("master", several=True)
@patience("10s", "How long it may take.")
def publish(
    name: str,
    attributes: tuple[tuple[str, Any], ...],
    master: str,
    timeout_ms: float,
    keys: KeyFiles | list[KeyFiles] | None,
) -> int:
    """Publish a message to a topic of any master: fleet topic publish notes area=b1/f4 vote=3

    It returns once the master has the message on disk.
    """
    from fleet.query import topic as command

    return command.publish(master, name, dict(attributes), timeout_ms / 1e3, keys)
