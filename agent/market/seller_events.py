"""Events, instructions and persistent state of a seller."""

from __future__ import annotations

from msgspec import Struct

from agent.market.terms import Event, Instruction, ReplyAddress, Tick
from agent.wire.market import MarketReply, MarketRequest, Service, Terms
from agent.wire.principals import Sender


class Membership(Struct, frozen=True):
    """A service that this IAD is a member of, as kept on disk.

    `terms` are what it sold (None: it only schedules), `means_s` its nodes with the mean execution
    times on which the sale was based. `leaving`: it is out of the pool and drains.
    """

    service: Service
    terms: Terms | None = None
    means_s: dict[str, float] = {}
    leaving: bool = False


# --- events --------------------------------------------------------------------------------------


class Arrived(Event, frozen=True):
    """A message from a buyer."""

    origin: ReplyAddress
    sender: Sender
    message: MarketRequest


SellerEvent = Arrived | Tick

# --- instructions --------------------------------------------------------------------------------


class Reply(Instruction, frozen=True):
    """A reply to a buyer; `after`: only once that service is served."""

    origin: ReplyAddress
    message: MarketReply
    after: str = ""


class SetPods(Instruction, frozen=True):
    """The service accounts for this many pods of the node; the services of a node add up."""

    node: str
    service_id: str
    count: int


class KeepMembership(Instruction, frozen=True):
    """Write it to disk before the next instruction."""

    membership: Membership


class ForgetMembership(Instruction, frozen=True):
    service_id: str


class Serve(Instruction, frozen=True):
    """The service is new or changed: for the schedulers and the links to its members."""

    service: Service


class Retire(Instruction, frozen=True):
    """The service is no longer served here."""

    service_id: str
