"""Links to the overlay neighbours: one connection in each direction, and a session over both."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, get_args

from agent.master.push.place import Place
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.overlay import events as overlay
from agent.overlay.link_congestion import LinkMonitor
from agent.overlay.round_robin_queue import flow_of
from agent.overlay.scot import BrokerId
from agent.overlay.session import (
    Arrived,
    Cut,
    Down,
    Due,
    Heard,
    PassedOver,
    Put,
    Session,
    SessionEvent,
    Transmit,
    Up,
)
from agent.runtime.console import Say
from agent.runtime.printable import one_line
from agent.runtime.reactor import Reactor
from agent.wire.codec import MAX_REQUEST_BYTES, Decoder, encode
from agent.wire.overlay import Notify, NoWay, OverlayMessage, Relay
from agent.wire.overlay_links import (
    OverlayBeat,
    OverlayFrame,
    OverlayHello,
    OverlayRefused,
    OverlayRequest,
)
from agent.wire.principals import Sender
from agent.wire.unions import NeighbourReply

GONE = "nobody is at the other end"
STUCK = "it is there and settles nothing"
# Rate limit on logging what a neighbour sends.
MAX_TOLD = 200
TOLD_EACH_S = 60.0
# Overlay messages by class: their names on the wire.
KINDS: Final = {kind: str(kind.__struct_config__.tag) for kind in get_args(OverlayMessage)}


class _Link:
    __slots__ = ("broker", "iad", "refused", "session", "socket", "theirs", "told_s")

    # Requests go out by it and only refusals come in: the neighbour's messages come to this
    # master's public socket.
    socket: MessageSocket[NeighbourReply]

    def __init__(self, iad: str, broker: BrokerId, session: Session) -> None:
        self.iad = iad
        self.broker = broker
        self.session = session
        self.theirs = 0
        # The last reported reason why there is no link, so that it is reported once.
        self.refused = ""
        self.told_s: float | None = None


class BrokerLinks:
    """Moves messages between the broker and its neighbours' masters.

    Link changes and received messages are passed to `handle`, one event at a time. Nothing is sent
    before `start`. OSError or ConfigError if a neighbour's address or file of keys cannot be used.
    """

    def __init__(
        self,
        reactor: Reactor,
        secure_sockets: SecureSockets,
        public: PublicPlane,
        iad: str,
        place: Place,
        say: Say,
    ) -> None:
        self._reactor = reactor
        self._public = public
        self._say = say
        self._fingerprint = place.scot.fingerprint
        self._handle: Callable[[overlay.Event], None] = _ignore
        self._monitor = LinkMonitor()
        decoder: Decoder[NeighbourReply] = Decoder(NeighbourReply, bounded=True)
        self._by_broker: dict[BrokerId, _Link] = {}
        self._by_iad: dict[str, _Link] = {}
        self._by_session: dict[int, _Link] = {}
        self._silent = True
        self.malformed = 0
        self.went_down = 0
        self.passed_over = 0
        self._sent: Counter[type[OverlayMessage]] = Counter()
        introduction = OverlayHello(iad, *place.broker, self._fingerprint, 1, 0, False)
        for broker, neighbour in place.neighbours.items():
            connect = partial(
                secure_sockets.dealer, neighbour.address, MAX_REQUEST_BYTES, neighbour.keys
            )
            link = _Link(neighbour.iad, broker, Session(introduction, _draw, size=_size))
            self._by_broker[broker] = self._by_iad[link.iad] = link
            take = partial(self._refused, link)
            link.socket = MessageSocket(reactor, connect, decoder, take, self._count_malformed)
        public.takes(OverlayHello, self._hello)
        public.takes(OverlayFrame, self._heard)
        public.takes(OverlayBeat, self._heard)
        reactor.performs(overlay.Reopen, self._reopen)
        reactor.add_timer(self)

    def start(self, handle: Callable[[overlay.Event], None]) -> None:
        """The broker is ready: it has this master's subscriptions and advertisements."""
        self._handle = handle
        self._silent = False

    def fall_silent(self) -> None:
        """Take all links down; neither send nor receive until `speak`."""
        if not self._silent:
            for link in self._by_broker.values():
                self._do(link, Cut("this master takes no notifications now"))
            self._silent = True

    def speak(self) -> None:
        """After `fall_silent`: links may come up again."""
        self._silent = False

    @property
    def up(self) -> dict[str, bool]:
        """Whether the link is up, by the neighbour's IAD."""
        return {iad: link.session.up for iad, link in self._by_iad.items()}

    @property
    def waiting(self) -> int:
        """Number of queued messages."""
        return sum(len(link.session) for link in self._by_broker.values())

    @property
    def sent(self) -> dict[str, int]:
        """Messages that left the queues, by kind, without heartbeats."""
        return {name: self._sent[kind] for kind, name in KINDS.items()}

    # --- out -----------------------------------------------------------------------------------

    def send(self, instruction: overlay.Send) -> None:
        """Queue the message for that neighbour, where flows are served fairly; it is lost if the
        link is down."""
        link = self._by_broker[instruction.neighbour]
        if link.session.up and _is_notification(instruction.message):
            self._monitor.entered(link.broker, 1, self._reactor.clock())
        self._do(link, Put(instruction.message, flow_of(instruction)))

    def _reopen(self, instruction: overlay.Reopen) -> None:
        """Close the link to a neighbour that is connected but unresponsive, for a while."""
        self._do(self._by_broker[instruction.neighbour], Cut(STUCK, instruction.pause_s))

    def _do(self, link: _Link, event: SessionEvent) -> None:
        instructions = link.session.handle(event, self._reactor.clock())
        if link.theirs != link.session.theirs:
            self._by_session.pop(link.theirs, None)
            link.theirs = link.session.theirs
            if link.theirs:
                self._by_session[link.theirs] = link
        # Pending messages go first: handling the rest may add more.
        sent = [
            self._transmit(link, instruction.message)
            for instruction in instructions
            if isinstance(instruction, Transmit)
        ]
        for instruction in instructions:
            match instruction:
                case Arrived(message):
                    self._handle(overlay.Received(link.broker, message))
                case PassedOver(message):
                    self.passed_over += 1
                    if _is_notification(message):
                        self._monitor.took_back(link.broker, 1)
                    self._handle(overlay.PassedOver(link.broker, message))
                case Up():
                    link.refused = ""
                    self._handle(overlay.LinkUp(link.broker))
                case Down(reason):
                    self.went_down += 1
                    self._say(f"overlay: the link to {link.iad} is down: {reason}\n")
                    self._monitor.forget(link.broker)
                    self._handle(overlay.LinkDown(link.broker))
        if not all(sent) and link.session.up:
            self._do(link, Cut(GONE))

    def _transmit(self, link: _Link, message: OverlayRequest) -> bool:
        """Whether the neighbour is connected."""
        if isinstance(message, OverlayFrame):
            self._sent[type(message.message)] += 1
            if _is_notification(message.message):
                self._monitor.left(link.broker, 1, self._reactor.clock())
        return link.socket.send(message)

    # --- in ------------------------------------------------------------------------------------

    def _hello(self, origin: RequestOrigin, hello: OverlayHello, _now: float) -> None:
        if self._silent:
            return
        link = self._by_iad.get(hello.iad)
        why = self._why_not(origin.sender, hello, link)
        if why or link is None:
            self._public.reply(origin, OverlayRefused(why))
            if link is not None:
                self._tell(link, f"its hello was refused: {why}")
            return
        self._do(link, Heard(hello))

    def _why_not(self, sender: Sender, hello: OverlayHello, link: _Link | None) -> str:
        if not _may_speak_for(sender, hello.iad):
            return f"a key of {sender.role} {sender.name} does not speak for {hello.iad}"
        if link is None:
            return f"{hello.iad} is no neighbour of this master: see [[overlay.neighbour]] here"
        if hello.overlay != self._fingerprint:
            return "the two masters have overlays with other links or another number of clusters"
        if link.broker != (hello.vertex, hello.cluster):
            return (
                f"{hello.iad} is expected at vertex {link.broker.vertex}, cluster "
                f"{link.broker.cluster}, not at vertex {hello.vertex}, cluster {hello.cluster}"
            )
        return ""

    def _heard(
        self, origin: RequestOrigin, message: OverlayFrame | OverlayBeat, _now: float
    ) -> None:
        link = self._by_session.get(message.session)
        if link is not None and not self._silent and _may_speak_for(origin.sender, link.iad):
            self._do(link, Heard(message))

    def _count_malformed(self) -> None:
        self.malformed += 1

    def _refused(self, link: _Link, reply: NeighbourReply) -> None:
        if not link.session.up:
            self._tell(link, f"it refuses this one: {reply.message}")

    def _tell(self, link: _Link, why: str) -> None:
        now = self._reactor.clock()
        recently = link.told_s is not None and now < link.told_s + TOLD_EACH_S
        if link.refused == why or recently:
            return
        link.refused, link.told_s = why, now
        self._say(f"overlay: no link to {link.iad}: {one_line(why, MAX_TOLD)}\n")

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When a greeting, a heartbeat or a measurement of the queues is due."""
        due = [link.session.next_tick for link in self._by_broker.values()]
        if self._silent:
            due = []
        if self._monitor.next_sample is not None:
            due.append(self._monitor.next_sample)
        return min(due, default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for measured in self._monitor.sample(now):
            if self._by_broker[measured.neighbour].session.up:
                self._handle(measured)
        if not self._silent:
            for link in self._by_broker.values():
                if link.session.next_tick <= now:
                    self._do(link, Due())


def _draw() -> int:
    return 1 + secrets.randbelow(2**53 - 1)


def _may_speak_for(sender: Sender, iad: str) -> bool:
    # Without keys, loopback is trusted, as everywhere.
    return sender.role == "anyone" or (sender.role, sender.name) == ("iad", iad)


def _size(message: OverlayMessage) -> int:
    return len(encode(message))


def _is_notification(message: overlay.Message) -> bool:
    if isinstance(message, Relay | NoWay):
        message = message.message
    return isinstance(message, Notify)


def _ignore(_event: overlay.Event) -> None:
    pass
