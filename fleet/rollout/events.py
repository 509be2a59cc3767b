"""Events and instructions of a rollout: the messages of fleet/rollout/rollout.py and of a run's
journal."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from fleet.ssh.errors import Kind

Outcome = Literal["unchanged", "changed", "rolled_back", "failed", "lost", "skipped"]
Do = Literal["gather", "stage", "switch", "check", "confirm", "roll_back"]


class Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened to one host."""

    host: str


class Planned(Event, frozen=True, tag="planned"):
    """Its facts were read. `changes`: whether there is anything to do; `stores`: releases have to
    be uploaded or removed first; `disturbs`: it stops serving for a moment; `serving`: it serves
    now; `early`: a master whose nodes need its changes. For the journal: the `release` that it
    shall have, its `commit`, and whether the release has changes beyond that (`dirty`)."""

    changes: bool
    stores: bool = False
    disturbs: bool = False
    serving: bool = False
    early: bool = False
    release: str = ""
    commit: str = ""
    dirty: bool = False


class Staged(Event, frozen=True, tag="staged"):
    """The release is on its disk."""


class Switched(Event, frozen=True, tag="switched"):
    """The changes are made."""


class Healthy(Event, frozen=True, tag="healthy"):
    """It serves with the new release."""

    note: str = ""


class Confirmed(Event, frozen=True, tag="confirmed"):
    """It stays so."""


class Failed(Event, frozen=True, tag="failed"):
    """What was to be done did not come about. `undone`: the host went back by itself; `refused`:
    the new agent refused what it would get, and nothing was touched."""

    kind: Kind
    reason: str
    undone: bool = False
    refused: bool = False


class RolledBack(Event, frozen=True, tag="rolled_back"):
    """It is as it was before; with a `problem`, not quite. `word` is what its agent wrote last."""

    word: str = ""
    problem: str = ""


class Dropped(Event, frozen=True, tag="dropped"):
    """What was to be done was not begun, as the rollout was stopped."""


class Interrupted(msgspec.Struct, frozen=True, tag_field="event", tag="interrupted"):
    """The operator wants no more to be begun."""


AnyEvent = (
    Planned | Staged | Switched | Healthy | Confirmed | Failed | RolledBack | Dropped | Interrupted
)


class Instruction(NamedTuple):
    """What to do with a host next; `reason` of a roll-back."""

    do: Do
    host: str
    reason: str = ""


class Result(msgspec.Struct, frozen=True):
    """How it ended for a host."""

    outcome: Outcome
    kind: Kind | None = None
    reason: str = ""
