"""Facts plane: tells other masters what this one measures, and hears what they do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from agent.master.moves.home_plane import HomeChoice
from agent.master.placement.placement_facts import Measured, Topics
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.latency_model import LatencyModel
from agent.placement.membership.gossip import Gossip
from agent.placement.placer import Placer
from agent.placement.view import View, believed
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBucket
from agent.wire.master_config import MasterConfig
from agent.wire.placement import KnownFacts, PlacementEcho, PlacementFacts, SameFacts

# Of its time a partner's questions may take so much, and so many seconds at once: each about moves
# takes a view of all that masters have told, a millisecond for some units, 150 ms for the most.
ASKED_SHARE: Final = 0.05
ASKED_BURST_S: Final = 0.3


class FactsPlane:
    """Connects gossip to sockets. `placer` has this master's pins and mode; the rest is as for
    `PlacementPlane`."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        public: PublicPlane,
        peers: Peers,
        topics: Topics,
        placer: Placer,
        *,
        partners: Collection[str],
        epoch: int,
        sizes: Callable[[], Mapping[str, float]],
        listeners: Callable[[], Mapping[str, int]],
        homes: Callable[[], Sequence[HomeChoice]],
        model: LatencyModel | None,
    ) -> None:
        self._clock = reactor.clock
        self._iad = config.iad.name
        self._config = config.placement
        self._public = public
        self._peers = peers
        self._placer = placer
        self._partners = partners
        self._model = model
        # What a master tells anew of its pins.
        self.on_heard: Callable[[PlacementFacts], object] = lambda _told: None
        self._measured = Measured(config, partners, topics, sizes, listeners, homes)
        now = self._clock()
        self._gossip = Gossip(self._iad, epoch, now, self._config.every_s)
        # The master that takes what no other has room for, by this one's word or another's.
        self.delegate = self._config.delegate
        self._tell_s = now + self._config.every_s
        # Seconds that a partner may take: `partners` changes as masters come.
        self._asked: dict[str, TokenBucket] = {}
        public.takes(PlacementFacts, self._heard)
        public.takes(SameFacts, self._heard_same)
        peers.takes(PlacementEcho, self._echoed)
        reactor.add_timer(self)

    # --- this master's -------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When others are to be told."""
        return self._tell_s

    def tick(self, now: float) -> None:
        """Tell those who are due."""
        if now < self._tell_s:
            return
        self._measured.count(now)
        if not self._config.delegate:
            fresh = self._gossip.fresh(now).values()
            self.delegate = next((each.delegate for each in fresh if each.delegate), "")
        due = self._gossip.due(self._partners, self._busy, now)
        own = self.own() if due else PlacementFacts(self._iad, 0, 0, 1.0)
        for iad in due:
            told = self._gossip.tell(iad, own, now)
            if self._peers.send(iad, told):
                self._gossip.sent(iad, told.number, self._clock())
            else:
                self._gossip.not_sent(iad, now)
        self._tell_s = self._gossip.next_due(now)

    def wake(self, now: float) -> None:
        """Something happens: all are told soon, and often for a while."""
        self._gossip.wake(now)
        self._tell_s = min(self._tell_s, now)

    def active(self, now: float) -> bool:
        """Whether masters tell each other often now."""
        return self._gossip.active(self._busy, now)

    @property
    def _busy(self) -> bool:
        placer = self._placer
        return placer.mode != "open" or bool(placer.pins or self._measured.has_units)

    def own(self) -> PlacementFacts:
        """This master's facts about itself."""
        now = self._clock()
        return self._measured.facts(self._placer.mode, self._placer.pins, self._gossip.delays(now))

    def for_master(self, iad: str, now: float) -> PlacementFacts:
        """This master's facts, as an answer may carry them to that one."""
        return self._gossip.newest(iad, self.own(), now)

    # --- others' -------------------------------------------------------------------------------

    def is_partner(self, origin: RequestOrigin, iad: str) -> bool:
        """Whether a message that says that it is that master's may be."""
        sender = origin.sender
        # Without keys, loopback is trusted, as everywhere.
        speaks = sender.role == "anyone" or (sender.role, sender.name) == ("iad", iad)
        return speaks and iad in self._partners

    def _echoed(self, iad: str, echo: PlacementEcho, now: float) -> None:
        self._gossip.echoed(iad, echo.epoch, echo.number, now, short=echo.short)

    def _heard(self, origin: RequestOrigin, told: PlacementFacts, now: float) -> None:
        if not self.is_partner(origin, told.iad):
            return
        self._public.reply(origin, PlacementEcho(told.epoch, told.number, short=True))
        self.believe(told, now)

    def believe(self, told: PlacementFacts, now: float) -> None:
        """Take in what a partner told of itself."""
        if not self._gossip.heard(told, now):
            return
        self.on_heard(told)
        if told.wants:
            self._tell_s = now

    def _heard_same(self, origin: RequestOrigin, same: SameFacts, now: float) -> None:
        if self.is_partner(origin, same.iad) and self._gossip.heard_same(same, now):
            self._public.reply(origin, PlacementEcho(same.epoch, same.number, short=True))
            begun_s = self._clock()
            budget = budget_of(self._asked, same.iad, begun_s)
            if not budget.wait_s(now, tokens=0.0):
                # A unit that has come since they were told has its pin there.
                self.on_heard(self._gossip.told_by(same.iad))
                budget.take(self._clock() - begun_s)

    # --- what is known -------------------------------------------------------------------------

    def view(self, now: float, first: Sequence[str] = ()) -> View:
        """The placement as far as it is known: masters that are silent do not count. In doubt those
        named `first` are believed. PlacementError if it contradicts itself."""
        told = believed(self._gossip.fresh(now).values(), first)
        return View([self.own(), *told], self._model)

    def topics_elsewhere(self) -> dict[str, str]:
        """The topics of which other masters told lately, each with its IAD. O(those)."""
        told = self._gossip.fresh(self._clock()).values()
        return {topic.name: facts.iad for facts in told for topic in facts.topics}

    def known(self, now: float) -> list[KnownFacts]:
        """Of each other master, also of those that have told nothing."""
        known = self._gossip.known(now)
        never = set(self._partners) - {each.facts.iad for each in known}
        every_s = self._config.every_s
        none = [PlacementFacts(iad, 0, 0, every_s) for iad in sorted(never)]
        return [*known, *[KnownFacts(facts, 0.0, silent=True) for facts in none]]

    def silent(self, now: float) -> list[str]:
        """Those of which no view is made: also those that told nothing while all were idle."""
        fresh = self._gossip.fresh(now)
        return [each.facts.iad for each in self.known(now) if each.facts.iad not in fresh]

    def is_complete(self, now: float) -> bool:
        """Whether all masters that are connected have told something lately."""
        away = set(self._peers.unreachable)
        return not set(self._partners) - away - self._gossip.fresh(now).keys()

    def unheard(self) -> list[str]:
        """Partners that have told nothing since this master's start."""
        return self._gossip.unheard(self._partners)


def budget_of(budgets: dict[str, TokenBucket], iad: str, now: float) -> TokenBucket:
    """The seconds that a partner's questions may take."""
    return budgets.setdefault(iad, TokenBucket(ASKED_SHARE, ASKED_BURST_S, now))
