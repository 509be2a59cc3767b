"""Plans of homes for a world of masters: its facts as arrays, and the moves that a plan makes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import numpy as np
from msgspec import Struct

from agent.placement.moves import Move, Reason, check_plan
from agent.placement.placement import Placement
from agent.placement.world import PlacementError, Unit, World
from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.baselines import nearest_homes, otos_homes
from fleet.placement.homes.case import NOWHERE, Bools, Case, CaseError, Floats, Ints
from fleet.placement.homes.reloc import reloc_homes
from fleet.placement.homes.search import Effort, greedy_homes, improve, settle
from fleet.placement.homes.sharing import PerTopic

LARGE: Final = 200_000  # clients · masters beyond which one start is searched from, without kicks
# A detour, in times the longest delay, that nobody takes who has a choice.
FORBIDDEN: Final = 1e6
# The delay to a master that a client does not reach, in times the longest: planners that rank
# masters by the delay of several clients rank it last, not first.
UNREACHED: Final = 10.0
# The world stores a spool for a publisher that has not published yet, too.
SILENT: Final = 1e-12


class Homes(Struct, frozen=True):
    """The planner `homes`: local search from the present homes and from the best of nearest, OTOS,
    RELOC and greedy, under hard limits.

    With a delegate at `delegate_s` from every master, whole topics that do not fit go there. A move
    is made only where it brings more than `move_cost`, in seconds of delay a second.
    """

    delegate_s: float | None = None
    move_cost: float = 0.0
    clusters: int = 4
    seed: int = 1
    kicks: int = 30

    def plan(self, placement: Placement) -> list[Move]:
        """Moves of homes, the greatest gain first where order does not matter. PlacementError in
        one line where no plan keeps the limits, or a client has nowhere to live."""
        return plan_by(placement, self.delegate_s, self.choose)

    def choose(self, case: Case, present: Ints) -> Ints:
        """Homes of a case whose clients live at `present` now."""
        large = case.clients * case.servers > LARGE
        effort = Effort(starts=1 if large else 4, kicks=0 if large else self.kicks, seed=self.seed)
        starts = [present, nearest_homes(case), otos_homes(case, "centroid")]
        starts.append(greedy_homes(case, PerTopic()))
        if not large:
            starts.append(reloc_homes(case, self.clusters, self.seed))
        best = improve(case, PerTopic(), starts, effort=effort)
        if not self.move_cost:
            return best
        near = improve(case, PerTopic(), [present], effort=Effort(kicks=0))
        plans = [settle(case, PerTopic(), home, present, self.move_cost) for home in (best, near)]
        return min(plans, key=lambda home: _cost(case, home, present, self.move_cost))


def plan_by(
    placement: Placement, delegate_s: float | None, choose: Callable[[Case, Ints], Ints]
) -> list[Move]:
    """Moves to where `choose` has the homes of a case, given where they live; the rest as for
    `Homes`."""
    world = placement.world
    clients = list(world.reach)
    if not clients:
        return []
    case = case_of(placement, delegate_s)
    before = np.array([_where(placement, name) for name in clients])
    lost = (before == NOWHERE) | ~case.may_live[np.arange(len(clients)), before]
    home = choose(case, np.where(lost, nearest_homes(case), before))
    if delegate_s is None:
        _refuse_excess(world, case, home)
    return check_plan(placement, _moves(placement, case, before, home))


def case_of(placement: Placement, delegate_s: float | None) -> Case:
    """The homes of a world as a case; everything else stays where it is placed. Topics are in the
    order of their names, clients and masters in the world's."""
    world = placement.world
    if delegate_s is not None and not 0 <= delegate_s < inf:
        raise PlacementError(f"the delay to the delegate is {delegate_s}: give 0 or more")
    if not world.masters:
        raise PlacementError("there is no master to place a home on")
    reach = np.array([world.reach[name] for name in world.reach])
    allowed = _allowed(placement, np.isfinite(reach))
    between = np.array(world.between)
    longest = 1.0 + max(float(reach[np.isfinite(reach)].max(initial=0.0)), float(between.max()))
    delay = np.where(np.isfinite(reach), reach, UNREACHED * longest)
    members = _Members(world)
    far = FORBIDDEN * longest
    taken, stored = _taken_by_others(placement)
    compute = np.maximum(0.0, np.array([each.compute for each in world.masters]) - taken)
    storage = np.maximum(0.0, np.array([each.storage_bytes for each in world.masters]) - stored)
    opening = np.array([each.opening_cost for each in world.masters])
    opening[_has_others(placement)] = 0.0
    try:
        return Case(
            delay,
            between,
            *members.arrays(),
            spool=np.array(members.spools),
            storage=storage,
            compute=compute,
            cloud=far if delegate_s is None else delegate_s,
            allowed=allowed,
            work=np.array(members.works),
            extra=members.other_ways(placement, delay, between),
            opening=opening,
            resident=np.array([name not in world.stand_ins for name in world.reach]),
        )
    except CaseError as error:
        raise PlacementError(str(error)) from None


class _Members:
    """Memberships by client, with those topics that stand for flows between two homes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.number = {name: n for n, name in enumerate(world.reach)}
        topics = [world.topics[name] for name in sorted(world.topics)]
        self.spools = [topic.spool_bytes for topic in topics]
        self.works = [0.0 if topic.processor else topic.service_s for topic in topics]
        self.rows: list[tuple[int, int, float, float]] = []
        self.flows: list[tuple[int, int, float]] = []
        for t, topic in enumerate(topics):
            # What a processor puts out comes from its master, not from the publisher's home.
            heard = frozenset() if topic.processor else topic.subscribers
            for name in {**topic.publishers, **dict.fromkeys(heard)}:
                says = max(SILENT, topic.publishers[name]) if name in topic.publishers else 0.0
                self.rows.append((self.number[name], t, says, float(name in heard)))
        for one, peers in world.peers.items():
            for other, rate in peers.items():
                if one.kind == other.kind == "home" and one < other:
                    self._flow(self.number[one.name], self.number[other.name], rate)

    def _flow(self, one: int, other: int, rate: float) -> None:
        topic = len(self.spools)
        self.rows += [(one, topic, max(SILENT, rate), 0.0), (other, topic, 0.0, 1.0)]
        self.flows.append((one, other, rate))
        self.spools.append(0.0)
        self.works.append(0.0)

    def arrays(self) -> tuple[Ints, Ints, Floats, Floats]:
        rows = sorted(self.rows)
        client, topic, rate, hears = zip(*rows, strict=True) if rows else ((), (), (), ())
        return (
            np.array(client, np.int64),
            np.array(topic, np.int64),
            np.array(rate, np.float64),
            np.array(hears, np.float64),
        )

    def other_ways(self, placement: Placement, delay: Floats, between: Floats) -> Floats:
        """Traffic between homes and other units; and, taken away again, the ways between
        client and home of flows between two homes, which have none."""
        world = self.world
        found = np.zeros(delay.shape)
        for name, c in self.number.items():
            found[c] += world.exchanges.get(name, 0.0) * delay[c]
            for topic in (*world.published.get(name, {}), *world.subscribed.get(name, {})):
                each = world.topics[topic]
                if not each.processor:
                    continue
                at = placement.where(Unit("processor", topic))
                way = delay[c] if at is None else delay[c] + between[at]
                if topic in world.published.get(name, {}):
                    found[c] += each.publishers[name] * len(each.subscribers) * way
                if topic in world.subscribed.get(name, {}):
                    found[c] += world.rates[topic] * way
            for peer, rate in world.peers.get(Unit("home", name), {}).items():
                at = placement.where(peer)
                if peer.kind != "home" and at is not None:
                    found[c] += rate * between[at]
        for one, other, rate in self.flows:
            found[one] -= rate * delay[one]
            found[other] -= rate * delay[other]
        return found


def _allowed(placement: Placement, allowed: Bools) -> Bools:
    """Pins before the plan; who is at a frozen master stays, who is at a draining one goes."""
    world = placement.world
    closed = list(world.frozen | world.draining)
    for c, name in enumerate(world.reach):
        if name in world.stand_ins:
            continue
        unit, row = Unit("home", name), allowed[c]
        here, pinned = placement.where(unit), world.pins.get(Unit("home", name))
        stays = here is not None and here not in world.draining
        row[[at for at in closed if at != here or not stays]] = False
        if here is not None and here in world.frozen:
            row[:] = False
            row[here] = True
        elif pinned is not None and row[pinned]:
            row[:] = False
            row[pinned] = True
        elif pinned is not None:
            raise PlacementError(
                f"{unit} is pinned to {world.masters[pinned].name}, which takes no unit now"
            )
        if not row.any():
            raise PlacementError(f"{unit} has no master: all that it reaches are closed")
    return allowed


def _where(placement: Placement, client: str) -> int:
    at = placement.where(Unit("home", client))
    return NOWHERE if at is None else at


def _taken_by_others(placement: Placement) -> tuple[Floats, Floats]:
    """Load and storage of what is no home, by master."""
    load = np.zeros(len(placement.world.masters))
    stored = np.zeros(len(placement.world.masters))
    for unit, at in placement.items():
        if unit.kind != "home":
            load[at] += placement.world.load_of(unit)
            stored[at] += placement.world.storage_of(unit)
    return load, stored


def _has_others(placement: Placement) -> Bools:
    has = np.zeros(len(placement.world.masters), np.bool_)
    has[[at for unit, at in placement.items() if unit.kind != "home"]] = True
    return has


def _cost(case: Case, home: Ints, present: Ints, move_cost: float) -> float:
    return Accounts(case, PerTopic(), home).total + move_cost * float((home != present).sum())


def _refuse_excess(world: World, case: Case, home: Ints) -> None:
    accounts = Accounts(case, PerTopic(), home)
    for at in np.flatnonzero(accounts.short)[:1].tolist():
        master = world.masters[at]
        raise PlacementError(
            f"no plan keeps the limits: {master.name} would need {accounts.stored[at]:g} bytes of "
            f"storage and {accounts.load[at]:g} CPU-seconds a second, and has "
            f"{case.storage[at]:g} and {case.compute[at]:g}; name a delegate"
        )


def _moves(placement: Placement, case: Case, before: Ints, home: Ints) -> list[Move]:
    world = placement.world
    names = list(world.reach)
    masters = [each.name for each in world.masters]
    accounts = Accounts(case, PerTopic(), before)
    moves = []
    changed = np.flatnonzero(before != home)
    # By their gain now; what each brings is counted after those before it.
    first = accounts.changes(changed)[0][np.arange(len(changed)), home[changed]]
    for c in changed[np.argsort(first, kind="stable")].tolist():
        gain = -accounts.move([c], int(home[c]))
        unit, at = Unit("home", names[c]), int(before[c])
        source = None if at == NOWHERE else masters[at]
        reason = _reason(world, unit, at)
        moves.append(Move(unit, source, masters[home[c]], gain=gain, reason=reason))
    return moves


def _reason(world: World, unit: Unit, at: int) -> Reason:
    if world.pins.get(unit, at) != at:
        return "pin"
    if at == NOWHERE:
        return "arrival"
    return "drain" if at in world.draining else "plan"
