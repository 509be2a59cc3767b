"""Click options and parameter types that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from fleet.cli import completion

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.rollout.rollout import Share

# As the wire's `Text`, which is not imported for the sake of --help.
MAX_TEXT = 512
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])


class Parsed(click.ParamType, Generic[V]):  # type: ignore[type-arg]  # generic since click 8.5
    """An option read by a function that raises ValueError with a line that says what is wrong."""

    def __init__(self, name: str, parse: Callable[[str], V]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> V:
        """The parsed value."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # click converts its own result again
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Number(click.FloatRange):
    """A number in a range; NaN, which is in none and passes every comparison, is refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is no number", param, ctx)
        return number


def _units(function: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        from fleet.terminal import units

        return getattr(units, function)(text)

    return parse


def matching(pattern: str, what: str) -> Callable[[str], str]:
    """A parser of texts that are this as a whole."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {what}")
        return text

    return parse


def _area(text: str) -> str:
    from agent.wire.areas import AREA_PATTERN

    what = "an area; write names of a-z, A-Z, 0-9, _ . and -, with / between: b1/f4/r413"
    return matching(AREA_PATTERN, what)(text)


def _address(text: str) -> str:
    match = re.fullmatch(r"tcp://[^/:\s]+:([0-9]{1,5})|ipc://.+", text)
    if match is None or (match[1] and not 1 <= int(match[1]) <= 65_535):
        raise ValueError(f"{text!r} is not an address; write tcp://host:port")
    return text


def _addresses(text: str) -> str:
    return ",".join([_address(each) for each in text.split(",")])


def _policy(text: str) -> str:
    from fleet.simulation.policies import POLICIES

    if text not in POLICIES:
        raise ValueError(f"{text!r} is not a policy; write {', '.join(POLICIES)}")
    return text


def _share(text: str) -> Any:
    from fleet.rollout.rollout import Share

    match = re.fullmatch(r"(\d{1,5})(%?)", text)
    if match is None or (match[2] and int(match[1]) > 100):
        raise ValueError(f"{text!r} is no number of hosts; write 4 or 25%")
    return Share(int(match[1]), bool(match[2]))


def _identifier(text: str) -> str:
    if not 1 <= len(text) <= 64:
        raise ValueError(f"a name has 1 to 64 characters; this one has {len(text)}")
    return _encodable(text)


def _condition(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has {len(text)} characters; at most {MAX_TEXT} are read")
    return _encodable(text)


def _encodable(text: str) -> str:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("it has bytes that are no UTF-8")
    return text


ADDRESS = Parsed("address", _address)
# Of several masters, with commas between.
ADDRESSES = Parsed("addresses", _addresses)
POLICY = Parsed("policy", _policy)
AREA = Parsed("area", _area)
NAME = Parsed("name", matching(r"[A-Za-z0-9_.-]{1,64}", "a name; write letters, digits, _ . -"))
NAMES = Parsed(
    "names",
    matching(r"[A-Za-z0-9_.-]{1,64}(,[A-Za-z0-9_.-]{1,64})*", "names; write iad1, or iad1,iad2"),
)
CHANNEL = Parsed(
    "channel", matching(r"[a-z][a-z0-9_]{0,31}", "a channel; write temperature or humidity")
)
# A watch's or subscription's, chosen by its client.
IDENTIFIER = Parsed("name", _identifier)
# Whatever else is no path: bytes that are no UTF-8 go into no message, file or request.
TEXT = Parsed("text", _encodable)
# Of a trigger or filter that the master reads.
CONDITION = Parsed("condition", _condition)
WINDOW = Parsed("duration", _units("parse_window"))
INTERVAL = Parsed("duration", _units("parse_interval"))
AGO = Parsed("duration", _units("parse_ago"))
TIMEOUT = Parsed("duration", _units("parse_timeout"))
SHARE = Parsed("hosts", _share)


def at_least_one(_context: click.Context, _parameter: click.Parameter, value: Share) -> Share:
    """With none at a time nothing would ever be done."""
    if not value.value:
        raise click.BadParameter("write 1 or more, or a part of all such as 25%")
    return value


SLO = Parsed("objective", _units("parse_slo"))

CHANNELS = click.option(
    "--channel",
    "channels",
    type=CHANNEL,
    multiple=True,
    help="Only this channel; repeat it for more.",
)
ENDED = click.option(
    "--ago",
    "ago_s",
    type=AGO,
    default="0s",
    show_default=True,
    help="How long ago the window ended.",
)
SERVICE = click.option(
    "--service",
    "service_id",
    type=NAME,
    default="default",
    show_default=True,
    help="Service to query.",
)
OBJECTIVE = click.option(
    "--slo", type=SLO, default="p99=500ms", show_default=True, help="Tail-latency objective."
)
SERIES = click.option(
    "--series/--aggregate",
    default=True,
    show_default=True,
    help="All readings, or minimum, mean and maximum made at the nodes.",
)
# The seeds that follow it fit 64 bits too.
SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**53),
    default=1,
    show_default=True,
    help="Seed of the load.",
)


def _fleet(*, needed: bool) -> Callable[[F], F]:
    def open_folder(
        _context: click.Context, _parameter: click.Parameter, value: Path | None
    ) -> Folder | None:
        from fleet.inventory import folder

        if value is None:
            return folder.find() if needed else None
        return folder.at(value, "--fleet")

    return click.option(
        "--fleet",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        callback=open_folder,
        is_eager=True,  # what is completed after it comes from its inventory
        help="Folder of the fleet; else $SANDERLING_FLEET, or the nearest one upwards with a "
        "fleet.toml.",
    )


# The command gets `folder`, in which there is an inventory.
FLEET = _fleet(needed=True)
# The same of a command that can do without: `folder` is None unless the option is given.
FLEET_IF_NAMED = _fleet(needed=False)


def hosts_options(command: F) -> F:
    """Options that choose hosts of the fleet: the command gets `iads`, `groups` and `limit`, as
    `fleet.inventory.selection.select` takes them."""
    for option in (
        click.option(
            "--limit",
            type=TEXT,
            metavar="PATTERN[,PATTERN]",
            default="",
            shell_complete=completion.LIMIT,
            help="Only hosts of these names: 'iad4/n*', iad4/master, n3; '!iad4/n7' leaves one "
            "out.",
        ),
        click.option(
            "--group",
            "groups",
            type=NAME,
            multiple=True,
            shell_complete=completion.GROUPS,
            help="Only nodes of this group; repeat it for more.",
        ),
        click.option(
            "--iad",
            "iads",
            type=NAME,
            multiple=True,
            shell_complete=completion.IADS,
            help="Only hosts of this IAD; repeat it for more.",
        ),
    ):
        command = option(command)
    return command


PARALLEL = click.option(
    "--parallel",
    type=click.IntRange(1, 1_000),
    default=50,
    show_default=True,
    help="Hosts worked on in parallel.",
)
YES = click.option("--yes", is_flag=True, help="Do it without asking.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def patience(default: str, what: str) -> Callable[[F], F]:
    """The option for how long a command waits for its reply."""
    return click.option(
        "--timeout", "timeout_ms", type=TIMEOUT, default=default, show_default=True, help=what
    )


def last(default: str) -> Callable[[F], F]:
    """The option for the length of the window that is asked."""
    return click.option(
        "--last",
        "last_s",
        type=WINDOW,
        default=default,
        show_default=True,
        help="Length of the window.",
    )


def answer_timeout(what: str) -> Callable[[F], F]:
    """The option for the answer timeout of a query; `what` says of which."""
    return click.option(
        "--timeout",
        "timeout_ms",
        type=TIMEOUT,
        help=f"Answer timeout{what}; by default 4 times the SLO's latency.",
    )


def run_directory(default: str) -> Callable[[F], F]:
    """The option for the folder of an experiment."""
    return click.option(
        "--directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help="Where the run is kept; the run before is moved aside.",
    )


def results_folder(what: str) -> Callable[[F], F]:
    """The option for the folder of an experiment's results; `what` ends in go or goes."""
    return click.option(
        "--results",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Where {what}; by default with the run.",
    )
