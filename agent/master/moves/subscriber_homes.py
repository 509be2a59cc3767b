"""Homes of clients' durable subscriptions that move between masters, positions kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from agent.alerts.inbox_events import Peer, SendPush
from agent.alerts.inbox_handover import STANDBY, InboxCopy, require_reached
from agent.master.moves.home_plane import CLIENT, HomeChoice, unit_of
from agent.master.moves.late_inboxes import LateInboxes, client_of, contents_of
from agent.master.moves.movable import NOT_HERE, UNREADABLE
from agent.master.moves.topic_moves import SPREAD_S
from agent.master.push.push_plane import PushPlane
from agent.runtime.reactor import Reactor
from agent.wire.handover import read_body
from agent.wire.push import (
    AcknowledgeNotifications,
    GivenMaster,
    PushRequest,
    Subscribed,
    Unsubscribe,
)

if TYPE_CHECKING:
    from agent.placement.handover.events import Standing

AGAIN: Final = "try again in a moment"
# To a master that a client did not reach when it measured its ways: nothing draws it there, but a
# drain may send it.
UNREACHED_MS: Final = 1_000.0
_encode: Final = msgspec.msgpack.encode


class SubscriberCopy(Struct, frozen=True, array_like=True):
    """A subscription on its way from the master of `iad`."""

    iad: str
    inbox: InboxCopy


class _Coming:
    __slots__ = ("adopted", "due_s", "final", "parts", "source", "then")

    def __init__(self, source: str) -> None:
        self.source = source
        self.parts: Iterator[InboxCopy] = iter(())
        self.then: Callable[[str], object] | None = None
        self.due_s = 0.0
        self.final: InboxCopy | None = None
        self.adopted = False


class SubscriberHomes:
    """By client and id, as CLIENT/ID; see `Movable`.

    While a subscription is paused or on its way here, its client's requests wait, the last one of
    each. A client whose subscription lives elsewhere is told where. `addresses` are those of other
    IADs' masters for clients.
    """

    def __init__(
        self, reactor: Reactor, iad: str, push: PushPlane, addresses: Mapping[str, str]
    ) -> None:
        self._clock = reactor.clock
        self._perform = reactor.perform
        self._iad = iad
        self._push = push
        self._inboxes = push.inboxes
        self._addresses = addresses
        self.late_inboxes = LateInboxes(push)
        self._away: dict[str, str] = {}
        self._coming: dict[str, _Coming] = {}
        # The client's connection before the pause.
        self._paused: dict[str, Peer | None] = {}
        # Up to which position the target's standby inbox knows what the inbox here remembers, and
        # where the final copy ended.
        self._told: dict[str, int] = {}
        self._cuts: dict[str, int] = {}
        self._held: dict[str, tuple[Any, str, PushRequest]] = {}
        push.subscribers.sift = self._sift
        self._inboxes.on_the_move.append(self._moves)
        reactor.add_timer(self)

    def names(self) -> Iterable[str]:
        """The subscriptions that live here."""
        names = [f"{client}/{id_}" for client, id_ in self._inboxes.of_clients()]
        return [name for name in names if name not in self._coming]

    def choices(self) -> Iterator[HomeChoice]:
        """Of those that live here and have a choice, but for what hears a clone that does not leave
        this IAD. Of a client that has not measured its way here nothing is counted: no master is
        cheaper for it than another. O(subscriptions)."""
        iads = {address: iad for iad, address in self._addresses.items()}
        for inbox in self._inboxes.choosing():
            choice = inbox.choice
            # Of one that is on its way here the client has not been heard yet.
            if choice is None or choice.stays:
                continue
            here, *others = choice.masters
            known = here.round_trip_ms is not None
            ways_ms = {self._iad: _way_ms(here, None)}
            for each in others:
                if (iad := iads.get(each.address)) is not None:
                    ways_ms.setdefault(iad, _way_ms(each, UNREACHED_MS if known else None))
            if len(ways_ms) > 1:
                counts: Mapping[str, int] = choice.given if known else {}
                hears = sorted(choice.topics) if known else []
                unit = unit_of(CLIENT, f"{inbox.client}/{inbox.id}")
                yield HomeChoice(unit.name, ways_ms, counts, hears)

    def lives(self, name: str) -> bool:
        """Whether it is one of these."""
        return name not in self._coming and self._inboxes.is_of_client(*_key(name))

    def _moves(self, client: str, id_: str) -> bool:
        name = f"{client}/{id_}"
        return name in self._told or name in self._paused or name in self._coming

    def restore(self, name: str, standing: Standing, other: str) -> bool:
        """After a restart; the inboxes have been restored."""
        here = self._inboxes.has(*_key(name))
        if standing in ("offered", "taken") and not here:
            return False
        if standing == "offered":
            self._paused[name] = None
        elif standing == "taken":
            coming = self._coming[name] = _Coming(other)
            coming.adopted = True
        elif standing == "released":
            self._away[name] = other
            self._forward(name, other)
        return True

    # --- at the source -------------------------------------------------------------------------

    def copy(self, name: str) -> bytes:
        """Origins that the inbox remembers."""
        known = self._inboxes.remembered(*_key(name))
        self._told[name] = known.last
        return _encode(SubscriberCopy(self._iad, known))

    def forget_copy(self, name: str) -> None:
        """The target has it no more, or needs it no more."""
        self._told.pop(name, None)

    def hold(self, name: str, then: Callable[[], object]) -> None:
        """Give nothing more to its client."""
        if name not in self._paused:
            self._paused[name] = self._inboxes.detach(*_key(name))
        then()

    def pause(self, name: str, then: Callable[[bytes], object]) -> None:
        """`then` gets the inbox."""
        self.hold(name, lambda: None)
        final = self._inboxes.copy(*_key(name), self._told.pop(name, 0))
        self._cuts[name] = final.last
        then(_encode(SubscriberCopy(self._iad, final)))

    def resume(self, name: str) -> None:
        """Go on here."""
        peer = self._paused.pop(name, None)
        self._cuts.pop(name, None)
        client, id_ = _key(name)
        if name not in self._held and peer is not None and self._inboxes.has(client, id_):
            self._held[name] = peer, client, self._inboxes.again(client, id_)
        self._ask_held(name)

    def release(self, name: str, to: str) -> list[Any]:
        """Its inbox forwards from now on, and its client hears where it lives."""
        client, id_ = _key(name)
        peer = self._paused.pop(name, None)
        self._away[name] = to
        unit = unit_of(CLIENT, name)
        self.late_inboxes.begin(unit, to, id_, self._inboxes.wanted(client, id_))
        forwarding = self.late_inboxes.client(unit)
        # After a restart it is not known up to where the target has it: it tells by key.
        changes = self._inboxes.release(client, id_, forwarding, self._cuts.pop(name, 0))
        if peer is not None:
            told = self._elsewhere(id_, to, "unknown")
            self._perform([SendPush(peer, told, waits=False)])
        self._ask_held(name)
        return changes

    def settles(self, _name: str, then: Callable[[], object]) -> None:
        """At once: it puts nothing out."""
        then()

    def _forward(self, name: str, to: str) -> None:
        unit, wanted = unit_of(CLIENT, name), client_of(to, unit_of(CLIENT, name).name)
        _, id_ = _key(name)
        if self._inboxes.has(wanted, id_):
            self.late_inboxes.begin(unit, to, id_, self._inboxes.wanted(wanted, id_))

    def late(self, name: str) -> tuple[int, bytes] | None:
        """Notifications that arrived for it here."""
        return self.late_inboxes.late(unit_of(CLIENT, name))

    def kept(self, name: str, number: int) -> None:
        """That is in its inbox there."""
        self.late_inboxes.kept(unit_of(CLIENT, name), number)

    def end(self, name: str) -> None:
        """Nothing for it is taken here any more. Where it went stays known."""
        unit = unit_of(CLIENT, name)
        forwarding = self.late_inboxes.client(unit)
        self.late_inboxes.drop(unit)
        self._push.take(self._inboxes.end(forwarding, _key(name)[1]))

    # --- at the target -------------------------------------------------------------------------

    def load(self, name: str, copy: bytes, then: Callable[[str], object]) -> None:
        """Let an inbox stand by, and learn what the subscription's remembers."""
        try:
            loaded = read_body(copy, SubscriberCopy)
            require_reached(loaded.inbox.last)
        except ValueError as error:
            then(f"its copy cannot be read: {error}")
            return
        if loaded.inbox.contents:
            then("its copy has what only its final state has")
            return
        now = self._clock()
        coming = self._coming[name] = _Coming(loaded.iad)
        coming.then, coming.due_s = then, now + SPREAD_S
        coming.parts = loaded.inbox.parts()
        _, id_ = _key(name)
        self._push.take(self._inboxes.stand_by(_standby(name), id_, loaded.inbox.filter, now))

    def _look(self, name: str, coming: _Coming, now: float) -> None:
        """Whether it is ready."""
        assert coming.then is not None
        coming.due_s = now
        if self._push.refusing:
            coming.due_s = now + SPREAD_S
        elif (part := next(coming.parts, None)) is not None:
            self._push.take(self._inboxes.learn(_standby(name), _key(name)[1], part))
        else:
            then, coming.then = coming.then, None
            then("")

    def accept(self, name: str, final: bytes) -> str:
        """Why the state cannot be taken; "" if it can."""
        try:
            inbox = self._coming[name].final = read_body(final, SubscriberCopy).inbox
            require_reached(inbox.last)
        except ValueError as error:
            return f"its state cannot be read: {error}"
        return ""

    def adopt(self, name: str) -> list[Any]:
        """The standby inbox becomes the subscription's."""
        client, id_ = _key(name)
        coming = self._coming[name]
        final, coming.final, coming.adopted = coming.final, None, True
        assert final is not None
        return self._inboxes.adopt(_standby(name), id_, client, final, self._clock())

    def work(self, _name: str) -> None:
        """Its client waits for `own`."""

    def own(self, name: str) -> None:
        """It lives here, with what waited here to be forwarded to where it was."""
        self._coming.pop(name, None)
        self._away.pop(name, None)
        unit = unit_of(CLIENT, name)
        if self.late_inboxes.client(unit):
            self._push.take(self._inboxes.absorb(*_key(name), of=unit.name))
            self.late_inboxes.drop(unit)
        self._ask_held(name)

    def stop(self, name: str) -> None:
        """If it was not adopted, the standby inbox ends."""
        if (coming := self._coming.get(name)) is None:
            return
        coming.then = None
        if not coming.adopted:
            del self._coming[name]
            self._push.take(self._inboxes.end(_standby(name), _key(name)[1]))
            self._ask_held(name)

    def discard(self, name: str) -> list[Any]:
        """It lives where it came from."""
        self._away[name] = self._coming.pop(name).source
        self._ask_held(name)
        return self._inboxes.end(*_key(name))

    def forwarded(self, name: str, items: bytes, then: Callable[[int], object]) -> None:
        """Notifications that arrived at its former master."""
        if (contents := contents_of(items)) is None:
            then(UNREADABLE)
            return
        client, id_ = _key(name)
        if not self._inboxes.has(client, id_):
            client = self.late_inboxes.client(unit_of(CLIENT, name))
        if not self._inboxes.has(client, id_):
            # It was ended, or moved on; or it is taken back by its source, which keeps them itself.
            then(-1 if name in self._coming else NOT_HERE)
            return
        changes, new = self._inboxes.take(client, id_, contents)
        self._push.write(changes, partial(then, new))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something on its way here is looked at, or a client has to say that it is there."""
        dues = [each.due_s for each in self._coming.values() if each.then is not None]
        if (due := self.late_inboxes.next_due) is not None:
            dues.append(due)
        return min(dues, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for name, coming in list(self._coming.items()):
            if coming.then is not None and coming.due_s <= now:
                self._look(name, coming, now)
        self.late_inboxes.tick(now)

    # --- requests of clients -------------------------------------------------------------------

    def _sift(self, peer: Any, client: str, request: PushRequest) -> PushRequest | None:
        """The rest of a request, without parts that are not for an inbox that is at work here."""
        if not (self._away or self._paused or self._coming or self._told):
            return request
        if isinstance(request, AcknowledgeNotifications):
            return self._acknowledged(peer, client, request)
        name = f"{client}/{request.id}"
        if name in self._paused or name in self._coming:
            self._held[name] = peer, client, request
        elif (to := self._away.get(name)) is not None:
            told = self._elsewhere(request.id, to, "refused")
            self._perform([SendPush(peer, told, waits=False)])
        elif name in self._told and isinstance(request, Unsubscribe):
            # The target has part of it; and another of its name might follow.
            line = f"subscription {request.id!r} is on its way between masters; {AGAIN}"
            told = Subscribed(request.id, "refused", message=line)
            self._perform([SendPush(peer, told, waits=False)])
        else:
            return request
        return None

    def _acknowledged(
        self, peer: Any, client: str, request: AcknowledgeNotifications
    ) -> AcknowledgeNotifications | None:
        places = []
        for id_, position in ((request.id, request.position), *request.also):
            name = f"{client}/{id_}"
            if (to := self._away.get(name)) is not None and name not in self._coming:
                told = self._elsewhere(id_, to, "unknown")
                self._perform([SendPush(peer, told, waits=False)])
            elif name not in self._paused and name not in self._coming:
                # Otherwise the client says it again, with its subscription.
                places.append((id_, position))
        if not places:
            return None
        (id_, position), *also = places
        return AcknowledgeNotifications(id_, position, tuple(also))

    def _ask_held(self, name: str) -> None:
        """The request that waited, as if it came now."""
        peer, client, request = self._held.pop(name, (None, "", None))
        if request is None:
            return
        rest = self._sift(peer, client, request)
        if rest is not None:
            self._push.ask(peer, client, rest)

    def _elsewhere(self, id_: str, to: str, state: Any) -> Subscribed:
        address = self._addresses.get(to, "")
        line = (
            f"subscription {id_!r} lives at {to} now, {address or 'another master'}: name that "
            "address, too"
        )
        return Subscribed(id_, state, message=line, master=address)


def _key(name: str) -> tuple[str, str]:
    client, _, id_ = name.partition("/")
    return client, id_


def _way_ms(master: GivenMaster, unknown_ms: float | None) -> float | None:
    return unknown_ms if master.round_trip_ms is None else master.round_trip_ms / 2


def _standby(name: str) -> str:
    return f"{STANDBY}{CLIENT}/{name}"
