"""`fleet areas`, `fleet channels`, `fleet services`: what can be asked, from a public socket."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import UNSET, Struct
from rich.console import Console

from agent.client import Client, NoReplyError
from agent.net.keys import KeyFiles
from agent.wire.about import EVERYWHERE, About, ServiceInfo
from agent.wire.figures import percentile_in_words
from agent.wire.listing import few
from agent.wire.messages import Answer, Slo
from agent.wire.units import sign_of
from fleet.common import exits
from fleet.query import replies, words
from fleet.query.query import EXIT_STATUS
from fleet.terminal import output, screen
from fleet.terminal.screen import line, local_time, plain_table, show_table
from fleet.terminal.units import format_ms

NAMED_AREAS: Final = 3
# What a master of an earlier version says of the form.
UNKNOWN_FORM: Final = "$.form"
EARLIER: Final = "that master is of an earlier version and cannot list what it has"


class Channel(Struct, frozen=True):
    """A channel, its unit as drivers name it, and the number of areas that have it."""

    name: str
    unit: str
    areas: int


class Channels(Struct, frozen=True):
    """The document of `fleet channels --json`."""

    channels: tuple[Channel, ...]


class Services(Struct, frozen=True):
    """The document of `fleet services --json`."""

    services: tuple[ServiceInfo, ...]


class Asker(Struct, frozen=True):
    """Whom to ask for what, and how the result is printed."""

    master: str
    areas: tuple[str, ...]
    service: str
    timeout_ms: float
    as_json: bool
    keys: KeyFiles | Sequence[KeyFiles] | None = None

    def areas_(self) -> int:
        """Print the areas; returns the exit status."""
        answer = self._ask()
        if isinstance(answer, int):
            return answer
        if self.as_json:
            replies.write_json(answer)
        else:
            show_areas(screen.console(), answer)
        return self._ended(answer)

    def channels(self) -> int:
        """Print the channels; returns the exit status."""
        answer = self._ask()
        if isinstance(answer, int):
            return answer
        found = channels_in(answer)
        if self.as_json:
            output.write_json(Channels(found))
        else:
            show_channels(screen.console(), found)
        return self._ended(answer)

    def services(self) -> int:
        """Print the services; returns the exit status."""
        answer = self._ask()
        if isinstance(answer, int):
            return answer
        found = () if answer.services is UNSET else answer.services
        if self.as_json:
            output.write_json(Services(found))
        else:
            show_services(screen.console(), found)
        return exits.DONE

    def _ask(self) -> Answer | int:
        """The answer, or the exit status of a failure."""
        try:
            with Client(self.master, self.keys) as client:
                answer = client.about(
                    self.areas or (EVERYWHERE,),
                    service=self.service,
                    timeout_ms=self.timeout_ms,
                    label="fleet areas",
                )
        except (NoReplyError, ValueError) as error:
            return replies.fail(error, f"{self.master} is no answer to a query", "public")
        if answer.status == "refused":
            why = answer.message or answer.reason or ""
            return replies.refused(EARLIER if UNKNOWN_FORM in why else why, self.master)
        return answer

    def _ended(self, answer: Answer) -> int:
        """The gaps, where programs do not read; returns the exit status."""
        there, wrong = words.apart(answer, Slo(99.0, self.timeout_ms), service=self.service)
        told = screen.console(stderr=self.as_json)
        for gap in () if there is None else screen.gap_lines(there):
            line(told, gap, style="yellow")
        if wrong:
            return exits.fail("; ".join(wrong), exits.USAGE)
        return EXIT_STATUS[answer.status]


def show_areas(terminal: Console, answer: Answer) -> None:
    """A row per area."""
    found = [(each, each.about) for each in answer.results if each.about is not None]
    if not found:
        line(terminal, "no areas")
        return
    with_names = any(result.name for result, _ in found)
    columns = ["area", *(["room"] if with_names else []), "channels", "heard", "raised now"]
    if not any(about.raised for _, about in found):
        columns.remove("raised now")
    table = plain_table(
        *columns, left=len(columns), folds=("area", "room", "channels", "raised now")
    )
    today = datetime.now().astimezone()
    for result, about in found:
        cells = [result.area, *([result.name or ""] if with_names else [])]
        cells += [", ".join(channel_words(about)) or "–", _heard(about)]
        if "raised now" in columns:
            cells.append(_raised(about, today))
        table.add_row(*cells)
    show_table(terminal, table)


def channel_words(about: About) -> list[str]:
    """``temperature °C``, ``vote``."""
    return [f"{each.name} {sign_of(each.unit)}".rstrip() for each in about.channels]


def channels_in(answer: Answer) -> tuple[Channel, ...]:
    """The channels of all areas; one for each unit of a name."""
    found: dict[tuple[str, str], int] = {}
    for result in answer.results:
        for each in result.about.channels if result.about else ():
            key = each.name, each.unit
            found[key] = found.get(key, 0) + 1
    return tuple([Channel(name, unit, areas) for (name, unit), areas in sorted(found.items())])


def show_channels(terminal: Console, channels: Sequence[Channel]) -> None:
    """A row per channel."""
    if not channels:
        line(terminal, "no channels")
        return
    table = plain_table("channel", "unit", "areas", left=2)
    for each in channels:
        table.add_row(each.name, sign_of(each.unit) or "–", f"{each.areas:,}")
    show_table(terminal, table)


def show_services(terminal: Console, services: Sequence[ServiceInfo]) -> None:
    """A row per service."""
    if not services:
        line(terminal, "no services")
        return
    table = plain_table(
        "service", "gives", "terms of each IAD", "areas", left=4, folds=("service", "areas")
    )
    for each in services:
        areas = few(each.areas, NAMED_AREAS)
        table.add_row(each.name, each.capability or "all", _objective(each), areas or "–")
    show_table(terminal, table)


def _objective(service: ServiceInfo) -> str:
    if service.percentile is None or service.latency_ms is None:
        return "–"
    return f"p{percentile_in_words(service.percentile)} ≤ {format_ms(service.latency_ms)}"


def _heard(about: About) -> str:
    if about.heard_ms_ago is None:
        return "down" if about.down else "–"
    ago = f"{_short(about.heard_ms_ago / 1e3)} ago"
    return f"down {ago}" if about.down else ago


def _short(seconds: float) -> str:
    """In one unit, with two digits of seconds, minutes or hours: with one node that is down the
    table of the demo would not fit 80 columns otherwise."""
    for unit, size in (("s", 1), ("m", 60), ("h", 3_600)):
        if round(seconds / size) < 100:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def _raised(about: About, today: datetime) -> str:
    """Each with the time since when, by its node's clock."""
    return ", ".join(
        f"{each.trigger} since {local_time(each.since_ms, today)}" for each in about.raised
    )
