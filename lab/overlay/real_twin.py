"""The population of real masters repeated in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from agent.alerts.notifications import RAISED
from agent.overlay.events import Advertise, Publish, Subscribe
from agent.overlay.link_congestion import WINDOW_S
from agent.overlay.scot import BrokerId
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from fleet.inventory.overlay_plan import OverlayPlan
from lab.overlay import quotes, real_load
from lab.overlay.contenders import Contender
from lab.overlay.model import BYTES_PER_S, costs_of
from lab.overlay.real_load import Alert, Wish
from lab.overlay.world import Costs, World

# Bandwidth of an aLink, which is never a bottleneck, relative to an iLink.
FREE: Final = 1e6


class Twin:
    """Brokers with the masters' advertisements, made one after the other."""

    def __init__(
        self,
        plan: OverlayPlan,
        contender: Contender,
        announced: Mapping[BrokerId, Sequence[str]],
        costs: Costs | None = None,
    ) -> None:
        self._iads = plan.iads
        self._delays_s: list[float] = []
        self._published_s: dict[Origin, float] = {}
        self._world = World(
            plan.scot,
            contender.maker(plan.scot),
            costs or costs_of(contender),
            measured=contender.notifications,
            window_s=WINDOW_S if contender.measures else None,
            delivered=self._delivered,
        )
        self._places = list(plan.scot.brokers())
        self._subscribed = 0
        self._world.connect()
        self.announced = 0
        for place in self._places:
            texts = announced.get(place, (real_load.NOTHING_ELSE,))
            for filter_ in real_load.filters(plan.iads[place], texts):
                event = Advertise(f"a{self.announced}", filter_)
                self._world.happen(self._world.now, place, event)
                self.announced += 1
        self._world.run()
        self.advertisement_messages = self.messages()
        self._world.messages.clear()

    def subscribe(self, wishes: Sequence[Wish]) -> None:
        """Open those that are not open yet."""
        for wish in wishes[self._subscribed :]:
            event = Subscribe(wish.id, read_filter(real_load.wanted(wish)))
            self._world.happen(self._world.now, wish.place, event)
            self._world.run()
        self._subscribed = len(wishes)

    def publish(self, alerts: Sequence[Alert]) -> list[float]:
        """Delays of all deliveries, in seconds."""
        start_s = self._world.now
        for number, (at_s, (place, trigger)) in enumerate(alerts):
            iad = self._iads[place]
            origin = Origin(iad, quotes.HISTORY, number)
            told = {"iad": iad, "kind": RAISED, "trigger": trigger, "metric": "close"}
            event = Publish(Notification(origin, 0, {**told, "value": at_s}))
            self._published_s[origin] = start_s + at_s
            self._world.happen(start_s + at_s, place, event)
        self._world.run()
        return self._delays_s

    def _delivered(self, names: tuple[str, ...], one: Notification, now: float) -> None:
        self._delays_s += [now - self._published_s[one.origin]] * len(names)

    def messages(self) -> dict[str, int]:
        """Messages of subscriptions by the name of their class, or of advertisements before."""
        return dict(self._world.messages)

    @property
    def srt(self) -> dict[BrokerId, int]:
        """Entries of advertisements, by broker."""
        return {place: self._world.broker(place).srt_entries for place in self._places}

    @property
    def prt(self) -> dict[BrokerId, int]:
        """Entries of subscriptions, by broker."""
        return {place: self._world.broker(place).prt_entries for place in self._places}


def short(contender: Contender, i_link_bytes_s: float) -> Costs:
    """Costs with iLinks of that bandwidth, and aLinks without queues."""
    usual = costs_of(contender)
    return replace(
        usual,
        transmission=lambda message: usual.transmission(message) * BYTES_PER_S / i_link_bytes_s,
        delay_s=0.0,
        a_link_bandwidth=FREE,
    )
