"""Push plane: alerts of this IAD's nodes into the overlay, and notifications from it to
subscribers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import SaveNodeState
from agent.alerts.inbox_handover import MovableInboxes
from agent.alerts.known_names import KnownNames
from agent.alerts.limits import Limits as InboxLimits
from agent.alerts.losses import MAX_LOST
from agent.alerts.notifications import alerts_of, content_of, history_of, notification_of
from agent.alerts.spool import Spool
from agent.master.push.broker_links import BrokerLinks
from agent.master.push.place import Place
from agent.master.push.subscriber_plane import SubscriberPlane
from agent.master.push.topic_spool import TopicSpool
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.group_commit import GroupCommit
from agent.master.storage.notification_store import NotificationStore
from agent.master.storage.state import State
from agent.overlay import events as overlay
from agent.overlay.broker import NOT_ADVERTISED, Broker
from agent.overlay.limits import Limits
from agent.runtime.console import Say
from agent.runtime.disk_writer import DiskWriter, InlineDiskWriter
from agent.runtime.reactor import Reactor
from agent.scheduling.nearest import nearest
from agent.topics.contents import stays_here
from agent.wire import overlay as messages
from agent.wire.areas import AreaSet
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterConfig
from agent.wire.node_messages import NodeEvents
from agent.wire.overlay import Notification
from agent.wire.predicate_language import read_recent
from agent.wire.predicate_logic import check
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Lost,
    PushRequest,
    Subscribe,
    Unsubscribe,
)

# Key of a document on disk.
EPOCH: Final = "overlay_epoch"
# Notifications published per turn, or up to an event's areas more: with a hundred durable
# subscriptions that takes some 20 ms, and heartbeats are due on the links.
TURN: Final = 16
# Number of such turns that may be outstanding; beyond it a node sends its events again.
MAX_BROUGHT: Final = 512
# Of topics' outputs no more follow in a turn once so many subscriptions here got one.
DELIVERIES: Final = 512
# Reports to a neighbour are batched over this time: only a topic that moves waits for them.
BATCH_S: Final = 0.01


class PushPlane:
    """Connects spool, broker and inboxes.

    An alert is in the spool, on disk, before its node may forget it, in one transaction with what
    the event plane keeps of its events, and leaves it when the broker reports that every subscriber
    has it. A notification from a neighbour is in the inboxes, on disk, before the neighbour may
    forget it. While the disk refuses, the links are down and nothing is accepted. `wall` reads the
    wall clock in seconds since 1970 UTC; `areas` returns the areas that some node is known to
    cover, and `names` other names that filters may want. ConfigError for an advertisement that the
    broker cannot take.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        place: Place,
        state: State,
        store: NotificationStore,
        public: PublicPlane,
        links: BrokerLinks,
        wall: Callable[[], float],
        say: Say,
        writer: DiskWriter | None = None,
        areas: Callable[[], Sequence[AreaSet]] = tuple,
        names: KnownNames | None = None,
    ) -> None:
        self._names = names or KnownNames((), tuple)
        self._reactor = reactor
        self._writer = writer or InlineDiskWriter()
        self._iad = config.iad.name
        self._links = links
        self._wall = wall
        self._say = say
        # Whether nothing was on disk: this is the first start, or what there was is lost.
        self.new = not state.all(EPOCH)
        self.epoch = next_epoch(state, wall())
        remembered = config.notifications.remembered
        self._broker = Broker(
            place.broker,
            place.scot,
            epoch=self.epoch,
            routing=config.overlay.routing,
            limits=Limits(batch_s=BATCH_S, most_remembered=remembered),
            wall=wall,
        )
        self._spool = Spool()
        self.inboxes = MovableInboxes(
            _read,
            InboxLimits.remembering(remembered, most_owned=config.clients.most_subscriptions),
            areas=areas,
            nearest=nearest,
            names=self._names,
        )
        self._store = store
        self._brought: deque[s.Brought] = deque()
        self._commit = GroupCommit(store, reactor.perform, reactor.clock, self._writer)
        self._silent = False
        self._knows_epoch = False
        # Losses, by the notifications that report them.
        self._losses: dict[messages.Origin, Lost] = {}
        self._undeliverable = 0
        self._withheld = 0
        self._delivered = 0  # to subscriptions here, in this turn
        self._not_refused: dict[type, Callable[..., i.InboxEvent]] = {
            Subscribe: i.SubscribeArrived,
            AcknowledgeNotifications: i.AcknowledgeArrived,
            Unsubscribe: i.UnsubscribeArrived,
        }
        self.topics = TopicSpool(
            reactor, self._iad, self._spool, self._commit, self._spool_has, wall
        )
        self.subscribers = SubscriberPlane(reactor, public, self.ask)
        reactor.performs(s.PublishSpooled, self._publish)
        reactor.performs(s.TellLost, self._tell_lost)
        reactor.performs(i.StartSubscription, self._start)
        reactor.performs(i.EndSubscription, self._end)
        reactor.performs(overlay.Send, links.send)
        reactor.performs(overlay.Settled, self._settled)
        reactor.performs(overlay.Undeliverable, self._not_delivered)
        self._announced = tuple(place.announced)
        self._begin(place.announced, store, state)
        reactor.add_timer(self)

    def _begin(self, announced: dict[str, Filter], store: NotificationStore, state: State) -> None:
        """Give the broker its own state, before any message of another broker."""
        now = self._reactor.clock()
        for name, filter_ in announced.items():
            try:
                self._tell_broker(overlay.Advertise(name, filter_))
            except ValueError as error:
                raise ConfigError(f"overlay.advertise: {error}") from None
        spool, inboxes = store.load()
        self._commit.take(self.inboxes.restore(inboxes, now))
        self._spool.restore(spool, now)
        self._links.start(self._tell_broker)
        state.when_durable(self._epoch_is_kept)
        self._hush()

    def _epoch_is_kept(self) -> None:
        self._knows_epoch = True

    def _hush(self) -> None:
        """Take the links down, or let them come up again."""
        if self._mute != self._silent:
            self._silent = self._mute
            if self._silent:
                self._links.fall_silent()
            else:
                self._links.speak()

    @property
    def _mute(self) -> bool:
        """Whether something visible to neighbours is not on stable storage."""
        return self._commit.refusing or not self._knows_epoch

    # --- from nodes ----------------------------------------------------------------------------

    def bring(self, node: str, message: NodeEvents) -> bool:
        """Publish the trigger events among these, each once: some at once, the others in the next
        turns. Returns whether they were accepted; they are on stable storage when none is
        `under_way` and `keep` says so."""
        if self._commit.refusing:
            return False
        alerts = alerts_of(self._iad, node, message)
        if not alerts:
            return True
        if len(self._brought) >= MAX_BROUGHT:
            return False
        for event in alerts:
            for each in event.notifications[:1]:
                self._names.heard(each.attributes)
        idle = not self._brought
        self._brought += [
            s.Brought(None, node, message.history, message.oldest, part) for part in _parts(alerts)
        ]
        if idle:
            self._spool_has(self._brought.popleft())
        return True

    @property
    def under_way(self) -> int:
        """How many turns the rest of these takes: a disk that is slow or refuses holds them up."""
        return len(self._brought)

    def keep(self, then: Callable[[bool], object], changes: Sequence[SaveNodeState] = ()) -> None:
        """Put what was published, and these changes, on stable storage now, in one transaction;
        `then` gets whether all of it is there. What is refused is tried again."""
        self._commit.take(changes)
        self._commit.settle(then)

    def spooled_of(self, node: str, histories: Iterable[str]) -> dict[str, Taken]:
        """The events of these histories of a node that are alerts and were spooled here."""
        return self._spool.taken_of(node, histories)

    def adopt(self, node: str, spooled: Mapping[str, Taken]) -> list[s.SpoolInstruction]:
        """Another master spooled these. Returns the changes to write."""
        return self._spool.adopt(node, spooled)

    def has_alerts_of(self, node: str, histories: Iterable[str]) -> bool:
        """Whether some subscriber may lack an alert of these histories of a node."""
        return self._spool.has_of({history_of(node, history) for history in histories})

    @property
    def refusing(self) -> bool:
        """Whether the disk refuses, and nothing new is taken."""
        return self._commit.refusing

    def take(self, instructions: Iterable[Any]) -> None:
        """Perform what the inboxes say; put on stable storage what is for it."""
        self._commit.take(instructions)

    def write(self, changes: Iterable[Any], then: Callable[[], object]) -> None:
        """Put these instructions of inboxes, and what else this store keeps, on stable storage in
        one transaction; then call `then`."""
        self._commit.take(changes)
        self.topics.when_kept(then)

    # --- spool ---------------------------------------------------------------------------------

    def _spool_has(self, event: s.SpoolEvent) -> None:
        instructions = self._spool.handle(event, self._reactor.clock())
        # Nodes request that by `keep`.
        self._commit.take([each for each in instructions if not isinstance(each, s.Accepted)])

    def _publish(self, instruction: s.PublishSpooled) -> None:
        notification = instruction.notification
        if self.topics.withholds(notification):
            self._spool_has(s.Undeliverable(notification.origin))
        else:
            self._announce(notification)

    def _announce(self, notification: Notification) -> None:
        self._tell_broker(overlay.Publish(notification, stays_here(notification)))

    def _tell_lost(self, instruction: s.TellLost) -> None:
        told = notification_of(instruction.lost, round(self._wall() * 1e3))
        self._losses[told.origin] = instruction.lost
        if len(self._losses) > MAX_LOST:
            del self._losses[next(iter(self._losses))]  # any outcome resets the count
        self._tell_broker(overlay.Publish(told))

    def _settled(self, instruction: overlay.Settled) -> None:
        lost = self._losses.pop(instruction.origin, None)
        if lost is None:
            self._spool_has(s.Settled(instruction.origin))
            self.topics.left(instruction.origin)
        else:
            self._spool_has(s.LostTold(lost))

    def _not_delivered(self, instruction: overlay.Undeliverable) -> None:
        if instruction.reason == NOT_ADVERTISED:
            # This IAD does not report losses that it caused on purpose.
            self._withheld += 1
            self._spool_has(s.Settled(instruction.origin))
            return
        self._undeliverable += 1
        # A loss notice is repeated after a time-out.
        if self._losses.pop(instruction.origin, None) is None:
            self._spool_has(s.Undeliverable(instruction.origin))

    # --- broker --------------------------------------------------------------------------------

    def _tell_broker(self, event: overlay.Event) -> None:
        """Immediate instructions are performed at once; those that confirm safety here wait until
        it is on stable storage."""
        for instruction in self._broker.handle(event, self._reactor.clock()):
            if isinstance(instruction, overlay.Deliver):
                self._deliver(instruction)
            elif isinstance(instruction, overlay.Send) and not _vouches(instruction.message):
                self._links.send(instruction)
            else:
                waits = isinstance(instruction, overlay.Send)
                self._commit.after_commit(instruction, soon=waits)

    def _deliver(self, instruction: overlay.Deliver) -> None:
        self._names.heard(instruction.notification.attributes)
        content = content_of(instruction.notification)
        self._delivered += len(instruction.subscriptions)
        self._inbox_has(i.ContentArrived(instruction.subscriptions, content))

    # --- subscribers ---------------------------------------------------------------------------

    def _inbox_has(self, event: i.InboxEvent) -> None:
        self._commit.take(self.inboxes.handle(event, self._reactor.clock()))

    def ask(self, peer: i.Peer, client: str, message: PushRequest) -> bool:
        """Send a request about a client's subscriptions. Within this process `peer` is a function
        that takes each reply, possibly during another call. Returns whether the request was
        accepted: it is not while the disk refuses. A new durable subscription of a client by which
        that shows is refused and ended."""
        if self._commit.refusing:
            return False
        known = self.inboxes.has(client, message.id)
        self._inbox_has(self._not_refused[type(message)](peer, client, message))
        if (
            isinstance(message, Subscribe)
            and message.durable
            and isinstance(peer, RequestOrigin)
            and not known
            and self.inboxes.has(client, message.id)
        ):
            self._commit.settle(partial(self._written, peer, client, message), at_once=False)
        return True

    def _written(self, peer: RequestOrigin, client: str, message: Subscribe, well: bool) -> None:
        if not well:
            self._commit.withdraw(peer, message.id)
            end = Unsubscribe(message.id)
            self._inbox_has(i.UnsubscribeArrived(lambda _message: None, client, end))
            self.subscribers.disk_refuses(peer, message)

    def _start(self, instruction: i.StartSubscription) -> None:
        try:
            self._tell_broker(overlay.Subscribe(instruction.name, instruction.filter))
        except ValueError as error:
            # Perhaps kept by a version that could read it.
            self._say(f"overlay: subscription {instruction.name}: {error}\n")

    def _end(self, instruction: i.EndSubscription) -> None:
        self._tell_broker(overlay.Unsubscribe(instruction.name))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something is to be written, sent again, published again, or expires."""
        if self._mute != self._silent:
            return 0.0
        if self._commit.refusing:
            return self._commit.next_due
        if self._brought:
            return 0.0
        parts: Iterable[float | None] = (
            self._commit.next_due,
            self.topics.next_due,
            self._broker.next_tick,
            self._spool.next_tick,
            self.inboxes.next_tick,
        )
        return min([due for due in parts if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Do what is due, then write."""
        if not self._commit.refusing:
            if self._brought:
                self._spool_has(self._brought.popleft())
            self._put_out(now)
            if _is_due(self._broker.next_tick, now):
                self._tell_broker(overlay.Tick())
            if _is_due(self._spool.next_tick, now):
                self._spool_has(s.SpoolDue())
            if _is_due(self.inboxes.next_tick, now):
                self._inbox_has(i.InboxesDue())
        if _is_due(self._commit.next_due, now):
            self._commit.tick(now)
        self._hush()

    def _put_out(self, now: float) -> None:
        """Publish some of the topics' outputs."""
        self._delivered = 0
        for _ in range(TURN):
            if self._delivered >= DELIVERIES or not _is_due(self.topics.next_due, now):
                return
            for each in self.topics.to_publish(1, now):
                self._announce(each)

    def close(self) -> None:
        """Write pending data and close the file. It takes as long as the disk does."""
        self._writer.drain()
        if self._commit.next_due is not None:
            self._commit.tick(self._reactor.clock())
            self._writer.drain()
        self._store.close()

    # --- status --------------------------------------------------------------------------------

    @property
    def open_subscriptions(self) -> int:
        """Subscriptions of clients of this master."""
        return len(self.inboxes)

    @property
    def spooled(self) -> int:
        """Notifications of this IAD that some subscriber may not have yet."""
        return len(self._spool)

    @property
    def links(self) -> dict[str, bool]:
        """Whether the link to a neighbour is up, by its IAD."""
        return self._links.up

    @property
    def counters(self) -> dict[str, int]:
        """Of spool, inboxes, broker and links, since the start."""
        broker = {f"overlay_{name}": count for name, count in self._broker.counters.items()}
        return {
            "open_subscriptions": self.open_subscriptions,
            "notifications_waiting": self.inboxes.waiting,
            "spool": self.spooled,
            **self._spool.counters,
            **self.inboxes.counters,
            **broker,
            "alerts_not_announced": self._withheld,
            "overlay_undeliverable": self._undeliverable,
            "overlay_subscriptions": self._broker.prt_entries,
            "overlay_advertisements": self._broker.srt_entries,
            "overlay_targets": sum(len(self._broker.targets_of(each)) for each in self._announced),
            "overlay_queued": self._links.waiting,
            "overlay_links_up": sum(self.links.values()),
            "overlay_links_lost": self._links.went_down,
            "overlay_passed_over": self._links.passed_over,
            **{f"overlay_sent_{kind}": count for kind, count in self._links.sent.items()},
        }


def next_epoch(state: State, wall_s: float) -> int:
    """Higher than at any earlier start; without a state file, only as far as the clock moves
    forward."""
    try:
        before = msgspec.msgpack.decode(state.all(EPOCH).get("", b"\x00"), type=int)
    except msgspec.MsgspecError:
        before = 0
    epoch = max(before + 1, int(wall_s), 1)
    state.put(EPOCH, "", msgspec.msgpack.encode(epoch))
    state.flush()  # if the disk refuses, links stay down until it is written
    return epoch


def _read(given: str | Filter) -> Filter:
    if isinstance(given, str):
        return read_recent(given)
    return check(given)


def _vouches(message: overlay.Message) -> bool:
    if isinstance(message, messages.Relay | messages.NoWay):
        message = message.message
    return isinstance(message, messages.Have)


def _parts(alerts: tuple[s.EventAlerts, ...]) -> Iterator[tuple[s.EventAlerts, ...]]:
    """The largest number of events that fits a turn."""
    part: list[s.EventAlerts] = []
    count = 0
    for each in alerts:
        part.append(each)
        count += len(each.notifications)
        if count >= TURN:
            yield tuple(part)
            part, count = [], 0
    if part:
        yield tuple(part)


def _is_due(due: float | None, now: float) -> bool:
    return due is not None and due <= now
