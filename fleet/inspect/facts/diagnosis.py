"""Diagnosis of a host beyond its facts: log messages, kernel log, clock, connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fleet.common.msgspec_types import made_ready
from fleet.inspect.facts.facts import MAX_LISTED, Base, Word
from fleet.inspect.facts.gather import MOST_S

if TYPE_CHECKING:
    from fabric import Connection


class Entry(Base, frozen=True):
    """A line of a host's journal; `time_s` is Unix time there."""

    time_s: float
    text: Word
    kind: Word = ""
    sensor: Word = ""


Entries = Annotated[tuple[Entry, ...], Meta(max_length=MAX_LISTED)]


class TimeService(Base, frozen=True):
    """The service that sets the host's clock; `service` is empty if no known one does."""

    service: Word = ""
    sources: int = 0
    answering: int = 0


class Connect(Base, frozen=True):
    """A connection attempt from the host; `error` is empty if it succeeded."""

    host: Word
    port: int
    error: Word = ""


class Diagnosis(Base, frozen=True):
    """Diagnosis of one host beyond its facts. `agent`: by unit, the latest warnings of this boot;
    `last`: by unit, the last line that it wrote itself; `card` and `power`: kernel messages about
    them."""

    agent: dict[Word, Entries] = msgspec.field(default_factory=dict)
    last: dict[Word, Entry] = msgspec.field(default_factory=dict)
    card: Entries = ()
    power: Entries = ()
    time: TimeService = TimeService()
    connects: Annotated[tuple[Connect, ...], Meta(max_length=MAX_LISTED)] = ()


made_ready(Diagnosis)


def diagnose(
    connection: Connection, *, units: Sequence[str], connect: Sequence[tuple[str, int]]
) -> Diagnosis:
    """Ask the host; one round trip, plus three seconds if an address that it tries does not answer.
    HostError."""
    from fleet.ssh.errors import HostError
    from fleet.ssh.remote import run_program

    request = {"do": "diagnosis", "units": list(units), "connect": [list(each) for each in connect]}
    answer = run_program(connection, request, most_s=MOST_S)
    try:
        return msgspec.convert(answer, Diagnosis)
    except msgspec.ValidationError as error:
        raise HostError("failed", f"its diagnosis cannot be read: {error}") from None
