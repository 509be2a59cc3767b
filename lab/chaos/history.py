"""History of one run: what clients did and saw, by a clock that they share."""

from __future__ import annotations

from msgspec import Struct, field

from lab.chaos.fault_plan import Fault


class Asked(Struct, frozen=True):
    """A query to `master`; `status` is "no reply" if none came by then. `answered` are areas with a
    result, `gaps` those without one and their reasons."""

    at_s: float
    until_s: float
    master: str
    areas: tuple[str, ...]
    status: str
    answered: tuple[str, ...] = ()
    gaps: tuple[tuple[str, str], ...] = ()


class RoundSeen(Struct, frozen=True):
    """A round of the stream."""

    number: int
    start_ms: int
    end_ms: int


class Alert(Struct, frozen=True):
    """A notification of the durable subscription: the `number`-th event of the node that covers
    `area`, counted from 1; a gap if both are empty."""

    position: int
    area: str = ""
    number: int = 0


class Output(Struct, frozen=True):
    """What the topic made of message `n`, the `seen`-th; a gap if both are 0."""

    position: int
    n: int
    seen: int


class History(Struct):
    """One run. `published` are the messages that a master took, in order; `events` the number of
    the last event of each area's node when faults had ended, `others` events that are no alerts;
    `owners` the masters that had the topic at the end; `ended` processes that ended by themselves.
    """

    seed: int
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    rounds: list[RoundSeen] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    others: dict[str, list[int]] = field(default_factory=dict)
    owners: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
