"""Diagnosis of a host beyond its facts: log messages, kernel log, clock, connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fleet.common.typed import made_ready
from fleet.inspect.facts.facts import Base

if TYPE_CHECKING:
    from fabric import Connection


class Entry(Base, frozen=True):
    """A line of a host's journal; `time_s` is Unix time there."""

    time_s: float
    text: str
    kind: str = ""
    sensor: str = ""


class TimeService(Base, frozen=True):
    """What sets the host's clock; `service` is empty if nothing does that we know."""

    service: str = ""
    sources: int = 0
    answering: int = 0


class Connect(Base, frozen=True):
    """An attempt to connect from the host; `error` is empty where it succeeded."""

    host: str
    port: int
    error: str = ""


class Diagnosis(Base, frozen=True):
    """What one host says beside its facts. `agent`: by unit, the last warnings of this boot;
    `last`: the last line of its own that it wrote at all; `card` and `power`: what the kernel said
    of them."""

    agent: dict[str, tuple[Entry, ...]] = msgspec.field(default_factory=dict)
    last: dict[str, Entry] = msgspec.field(default_factory=dict)
    card: tuple[Entry, ...] = ()
    power: tuple[Entry, ...] = ()
    time: TimeService = TimeService()
    connects: tuple[Connect, ...] = ()


made_ready(Diagnosis)


def diagnose(
    connection: Connection, *, units: Sequence[str], connect: Sequence[tuple[str, int]]
) -> Diagnosis:
    """Ask the host; one round trip and, where somebody does not answer it, three seconds.
    HostError."""
    from fleet.ssh.errors import HostError
    from fleet.ssh.remote import run_program

    request = {"do": "diagnosis", "units": list(units), "connect": [list(each) for each in connect]}
    answer = run_program(connection, request)
    try:
        return msgspec.convert(answer, Diagnosis)
    except msgspec.ValidationError as error:
        raise HostError("failed", f"its diagnosis cannot be read: {error}") from None
