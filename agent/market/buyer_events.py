"""What happens to a buyer (events), what it wants done (instructions)."""

from __future__ import annotations

from agent.market.pools import Event, Instruction, Origin, Tick
from agent.wire.directory import Found
from agent.wire.market import Joined, Offer
from agent.wire.operator import ServiceChange, ServiceReport

# --- events --------------------------------------------------------------------------------------


class Requested(Event, frozen=True):
    """People want a service set up or changed."""

    origin: Origin
    request: ServiceChange


class Discovered(Event, frozen=True):
    """The registration service answered `Find` or `LookUpIads`; `found` None: it did not."""

    ticket: str
    found: Found | None
    message: str = ""


class Offered(Event, frozen=True):
    iad: str
    offer: Offer


class MemberReplied(Event, frozen=True):
    iad: str
    joined: Joined


BuyerEvent = Requested | Discovered | Offered | MemberReplied | Tick

# --- instructions --------------------------------------------------------------------------------


class Find(Instruction, frozen=True):
    """Ask the registration service who offers this."""

    ticket: str
    capability: str
    areas: tuple[str, ...]


class LookUpIads(Instruction, frozen=True):
    """Ask the registration service for these records."""

    ticket: str
    iads: tuple[str, ...]


class Report(Instruction, frozen=True):
    origin: Origin
    report: ServiceReport
