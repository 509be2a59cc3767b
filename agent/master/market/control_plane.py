"""Control plane of the market: connects sockets and disk to the pure seller and buyer of
`agent.market`. Negotiation with this master itself takes the same path, without a socket."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent.market import buyer_events, seller_events
from agent.market.buyer import Buyer
from agent.market.rollout import Contact, ForgetOwned, KeepOwned, Owned, Send
from agent.market.seller import NodeTime, Seller
from agent.market.terms import Instruction, Tick
from agent.master.market.counterparties import counterparty_hosts
from agent.master.market.directory_link import DirectoryLink
from agent.master.queries.query_plane import HERE
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.partner_links import PartnerLinks
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import LATER, NOT_NOW, State
from agent.net.secure_sockets import SecureSockets
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.events import ServiceChanged, ServiceRemoved
from agent.scheduling.pools import DEFAULT
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.directory import Account, Found
from agent.wire.market import (
    Join,
    Joined,
    Leave,
    MarketRequest,
    Member,
    Offer,
    Propose,
    Release,
    Service,
)
from agent.wire.master_config import MasterConfig
from agent.wire.operator import (
    AddIad,
    CreateService,
    DropService,
    ListServices,
    RemoveIad,
    ServiceChange,
    ServiceReport,
)
from agent.wire.principals import Sender

# Document kinds in the state.
SERVICE = "service"
OWNED = "owned"
ACCOUNTS = "accounts"
# How long a changed pool may wait for the links to its members before queries use it.
LINKING_S = 1.0
LOOK_S = 0.01
# Limit on instructions that wait for the disk; beyond it messages are dropped, and resent by their
# senders.
MAX_QUEUED = 1_024
NO_MARKET = "this master has no market; set market.directories"

T = TypeVar("T")


class Pods(Protocol):
    """Provider of pods."""

    def set_pods(self, node: str, service: str, count: int) -> None:
        """`service` needs `count` pods on `node` from now on; 0: none."""


class _Linking(Struct):
    """A pool whose members are being connected, and the callbacks for its completion."""

    service: Service
    until_s: float
    replies: list[seller_events.Reply] = []


class ControlPlane:
    """Moves messages between operators, other masters, the registration service and the market.

    `run` differs between starts; `keys` are this master's own public keys. Services and pools are
    loaded from `state`, passed to both schedulers, and their members connected.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        state: State,
        public: PublicPlane,
        peers: Peers,
        operator: OperatorPlane,
        directory: DirectoryLink | None,
        queries: QueryScheduler,
        tasks: TaskScheduler,
        pods: Pods,
        *,
        run: str,
        say: Say,
        keys: Sequence[str] = (),
        secure_sockets: SecureSockets | None = None,
    ) -> None:
        self._say = say
        self._reactor = reactor
        self._state = state
        self._public = public
        self._peers = peers
        self._operator = operator
        self._directory = directory
        self._queries = queries
        self._tasks = tasks
        self._pods = pods
        self._iad = config.iad.name
        self._sender = Sender(config.market.role, self._iad)
        wall_offset_s = time.time() - reactor.clock()
        self._seller = _seller(config, tasks, wall_offset_s)
        address = config.sockets.reached_at
        self._buyer = Buyer(
            Member(self._iad, address, keys=tuple(keys)),
            run=run,
            taken=lambda name: name == DEFAULT or name in self._seller.services,
            capabilities=lambda: {
                *tasks.known_channels,
                *[each.capability for each in self._seller.services.values()],
            },
            wall_offset_s=wall_offset_s,
        )
        fixed = {member.iad for member in config.pool}
        self._partner_links = PartnerLinks(
            reactor, peers, fixed=fixed, needed=self._partners, say=say, parties=secure_sockets
        )
        if directory is not None:
            directory.on_accounts(self._accounts_changed)
        self._kept_accounts: tuple[Account, ...] = ()
        self._queue: deque[Instruction] = deque()
        self._at_work = False
        self._waiting = False  # for the disk
        self._linking: dict[str, _Linking] = {}
        self._look_s: float | None = None
        self._take_messages()
        self._load()
        reactor.add_timer(self)

    def _take_messages(self) -> None:
        for request in (Propose, Release, Join, Leave):
            self._public.takes(request, self._arrived)
        self._peers.takes(Offer, self._offered)
        self._peers.takes(Joined, self._member_replied)
        for change in (CreateService, AddIad, RemoveIad, DropService):
            self._operator.takes(change, self._requested)
        self._operator.takes(ListServices, self._list)

    def _load(self) -> None:
        now = self._reactor.clock()
        self._run(self._seller.load(self._kept(SERVICE, seller_events.Membership), now))
        # Queries in the first moments use the members that are connected by then.
        self._look_at_links(now, waits=False)
        self._run(self._buyer.load(self._kept(OWNED, Owned), now))
        kept = self._kept(ACCOUNTS, tuple[Account, ...])
        if self._directory is not None and kept:
            self._kept_accounts = kept[0]
            self._directory.restore(kept[0])

    def _kept(self, kind: str, of: type[T]) -> list[T]:
        return [*self._state.read(kind, msgspec.json.Decoder(of).decode).values()]

    # --- for the reactor -------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When the seller or the buyer is due, or links are to be checked."""
        if self._full:
            return self._look_s
        dues = (self._seller.next_due, self._buyer.next_due, self._look_s)
        return min((due for due in dues if due is not None), default=None)

    def tick(self, now: float) -> None:
        """Run what is due."""
        self._look_at_links(now)
        if not self._full:
            self._run(self._seller.handle(Tick(), now))
            self._buy(Tick(), now)

    # --- messages in ---------------------------------------------------------------------------

    def _arrived(self, origin: RequestOrigin, message: MarketRequest, now: float) -> None:
        if self._full or not self._state.takes:
            return  # its sender repeats it
        self._sell(seller_events.Arrived(origin, origin.sender, message), now)

    def _sell(self, event: seller_events.Arrived, now: float) -> None:
        self._seller.wall_offset_s = self._wall_offset_s
        self._run(self._seller.handle(event, now))

    def _buy(self, event: buyer_events.BuyerEvent, now: float) -> None:
        self._buyer.clock_set(self._wall_offset_s)
        self._run(self._buyer.handle(event, now))

    @property
    def _wall_offset_s(self) -> float:
        """The clock may have been set since the start."""
        return time.time() - self._reactor.clock()

    def _offered(self, iad: str, offer: Offer, now: float) -> None:
        if self._full:
            return
        self._buy(buyer_events.Offered(iad, offer), now)

    def _member_replied(self, iad: str, joined: Joined, now: float) -> None:
        if self._full:
            return
        self._buy(buyer_events.MemberReplied(iad, joined), now)

    def _requested(self, origin: RequestOrigin, request: ServiceChange, now: float) -> None:
        if self._full or not self._state.takes:
            self._operator.reply(origin, ServiceReport(request.id, False, (), message=NOT_NOW))
            return
        self._buy(buyer_events.Requested(origin, request), now)

    def _list(self, origin: RequestOrigin, request: ListServices, _now: float) -> None:
        owned = {name: pool.service for name, pool in self._buyer.owned.items()}
        services = self._seller.services | owned
        listed = tuple(services[name] for name in sorted(services))
        self._operator.reply(origin, ServiceReport(request.id, ok=True, services=listed))

    def _found(self, ticket: str, found: Found | None, now: float) -> None:
        self._buy(buyer_events.Discovered(ticket, found), now)

    # --- instructions --------------------------------------------------------------------------

    def _run(self, instructions: Iterable[Instruction]) -> None:
        # Strictly in order: messages to this master itself must not overtake the rest.
        self._queue.extend(instructions)
        if self._at_work:
            return
        self._at_work = True
        try:
            while self._queue and not self._waiting:
                self._perform(self._queue.popleft())
        finally:
            self._at_work = False

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case Send(iad, message):
                self._send(iad, message)
            case Contact(iad, address, keys):
                if iad != self._iad:
                    self._partner_links.connect(iad, address, keys)
            case buyer_events.Find() | buyer_events.LookUpIads():
                self._ask_directory(instruction)
            case buyer_events.Report(origin, report):
                self._operator.reply(origin, report)
            case seller_events.Reply():
                self._reply(instruction)
            case seller_events.SetPods(node, service_id, count):
                self._pods.set_pods(node, service_id, count)
            case seller_events.Serve(service):
                self._serve(service)
            case seller_events.Retire(service_id):
                self._retire(service_id)
            case _:
                self._keep(instruction)

    def _keep(self, instruction: Instruction) -> None:
        state = self._state
        match instruction:
            case seller_events.KeepMembership(membership):
                state.put(SERVICE, membership.service.id, msgspec.json.encode(membership))
                self._keep_accounts()
                self._wait_for_the_disk()
            case seller_events.ForgetMembership(service_id):
                state.remove(SERVICE, service_id)
                self._keep_accounts()
            case KeepOwned(owned, urgent):
                state.put(OWNED, owned.service.id, msgspec.json.encode(owned))
                if urgent:
                    self._wait_for_the_disk()
            case ForgetOwned(service_id):
                state.remove(OWNED, service_id)
            case _:
                raise NotImplementedError(instruction)

    def _accounts_changed(self, accounts: tuple[Account, ...]) -> None:
        self._partner_links.accounts_changed(accounts)
        self._keep_accounts()

    def _keep_accounts(self) -> None:
        """Keep the accounts of the owners of services here for a restart while no directory
        answers."""
        if self._directory is None:
            return
        owners = {service.owner for service in self._seller.services.values()}
        kept = tuple(a for a in self._directory.accounts if a.name in owners)
        if kept != self._kept_accounts:
            self._kept_accounts = kept
            self._state.put(ACCOUNTS, "owners", msgspec.json.encode(kept))

    def _wait_for_the_disk(self) -> None:
        """Delay everything that follows until all pending documents are durable."""
        self._waiting = True
        self._state.when_durable(self._go_on, self._refused)

    def _refused(self) -> None:
        """The disk refuses what is waited for: operators are told, and all else goes on waiting."""
        self._state.when_durable(self._go_on)
        waiting = [*self._queue]
        self._queue.clear()
        for each in waiting:
            if isinstance(each, buyer_events.Report):
                report = each.report
                late = replace(report, ok=False, message=LATER) if report.ok else report
                self._operator.reply(each.origin, late)
            else:
                self._queue.append(each)
        refused = buyer_events.DiskRefused(NOT_NOW, LATER)
        for done in self._buyer.handle(refused, self._reactor.clock()):
            if isinstance(done, buyer_events.Report):
                self._operator.reply(done.origin, done.report)
            else:
                self._queue.append(done)

    def _go_on(self) -> None:
        self._waiting = False
        self._run(())

    @property
    def _full(self) -> bool:
        """Whether so much waits for the disk that no further event may be handled."""
        return self._waiting and len(self._queue) >= MAX_QUEUED

    def _send(self, iad: str, message: MarketRequest) -> None:
        if iad == self._iad:
            event = seller_events.Arrived(HERE, self._sender, message)
            self._sell(event, self._reactor.clock())
        else:
            # An unread message is sent again.
            self._peers.send(iad, message)

    def _reply(self, instruction: seller_events.Reply) -> None:
        if (linking := self._linking.get(instruction.after)) is not None:
            linking.replies.append(instruction)
            return
        origin, reply = instruction.origin, instruction.message
        if isinstance(origin, RequestOrigin):
            self._public.reply(origin, reply)
        elif isinstance(reply, Offer):
            self._offered(self._iad, reply, self._reactor.clock())
        else:
            self._member_replied(self._iad, reply, self._reactor.clock())

    def _serve(self, service: Service) -> None:
        now = self._reactor.clock()
        for member in self._serving(service):
            owner = self._owner(service)
            self._partner_links.connect(member.iad, member.address, member.keys, owner)
        self._reactor.perform(self._tasks.handle(ServiceChanged(service), now))
        before = self._linking.pop(service.id, None)
        # A pool that is changed all the time waits no longer: its replies would, and gather.
        until_s, replies = (before.until_s, before.replies) if before else (now + LINKING_S, [])
        self._linking[service.id] = _Linking(service, until_s, replies)
        self._look_at_links(now)

    def _serving(self, service: Service) -> list[Member]:
        """The members to which this master's tasks go."""
        return [m for m in service.members if m.areas and m.iad != self._iad]

    def _look_at_links(self, now: float, *, waits: bool = True) -> None:
        """Let queries use the pools whose members are connected, or whose time to connect is
        over; all of them if nothing `waits`."""
        away = set(self._peers.unreachable) if self._linking else set()
        for name, linking in list(self._linking.items()):
            waiting = away.intersection(m.iad for m in self._serving(linking.service))
            if not (waiting and waits) or now >= linking.until_s:
                del self._linking[name]
                event = ServiceChanged(linking.service)
                self._reactor.perform(self._queries.handle(event, now))
                self._run(linking.replies)
        self._look_s = now + LOOK_S if self._linking else None

    def _retire(self, service_id: str) -> None:
        now = self._reactor.clock()
        self._linking.pop(service_id, None)
        self._reactor.perform(self._queries.handle(ServiceRemoved(service_id), now))
        self._reactor.perform(self._tasks.handle(ServiceRemoved(service_id), now))

    def _ask_directory(self, wanted: buyer_events.Find | buyer_events.LookUpIads) -> None:
        done = partial(self._found, wanted.ticket)
        if self._directory is None:
            event = buyer_events.Discovered(wanted.ticket, None, NO_MARKET)
            self._buy(event, self._reactor.clock())
        elif isinstance(wanted, buyer_events.Find):
            self._directory.discover(wanted.capability, wanted.areas, done)
        else:
            self._directory.look_up(wanted.iads, done)

    def _partners(self) -> dict[str, set[str]]:
        """The IADs to which a link is needed, and the owners of the pools that name each."""
        needed: dict[str, set[str]] = {iad: {""} for iad in self._buyer.partners}
        for service in self._seller.services.values():
            for member in service.members:
                needed.setdefault(member.iad, set()).add(self._owner(service))
        return needed

    def _owner(self, service: Service) -> str:
        """The owner as `PartnerLinks` names it."""
        return "" if service.owner == self._iad else service.owner


def _seller(config: MasterConfig, tasks: TaskScheduler, wall_offset_s: float) -> Seller:
    offers: dict[str, tuple[str, ...]] = {}
    if config.market.sell and config.market.role == "iad":
        for offered in config.offers:
            offers[offered.capability] = offers.get(offered.capability, ()) + offered.areas
    return Seller(
        config.iad.name,
        offers,
        lambda areas: {
            r.node: NodeTime(r.mean_s, r.samples) for r in tasks.resources(areas) if r.live
        },
        most_pods=config.pods.most,
        hold_s=config.market.hold_s,
        reserved={DEFAULT},
        wall_offset_s=wall_offset_s,
        joining=tasks.joining,
        hosts=counterparty_hosts(config),
    )
