"""The population of real masters once more, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.overlay.events import Advertise, Subscribe
from agent.overlay.scot import Broker
from agent.wire.predicate_language import read_filter
from fleet.lab.overlay import real_load
from fleet.lab.overlay.contenders import Contender
from fleet.lab.overlay.model import costs_of
from fleet.lab.overlay.real_load import Wish
from fleet.lab.overlay.world import World
from fleet.overlay_plan import OverlayPlan


class Twin:
    """Brokers that announce what the masters announce, each one after the other."""

    def __init__(
        self, plan: OverlayPlan, contender: Contender, announced: Mapping[Broker, Sequence[str]]
    ) -> None:
        self._world = World(plan.scot, contender.maker(plan.scot), costs_of(contender))
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
        """Those of them that have not yet."""
        for wish in wishes[self._subscribed :]:
            event = Subscribe(wish.id, read_filter(real_load.wanted(wish)))
            self._world.happen(self._world.now, wish.place, event)
            self._world.run()
        self._subscribed = len(wishes)

    def messages(self) -> dict[str, int]:
        """Those of subscriptions by the name of their class, or of advertisements before."""
        return dict(self._world.messages)

    @property
    def srt(self) -> dict[Broker, int]:
        """Entries of advertisements, by broker."""
        return {place: self._world.broker(place).srt_entries for place in self._places}

    @property
    def prt(self) -> dict[Broker, int]:
        """Entries of subscriptions, by broker."""
        return {place: self._world.broker(place).prt_entries for place in self._places}
