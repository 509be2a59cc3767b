"""Topic plane: topics of operators, messages of clients to topics anywhere, the inboxes of the
topics here, and their processors."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from agent.clones.names import LEAVES
from agent.master.moves.movable import Departures
from agent.master.moves.topic_moves import TopicMoves
from agent.master.push.push_plane import PushPlane
from agent.master.push.subscriber_plane import client_of
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import LATER, NOT_NOW, State
from agent.master.topics.processor_plane import ProcessorPlane
from agent.master.topics.publishers import Publishers
from agent.master.topics.topic_readings import CLIENT, TopicReadings
from agent.master.topics.topic_shadows import TopicShadows
from agent.placement.handover.events import Record
from agent.placement.world import Unit
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.nearest import nearest
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.topics.contents import after_a_start, peer_of
from agent.topics.events import (
    AskInbox,
    AskReadings,
    EnableProcessor,
    Feed,
    ForgetTopic,
    InboxSaid,
    KeepTopic,
    Release,
    Released,
    SaveProgress,
    SaveTopic,
    SendReport,
    StartProcessor,
    StopProcessor,
    TakeCheckpoint,
    TellOperator,
    TopicAsked,
    TopicKept,
    TopicsDue,
    TopicsEvent,
)
from agent.topics.movable_topics import MovableTopics
from agent.wire.areas import AreaSet
from agent.wire.push import Notified, PushReply, Unsubscribe
from agent.wire.topics import (
    STAYS,
    CreateTopic,
    EnableTopic,
    ListTopics,
    Publish,
    Published,
    RemoveTopic,
    Topic,
    TopicReport,
    TopicRequest,
    TopicStatus,
)

# An operator, or another part of this master.
Asker = RequestOrigin | Callable[[TopicReport], None]
# Kind of the documents in the state.
TOPIC: Final = "topic"
# Kind of the units that topics are.
KIND: Final = "processor"
# What came for topics is handled so many a turn.
TURN: Final = 64
RETRY_S: Final = 0.5
# Senders of a topic's messages that are told apart; other masters name them.
MAX_COUNTED: Final = 1_024
NOT_HERE: Final = "it is not kept here, and is dropped if no other master has it"


class TopicPlane:
    """Connects topics to sockets, disk, inboxes and processors. `kept` is what the store had at the
    start; `areas` returns the areas that some node is known to cover, `channels` those of the nodes
    in some areas; `wall` reads the wall clock in seconds since 1970 UTC. Topics that are `guarded`
    wait for their standbys' word."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        state: State,
        public: PublicPlane,
        operator: OperatorPlane,
        queries: QueryScheduler,
        push: PushPlane,
        kept: Sequence[SaveProgress],
        wall: Callable[[], float],
        say: Say,
        processors: ProcessorPlane,
        areas: Callable[[], Sequence[AreaSet]] = tuple,
        units: Sequence[Record] = (),
        guarded: Mapping[str, object] | None = None,
        channels: Callable[[tuple[str, ...]], Collection[str]] = lambda _: (),
    ) -> None:
        self._reactor = reactor
        self._state = state
        self._public = public
        self._operator = operator
        self._push = push
        self._say = say
        self._processors = processors
        # Handled in the next turn: what comes may come during another call.
        self._came: deque[TopicsEvent] = deque()
        self.readings = readings = TopicReadings(
            reactor, queries, processors, channels, self._came.append, wall
        )
        self._topics = MovableTopics(
            iad,
            lambda: secrets.token_hex(16),
            why_not_processed=self._processors.why_not,
            why_not_read=readings.why_not,
            remark=readings.remark,
            processed=self._processors.described,
            areas=areas,
            nearest=nearest,
            moved=self._moved,
            elsewhere=self._kept_elsewhere,
            guarded=lambda status: self.placed(self.guarded(status)),
        )
        # Gets what tells an operator that a removed topic has no standby any more, or why it has.
        self.when_alone: Callable[[str, Callable[[str], object]], object] = lambda _, then: then("")
        # Adds what there is of a topic's standby.
        self.guarded: Callable[[TopicStatus], TopicStatus] = lambda status: status
        # Adds whether it is delegated.
        self.placed: Callable[[TopicStatus], TopicStatus] = lambda status: status
        # Whether what a topic made waits for its standby; `let_go` follows.
        self.waits: Callable[[Release], bool] = lambda _: False
        # Tells which topics other masters keep.
        self.elsewhere: Callable[[], dict[str, str]] = dict
        # Tells where topics of this master went.
        self.mover: Departures | None = None
        self._to_release: deque[Release] = deque()
        self._retry_s = 0.0
        # One object for each inbox: it recognises its client's connection by it.
        self._peers: dict[str, tuple[str, Callable[[PushReply], None]]] = {}
        self._ending: list[tuple[str, str]] = []
        self._published = 0
        self._publishers = Publishers(public.rates, push.topics)
        # Messages by topic, and by the IAD where they were published.
        self.arrivals: dict[str, Counter[str]] = {}
        # Of clones: outputs of peers, by the clone's topic, then by the peer's and its IAD.
        self.peer_arrivals: dict[str, Counter[tuple[str, str]]] = {}
        # Gets the name of a new topic that is on disk; what it returns is told to the operator.
        self.on_created: Callable[[str], str] = lambda _: ""
        # Gets the name of a topic that was removed, not of one that moved away.
        self.on_removed: Callable[[str], object] = lambda _: None
        self._new = self._removed = ""
        public.takes(Publish, self._publish)
        for kind in (CreateTopic, RemoveTopic, EnableTopic, ListTopics):
            operator.takes(kind, self._asked)
        reactor.performs(SaveTopic, self._save)
        reactor.performs(ForgetTopic, self._forget)
        reactor.performs(SendReport, self._report)
        reactor.performs(AskInbox, self._ask_inbox)
        reactor.performs(AskReadings, readings.ask)
        reactor.performs(StartProcessor, lambda each: processors.start(each, self._came.append))
        reactor.performs(StopProcessor, lambda each: processors.stop(each.name))
        reactor.performs(EnableProcessor, lambda each: processors.enable(each.name))
        reactor.performs(KeepTopic, self._keep)
        reactor.performs(Feed, self._processors.feed)
        reactor.performs(TakeCheckpoint, lambda each: processors.take_checkpoint(each.name))
        reactor.performs(Release, self._offer)
        reactor.performs(TellOperator, self._tell)
        self._processors.on_trouble = push.topics.tell_trouble
        self._restore(kept, units, guarded or {})
        self.moves = TopicMoves(reactor, self._topics, push, self._left)
        self.shadows = TopicShadows(iad, self._topics, self.moves, push)
        reactor.add_timer(self)

    @property
    def statuses(self) -> tuple[TopicStatus, ...]:
        """The topics of this master."""
        return self._topics.statuses

    @property
    def names(self) -> set[str]:
        """The topics that are known, of this master and of others, without clones."""
        known = {*self._topics.living, *self.elsewhere()}
        return {name for name in known if not name.startswith((LEAVES, STAYS))}

    @property
    def counters(self) -> dict[str, int]:
        """Topics that are kept, stored ones that this version could not read, and messages that
        clients published here since the start."""
        return {
            "topics": len(self._topics),
            "unreadable_topics": self._topics.unreadable,
            "published": self._published,
        }

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something that came is to be handled, or a topic is due."""
        if self._came:
            return 0.0
        dues = [self._topics.next_tick]
        if self._to_release or self._ending:
            dues.append(self._retry_s)
        return min([due for due in dues if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Handle what came, and what is due."""
        for _ in range(min(TURN, len(self._came))):
            self._handle(self._came.popleft())
        due = self._topics.next_tick
        if due is not None and due <= now:
            self._handle(TopicsDue())
        if (self._to_release or self._ending) and self._retry_s <= now:
            self._try_again(now)

    def _offer(self, release: Release) -> None:
        if not self.waits(release):
            self._to_release.append(release)

    def to_release(self, name: str) -> list[Release]:
        """Outputs of a topic that wait for room or disk."""
        return [each for each in self._to_release if each.name == name]

    def let_go(self, release: Release) -> None:
        """The standby has it: it is put out in the next turn."""
        name = release.name
        known = name in self._topics and self._topics.incarnation(name)
        if known != release.progress.incarnation:
            return  # It was removed meanwhile.
        self._to_release.append(release)
        self._retry_s = 0.0

    def _handle(self, event: TopicsEvent) -> None:
        self._reactor.perform(self._topics.handle(event, self._reactor.clock()))

    def _try_again(self, now: float) -> None:
        for _ in range(len(self._to_release)):
            # One that finds no room must not hold up the other topics.
            release = self._to_release.popleft()
            told = partial(self._came.append, Released(release.name, release.epoch))
            if not self._push.topics.release(
                release.name, release.progress, release.notifications, told
            ):
                self._to_release.append(release)
        ending, self._ending = self._ending, []
        for name, incarnation in ending:
            self._end(name, incarnation)
        waits = self._to_release or self._ending
        self._retry_s = now + RETRY_S if waits else 0.0

    # --- clients -------------------------------------------------------------------------------

    def _publish(self, origin: RequestOrigin, message: Publish, now: float) -> None:
        client = client_of(origin.sender)
        if why := self._publishers.why_not(origin.sender, client, message, now):
            self._refuse(origin, message, why)
        elif not self._push.topics.publish(client, message, partial(self._kept, origin, message)):
            self._refuse(origin, message, NOT_NOW)

    def _kept(self, origin: RequestOrigin, message: Publish, well: bool) -> None:
        if not well:
            self._refuse(origin, message, NOT_NOW)
            return
        self._published += 1
        note = "" if message.topic in self._topics else NOT_HERE
        self._public.reply(origin, Published(message.id, "accepted", message.sequence, note))

    def _refuse(self, origin: RequestOrigin, message: Publish, why: str) -> None:
        self._public.reply(origin, Published(message.id, "refused", message.sequence, why))

    # --- operators -----------------------------------------------------------------------------

    def ask(self, then: Callable[[TopicReport], None], request: TopicRequest) -> None:
        """Do this for another part of this master."""
        self._do(then, request)

    def went(self, name: str) -> str:
        """The IAD to which a topic moved from here; empty if it did not."""
        return "" if name in self._topics else self._moved().get(name, "")

    def lives(self, name: str) -> bool:
        """Whether a topic is this master's."""
        return self._topics.lives(name)

    def knows(self, name: str) -> bool:
        """Whether a topic is here: this master's, on its way here, or unreadable on disk."""
        return name in self._topics or self._topics.is_unreadable(name)

    def home_of(self, name: str) -> str:
        """The home of a topic here that is a clone; else empty."""
        clone = self._topics.clone(name)
        return "" if clone is None else clone.home

    def stays(self, unit: Unit) -> str:
        """Why a unit here may not move, if it is a topic that may not; else empty."""
        clone = self._topics.clone(unit.name) if unit.kind == KIND else None
        if clone is None or clone.leaves:
            return ""
        return "it is a clone that does not leave its IAD; create it with --leaves"

    def _asked(self, origin: RequestOrigin, request: TopicRequest, _now: float) -> None:
        if isinstance(request, RemoveTopic) and (home := self.home_of(request.name)):
            line = f"{request.name} is the clone of a device of {home}: fleet clone remove, there"
            self._operator.reply(origin, TopicReport(request.id, ok=False, message=line))
            return
        self._do(origin, request)

    def _do(self, origin: Asker, request: TopicRequest) -> None:
        change = not isinstance(request, ListTopics)
        if change and (not self._state.takes or self._push.topics.refusing):
            _answer(self._operator, origin, TopicReport(request.id, ok=False, message=NOT_NOW))
            return
        new = removed = ""
        match request:
            case CreateTopic(topic=topic) if topic.name not in self._topics:
                new = topic.name
            case RemoveTopic(name=name):
                removed = name
                if to := self._forgets(name):
                    line = (
                        f"{name} lives at {to}; only the forwarding entry here was removed. "
                        f"To remove the topic: fleet topic remove {name} --iad {to}"
                    )
                    report = TopicReport(request.id, ok=True, message=line)
                    self._push.topics.when_kept(partial(_answer, self._operator, origin, report))
                    return
        # One that leaves is gone from here before it is on disk where it lives.
        if to := self._bound_for(new or removed):
            line = f"topic {new or removed} is on its way to {to}; try again in a moment"
            _answer(self._operator, origin, TopicReport(request.id, ok=False, message=line))
            return
        self._new, self._removed = new, removed
        self._handle(TopicAsked(origin, request))
        self._new = self._removed = ""

    def _moved(self) -> dict[str, str]:
        return self.mover.departed(KIND) if self.mover is not None else {}

    def _kept_elsewhere(self) -> dict[str, str]:
        return self.elsewhere()

    def _bound_for(self, name: str) -> str:
        return self.mover.bound_for(Unit(KIND, name)) if self.mover is not None else ""

    def _forgets(self, name: str) -> str:
        """The topic's new master, if this one knew nothing else of it: the entry is forgotten."""
        if self.mover is None or name in self._topics:
            return ""
        if to := self._moved().get(name, ""):
            self.mover.forget(Unit(KIND, name))
        return to

    def _report(self, instruction: SendReport) -> None:
        peer, report = instruction.peer, instruction.report
        if instruction.at_once:
            _answer(self._operator, peer, report)
            return
        new, removed = (self._new, self._removed) if report.ok else ("", "")
        reply: Callable[[], object] = partial(self._reply, peer, report, new)
        if removed:
            reply = partial(self.when_alone, removed, partial(self._is_alone, peer, report))
        late = TopicReport(report.id, ok=False, message=LATER)
        self._state.when_durable(
            partial(self._push.topics.when_kept, reply),
            None if callable(peer) else partial(_answer, self._operator, peer, late),
        )

    def _reply(self, peer: Asker, report: TopicReport, new: str) -> None:
        if new and new in self._topics and (line := self.on_created(new)):
            report = msgspec.structs.replace(report, message=line[:512])
        _answer(self._operator, peer, report)

    def _is_alone(self, peer: Asker, report: TopicReport, line: str) -> None:
        _answer(self._operator, peer, msgspec.structs.replace(report, message=line[:512]))

    # --- on disk -------------------------------------------------------------------------------

    def _restore(
        self, kept: Sequence[SaveProgress], units: Sequence[Record], guarded: Mapping[str, object]
    ) -> None:
        standings = {each.unit.name: each.standing for each in units if each.unit.kind == KIND}
        begun = {each.name for each in kept}
        topics: list[Topic] = []
        unreadable: set[str] = set()
        for name, body in self._state.all(TOPIC).items():
            if standings.get(name) == "released" and name not in begun:
                self._state.remove(TOPIC, name)
                continue
            try:
                if name in guarded and guarded[name] is None:  # perhaps its standby has it
                    raise ValueError("what is kept of its standby is damaged")
                topics.append(msgspec.msgpack.decode(body, type=Topic))
            except (ValueError, msgspec.MsgspecError) as error:
                # Perhaps written by a later version: it stays as it is, with progress and inbox.
                unreadable.add(name)
                self._say(f"topic {name} on disk cannot be read and is left out: {error}\n")
        progress = [(each.name, after_a_start(each.progress, self._push.epoch)) for each in kept]
        now = self._reactor.clock()
        resting = {
            name: [each for each, standing in standings.items() if standing == name]
            for name in ("offered", "taken")
        }
        resting["offered"] += guarded  # perhaps their standbys have them
        instructions = self._topics.restore(topics, progress, now, unreadable, **resting)
        self._reactor.perform(instructions)
        for client, incarnation in self._push.inboxes.kept_for(CLIENT):
            name = client.removeprefix(CLIENT)
            if self._topics.is_unreadable(name):
                continue
            if name not in self._topics or self._topics.incarnation(name) != incarnation:
                self._end(name, incarnation)

    def _save(self, instruction: SaveTopic) -> None:
        topic, progress = instruction.topic, instruction.progress
        self._state.put(TOPIC, topic.name, msgspec.msgpack.encode(topic))
        self._push.topics.release(topic.name, progress, (), lambda: None)

    def _left(self, name: str) -> None:
        """A topic is another master's, on disk."""
        if name not in self._topics:
            self._state.remove(TOPIC, name)
            self._peers.pop(name, None)
            self.arrivals.pop(name, None)
            self.peer_arrivals.pop(name, None)

    def _keep(self, instruction: KeepTopic) -> None:
        topic = instruction.topic
        self._state.put(TOPIC, topic.name, msgspec.msgpack.encode(topic))
        kept = TopicKept(topic.name, instruction.epoch)
        self._state.when_durable(partial(self._came.append, kept))

    def _forget(self, instruction: ForgetTopic) -> None:
        name, incarnation = instruction.name, instruction.incarnation
        self._peers.pop(name, None)
        self.arrivals.pop(name, None)
        self.peer_arrivals.pop(name, None)
        for _ in range(len(self._to_release)):
            # Later it would take the place of the progress of a topic that is created anew.
            if (release := self._to_release.popleft()).name != name:
                self._to_release.append(release)
        self._state.remove(TOPIC, name)
        self.on_removed(name)
        self._state.when_durable(partial(self._forget_rest, name, incarnation))

    def _forget_rest(self, name: str, incarnation: str) -> None:
        if name not in self._topics:  # it may have been created anew
            self._push.topics.forget_progress(name)
        self._end(name, incarnation)

    def _end(self, name: str, incarnation: str) -> None:
        if not self._push.ask(_ignore, f"{CLIENT}{name}", Unsubscribe(incarnation)):
            self._ending.append((name, incarnation))

    # --- inboxes -------------------------------------------------------------------------------

    def _ask_inbox(self, instruction: AskInbox) -> None:
        name, incarnation = instruction.name, instruction.message.id
        known, peer = self._peers.get(name, ("", _ignore))
        if known != incarnation:
            peer = partial(self._said, name, incarnation)
            self._peers[name] = incarnation, peer
        if not self._push.ask(peer, f"{CLIENT}{name}", instruction.message):
            self._came.append(InboxSaid(name, incarnation, None))

    def _said(self, name: str, incarnation: str, message: PushReply) -> None:
        if isinstance(message, Notified):
            publisher = message.notification.origin.publisher
            if peer := peer_of(message.notification, self._topics.clone(name)):
                _count(self.peer_arrivals.setdefault(name, Counter()), (peer, publisher))
            else:
                _count(self.arrivals.setdefault(name, Counter()), publisher)
        self._came.append(InboxSaid(name, incarnation, message, self.readings.wall_ms))

    def _tell(self, instruction: TellOperator) -> None:
        self._say(f"{instruction.line}\n")


def _answer(operator: OperatorPlane, asker: Asker, report: TopicReport) -> None:
    if callable(asker):
        asker(report)
    else:
        operator.reply(asker, report)


def _count(counted: Counter[Any], sender: Hashable) -> None:
    """Of too many the first ones count."""
    if sender in counted or len(counted) < MAX_COUNTED:
        counted[sender] += 1


def _ignore(_message: PushReply) -> None:
    pass
