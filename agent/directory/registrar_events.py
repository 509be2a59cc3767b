"""What a registrar hears of, and what it wants done."""

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
    """Who registers, and as what; address and offerings count for an IAD only."""

    name: str
    kind: AccountKind
    address: str = ""
    offerings: tuple[Offering, ...] = ()
    keys: tuple[str, ...] = ()


# --- events ------------------------------------------------------------------------------------


class Start(NamedTuple):
    """The process is ready."""


class Tick(NamedTuple):
    """Time has passed; due at `Registrar.wake_at`, harmless before."""


class Changed(NamedTuple):
    """The registrant has other keys, another address or other offerings."""

    registrant: Registrant


class Replied(NamedTuple):
    """A directory answered."""

    directory: int
    reply: DirectoryReply


class Undelivered(NamedTuple):
    """Nobody is at the other end: the message with that id was not sent."""

    id: str


class DiscoverWanted(NamedTuple):
    """`ask` comes back with the answer."""

    ask: Any
    capability: str
    areas: Sequence[str]


class LookUpWanted(NamedTuple):
    """`ask` comes back with the answer."""

    ask: Any
    iads: Sequence[str]


class AccountsWanted(NamedTuple):
    """Somebody called whom the accounts known so far do not have."""


Event = (
    Start | Tick | Changed | Replied | Undelivered | DiscoverWanted | LookUpWanted | AccountsWanted
)


# --- instructions ------------------------------------------------------------------------------


class Send(NamedTuple):
    """Send to that directory; or say that it is `Undelivered`."""

    directory: int
    request: DirectoryRequest


class Answer(NamedTuple):
    """What became of a read; None: no directory answered within its patience."""

    ask: Any
    found: Found | None


class TellAccounts(NamedTuple):
    """The parties have changed."""

    accounts: tuple[Account, ...]


class Report(NamedTuple):
    """Tell the operator, in one line."""

    line: str


Instruction = Send | Answer | TellAccounts | Report
Instructions = list[Instruction]
