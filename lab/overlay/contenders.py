"""The routing schemes under comparison: OctopiA's static and dynamic routing, and tree
identification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from agent.overlay import broker
from agent.overlay.forwarding import Routing
from agent.overlay.limits import Limits
from agent.overlay.link_congestion import WINDOW_S
from agent.overlay.scot import BrokerId, Scot
from lab.overlay.tid import TidBroker
from lab.overlay.world import AnyBroker

# Seconds of a broker's work per event, and in addition per message that it sends.
EVENT_S: Final = 100e-6
COPY_S: Final = 10e-6

# A message that waits for a link is kept, and not resent meanwhile: the baseline has no limits, and
# no link fails here. Reports of settlement are batched.
LIMITS: Final = Limits(
    most_held=1_000_000, most_remembered=1_000_000, resend_s=1e9, batch_s=WINDOW_S
)


class Contender(Struct, frozen=True):
    """A routing scheme: how to make its brokers, and the names of its messages.

    `advertisements` and `subscriptions` are the messages whose arrival determines their delay;
    `notifications` carry some; `measures` says whether it needs congestion measurements. `event_s`
    and `copy_s` are the seconds of a broker's work per event, and per message sent.
    """

    name: str
    title: str
    maker: Callable[[Scot], Callable[[BrokerId], AnyBroker]]
    advertisements: frozenset[str]
    subscriptions: frozenset[str]
    notifications: frozenset[str]
    measures: bool
    event_s: float
    copy_s: float


def _octopia(routing: Routing) -> Callable[[Scot], Callable[[BrokerId], AnyBroker]]:
    def maker(scot: Scot) -> Callable[[BrokerId], AnyBroker]:
        return lambda at: broker.Broker(at, scot, epoch=1, routing=routing, limits=LIMITS)

    return maker


def _tid(scot: Scot) -> Callable[[BrokerId], AnyBroker]:
    return lambda at: TidBroker(at, scot)


def _octopia_contender(routing: Routing) -> Contender:
    return Contender(
        name=routing,
        title=routing.upper(),
        maker=_octopia(routing),
        advertisements=frozenset({"AdvertisementChange"}),
        subscriptions=frozenset({"SubscriptionChange", "CibSet"}),
        notifications=frozenset({"Notify"}),
        measures=routing == "idr",
        event_s=EVENT_S,
        copy_s=COPY_S,
    )


SNR: Final = _octopia_contender("snr")
IDR: Final = _octopia_contender("idr")
TID: Final = Contender(
    name="tid",
    title="TID",
    maker=_tid,
    advertisements=frozenset({"TidAdvertisement"}),
    subscriptions=frozenset({"TidSubscription"}),
    notifications=frozenset({"TidNotification"}),
    measures=False,
    event_s=EVENT_S,
    copy_s=COPY_S,
)
CONTENDERS: Final = {each.name: each for each in (SNR, IDR, TID)}
