"""What a seller hears of, what it wants done, and what it keeps."""

from __future__ import annotations

from msgspec import Struct

from agent.market.pools import Event, Instruction, Origin, Tick
from agent.wire.market import MarketReply, MarketRequest, Service, Terms
from agent.wire.principals import Sender


class Membership(Struct, frozen=True):
    """A service that this IAD is a member of, as it is kept on disk.

    `terms` are what it sold (None: it only schedules), `means_s` its nodes with the mean execution
    times that the sale was reckoned with. `leaving`: it is out of the pool and drains.
    """

    service: Service
    terms: Terms | None = None
    means_s: dict[str, float] = {}
    leaving: bool = False


# --- events --------------------------------------------------------------------------------------


class Arrived(Event, frozen=True):
    """A message of a buyer."""

    origin: Origin
    sender: Sender
    message: MarketRequest


SellerEvent = Arrived | Tick

# --- instructions --------------------------------------------------------------------------------


class Reply(Instruction, frozen=True):
    """`after`: not before that service is served."""

    origin: Origin
    message: MarketReply
    after: str = ""


class SetPods(Instruction, frozen=True):
    """The service accounts for so many pods of the node; a node's services add up."""

    node: str
    service_id: str
    count: int


class KeepMembership(Instruction, frozen=True):
    """On disk before the next instruction."""

    membership: Membership


class ForgetMembership(Instruction, frozen=True):
    service_id: str


class Serve(Instruction, frozen=True):
    """The service is new or changed: for the schedulers and the links to its members."""

    service: Service


class Retire(Instruction, frozen=True):
    """The service is served here no more."""

    service_id: str
