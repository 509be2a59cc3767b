"""A seller: answers proposals, holds pods for those it accepted, serves the services it joined.

Pure: `Seller.handle(event, now)` returns the instructions. The state to restore after a restart is
one `Membership` per service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.market.estimation import (
    Demand,
    affordable,
    counter_offer,
    demand,
    fewest_pods,
    shares,
)
from agent.market.explanations import cannot_keep, has_left, shortage
from agent.market.seller_events import (
    Arrived,
    ForgetMembership,
    KeepMembership,
    Membership,
    Reply,
    Retire,
    SellerEvent,
    Serve,
    SetPods,
)
from agent.market.terms import (
    Instruction,
    Tick,
    may_trade,
    no_harder,
    own_terms,
    speaks_for,
)
from agent.market.unused_holds import UnusedHolds
from agent.wire.areas import AreaSet
from agent.wire.market import Join, Joined, Leave, Offer, Propose, Release, Service, Terms
from agent.wire.principals import Sender

# How long a member that left goes on serving: other members may not know yet.
DRAIN_S = 10.0
# One buyer gets as much of each of these as it leaves free; this master's own has no such share.
MAX_HOLDS = 1_000
MAX_SERVICES = 1_000
# Limits on areas in all holds, and on members and their areas in all services: each is up to 512
# bytes.
MAX_AREAS_HELD = 100_000
MAX_NAMES = 1_000_000
# Versions of left services that are remembered, so that a late Join does not revive one.
MAX_REMEMBERED = 1_000
# Versions are milliseconds since 1970 or the last one plus one. A version so far beyond both that
# no clock explains it would make the service's name unusable for its owner.
MAX_AHEAD_MS = 86_400_000
# A sender without a key is on this host and shares its clock.
MAX_AHEAD_HERE_MS = 10_000
# When to repeat a proposal for which nodes are still joining.
JOINING_RETRY_S = 0.2


class NodeTime(NamedTuple):
    """A node's mean execution time in seconds, over this many samples; an assumption if there are
    none."""

    mean_s: float
    samples: int


# Areas → the live edge nodes that cover them.
Resources = Callable[[Sequence[str]], Mapping[str, NodeTime]]


class _Hold(Struct, frozen=True):
    id: str
    buyer: Sender
    terms: Terms
    areas: tuple[str, ...]
    means_s: Mapping[str, float]
    since_s: float
    until_s: float


class Seller:
    """One IAD's side of the market. An IAD that sells nothing still joins pools to schedule.

    `offers` are areas by capability; `most_pods` is the limit per node. `reserved` are service ids
    that the market may not use. `joining(areas, now)`: whether nodes may still join for some of
    these areas.
    """

    def __init__(
        self,
        iad: str,
        offers: Mapping[str, Sequence[str]],
        resources: Resources,
        *,
        most_pods: int,
        hold_s: float,
        reserved: Collection[str] = (),
        wall_offset_s: float | None = None,
        joining: Callable[[Sequence[str], float], bool] = lambda _areas, _now: False,
        hosts: Collection[str] | None = None,
    ) -> None:
        """`wall_offset_s` is wall time minus the clock of `now`, updated before every event; None:
        versions are not checked. `hosts` are those whose senders need no key; None: all."""
        self._iad = iad
        self._hosts = hosts
        self.wall_offset_s = wall_offset_s
        self._offers = offers
        self._resources = resources
        self._most = most_pods
        self._hold_s = hold_s
        self._reserved = reserved
        self._joining = joining
        self._holds: dict[str, _Hold] = {}
        self._unused = UnusedHolds(iad, hold_s)
        self._members: dict[str, Membership] = {}
        self._names: Counter[str] = Counter()  # by owner
        self._drained_s: dict[str, float] = {}
        # By owner too, so that another party's message cannot keep a service away.
        self._left: dict[tuple[str, str], int] = {}
        self._means_s: dict[str, float] = {}
        self._unmeasured: set[str] = set()
        self._pods: dict[tuple[str, str], int] = {}

    # --- queries of the shell ----------------------------------------------------------------

    @property
    def services(self) -> dict[str, Service]:
        """The services that this IAD is a member of, without those that it is leaving."""
        return {i: m.service for i, m in self._members.items() if not m.leaving}

    @property
    def next_due(self) -> float | None:
        """When `Tick` is due next."""
        holds = (hold.until_s for hold in self._holds.values())
        return min([*holds, *self._drained_s.values()], default=None)

    def load(self, memberships: Iterable[Membership], now: float) -> list[Instruction]:
        """Restore the state of the previous process; it need not be written again."""
        done: list[Instruction] = []
        for membership in memberships:
            service = membership.service
            self._members[service.id] = membership
            self._names[service.owner] += _names(service)
            self._means_s.update(membership.means_s)
            if membership.leaving:
                self._drained_s[service.id] = now + DRAIN_S
            done.append(Serve(service))
        return done + self._set_pods()

    def handle(self, event: SellerEvent, now: float) -> list[Instruction]:
        """Handle one event at monotonic time `now` (seconds); returns the instructions, in
        order."""
        if isinstance(event, Tick):
            return self._tick(now)
        sender, message = event.sender, event.message
        if self._is_stranger(sender):
            return self._turn_away(event)
        match message:
            case Propose():
                offer = self._proposed(sender, message, now)
                return [Reply(event.origin, offer)]
            case Release():
                self._release(sender, message, now)
                return []
            case Join():
                refusal, done = self._join(sender, message.service, now)
            case Leave():
                refusal, done = self._leave(sender, message, now)
        joined = Joined(message.id, ok=not refusal, message=refusal)
        after = message.service.id if isinstance(message, Join) else ""
        return [*done, Reply(event.origin, joined, after)]

    def _is_stranger(self, sender: Sender) -> bool:
        unproved = sender.role == "anyone"
        return unproved and self._hosts is not None and sender.host not in self._hosts

    def _turn_away(self, event: Arrived) -> list[Instruction]:
        message = event.message
        line = (
            f"{self._iad} knows no party of the market at your address: name its directory in "
            "market.directories there, or use keys"
        )
        match message:
            case Release():
                return []
            case Propose():
                return [Reply(event.origin, Offer(message.id, "refused", message=line))]
            case Join() | Leave():
                return [Reply(event.origin, Joined(message.id, ok=False, message=line))]

    # --- proposals ---------------------------------------------------------------------------

    def _proposed(self, buyer: Sender, propose: Propose, now: float) -> Offer:
        refusal = self._unfit(buyer, propose.service, propose.capability, propose.areas)
        refusal = refusal or self._unused.why_not(buyer, now)
        if refusal:
            return Offer(propose.id, "refused", message=refusal)
        means_s = self._look(propose.areas)
        if not means_s and self._joining(propose.areas, now):
            text = "its edge nodes are still joining; try again in a few seconds"
            return Offer(propose.id, "refused", message=text, retry_s=JOINING_RETRY_S)
        if not means_s:
            return Offer(propose.id, "refused", message="no edge node is live in these areas now")
        # A new proposal replaces the buyer's earlier one.
        self._unhold(propose.service, now)
        sold = self._sold(propose.service)
        if affordable(propose.terms, means_s, sold, self._most):
            self._holds[propose.service] = _Hold(
                propose.id, buyer, propose.terms, propose.areas, means_s, now, now + self._hold_s
            )
            return Offer(propose.id, "accepted", hold_s=self._hold_s)
        counter = counter_offer(propose.terms, means_s, sold, self._most)
        cause = shortage(propose.terms, means_s, self._most, self._unmeasured)
        if counter is None:
            return Offer(propose.id, "refused", message=cannot_keep(propose.terms, cause))
        return Offer(propose.id, "countered", counter=counter, message=cause)

    def _unfit(self, buyer: Sender, service: str, capability: str, areas: Sequence[str]) -> str:
        """Why a proposal is rejected without an estimate; empty if it is not."""
        if not may_trade(buyer):
            return f"a {buyer.role}'s key may not negotiate"
        if not self._offers:
            return f"{self._iad} sells nothing"
        if not self._has(capability, areas):
            return f"{self._iad} does not offer {capability} in these areas"
        if service in self._reserved:
            return f"the name {service} is taken; choose another"
        membership, hold = self._members.get(service), self._holds.get(service)
        if membership is not None and not speaks_for(buyer, membership.service.owner):
            return f"the name {service} is taken; choose another"
        if hold is not None and not speaks_for(buyer, hold.buyer.name):
            return f"the name {service} is taken; choose another"
        others = [one for s, one in self._holds.items() if s != service]
        own = [one for one in others if one.buyer.name == buyer.name]
        if hold is None and not self._fits(buyer.name, len(own) + 1, len(others) + 1, MAX_HOLDS):
            return f"{len(others)} acceptances are held here; try again later"
        held, own_held = (sum(len(one.areas) for one in holds) for holds in (others, own))
        more = len(areas)
        if not self._fits(buyer.name, own_held + more, held + more, MAX_AREAS_HELD):
            return f"{held} areas are held here; try again later, or ask for a parent of some"
        return ""

    def _fits(self, owner: str, own: int, all_: int, most: int) -> bool:
        """Whether an owner may have `own` of `all_`: as much as it leaves free of `most`."""
        return all_ <= most and (owner == self._iad or own <= most - all_)

    def _release(self, buyer: Sender, release: Release, now: float) -> None:
        hold = self._holds.get(release.service)
        # By its id, so that a late release of an earlier proposal frees nothing.
        if hold is not None and hold.id == release.id and speaks_for(buyer, hold.buyer.name):
            self._unhold(release.service, now)

    def _unhold(self, service: str, now: float) -> None:
        """End what was held for a service, and not bought."""
        if (hold := self._holds.pop(service, None)) is not None:
            self._unused.ended(hold.buyer, now - hold.since_s, now)

    # --- membership --------------------------------------------------------------------------

    def _too_far_ahead(
        self, sender: Sender, version: int, known: Membership | None, now: float
    ) -> str:
        if self.wall_offset_s is None:
            return ""
        ahead = MAX_AHEAD_HERE_MS if sender.role == "anyone" else MAX_AHEAD_MS
        newest = round((now + self.wall_offset_s) * 1e3) + ahead
        if known is not None:
            # The version may be one higher and no more, or repeated steps would lead anywhere.
            newest = max(newest, known.service.version + 1)
        if version <= newest:
            return ""
        return (
            f"version {version} is more than {ahead // 1_000} s ahead of the clock of {self._iad}; "
            "look at the clocks of both masters"
        )

    def _join(self, sender: Sender, service: Service, now: float) -> tuple[str, list[Instruction]]:
        known, hold = self._members.get(service.id), self._holds.get(service.id)
        if refusal := self._not_the_owner(sender, service.owner, service.id):
            return refusal, []
        if hold is not None and hold.until_s > now and not speaks_for(sender, hold.buyer.name):
            return f"the name {service.id} is taken; choose another", []
        if known is not None and service.version <= known.service.version:
            return f"{self._iad} has left {service.id}" if known.leaving else "", []
        owners = {service.owner, "" if sender.role == "anyone" else service.owner}
        left = max(self._left.get((owner, service.id), -1) for owner in owners)
        if service.version <= left:
            return has_left(self._iad, service.id, left - service.version), []
        if refusal := self._too_far_ahead(sender, service.version, known, now):
            return refusal, []
        owner, own = service.owner, 1 + self._services_of(service.owner)
        if known is None and not self._fits(owner, own, len(self._members) + 1, MAX_SERVICES):
            return f"{self._iad} has {own - 1} services of {owner}, and no room for more", []
        more = _names(service) - (_names(known.service) if known else 0)
        names = self._names[owner] + more
        if more > 0 and not self._fits(owner, names, self._names.total() + more, MAX_NAMES):
            return f"{service.id} is too large beside the other services of {self._iad}", []
        areas = _areas_of(service, self._iad)
        if areas is None:
            return f"{self._iad} is not in the pool that it was sent", []
        terms = own_terms(service, self._iad)
        means_s: dict[str, float] = {}
        if areas:
            if terms is None or terms.rate_per_s <= 0.0:
                return f"{service.id} has no terms for {self._iad}", []
            refusal, means_s = self._nodes_for(service, terms, areas, now)
            if refusal:
                return refusal, []
        self._holds.pop(service.id, None)
        self._drained_s.pop(service.id, None)
        membership = Membership(service, terms, means_s)
        self._members[service.id] = membership
        self._names[owner] = names
        return "", [KeepMembership(membership), Serve(service), *self._set_pods()]

    def _services_of(self, owner: str) -> int:
        return sum(m.service.owner == owner for m in self._members.values())

    def _nodes_for(
        self, service: Service, terms: Terms, areas: tuple[str, ...], now: float
    ) -> tuple[str, dict[str, float]]:
        """The nodes that meet the terms, or the reason why they cannot be met."""
        known, hold = self._members.get(service.id), self._holds.get(service.id)
        if (
            hold is not None
            and hold.until_s > now
            and no_harder(terms, hold.terms)
            and hold.areas == areas
        ):
            # A promise is kept, even if its nodes have become slower since.
            return "", dict(hold.means_s)
        if not self._has(service.capability, areas):
            return f"{self._iad} does not offer {service.capability} in these areas", {}
        means_s = self._look(areas)
        if known is not None and known.terms is not None and known.means_s:
            before = AreaSet(_areas_of(known.service, self._iad) or ())
            if not means_s and all(before.covers(area) for area in areas):
                # All nodes are away, for example after a restart: they keep their shares. Harder
                # terms have to fit them, too.
                means_s = dict(known.means_s)
            same_nodes = means_s and means_s.keys() <= known.means_s.keys()
            if same_nodes and no_harder(terms, known.terms):
                return "", known.means_s  # Sold already.
        if not means_s:
            return "no edge node is live in these areas now", {}
        if not affordable(terms, means_s, self._sold(service.id), self._most):
            cause = shortage(terms, means_s, self._most, self._unmeasured)
            return cannot_keep(terms, cause), {}
        return "", means_s

    def _leave(self, sender: Sender, leave: Leave, now: float) -> tuple[str, list[Instruction]]:
        known, version = self._members.get(leave.service), leave.version
        owner = leave.owner or ("" if sender.role == "anyone" else sender.name)
        another = leave.owner and known is not None and known.service.owner != leave.owner
        if refusal := self._too_far_ahead(sender, version, known, now):
            if known is None or another or sender.role == "anyone":
                return refusal, []
            # A clock is wrong, perhaps this one, and the owner forgets the service: it would stay
            # here for ever. As the next version this keeps no later one away.
            version = known.service.version + 1
        if known is None or another:
            if may_trade(sender) and speaks_for(sender, owner):
                self._remember(owner, leave.service, version)
            return "", []
        if refusal := self._not_the_owner(sender, known.service.owner, leave.service):
            return refusal, []
        if known.leaving or version <= known.service.version:
            return "", []
        membership = replace(known, service=replace(known.service, version=version), leaving=True)
        self._members[leave.service] = membership
        self._holds.pop(leave.service, None)
        self._drained_s[leave.service] = now + DRAIN_S
        return "", [KeepMembership(membership)]

    def _not_the_owner(self, sender: Sender, owner: str, service_id: str) -> str:
        known = self._members.get(service_id)
        if service_id in self._reserved:
            return f"the name {service_id} is taken; choose another"
        if known is not None and known.service.owner != owner:
            return f"{service_id} belongs to {known.service.owner}"
        if not may_trade(sender) or not speaks_for(sender, owner):
            return f"only {owner} may change {service_id}"
        return ""

    def _tick(self, now: float) -> list[Instruction]:
        for service_id in [s for s, hold in self._holds.items() if hold.until_s <= now]:
            self._unhold(service_id, now)
        done: list[Instruction] = []
        for service_id in [s for s, at in self._drained_s.items() if at <= now]:
            del self._drained_s[service_id]
            service = self._members.pop(service_id).service
            self._names[service.owner] -= _names(service)
            self._names += Counter()  # without owners that have none
            self._remember(service.owner, service_id, service.version)
            done += [Retire(service_id), ForgetMembership(service_id)]
        return done + self._set_pods() if done else []

    def _remember(self, owner: str, service_id: str, version: int) -> None:
        key = (owner, service_id)
        self._left[key] = max(version, self._left.pop(key, -1))
        if len(self._left) > MAX_REMEMBERED:
            # Of the owner that has most, so that nobody's leaves push out those of others.
            ((most, _),) = Counter(each for each, _ in self._left).most_common(1)
            del self._left[next(key for key in self._left if key[0] == most)]

    # --- resources ---------------------------------------------------------------------------

    def _has(self, capability: str, areas: Sequence[str]) -> bool:
        offered = AreaSet(self._offers.get(capability, ()))
        return all(offered.covers(area) for area in areas)

    def _look(self, areas: Sequence[str]) -> dict[str, float]:
        found = self._resources(areas)
        means_s = {node: time.mean_s for node, time in found.items()}
        self._means_s.update(means_s)
        self._unmeasured.difference_update(means_s)
        self._unmeasured.update(node for node, time in found.items() if not time.samples)
        return means_s

    def _sold(self, without: str) -> dict[str, Demand]:
        """What all other services ask of each node; a member's new terms on hold count beside its
        old ones, whichever asks more."""
        sold: dict[str, Demand] = {}
        for service_id in (self._members.keys() | self._holds.keys()) - {without}:
            asked: dict[str, Demand] = {}
            for part in (self._members.get(service_id), self._holds.get(service_id)):
                if part is not None and part.terms is not None:
                    one = demand(part.terms, len(part.means_s))
                    asked |= {n: asked[n] | one if n in asked else one for n in part.means_s}
            for node, one in asked.items():
                sold[node] = sold[node] + one if node in sold else one
        return sold

    def _set_pods(self) -> list[Instruction]:
        """Share every node's pods out among its services anew; changes are emitted."""
        demands: dict[str, dict[str, Demand]] = {}
        for service_id, membership in self._members.items():
            if membership.terms is not None:
                one = demand(membership.terms, len(membership.means_s))
                for node in membership.means_s:
                    demands.setdefault(node, {})[service_id] = one
        pods: dict[tuple[str, str], int] = {}
        for node, asked in demands.items():
            counts = shares(self._means_s[node], list(asked.values()), self._most)
            pods |= {(node, s): c for s, c in zip(asked, counts, strict=True)}
        before, self._pods = self._pods, pods
        gone = [SetPods(node, s, 0) for node, s in before if (node, s) not in pods]
        changed = [SetPods(*key, c) for key, c in pods.items() if before.get(key) != c]
        return [*gone, *changed]

    # --- for tests ---------------------------------------------------------------------------

    def check_invariants(self, means_s: Mapping[str, float] | None = None) -> None:
        """Invariants between any two events; with `means_s`, the nodes' true and constant
        means, also that every promise can be kept."""
        totals: dict[str, int] = {}
        for (node, service_id), count in self._pods.items():
            assert service_id in self._members
            totals[node] = totals.get(node, 0) + count
        assert all(0 <= total <= self._most for total in totals.values())
        names: Counter[str] = Counter()
        for membership in self._members.values():
            names[membership.service.owner] += _names(membership.service)
        assert self._names == names
        assert self._drained_s.keys() == {s for s, m in self._members.items() if m.leaving}
        if means_s is not None:
            for promised in (self._members, self._members | self._holds):
                self._check_promises(promised.values(), means_s)

    def _check_promises(
        self, promises: Iterable[Membership | _Hold], means_s: Mapping[str, float]
    ) -> None:
        totals: dict[str, Demand] = {}
        for promise in promises:
            if promise.terms is not None:
                for node in promise.means_s:
                    one = demand(promise.terms, len(promise.means_s))
                    totals[node] = totals[node] + one if node in totals else one
        for node, total in totals.items():
            assert fewest_pods(means_s[node], total, self._most) is not None, (node, total)


def _areas_of(service: Service, iad: str) -> tuple[str, ...] | None:
    """The areas that a member has in the pool; None if it is not in it."""
    return next((member.areas for member in service.members if member.iad == iad), None)


def _names(service: Service) -> int:
    """Number of members and their areas: a service's cost in memory and on disk."""
    return sum(1 + len(member.areas) for member in service.members)
