"""History of one run: what clients did and saw, by a clock that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_origin, get_type_hints

import msgspec
from msgspec import Struct, field

from lab.chaos.fault_plan import START_S, Fault

# An objective that a busy machine keeps, too: one that it does not keep is refused, rightly.
LATENCY_MS: Final = 3_000.0
TIMEOUT_MS: Final = 3_500.0


CLIENTS: Final = "clients"


class Asked(Struct, frozen=True, omit_defaults=True):
    """A query to `master`, or to the gateway; `status` is "no reply" if none came by then, and
    "refused" for the `reason`. `answered` are areas with a result, `gaps` those without one and
    their reasons."""

    at_s: float
    until_s: float
    master: str
    areas: tuple[str, ...]
    status: str
    answered: tuple[str, ...] = ()
    gaps: tuple[tuple[str, str], ...] = ()
    reason: str = ""


class RoundSeen(Struct, frozen=True, omit_defaults=True):
    """A round of a watch: the `previous` one that was sent, and its window."""

    watch: str
    number: int
    previous: int
    start_ms: int
    end_ms: int


class Alert(Struct, frozen=True, omit_defaults=True):
    """A notification of the durable subscription: the `number`-th event in that `history` of the
    node that covers `area`, counted from 1; a gap if all are empty."""

    position: int
    area: str = ""
    history: str = ""
    number: int = 0


class Output(Struct, frozen=True):
    """What the topic made of message `n`, the `seen`-th; a gap if both are 0."""

    position: int
    n: int
    seen: int


class CloneOutput(Struct, frozen=True, omit_defaults=True):
    """The `n`-th output of the clone with that topic; a gap if it is empty."""

    position: int
    topic: str = ""
    n: int = 0


class CloneCount(Struct, frozen=True):
    """A clone at the end: its home took so many outputs for its device, of which the latest was the
    `n`-th that it made. The subscriber is owed them up to the `owed`-th."""

    topic: str
    taken: int
    n: int
    owed: int


class Events(Struct, frozen=True, omit_defaults=True):
    """A history of the node that covers `area`, at the end: numbers of events are from `first`, the
    first that the subscriber is owed, to `last`. `others` are no alerts; `taken` are those that the
    master's alert store knows, `below` this number all. A `damaged` one owes what was taken."""

    area: str
    history: str
    first: int
    last: int
    others: tuple[int, ...] = ()
    below: int = 0
    taken: tuple[int, ...] = ()
    damaged: bool = False


class Claim(Struct, frozen=True):
    """At that time a master said that it has the topic."""

    at_s: float
    until_s: float
    master: str


class Starved(Struct, frozen=True):
    """A process that waited for a processor for most of this time; CLIENTS is the clients'."""

    name: str
    from_s: float
    until_s: float


class Agreed(Struct, frozen=True):
    """Queries a second of one master's clients that ask all `areas`, how many at once of one of
    them, and how many beyond that of all."""

    rate_per_s: float
    burst: float
    areas: int
    reserved: float = 0.0


class History(Struct):
    """One run. `homes` has, for each area, its node and its master; `published` are the messages
    that a master took, in order; `moves` those of topic and clones that were tried, in a line each;
    `owners` the masters that had the topic at the end; `ended` processes that ended by themselves.
    `latency_ms` is the objective of queries, `timeout_ms` their answer timeout; within `start_s` a
    process has started, and joined. `began_s` is its start in Unix time.
    """

    seed: int
    faults: list[Fault] = field(default_factory=list)
    homes: dict[str, tuple[str, str]] = field(default_factory=dict)
    agreed: Agreed | None = None
    asked: list[Asked] = field(default_factory=list)
    rounds: list[RoundSeen] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    clone_outputs: list[CloneOutput] = field(default_factory=list)
    clones: list[CloneCount] = field(default_factory=list)
    events: list[Events] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    starved: list[Starved] = field(default_factory=list)
    latency_ms: float = LATENCY_MS
    timeout_ms: float = TIMEOUT_MS
    start_s: float = START_S
    began_s: float = 0.0


def begun(history: History) -> int:
    """Moves that were begun."""
    return sum(each.endswith(": begun") for each in history.moves)


def lines(history: History) -> Iterator[bytes]:
    """A JSON line for each thing that was done or seen: the field's name and the thing."""
    for name, kind in get_type_hints(History).items():
        value = getattr(history, name)
        for each in value if get_origin(kind) is list else (value,):
            yield msgspec.json.encode((name, each)) + b"\n"


def save(history: History, path: Path) -> None:
    """Write the history as JSON lines."""
    path.write_bytes(b"".join(lines(history)))


def load(path: Path) -> History:
    """A history that was saved; ValueError if the file is none, OSError if it cannot be read."""
    kinds = get_type_hints(History)
    found: dict[str, Any] = {}
    for line in path.read_bytes().splitlines():
        name, value = msgspec.json.decode(line, type=tuple[str, Any])
        if get_origin(kinds[name]) is list:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return msgspec.convert(found, History)
