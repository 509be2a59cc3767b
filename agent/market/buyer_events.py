"""Events and instructions of a buyer."""

from __future__ import annotations

from agent.market.terms import Event, Instruction, ReplyAddress, Tick
from agent.wire.directory import Found
from agent.wire.market import Joined, Offer
from agent.wire.operator import ServiceChange, ServiceReport

# --- events --------------------------------------------------------------------------------------


class Requested(Event, frozen=True):
    """An operator requests that a service be set up or changed."""

    origin: ReplyAddress
    request: ServiceChange


class Discovered(Event, frozen=True):
    """The registration service answered `Find` or `LookUpIads`; `found` is None if it did not."""

    ticket: str
    found: Found | None
    message: str = ""


class Offered(Event, frozen=True):
    iad: str
    offer: Offer


class MemberReplied(Event, frozen=True):
    iad: str
    joined: Joined


class DiskRefused(Event, frozen=True):
    """What is to be kept cannot be written now; `not_now` and `later` tell operators that nothing
    was done, or that it is done as soon as it can be."""

    not_now: str
    later: str


BuyerEvent = Requested | Discovered | Offered | MemberReplied | DiskRefused | Tick

# --- instructions --------------------------------------------------------------------------------


class Find(Instruction, frozen=True):
    """Ask the registration service for the IADs that offer this."""

    ticket: str
    capability: str
    areas: tuple[str, ...]


class LookUpIads(Instruction, frozen=True):
    """Ask the registration service for these records."""

    ticket: str
    iads: tuple[str, ...]


class Report(Instruction, frozen=True):
    origin: ReplyAddress
    report: ServiceReport
