"""Events and instructions of a rollout: the messages of fleet/rollout/rollout.py and of a run's
journal."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from fleet.ssh.errors import Kind

Outcome = Literal["unchanged", "changed", "rolled_back", "failed", "lost", "skipped"]
Do = Literal["gather", "stage", "switch", "check", "confirm", "roll_back"]


class Event(msgspec.Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened on one host."""

    host: str


class Planned(Event, frozen=True, tag="planned"):
    """The host's facts were read. `changes`: there is something to do; `stores`: releases must be
    uploaded or removed first; `disturbs`: the changes interrupt its service; `serving`: it serves
    now; `early`: a master whose nodes need its changes. For the journal: its desired `release`,
    that release's `commit`, and whether the release has uncommitted changes (`dirty`)."""

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
    """The step failed. `undone`: the host has rolled back by itself; `refused`: the new agent
    rejected its configuration, and nothing was changed."""

    kind: Kind
    reason: str
    undone: bool = False
    refused: bool = False


class RolledBack(Event, frozen=True, tag="rolled_back"):
    """The former state is restored; with a `problem`, not completely. `word` is the last line that
    its agent wrote."""

    word: str = ""
    problem: str = ""


class Dropped(Event, frozen=True, tag="dropped"):
    """The step was not started, because the rollout was stopped."""


class Interrupted(msgspec.Struct, frozen=True, tag_field="event", tag="interrupted"):
    """The operator wants no further steps to start."""


AnyEvent = (
    Planned | Staged | Switched | Healthy | Confirmed | Failed | RolledBack | Dropped | Interrupted
)


class Instruction(NamedTuple):
    """The next step for a host; `reason` is that of a roll-back."""

    do: Do
    host: str
    reason: str = ""


class Result(msgspec.Struct, frozen=True):
    """How it ended for a host."""

    outcome: Outcome
    kind: Kind | None = None
    reason: str = ""
