"""A market in one process: sellers and one buyer, and a network in the hands of a test."""

from agent.market import buyer_events, seller_events
from agent.market.buyer import Buyer
from agent.market.rollout import Contact, ForgetOwned, KeepOwned, Send
from agent.market.seller import NodeTime, Seller
from agent.market.terms import Tick, common_areas
from agent.wire.directory import Candidate, Found
from agent.wire.market import Joined, Member, Offer, Service
from agent.wire.messages import Slo
from agent.wire.operator import CreateService
from agent.wire.principals import Sender

BUYER = "iad0"
FAST_S = 0.05


def address(iad: str) -> str:
    return f"tcp://127.0.0.1:57{iad[-2:].lstrip('d').zfill(2)}"


def request(name="climate", **given) -> CreateService:
    asked = {
        "id": f"create {name}",
        "service": name,
        "capability": "temperature",
        "areas": ("b1",),
        "slo": Slo(99.0, 800.0),
        "rate_per_s": 5.0,
    }
    return CreateService(**(asked | given))


class Iad:
    """An IAD: its nodes' mean execution times by area, its seller, and what it was told."""

    def __init__(self, name: str, nodes: dict[str, tuple[str, float]], most_pods: int):
        self.name = name
        self.nodes = nodes  # name → (area, mean_s)
        self.most_pods = most_pods
        self.samples = 1_000
        self.pods: dict[tuple[str, str], int] = {}
        self.served: dict[str, Service] = {}
        self.disk: dict[str, seller_events.Membership] = {}
        self.away = False
        self.joining_until = 0.0
        self.hosts = None
        self.start()

    @property
    def areas(self):
        return tuple(sorted({area for area, _ in self.nodes.values()}))

    @property
    def means_s(self):
        return {node: mean_s for node, (_, mean_s) in self.nodes.items()}

    def resources(self, areas):
        if self.away:
            return {}
        return {
            node: NodeTime(mean_s, self.samples)
            for node, (area, mean_s) in self.nodes.items()
            if common_areas([area], areas)
        }

    def start(self):
        self.seller = Seller(
            self.name,
            {"temperature": self.areas} if self.nodes else {},
            self.resources,
            most_pods=self.most_pods,
            hold_s=30.0,
            reserved={"default"},
            joining=lambda _areas, now: now < self.joining_until,
            hosts=self.hosts,
        )

    def perform(self, instructions):
        """Do what the seller says; its replies."""
        replies = []
        for instruction in instructions:
            match instruction:
                case seller_events.Reply(origin, message, _after):
                    replies.append((origin, message))
                case seller_events.SetPods(node, service_id, count):
                    self.pods[node, service_id] = count
                    if not count:
                        del self.pods[node, service_id]
                case seller_events.KeepMembership(membership):
                    self.disk[membership.service.id] = membership
                case seller_events.ForgetMembership(service_id):
                    del self.disk[service_id]
                case seller_events.Serve(service):
                    self.served[service.id] = service
                case seller_events.Retire(service_id):
                    del self.served[service_id]
                case _:
                    raise AssertionError(instruction)
        return replies

    def take(self, message, now, sender=None, origin="origin"):
        """Hand a message to the seller; its replies."""
        sender = sender or Sender("anyone", "")
        event = seller_events.Arrived(origin, sender, message)
        return [reply for _, reply in self.perform(self.seller.handle(event, now))]


class Market:
    """The buyer at `BUYER` and all IADs. Messages wait in `network` until somebody delivers them:
    (to, message) to sellers, (from, reply) to the buyer."""

    def __init__(self, *iads: Iad):
        self.iads = {iad.name: iad for iad in iads}
        self.now = 0.0
        self.network = []
        self.reports = []
        self.disk = {}
        self.unreachable = set()
        self.directory_up = True
        self.runs = 0
        self.start()

    def start(self):
        self.runs += 1
        self.buyer = Buyer(
            Member(BUYER, address(BUYER)),
            run=f"run{self.runs}",
            taken=lambda name: name == "default" or name in self.iads[BUYER].seller.services,
            capabilities=lambda: ("humidity", "temperature"),
            wall_offset_s=1e9,
        )

    def restart(self, iad):
        """Its process ends and starts again; what it kept is there, what it was sent is lost."""
        one = self.iads[iad]
        self.network = [(kind, name, m) for kind, name, m in self.network if name != iad]
        one.start()
        one.served = {}
        self.perform_seller(iad, one.seller.load(one.disk.values(), self.now))
        if iad == BUYER:
            self.network = []
            self.start()
            self.perform(self.buyer.load(list(self.disk.values()), self.now))

    # --- what the buyer wants done -----------------------------------------------------------

    def perform(self, instructions):
        queue = list(instructions)
        while queue:
            match queue.pop(0):
                case Send(iad, message) if iad == BUYER:
                    replies = self.iads[BUYER].take(message, self.now, Sender("iad", BUYER))
                    for reply in replies:
                        queue += self.buyer.handle(_event(BUYER, reply), self.now)
                case Send(iad, message):
                    if iad not in self.unreachable:
                        self.network.append(("to", iad, message))
                case buyer_events.Report(_, report):
                    self.reports.append(report)
                case KeepOwned(owned, _):
                    self.disk[owned.service.id] = owned
                case ForgetOwned(service_id):
                    del self.disk[service_id]
                case buyer_events.Find(ticket, capability, areas):
                    found = self.found(capability, areas)
                    queue += self.buyer.handle(buyer_events.Discovered(ticket, found), self.now)
                case buyer_events.LookUpIads(ticket, names):
                    found = self.looked_up(names)
                    queue += self.buyer.handle(buyer_events.Discovered(ticket, found), self.now)
                case Contact():
                    pass
                case other:
                    raise AssertionError(other)

    def perform_seller(self, iad, instructions):
        for origin, reply in self.iads[iad].perform(instructions):
            assert origin == "origin"
            self.network.append(("from", iad, reply))

    def found(self, capability, areas):
        if not self.directory_up:
            return None
        found = [
            Candidate(iad.name, address(iad.name), (), iad.areas)
            for iad in self.iads.values()
            if capability == "temperature" and iad.nodes and common_areas(areas, iad.areas)
        ]
        return Found("t", tuple(found))

    def looked_up(self, names):
        if not self.directory_up:
            return None
        known = [self.iads[name] for name in names if name in self.iads]
        areas = ("anywhere",)
        return Found("t", tuple(Candidate(i.name, address(i.name), (), areas) for i in known))

    # --- the network -------------------------------------------------------------------------

    def ask(self, wanted):
        """People ask for something; what is done at once is done."""
        self.perform(self.buyer.handle(buyer_events.Requested("people", wanted), self.now))

    def deliver(self, index=0, *, keep=False):
        """One message arrives."""
        message = self.network[index] if keep else self.network.pop(index)
        direction, iad, content = message
        if direction == "from":
            self.perform(self.buyer.handle(_event(iad, content), self.now))
        else:
            event = seller_events.Arrived("origin", Sender("anyone", "somewhere"), content)
            self.perform_seller(iad, self.iads[iad].seller.handle(event, self.now))

    def deliver_all(self):
        while self.network:
            self.deliver()

    def tick(self, until):
        """Time passes until then; ticks come when they are due, messages are not delivered."""
        while (due := self.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self._tick()
        self.now = max(self.now, until)

    def _tick(self):
        self.perform(self.buyer.handle(Tick(), self.now))
        for iad in self.iads:
            self.perform_seller(iad, self.iads[iad].seller.handle(Tick(), self.now))

    def next_due(self):
        dues = [self.buyer.next_due, *(iad.seller.next_due for iad in self.iads.values())]
        return min((due for due in dues if due is not None), default=None)

    def run(self, seconds):
        """Time passes, and every message arrives at once."""
        until = self.now + seconds
        self.deliver_all()
        while (due := self.next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            self._tick()
            self.deliver_all()
        self.now = until

    def report(self):
        """The one report since the last call."""
        [report] = self.reports
        self.reports = []
        return report

    def versions(self, name):
        """Who serves it, at which version."""
        served = {iad.name: iad.seller.services.get(name) for iad in self.iads.values()}
        return {iad: service.version for iad, service in served.items() if service}

    def check(self):
        for iad in self.iads.values():
            iad.seller.check_invariants(iad.means_s)
            for node in iad.nodes:
                pods = sum(count for (n, _), count in iad.pods.items() if n == node)
                assert pods <= iad.most_pods
            assert iad.disk.keys() == iad.served.keys()


def _event(iad, reply):
    if isinstance(reply, Offer):
        return buyer_events.Offered(iad, reply)
    assert isinstance(reply, Joined)
    return buyer_events.MemberReplied(iad, reply)


def building(iads=3, nodes=2, mean_s=FAST_S, most_pods=4):
    """IADs with a floor each; the buyer's has none."""
    made = [Iad(BUYER, {}, most_pods)]
    for number in range(1, iads + 1):
        floor = {f"n{number}{n}": (f"b1/f{number}/r{n}", mean_s) for n in range(nodes)}
        made.append(Iad(f"iad{number}", floor, most_pods))
    return Market(*made)


SELLERS = ("iad1", "iad2", "iad3")


def slow(market, iad, mean_s):
    one = market.iads[iad]
    one.nodes = {node: (area, mean_s) for node, (area, _) in one.nodes.items()}
