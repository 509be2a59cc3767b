"""Clone plane: the clones of this master's devices, wherever they live."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec

from agent.clones.anchor import only
from agent.clones.anchors import Anchors
from agent.clones.events import (
    AnchorsDue,
    AnchorsEvent,
    AskInbox,
    AskPeers,
    AskReadings,
    CloneAsked,
    EndTopic,
    ForgetClone,
    ForgetDevice,
    GiveOutput,
    InboxSaid,
    KeepDevice,
    Kept,
    MakeTopic,
    OutputKept,
    PassOver,
    PublishReading,
    ReadingsCame,
    SaveClone,
    SaveTaken,
    SendReport,
    Taken,
    TellOperator,
    TellReading,
    TopicMade,
)
from agent.clones.names import SECRET_BYTES
from agent.master.clones.clone_questions import CloneQuestions
from agent.master.push.push_plane import PushPlane
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import LATER, NOT_NOW, State
from agent.master.topics.topic_plane import TopicPlane
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.events import TaskArrived
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.clones import (
    CloneOf,
    CloneReport,
    CloneRequest,
    CreateClone,
    ListClones,
    RemoveClone,
)
from agent.wire.listing import alike, hint
from agent.wire.messages import TaskResult
from agent.wire.principals import Sender
from agent.wire.push import Notified, PushReply, Unsubscribe
from agent.wire.topics import CreateTopic, Publish, Topic, TopicReport

# Kinds of the documents in the state.
CLONE: Final = "clone"
TAKEN: Final = "clone_taken"
NAMING: Final = "clone_naming"
# No client has this name: a name has no slash.
CLIENT: Final = "clone/"
# What came that is handled in a turn, before others have theirs.
TURN: Final = 64
RETRY_S: Final = 1.0


class Devices(Protocol):
    """What devices are given of their clones, and what is kept of their readings; a device is
    named IAD/NODE. `on_output` is called in the turn in which the position is put into the state:
    what it puts there is in one transaction with it."""

    def keep(self, device: str, areas: Iterable[str]) -> None:
        """The device has a clone, and these areas."""

    def begun(self, unreadable: Collection[str] = ()) -> None:
        """All clones of an earlier run have been kept, without those of these devices: what is on
        disk for them stays."""

    def forget(self, device: str) -> None:
        """The device has no clone any more."""

    def waiting(self) -> Mapping[str, int]:
        """How many sets of values wait for each device for which any do."""

    def read(self, device: str, area: str, time_ms: int, values: Mapping[str, float]) -> None:
        """A round read these values of the device."""

    def on_output(
        self,
        device: str,
        source: str,
        position: int,
        time_ms: int,
        values: Mapping[str, object],
        then: Callable[[], object],
    ) -> None:
        """The clone put this out, at that position of its subscription `source`; it comes once.
        `then` is called as soon as it need not be put out again."""


class NoDevices:
    """Outputs of clones are for subscribers only."""

    def __init__(self, state: State) -> None:
        self._state = state

    def keep(self, device: str, areas: Iterable[str]) -> None:
        """Do nothing."""

    def begun(self, _unreadable: Collection[str] = ()) -> None:
        """Do nothing."""

    def forget(self, device: str) -> None:
        """Do nothing."""

    def waiting(self) -> Mapping[str, int]:
        """None."""
        return {}

    def read(self, device: str, area: str, time_ms: int, values: Mapping[str, float]) -> None:
        """Do nothing."""

    def on_output(
        self,
        _device: str,
        _source: str,
        _position: int,
        _time_ms: int,
        _values: Mapping[str, object],
        then: Callable[[], object],
    ) -> None:
        """Keep nothing of it."""
        self._state.when_durable(then)


class ClonePlane:
    """Connects the anchors of clones to topics, inboxes, nodes and other masters. `partners`: the
    IADs whose masters may have clones of this one's, and peers of them; `elsewhere` tells where
    topics live, as far as other masters told. `wall` reads the wall clock in seconds since 1970
    UTC."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        state: State,
        public: PublicPlane,
        peers: Peers,
        operator: OperatorPlane,
        push: PushPlane,
        topics: TopicPlane,
        tasks: TaskScheduler,
        wall: Callable[[], float],
        say: Say,
        *,
        partners: Collection[str] = (),
        elsewhere: Callable[[], Mapping[str, str]] = dict,
        devices: Devices | None = None,
        drifts: bool = False,
    ) -> None:
        self._drifts = drifts
        self._reactor = reactor
        self._iad = iad
        self._state = state
        self._operator = operator
        self._push = push
        self._topics = topics
        self._tasks = tasks
        self._wall = wall
        self._say = say
        self._partners = partners
        self._elsewhere = elsewhere
        self._devices = devices or NoDevices(state)
        known = state.all(NAMING).get("", b"")
        self._secret = known or secrets.token_bytes(SECRET_BYTES)
        self._secret_is_put = bool(known)
        # As of the last request.
        self._told: Mapping[str, str] = {}
        self._waiting: Mapping[str, int] = {}
        # Handled in the next turn: what comes may come during another call.
        self._came: deque[AnchorsEvent] = deque()
        # One object for each subscription: the inbox recognises its client's connection by it.
        self._peers: dict[str, tuple[str, Callable[[PushReply], None]]] = {}
        self._ending: list[tuple[str, str]] = []
        self._retry_s = -math.inf
        self._anchors = Anchors(
            iad,
            self._secret,
            lambda: secrets.token_hex(16),
            areas=self._areas_of,
            where=self._where,
            waiting=lambda device: self._waiting.get(device, 0),
            stays=self._stays,
            unmet=self._unmet,
        )
        self._questions = CloneQuestions(
            iad,
            public,
            peers,
            topics,
            partners,
            self._came.append,
            self._anchors.resolve,
            self._when_named,
        )
        for kind in (CreateClone, RemoveClone, ListClones):
            operator.takes(kind, self._asked)
        reactor.performs(SaveClone, self._save)
        reactor.performs(SaveTaken, self._save_taken)
        reactor.performs(ForgetClone, self._forget)
        reactor.performs(AskPeers, self._ask_peers)
        reactor.performs(MakeTopic, self._make_topic)
        reactor.performs(EndTopic, self._end_topic)
        reactor.performs(AskInbox, self._ask_inbox)
        reactor.performs(AskReadings, self._ask_readings)
        reactor.performs(PublishReading, self._publish)
        reactor.performs(TellReading, self._tell_reading)
        reactor.performs(KeepDevice, self._keep_device)
        reactor.performs(ForgetDevice, self._forget_device)
        reactor.performs(GiveOutput, self._give)
        reactor.performs(PassOver, self._pass_over)
        reactor.performs(SendReport, self._report)
        reactor.performs(TellOperator, self._tell)
        self._restore()
        reactor.add_timer(self)

    def __len__(self) -> int:
        return len(self._anchors)

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something that came is to be handled, or an anchor is due."""
        if self._came:
            return 0.0
        dues = [self._anchors.next_tick]
        if self._ending:
            dues.append(self._retry_s)
        return min([due for due in dues if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Handle what came, and what is due."""
        for _ in range(min(TURN, len(self._came))):
            self._handle(self._came.popleft())
        due = self._anchors.next_tick
        if due is not None and due <= now:
            self._handle(AnchorsDue())
        if self._ending and self._retry_s <= now:
            self._retry_s = now + RETRY_S
            ending, self._ending = self._ending, []
            for each in ending:
                self._end_inbox(*each)

    def _handle(self, event: AnchorsEvent) -> None:
        self._reactor.perform(self._anchors.handle(event, self._reactor.clock()))

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, origin: RequestOrigin, request: CloneRequest, _now: float) -> None:
        change = not isinstance(request, ListClones)
        if change and (not self._state.takes or self._push.refusing):
            self._operator.reply(origin, CloneReport(request.id, ok=False, message=NOT_NOW))
            return
        if change:
            self._when_named(lambda: None)
        self._told = self._elsewhere()
        self._waiting = self._devices.waiting()
        self._handle(CloneAsked(origin, request))

    def _report(self, instruction: SendReport) -> None:
        peer, report = instruction.peer, instruction.report
        if instruction.at_once:
            self._operator.reply(peer, report)
        else:
            late = CloneReport(report.id, ok=False, message=LATER)
            reply = self._operator.reply
            self._state.when_durable(partial(reply, peer, report), partial(reply, peer, late))

    def _when_named(self, then: Callable[[], object]) -> None:
        """Call `then` when the secret is on disk: names of clones are made of it."""
        if not self._secret_is_put:
            self._secret_is_put = True
            self._state.put(NAMING, "", self._secret)
        self._state.when_durable(then)

    def _where(self, topic: str) -> str:
        if self._topics.lives(topic):
            return self._iad
        return self._told.get(topic, "") or self._topics.went(topic)

    def _stays(self) -> str:
        """Why no clone moves by itself; empty if they do."""
        if not self._partners:
            return "no other master is known here"
        if not self._drifts:
            return "does not move by itself: placement.drift is false here"
        return ""

    def _unmet(self, clone: CloneOf, topic: Topic) -> str:
        """Peers and channels that the clone would use and that are not there, in words."""
        lines = (self._unknown_peer(clone), self._not_given(clone, topic))
        return "; ".join(filter(None, lines))

    def _unknown_peer(self, clone: CloneOf) -> str:
        known = self._tasks.known_nodes
        devices = [peer.partition("/") for peer in clone.peers]
        absent = [node for iad, _, node in devices if iad == self._iad and node not in known]
        if not absent:
            return ""
        near = alike(absent[0], known)
        meant = hint(f"{self._iad}/{near}") if near else ""
        return f"peer {self._iad}/{absent[0]} is no node that is known here{meant}"

    def _not_given(self, clone: CloneOf, topic: Topic) -> str:
        """Which channels the clone uses that its device does not have; peers' outputs may."""
        hello = self._tasks.node_at(clone.device.partition("/")[2])
        has = tuple(hello.channels) if hello is not None else ()
        if has and (absent := [each for each in clone.channels if each not in has]):
            line = f"{clone.device} gives {', '.join(sorted(has))}, not {', '.join(absent)}"
            return line + hint(alike(absent[0], has))
        if clone.peers or clone.peers_where:
            return ""
        those = "its readings have only" if clone.channels else f"{clone.device} gives only"
        return self._topics.readings.unmet(topic, clone.channels or has, those)

    def _areas_of(self, node: str) -> tuple[str, ...]:
        hello = self._tasks.node_at(node)
        return tuple(hello.areas) if hello is not None else ()

    # --- on disk -------------------------------------------------------------------------------

    def _restore(self) -> None:
        taken = self._state.all(TAKEN)
        kept: list[tuple[Kept, Taken | None]] = []
        unreadable: set[str] = set()
        for device, body in self._state.all(CLONE).items():
            try:
                clone = msgspec.msgpack.decode(body, type=Kept)
                had = taken.get(device)
                kept.append((clone, msgspec.msgpack.decode(had, type=Taken) if had else None))
            except (ValueError, msgspec.MsgspecError) as error:
                # Perhaps written by a later version: it stays as it is.
                unreadable.add(device)
                self._say(f"clone of {device} on disk cannot be read and is left out: {error}\n")
        self._reactor.perform(self._anchors.restore(kept, self._reactor.clock()))
        self._devices.begun(unreadable)
        ids = self._anchors.devices
        for client, id_ in self._push.inboxes.kept_for(CLIENT):
            device = client.removeprefix(CLIENT)
            if device not in unreadable and ids.get(device) != id_:
                self._end_inbox(device, id_)

    def _save(self, instruction: SaveClone) -> None:
        body = msgspec.msgpack.encode(instruction.kept)
        self._state.put(CLONE, instruction.device, body)

    def _save_taken(self, instruction: SaveTaken) -> None:
        body = msgspec.msgpack.encode(instruction.taken)
        self._state.put(TAKEN, instruction.device, body)

    def _forget(self, instruction: ForgetClone) -> None:
        self._peers.pop(instruction.device, None)
        self._state.remove(CLONE, instruction.device)
        self._state.remove(TAKEN, instruction.device)

    # --- topics and peers ----------------------------------------------------------------------

    def _ask_peers(self, asked: AskPeers) -> None:
        self._questions.resolve(asked.device, asked.iad, asked.devices)

    def _make_topic(self, instruction: MakeTopic) -> None:
        device, topic = instruction.device, instruction.topic
        if self._topics.went(topic.name):
            # It was made, and has moved since.
            self._came.append(TopicMade(device, ok=True))
            return
        self._topics.ask(partial(self._made, device), CreateTopic("make", topic))

    def _made(self, device: str, report: TopicReport) -> None:
        passes = report.message == NOT_NOW
        self._came.append(TopicMade(device, report.ok, report.message, passes))

    def _end_topic(self, instruction: EndTopic) -> None:
        end = partial(self._questions.end, instruction.device, instruction.topic)
        self._state.when_durable(end)

    # --- subscriptions -------------------------------------------------------------------------

    def _ask_inbox(self, instruction: AskInbox) -> None:
        device, message = instruction.device, instruction.message
        if isinstance(message, Unsubscribe):
            self._end_inbox(device, message.id)
            return
        known, peer = self._peers.get(device, ("", _ignore))
        if known != message.id:
            peer = partial(self._said, device, message.id)
            self._peers[device] = message.id, peer
        if not self._push.ask(peer, f"{CLIENT}{device}", message):
            self._came.append(InboxSaid(device, message.id, None))

    def _said(self, device: str, id_: str, message: PushReply) -> None:
        if isinstance(message, Notified):
            # Anybody in the overlay may name the topic; what it puts out may move something.
            publisher = message.notification.origin.publisher
            if publisher != self._iad and publisher not in self._partners:
                return
        self._came.append(InboxSaid(device, id_, message))

    def _end_inbox(self, device: str, id_: str) -> None:
        if not self._push.ask(_ignore, f"{CLIENT}{device}", Unsubscribe(id_)):
            self._ending.append((device, id_))

    # --- devices -------------------------------------------------------------------------------

    def _ask_readings(self, ask: AskReadings) -> None:
        # The master's own: no client's rate bounds it.
        client = Sender("client", f"{CLIENT}{ask.device}", rate_per_s=math.inf)
        hello = self._tasks.node_at(ask.device.rpartition("/")[2])
        # The sensors': what the clone computed stands beside them in the history.
        channels = hello.channels if hello is not None and not ask.task.channels else ()
        answered = partial(self._read, ask.device, ask.number, channels)
        event = TaskArrived(answered, ask.task, Sender("iad", self._iad), client)
        self._reactor.perform(self._tasks.handle(event, self._reactor.clock()))

    def _read(
        self, device: str, number: int, channels: tuple[str, ...], result: TaskResult
    ) -> None:
        result = only(result, channels) if channels else result
        self._came.append(ReadingsCame(device, number, result, round(self._wall() * 1e3)))

    def _publish(self, instruction: PublishReading) -> None:
        """A reading that finds no room is lost, as a round that fails."""
        if not self._push.topics.crowded:
            message = Publish("", instruction.topic, instruction.attributes)
            self._push.topics.publish("clone", message, lambda _: None)

    def _tell_reading(self, told: TellReading) -> None:
        self._devices.read(told.device, told.area, told.time_ms, told.values)

    def _keep_device(self, instruction: KeepDevice) -> None:
        self._devices.keep(instruction.device, instruction.areas)

    def _forget_device(self, instruction: ForgetDevice) -> None:
        self._devices.forget(instruction.device)

    def _give(self, given: GiveOutput) -> None:
        device, id_, position = given.device, given.id, given.position
        then = partial(self._came.append, OutputKept(device, id_, position))
        self._devices.on_output(device, id_, position, given.time_ms, given.values, then)

    def _pass_over(self, passed: PassOver) -> None:
        kept = OutputKept(passed.device, passed.id, passed.position)
        self._state.when_durable(partial(self._came.append, kept))

    def _tell(self, instruction: TellOperator) -> None:
        self._say(f"{instruction.line}\n")


def _ignore(_message: PushReply) -> None:
    pass
