"""Events and instructions of a registrar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent.wire.directory import (
    Account,
    AccountKind,
    DirectoryReply,
    DirectoryRequest,
    Found,
    Offering,
)


class Registrant(NamedTuple):
    """The party to register; address and offerings apply to an IAD only."""

    name: str
    kind: AccountKind
    address: str = ""
    offerings: tuple[Offering, ...] = ()
    keys: tuple[str, ...] = ()


# --- events ------------------------------------------------------------------------------------


class Start(NamedTuple):
    """The process is ready."""


class Tick(NamedTuple):
    """A timer has expired; due at `Registrar.wake_at`, harmless before."""


class Changed(NamedTuple):
    """The registrant has other keys, another address or other offerings."""

    registrant: Registrant


class Replied(NamedTuple):
    """A directory answered."""

    directory: int
    reply: DirectoryReply


class Undelivered(NamedTuple):
    """The directory is not connected: the message with that id was not sent."""

    id: str


class DiscoverWanted(NamedTuple):
    """A discovery; `ask` is returned with the answer."""

    ask: Any
    capability: str
    areas: Sequence[str]


class LookUpWanted(NamedTuple):
    """A look-up; `ask` is returned with the answer."""

    ask: Any
    iads: Sequence[str]


class AccountsWanted(NamedTuple):
    """A party connected that is not among the known accounts."""


Event = (
    Start | Tick | Changed | Replied | Undelivered | DiscoverWanted | LookUpWanted | AccountsWanted
)


# --- instructions ------------------------------------------------------------------------------


class Send(NamedTuple):
    """Send to that directory, or report the message `Undelivered`."""

    directory: int
    request: DirectoryRequest


class Answer(NamedTuple):
    """The result of a read; None: no directory answered in time."""

    ask: Any
    found: Found | None


class TellAccounts(NamedTuple):
    """The parties have changed."""

    accounts: tuple[Account, ...]


class TellOperator(NamedTuple):
    """Tell the operator, in one line."""

    line: str


Instruction = Send | Answer | TellAccounts | TellOperator
Instructions = list[Instruction]
