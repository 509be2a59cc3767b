"""The master: wires sockets, schedulers and planes together; it decides nothing itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from agent.alerts.event_state import SaveNodeState
from agent.alerts.known_names import KnownNames
from agent.derived.last_values import LastValues
from agent.master.clones.clone_plane import ClonePlane
from agent.master.clones.derived_plane import DerivedPlane
from agent.master.market.trade import Trade
from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.home_plane import HomePlane
from agent.master.moves.node_homes import NodeHomes
from agent.master.moves.subscriber_homes import SubscriberHomes
from agent.master.placement.latency_model import model_of
from agent.master.placement.membership_plane import MembershipPlane
from agent.master.placement.placement_plane import PlacementPlane
from agent.master.push.broker_links import BrokerLinks
from agent.master.push.event_plane import EventPlane
from agent.master.push.place import partners_of, place_of, publishers
from agent.master.push.push_plane import PushPlane
from agent.master.push.webhooks import hooks_of
from agent.master.queries.query_plane import QueryPlane
from agent.master.queries.schedulers import schedulers
from agent.master.queries.task_plane import TaskPlane
from agent.master.queries.watch_plane import WatchPlane
from agent.master.recording.metrics_plane import MetricsPlane
from agent.master.recording.placement_record import PlacementRecorder
from agent.master.recording.records import Records
from agent.master.requests.operator_plane import MAX_CONNECTIONS, OperatorPlane
from agent.master.requests.peers import CONFIGURED, Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.reply_writer import ReplyWriter
from agent.master.requests.request_plane import RequestOrigin
from agent.master.standby.kept_guards import kept_guards
from agent.master.standby.lease_plane import LeasePlane, suspended_too
from agent.master.standby.standby_plane import StandbyPlane
from agent.master.storage.event_take_over import node_states
from agent.master.storage.notification_store import NotificationStore, beside
from agent.master.storage.state import State
from agent.master.topics.processor_plane import ProcessorPlane
from agent.master.topics.topic_plane import TopicPlane
from agent.master.topics.topic_readings import CLIENT
from agent.metrics.families import KEY_EXPIRY
from agent.metrics.master_families import (
    NOTIFICATIONS_SPOOLED,
    OVERLAY_LINK_UP,
    SUBSCRIPTIONS_OPEN,
    WATCHES_OPEN,
    WEBHOOK_UP,
)
from agent.net.options import IO_THREADS
from agent.net.router import NODES_WAITING, Router
from agent.net.secure_sockets import SecureSockets
from agent.placement.handover.events import Record
from agent.placement.latency_model import LatencyModel
from agent.runtime.console import listening, operator_log
from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.reactor import Reactor
from agent.runtime.release import release
from agent.runtime.signals import StopSignal
from agent.scheduling.admission import ClientRates
from agent.scheduling.events import PolicyChanged, TellOperator, WriteRecord
from agent.scheduling.shared_budget import SharedBudget
from agent.wire.areas import AreaSet
from agent.wire.master_config import MasterConfig
from agent.wire.operator import IadStatus, SetPolicy, StatusRequest
from agent.wire.records import AnyRecord

if TYPE_CHECKING:
    from agent.master.push.webhook_plane import WebhookPlane


class Master:
    """One IAD's master."""

    def __init__(
        self,
        config: MasterConfig,
        folder: Path,
        *,
        run: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._iad, self._rooms = config.iad.name, config.iad.rooms
        self._release = release()
        self._say = operator_log(f"sanderling-master {self._iad}")
        self._reactor = Reactor(clock)
        self._writer = DiskWriterThread()
        self._reactor.listen(self._writer.fileno, self._writer.turn)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(IO_THREADS)
        with ExitStack() as undo:
            undo.callback(self._context.destroy, linger=0)
            undo.callback(self._writer.close)
            self._secure_sockets = SecureSockets(
                self._context, config.trust, folder, clock=clock, warn=self._say
            )
            undo.callback(self._secure_sockets.close)
            self._state = State(
                folder / config.state.path if config.state.path else None,
                clock,
                self._say,
                self._writer,
            )
            undo.callback(self._state.close)
            # Of both schedulers, the writer of replies and the public socket.
            self._budget = SharedBudget()
            # Of all that clients ask.
            self._rates = ClientRates(config.clients.rate_per_s, config.clients.burst_s)
            self._last_values = LastValues()
            self._query_scheduler, self._task_scheduler = schedulers(
                config, clock, self._state, self._budget, self._rates, self._last_values
            )
            self._notifications = NotificationStore(beside(folder, config.state.path), self._say)
            undo.callback(self._notifications.close)
            undo.callback(self._writer.drain)
            saved = node_states(self._state, self._notifications)
            self._records = Records(self._reactor, config.records, folder, self._writer, self._say)
            sockets = config.sockets
            kinds = ("public", "nodes", "operator")
            self._addresses = {kind: getattr(sockets, kind) for kind in kinds}
            self._sense(self._open_sockets(config))
            self._notify(config, saved)
            units = self._notifications.load_units()
            self._process(config, units)
            self._place(config, units, model_of(config, folder))
            self._reactor.add_timer(self._state)
            self._call_out(config, folder)
            self._trade = Trade(
                self._reactor,
                config,
                folder,
                self._secure_sockets,
                self._state,
                self._records,
                self._public,
                self._peers,
                self._operator,
                self._query_scheduler,
                self._task_scheduler,
                run=run,
                say=self._say,
            )
            self._metrics = MetricsPlane(
                self._reactor, config.metrics, self._records, self._status, lambda: self._peers.iads
            )
            self._metrics.shows(WATCHES_OPEN, lambda: self._watch_plane.open_watches)
            self._metrics.shows(SUBSCRIPTIONS_OPEN, lambda: self._push.open_subscriptions)
            self._metrics.shows(NOTIFICATIONS_SPOOLED, lambda: self._push.spooled)
            self._metrics.shows_by(OVERLAY_LINK_UP, lambda: self._push.links)
            if (webhooks := self._webhooks) is not None:
                self._metrics.shows_by(WEBHOOK_UP, lambda: webhooks.up)
            self._metrics.shows(KEY_EXPIRY, lambda: self._secure_sockets.key_expiry_s)
            undo.pop_all()

    def _open_sockets(self, config: MasterConfig) -> Router | None:
        """Open this master's sockets and the links to others; returns the socket for nodes."""
        reactor, sockets, open_ = self._reactor, config.sockets, self._secure_sockets.router
        self._secure_sockets.attend(reactor)
        public = open_("public", sockets.public, most_connections=config.clients.most_connections)
        self._public = PublicPlane(reactor, public, self._rates)
        self._replies = self._public.writer = ReplyWriter(reactor, self._public.send, self._budget)
        public.unsent.tell, self._budget.collect = self._budget.add, public.unsent.collect
        operator = open_("operator", sockets.operator, most_connections=MAX_CONNECTIONS)
        self._operator = OperatorPlane(reactor, operator)
        self._operator.takes(StatusRequest, self._tell_status)
        self._operator.takes(SetPolicy, self._set_policy)
        self._peers = Peers(reactor, self._secure_sockets, self._say)
        fixed = partners_of(config)
        for member in config.pool:
            if member.iad != self._iad:
                self._peers.connect(member.iad, member.address, member.keys, by=CONFIGURED)
        for iad, (address, keys) in fixed.items():
            self._peers.connect(iad, address, keys, by=CONFIGURED)
        self._membership = MembershipPlane(
            reactor,
            config,
            self._public,
            self._peers,
            self._secure_sockets,
            {iad: address for iad, (address, _) in fixed.items()},
            lambda: {*self._handovers.others, *self._placement.needs},
        )
        return open_("nodes", sockets.nodes, waiting=NODES_WAITING) if sockets.nodes else None

    def _sense(self, nodes: Router | None) -> None:
        """Set up queries: those of clients, the tasks of this IAD, and values derived from them."""
        reactor = self._reactor
        QueryPlane(
            reactor,
            self._iad,
            self._query_scheduler,
            self._task_scheduler,
            self._public,
            self._peers,
        )
        self._task_plane = TaskPlane(
            reactor,
            self._iad,
            self._task_scheduler,
            self._query_scheduler,
            self._public,
            nodes,
            self._state,
        )
        self._derived = DerivedPlane(
            reactor, self._state, self._task_scheduler, self._last_values, time.time, self._say
        )
        self._task_plane.derived_taken = self._derived.taken
        reactor.performs(TellOperator, self._tell_operator)

    def _notify(self, config: MasterConfig, saved: list[SaveNodeState]) -> None:
        """Set up what pushes: alerts of nodes, subscriptions, and watches."""
        reactor, tasks, place = self._reactor, self._task_scheduler, place_of(config)
        self._names = KnownNames(publishers(config, place), lambda: tasks.known_channels)
        self._push = PushPlane(
            reactor,
            config,
            place,
            self._state,
            self._notifications,
            self._public,
            BrokerLinks(reactor, self._secure_sockets, self._public, self._iad, place, self._say),
            time.time,
            self._say,
            self._writer,
            self._areas,
            self._names,
        )
        self._events = EventPlane(
            reactor,
            self._iad,
            self._records,
            self._push,
            time.time,
            tasks.node_on,
            saved=saved,
            # Without records there is nowhere to store events.
            takes=bool(config.records.directory),
        )
        self._writer.drain()  # what it found in the records
        tasks.catalog.source = self._events.state
        tasks.ask_events(self._events.state.extent)
        self._task_plane.take_events = self._events.arrived
        self._watch_plane = WatchPlane(
            reactor,
            config,
            self._state,
            self._public,
            self._query_scheduler,
            tasks.channels,
            self._push,
            time.time,
            lambda areas: len(tasks.resources(areas)),
        )

    def _process(self, config: MasterConfig, units: Sequence[Record]) -> None:
        """Set up topics. `units` are those that move, or that standbys keep."""
        self._processors = ProcessorPlane(
            self._reactor, self._say, config.processing, iad=self._iad, record=self._record
        )
        self._topics = TopicPlane(
            self._reactor,
            self._iad,
            self._state,
            self._public,
            self._operator,
            self._query_scheduler,
            self._push,
            self._notifications.load_topics(),
            time.time,
            self._say,
            self._processors,
            self._areas,
            units,
            kept_guards(self._state),
            self._task_scheduler.channels,
        )
        self._names.topics = lambda: self._topics.names

    def _place(
        self, config: MasterConfig, units: Sequence[Record], model: LatencyModel | None
    ) -> None:
        """Set up what moves units, takes them over, and decides where they live."""
        reactor, secure_sockets = self._reactor, self._secure_sockets
        partners = self._membership.partners
        node_homes = NodeHomes(reactor, self._iad, self._task_scheduler, self._events, self._push)
        node_homes.may_join = lambda node: secure_sockets.may_join(node, config.sockets.nodes)
        subscriber_homes = SubscriberHomes(reactor, self._iad, self._push, partners)
        homes = HomePlane(node_homes, subscriber_homes)
        subscriber_homes.late_inboxes.on_late = homes.has_late
        self._handovers = HandoverPlane(
            reactor,
            self._iad,
            self._public,
            self._peers,
            self._operator,
            self._push,
            [self._topics.moves, homes],
            units,
            partners=partners,
            wall=time.time,
            say=self._say,
            record=self._record,
        )
        self._records.tell(lambda record, _now: node_homes.traffic.take(record))
        self._placement = PlacementPlane(
            reactor,
            config,
            self._state,
            self._public,
            self._peers,
            self._operator,
            self._topics,
            self._say,
            partners=partners,
            mover=self._handovers,
            epoch=self._push.epoch,
            sizes=lambda: self._processors.sizes(self._push.inboxes.bytes_for(CLIENT)),
            listeners=self._push.inboxes.topics_named,
            homes=homes.choices,
            model=model,
        )
        PlacementRecorder(
            reactor, self._placement.facts.own, self._record, config.processing.record_s
        )
        self._handovers.admits = self._placement.admits
        self._handovers.given_up = self._placement.given_up
        self._handovers.stays = self._topics.stays
        self._topics.mover = self._handovers
        self._topics.elsewhere = self._placement.facts.topics_elsewhere
        leases = LeasePlane(
            suspended_too(reactor.clock),
            self._iad,
            # Of the configuration only: all must have the same list.
            {self._iad, *partners_of(config)},
            self._state,
            self._public,
            self._peers,
            self._push.epoch,
            new=self._push.new,
        )
        self._standbys = StandbyPlane(
            reactor,
            self._iad,
            self._state,
            leases,
            self._handovers,
            self._topics,
            self._push,
            lambda unit: self._placement.second(unit, leases.members),
            time.time,
            self._say,
        )
        self._placement.on_heard = self._standbys.claimed
        ClonePlane(
            reactor,
            self._iad,
            self._state,
            self._public,
            self._peers,
            self._operator,
            self._push,
            self._topics,
            self._task_scheduler,
            time.time,
            self._say,
            partners=partners,
            elsewhere=self._placement.facts.topics_elsewhere,
            devices=self._derived,
            drifts=config.placement.drift,
        )

    def _record(self, record: AnyRecord) -> None:
        self._reactor.perform([WriteRecord(record)])

    def _areas(self) -> list[AreaSet]:
        """The areas that some node is known to cover."""
        return [*self._task_scheduler.known_areas, *self._query_scheduler.announced]

    def _call_out(self, config: MasterConfig, folder: Path) -> None:
        self._webhooks: WebhookPlane | None = None
        if hooks := hooks_of(config, folder):
            # The HTTP client and TLS take 3 MiB.
            from agent.master.push.webhook_plane import WebhookPlane

            self._webhooks = WebhookPlane(self._reactor, hooks, self._push, time.time, self._say)

    def serve(self, stop: StopSignal) -> None:
        """Serve until told to stop."""
        self._say(listening(self._addresses))
        self._reactor.serve(stop)

    def close(self) -> None:
        """Write pending data and close the sockets. It takes as long as the disk does."""
        self._metrics.close()
        self._trade.pods.close()
        self._processors.close()
        self._writer.drain()  # acknowledgements of that data are still sent
        self._records.close()
        if self._webhooks is not None:
            self._webhooks.close()
        self._replies.close()
        self._push.close()
        self._derived.save()
        self._state.close()
        self._writer.close()
        self._secure_sockets.close()
        self._context.destroy()

    # --- for the operator ----------------------------------------------------------------------

    def _tell_operator(self, instruction: TellOperator) -> None:
        self._say(f"{instruction.line}\n")

    def _set_policy(self, origin: RequestOrigin, request: SetPolicy, now: float) -> None:
        self._reactor.perform(self._task_scheduler.handle(PolicyChanged(request.policy), now))
        self._operator.reply(origin, self._status())

    def _tell_status(self, origin: RequestOrigin, _request: StatusRequest, _now: float) -> None:
        self._operator.reply(origin, self._status())

    def _status(self) -> IadStatus:
        public, tasks, peers = self._public, self._task_plane, self._peers
        readers = (public, self._operator, tasks, peers, self._trade.directory)
        nodes = tuple(
            [self._events.described(node) for node in self._task_scheduler.node_statuses()]
        )
        rooms = self._rooms
        return IadStatus(
            iad=self._iad,
            policy=self._task_scheduler.policy,
            nodes=nodes,
            unreachable_iads=peers.unreachable,
            open_queries=self._query_scheduler.open_queries,
            open_tasks=self._task_scheduler.open_tasks,
            counters=self._query_scheduler.counters
            | self._task_scheduler.counters
            | self._watch_plane.counters
            | self._events.counters
            | self._push.counters
            | self._topics.counters
            | self._handovers.counters
            | self._membership.counters
            | self._standbys.counters
            | (self._webhooks.counters if self._webhooks is not None else {})
            | self._trade.pods.counters
            | {
                "malformed_frames": sum(part.malformed for part in readers if part is not None),
                "messages_dropped": public.dropped
                + self._operator.dropped
                + tasks.dropped
                + peers.dropped,
                "records_lost": self._records.lost,
            },
            registered=self._trade.directory.registered if self._trade.directory else None,
            version=self._release,
            topics=self._topics.statuses,
            rooms={area: rooms[area] for each in nodes for area in each.areas if area in rooms},
        )
