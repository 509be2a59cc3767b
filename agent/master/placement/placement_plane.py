"""Placement plane: begins moves of the units that live here, by what masters know of each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, get_args

from msgspec.structs import replace

from agent.master.moves.home_plane import HomeChoice
from agent.master.moves.movable import Mover
from agent.master.moves.told_moves import ToldMoves
from agent.master.placement.facts_plane import FactsPlane, budget_of
from agent.master.placement.placement_facts import Topics, movable
from agent.master.placement.placement_orders import PlacementOrders
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import LATER, State
from agent.placement.admission import Admission
from agent.placement.cost_history import CostHistory
from agent.placement.latency_model import LatencyModel
from agent.placement.lifecycle import ENDED
from agent.placement.moves import Move
from agent.placement.placer import Placer
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBucket
from agent.wire.master_config import MasterConfig
from agent.wire.placement import (
    MAX_TOLD_MASTERS,
    AskGrant,
    GrantTold,
    KnownFacts,
    PlacementFacts,
    PlacementReport,
    PlacementRequest,
    ShowPlacement,
)
from agent.wire.topics import TopicStatus

LOOK_S: Final = 0.25  # between looks after moves, while there are any
# One of so many seconds is for that at most.
SHARE: Final = 20.0
# A new topic is placed when all masters have told what they have, or after so many intervals.
PATIENCE: Final = 3.0
NO_ROOM: Final = "no other master has room within the limits"
MOST_LINES: Final = 16  # on what masters told that contradicts itself, at once; then one a second
TOO_MUCH: Final = "it has answered too much of late"


class PlacementPlane:
    """Connects `Placer` and `Admission` to sockets, disk, topics and the mover. `sizes` gives the
    bytes of processors, `listeners` how many subscriptions name a topic, `homes` the nodes and
    clients that live here and may move. `epoch` is greater than at any earlier start, `model` a
    trained one of latencies."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        state: State,
        public: PublicPlane,
        peers: Peers,
        operator: OperatorPlane,
        topics: Topics,
        say: Say,
        *,
        partners: Collection[str],
        mover: Mover,
        epoch: int,
        sizes: Callable[[], Mapping[str, float]] = dict,
        listeners: Callable[[], Mapping[str, int]] = dict,
        homes: Callable[[], Sequence[HomeChoice]] = tuple,
        model: LatencyModel | None = None,
    ) -> None:
        self._clock = reactor.clock
        self._iad = config.iad.name
        self._config = config.placement
        # Masters of the same operator: units go to no others, and no others are told anything.
        self._partners = partners
        self._state = state
        self._public = public
        self._peers = peers
        self._operator = operator
        self._topics = topics
        self._say = say
        self._mover = mover
        self._homes = homes
        now = self._clock()
        self._placer = Placer(self._iad, drift=self._config.drift, move_cost=self._config.move_cost)
        # A unit that was let does not come: others may.
        self.given_up: Callable[[Unit, str], object] = self._placer.grants.release
        self._orders = PlacementOrders(self._iad, self._placer, state, partners)
        self._orders.restore(frozen=self._config.frozen)
        self.facts = FactsPlane(
            reactor,
            config,
            public,
            peers,
            topics,
            self._placer,
            partners=partners,
            epoch=epoch,
            sizes=sizes,
            listeners=listeners,
            homes=homes,
            model=model,
        )
        self.facts.on_heard = self._hear
        # Gets what other masters tell of themselves.
        self.on_heard: Callable[[PlacementFacts], object] = lambda _: None
        self._admission = Admission(self._iad, epoch, self._placer, now)
        # Seconds that questions may take, by partner: `partners` changes as masters come.
        self._grants_asked: dict[str, TokenBucket] = {}
        self._moves_asked: dict[str, TokenBucket] = {}
        self._costs = CostHistory()
        self._told_moves = ToldMoves(self._iad, mover, self._placer)
        # Moves that this master has begun, and does not know the end of.
        self._begun: dict[Unit, Move] = {}
        # New units, and until when other masters are waited for before they are placed.
        self._arriving: dict[Unit, float] = {}
        self._told_troubles: set[str] = set()
        self._trouble_lines = RateLimitedLines(say, reactor.clock, MOST_LINES)
        self._was_full = False
        self._look_s = self._rested_s = now + self._config.every_s
        public.takes(AskGrant, self._asked_grant)
        peers.takes(GrantTold, self._grant_told)
        for kind in get_args(PlacementRequest):
            operator.takes(kind, self._asked)
        topics.on_created = self._arrived
        topics.placed = self._placed
        topics.on_removed = self._removed
        reactor.add_timer(self)

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When a move may begin or have ended."""
        due = self._admission.next_due
        return self._look_s if due is None else min(self._look_s, due)

    def tick(self, now: float) -> None:
        """Look after moves."""
        if self._look_s <= now:
            self._look_after_moves(now)
        self._ask(now)

    def _ask(self, now: float) -> None:
        for iad, ask in self._admission.due(now):
            self._peers.send(iad, ask)
        if self._admission.failed():  # Another unit's move may begin.
            self._look_s = max(now + LOOK_S, self._rested_s)

    def _hear(self, told: PlacementFacts) -> None:
        self.on_heard(told)
        for unit in self._placer.heard(told, self._units_here()):
            self._orders.save_pin(unit)

    # --- grants of drift -----------------------------------------------------------------------

    def _asked_grant(self, origin: RequestOrigin, ask: AskGrant, now: float) -> None:
        if not self.facts.is_partner(origin, ask.iad):
            return
        begun_s, facts = self._clock(), None
        budget = budget_of(self._grants_asked, ask.iad, begun_s)
        try:
            if ask.step == "ask" and budget.wait_s(now, tokens=0.0):
                raise PlacementError(TOO_MUCH)
            view = partial(self.facts.view, now)
            granted, token, why = self._admission.asked(ask, view, self._moving(), now)
            if ask.step == "ask":
                facts = self.facts.for_master(ask.iad, now)
        except PlacementError as error:
            granted, token, why = False, 0, str(error)
        budget.take(self._clock() - begun_s)
        told = GrantTold(
            self._iad, ask.epoch, ask.number, ask.step, granted, token, why[:512], facts
        )
        self._public.reply(origin, told)

    def _grant_told(self, iad: str, told: GrantTold, now: float) -> None:
        # Links lead to masters of other operators, too.
        if iad not in self._partners or iad != told.iad:
            return
        if told.facts is not None and told.facts.iad != iad:
            return
        if told.facts is not None:
            self.facts.believe(told.facts, now)
        admission = self._admission
        admission.told(told, now)
        if admission.to_check:
            if (view := self._view_or_none(now, admission.to_check)) is None:
                return
            admission.check(view, now)
        self._ask(now)
        if (move := admission.begins(now)) is not None:
            self._begin(move, now)

    # --- what is known -------------------------------------------------------------------------

    def _view_or_none(self, now: float, first: Sequence[str] = ()) -> View | None:
        """The same for what nobody waits for: None, and said once, if what masters told contradicts
        itself. Others' facts must not end this process."""
        try:
            return self.facts.view(now, first)
        except PlacementError as error:
            self._tell_troubles([f"no unit moves: {error}"])
            return None

    def admits(self, unit: Unit, source: str) -> str:
        """Why a unit of another master may not come here now; empty if it may."""
        now = self._clock()
        budget = budget_of(self._moves_asked, source, now)
        if budget.wait_s(now, tokens=0.0):
            return TOO_MUCH
        try:
            return self._placer.admits(self.facts.view(now), unit, source, now)
        except PlacementError as error:
            return str(error)
        finally:
            budget.take(self._clock() - now)

    # --- moves ---------------------------------------------------------------------------------

    def _units_here(self) -> list[Unit]:
        topics = [Unit("processor", each.topic.name) for each in movable(self._topics.statuses)]
        return [*topics, *[Unit("home", each.name) for each in self._homes()]]

    def _moving(self) -> list[Unit]:
        return [*(m.unit for m in self._mover.moves if m.state not in ENDED), *self._begun]

    def _look_after_moves(self, now: float) -> None:
        newest = {each.unit: each for each in self._mover.moves}
        for unit in list(self._begun):
            status = newest.get(unit)
            if status is not None and status.state in ENDED:
                del self._begun[unit]
                failed = "" if status.state == "settled" else status.trouble or "aborted"
                self._placer.ended(unit, failed, now)
                self._admission.over(unit, now)
                self._costs.moved(unit, now)
        if self._arriving:
            self._place_arrivals(now)
        moving = self._moving()
        placer, here = self._placer, self._units_here()
        urgent = bool(
            moving
            or self._arriving
            or placer.waiting
            or (placer.mode == "draining" and here)
            or any(placer.pins.get(unit) not in (None, "", self._iad) for unit in here)
        )
        self._look_s = now + (LOOK_S if urgent else self._config.every_s)
        if placer.mode == "draining" and self._was_full and not here:
            self._say(f"drained: no unit lives here any more; {self._iad} may be stopped\n")
        self._was_full = bool(here)
        costs = self._costs.due(now) and self.facts.active(now) and self.facts.is_complete(now)
        if not (urgent or self._config.drift or costs):
            return
        if (view := self._view_or_none(now)) is None:
            return
        self._tell_troubles(view.troubles)
        if costs and self._costs.complete(view.where, now):
            self._costs.take(view.cost(), now)
        waited = placer.waiting
        move = self._admission.next_move(view, moving, now, self.facts.unheard())
        still = {unit for unit, _, _ in placer.waiting}
        for unit, target, _ in waited:
            if unit not in still and (trouble := placer.troubles.get(unit)):
                self._say(f"{unit} does not move to {target}: {trouble}\n")
        # A large pool's view takes a while: most of the time is for other things.
        self._rested_s = now + SHARE * (self._clock() - now)
        self._look_s = max(self._look_s, self._rested_s)
        if move is not None:
            self._begin(move, now)

    def _begin(self, move: Move, now: float) -> None:
        try:
            self._mover.begin(move.unit, move.target, move.reason)
        except PlacementError as error:
            self._placer.ended(move.unit, str(error), now)
            self._admission.over(move.unit, now)
            return
        self._look_s = min(self._look_s, now + LOOK_S)
        self._begun[move.unit] = move
        self._told_moves.begun(move)
        self._say(f"{move.unit} moves to {move.target}: {move.reason}\n")

    def _arrived(self, name: str) -> str:
        now = self._clock()
        self.facts.wake(now)
        self._look_s = now
        unit = Unit("processor", name)
        if not self.facts.is_complete(now):
            self._arriving[unit] = now + PATIENCE * self._config.every_s
            return ""
        return self._place(self._view_or_none(now), unit)

    def _placed(self, status: TopicStatus) -> TopicStatus:
        """A topic's status, with the word that it is delegated to this master."""
        unit = Unit("processor", status.topic.name)
        if self.facts.delegate != self._iad or self._placer.pins.get(unit):
            return status
        return replace(status, delegated=f"{self._iad}: {NO_ROOM}")

    def _removed(self, name: str) -> None:
        """A topic's pin goes with it: another one of its name is another topic."""
        unit = Unit("processor", name)
        self._arriving.pop(unit, None)
        if self._placer.pins.pop(unit, None) is not None:
            self._orders.save_pin(unit)

    def _place(self, view: View | None, unit: Unit) -> str:
        """Have a new unit moved if that is worth it; what is to be said of it."""
        if view is None or not view.world.has(unit):
            return ""
        if trouble := view.infeasible(unit):
            return trouble
        move = self._placer.arrived(view, unit)
        if move is None:
            if self._iad == view.delegate and unit in view.delegated():
                return f"it stays at the delegate {self._iad}: {NO_ROOM}"
            return view.no_room(unit)
        if move.reason == "delegate":
            return f"it is delegated to {move.target}: {NO_ROOM}"
        saved = (
            "" if math.isinf(move.gain) else f", which saves {move.gain:.3g} s of delay a second"
        )
        return f"it moves to {move.target}{saved}"

    def second(self, unit: Unit, among: Collection[str]) -> str | None:
        """Where a unit that lives here would cost least but here, of those masters that are
        connected; None if that is not known yet."""
        view = self._view_or_none(self._clock())
        if view is None or not view.world.has(unit):
            return None
        could = set(among) - {self._iad, *self._peers.unreachable}
        rows = [each for each in view.price.why(unit) if each.master in could]
        return rows[0].master if rows and rows[0].price < math.inf else None

    @property
    def needs(self) -> set[str]:
        """Masters that units of this one are to go to."""
        placer = self._placer
        waiting = {target for _, target, _ in placer.waiting}
        begun = {each.target for each in self._begun.values()}
        return {*waiting, *begun, *placer.pins.values(), *self._orders.sought} - {""}

    def _place_arrivals(self, now: float) -> None:
        waits = not self.facts.is_complete(now)
        for unit, until in list(self._arriving.items()):
            if not waits or until <= now:
                del self._arriving[unit]
                if line := self._place(self._view_or_none(now), unit):
                    self._say(f"{unit}: {line}\n")

    def _tell_troubles(self, troubles: Iterable[str]) -> None:
        now = set(troubles)
        for line in sorted(now - self._told_troubles):
            self._trouble_lines.tell(f"placement: {line}")
        self._trouble_lines.tell_rest()
        self._told_troubles = now

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, origin: RequestOrigin, request: PlacementRequest, now: float) -> None:
        self.facts.wake(now)
        if isinstance(request, ShowPlacement):  # at once: the disk may be full
            self._look_s = now
            self._report(origin, request.id, "")
            return
        tell = partial(self._report, origin, request.id)
        try:
            message = self._orders.carry_out(request, self.facts.view(now), self.facts.silent(now))
        except PlacementError as error:
            tell(str(error), ok=False)
            return
        self._look_s = now
        self._state.when_durable(partial(tell, message), partial(tell, LATER, ok=False))

    def _report(self, origin: RequestOrigin, id_: str, message: str, *, ok: bool = True) -> None:
        now = self._clock()
        own = KnownFacts(self.facts.own(), 0.0)
        self._operator.reply(
            origin,
            PlacementReport(
                id_,
                ok=ok,
                iad=self._iad,
                known=(own, *self.facts.known(now))[:MAX_TOLD_MASTERS],
                moves=self._told_moves.told(self._begun),
                move_cost=self._config.move_cost,
                message=message[:512],
                costs=self._costs.told(now),
            ),
        )
