"""Local search over homes: single moves, whole topics, random kicks; within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.accounts import Accounts, Sharing
from fleet.placement.homes.case import NOWHERE, Case, Ints

EPSILON: Final = 1e-9  # of the whole price: what rounding may pretend to gain
PASSES: Final = 60
KICKED: Final = 0.5  # of the kicks, whole topics; of the others single clients
PRICES: Final = 9  # of a byte, tried on the way to the budget


class Effort(Struct, frozen=True):
    """How long is searched: from the cheapest `starts`; a pass looks at every client and topic
    once; a kick is followed by passes until nothing gets better."""

    starts: int = 4
    passes: int = PASSES
    kicks: int = 30
    seed: int = 1


def greedy_homes(case: Case, sharing: Sharing, order: Iterable[int] | None = None) -> Ints:
    """Clients come one after the other, and live where their price is least at that moment."""
    accounts = Accounts(case, sharing)
    for client in _by_topic(case) if order is None else order:
        change = accounts.changes(np.array([client]))[0][0]
        # Who comes later will be heard over the same way.
        later = case.traffic[client] - accounts.traffic(client)
        accounts.move([client], int((change + later * case.delay[client]).argmin()))
    return accounts.home


def _by_topic(case: Case) -> list[int]:
    """Members of a topic one after the other, so that each meets those whom it talks to."""
    first = np.full(case.clients, case.topics)
    np.minimum.at(first, case.client, case.topic)
    return [int(c) for c in np.argsort(first, kind="stable")]


class Search:
    """Improves a placement, never beyond `budget` bytes in all, unless it begins beyond: then
    nothing that adds bytes is done until it is within."""

    def __init__(self, accounts: Accounts, budget: float = np.inf, price_of_byte: float = 0.0):
        self.accounts = accounts
        self.budget = budget
        self.price_of_byte = price_of_byte
        self._everybody = np.arange(accounts.case.clients)

    @property
    def price(self) -> float:
        """The objective to minimise."""
        return self.accounts.total + self.price_of_byte * self.accounts.storage

    def descend(self, passes: int = PASSES) -> None:
        """Passes of moves of clients, then of topics, until neither finds a better place."""
        for _ in range(passes):
            if not self.move_clients() and not self.move_topics():
                return

    def move_clients(self) -> int:
        """Offer every client its cheapest server, the greatest gain first; returns how many moved.
        Prices of the pass's begin choose, those of the moment decide."""
        accounts = self.accounts
        clients = self._everybody[accounts.home != NOWHERE]
        gain, bytes_ = accounts.changes(clients, self.price_of_byte)
        slack = self._slack()
        if np.isfinite(slack):
            gain[bytes_ > max(slack, 0.0)] = np.inf
        target = gain.argmin(axis=1)
        least = gain[np.arange(len(clients)), target]
        floor = -self._epsilon()
        order = np.argsort(least, kind="stable")
        moved = 0
        for i in order[: np.searchsorted(least[order], floor)].tolist():
            moved += self._try([int(clients[i])], int(target[i]))
        return moved

    def move_topics(self) -> int:
        """Offer all publishers that a topic has at one server another one, together: a spool goes
        only with the last of them."""
        accounts, case = self.accounts, self.accounts.case
        clients = self._everybody[accounts.home != NOWHERE]
        change = np.full((case.clients, case.servers), np.inf)
        change[clients] = accounts.changes(clients)[0]
        topics, servers = np.nonzero(accounts.count > 1)
        groups = []
        for topic, server in zip(topics.tolist(), servers.tolist(), strict=True):
            members = case.publishers[topic]
            members = members[accounts.home[members] == server]
            # Each alone would be torn from the others, that is counted twice for each pair.
            pairs = accounts.rate[topic, server] * accounts.ears[topic, server]
            pairs -= accounts.own[topic, server]
            away = case.between[server] + case.between[:, server]
            together = change[members].sum(axis=0) - pairs * away
            saved = case.spool[topic] * (accounts.count[topic] > 0) * self.price_of_byte
            together -= saved
            together[server] = np.inf
            target = int(together.argmin())
            groups.append((float(together[target]), topic, server, target))
        groups.sort()
        moved = 0
        for gain, topic, server, target in groups:
            if gain >= -self._epsilon():
                break
            members = case.publishers[topic]
            members = members[accounts.home[members] == server]
            moved += self._try(members.tolist(), target)
        return moved

    def _try(self, clients: list[int], target: int) -> bool:
        """Move all, or none if that is no gain or exceeds the budget."""
        accounts, stored = self.accounts, self.accounts.storage
        before = [int(accounts.home[c]) for c in clients]
        change = accounts.move(clients, target)
        added = accounts.storage - stored
        if change + self.price_of_byte * added < -self._epsilon() and (
            added <= 0 or accounts.storage <= self.budget
        ):
            return True
        for home in set(before):
            accounts.move([c for c, b in zip(clients, before, strict=True) if b == home], home)
        return False

    def _slack(self) -> float:
        return self.budget - self.accounts.storage

    def _epsilon(self) -> float:
        return EPSILON * max(1.0, abs(self.accounts.total))

    def kick(self, draw: np.random.Generator) -> None:
        """A random part of the placement elsewhere: a topic's members at one server, or a few
        clients of a topic each at one of its cheaper servers."""
        accounts, case = self.accounts, self.accounts.case
        topic = int(draw.integers(case.topics))
        members = np.unique(case.client[case.topic == topic])
        members = members[accounts.home[members] != NOWHERE]
        if not len(members):
            return
        servers = np.argsort(case.delay[members].sum(axis=0))[: max(2, case.servers // 2)]
        if draw.random() < KICKED:
            target = int(draw.choice(servers))
            for client in members.tolist():
                if case.may_live[client, target]:
                    accounts.move([client], target)
            return
        some = draw.permutation(members)[: max(1, int(draw.integers(len(members)) + 1) // 2)]
        for client in some.tolist():
            target = int(draw.choice(servers))
            if case.may_live[client, target]:
                accounts.move([client], target)


def improve(
    case: Case,
    sharing: Sharing,
    starts: Iterable[Ints],
    budget: float = np.inf,
    effort: Effort | None = None,
) -> Ints:
    """The best that local search finds from any of these placements, with at most `budget` bytes:
    never dearer than the cheapest of those within it. ValueError if none is."""
    effort = Effort() if effort is None else effort
    begun = []
    for home in starts:
        accounts = Accounts(case, sharing, home)
        if accounts.storage > budget:
            accounts = _squeeze(accounts, budget)
        if accounts.storage <= budget:
            begun.append((accounts.total, accounts.home))
    begun.sort(key=lambda each: each[0])
    found: list[tuple[float, Ints]] = []
    for _, home in begun[: effort.starts]:
        accounts = Accounts(case, sharing, home)
        Search(accounts, budget).descend(effort.passes)
        found.append((Accounts(case, sharing, accounts.home).total, accounts.home))
    if not found:
        raise ValueError(f"no placement is within {budget:g} bytes")
    cost, home = min(found, key=lambda each: each[0])
    return _kicked(case, sharing, home, cost, budget, effort)


def settle(case: Case, sharing: Sharing, home: Ints, present: Ints, move_cost: float) -> Ints:
    """The same homes without the moves from `present` that bring no more than `move_cost`, given
    the others."""
    accounts = Accounts(case, sharing, home)
    for _ in range(PASSES):
        moved = np.flatnonzero(accounts.home != present)
        back = accounts.changes(moved)[0][np.arange(len(moved)), present[moved]]
        stayed = 0
        for c in moved[np.argsort(back, kind="stable")].tolist():
            target = int(accounts.home[c])
            if not case.may_live[c, present[c]]:
                continue
            if accounts.move([c], int(present[c])) > move_cost:
                accounts.move([c], target)
            else:
                stayed += 1
        if not stayed:
            break
    return accounts.home


def _squeeze(accounts: Accounts, budget: float) -> Accounts:
    """A placement within the budget: bytes get a price, higher and higher, then as low as the
    budget allows."""
    case, sharing, home = accounts.case, accounts.sharing, accounts.home
    low, high = 0.0, max(1e-12, accounts.total / max(accounts.storage, 1e-12))
    best = accounts
    for _ in range(PRICES):
        price = (low + high) / 2.0
        tried = Accounts(case, sharing, home)
        Search(tried, np.inf, price).descend(8)
        if tried.storage <= budget:
            high, best = price, tried
        else:
            low, home = price, tried.home
            if best.storage > budget:
                high *= 2.0
    return best


def _kicked(
    case: Case, sharing: Sharing, home: Ints, cost: float, budget: float, effort: Effort
) -> Ints:
    draw = np.random.default_rng(effort.seed)
    for _ in range(effort.kicks if case.topics else 0):
        accounts = Accounts(case, sharing, home)
        search = Search(accounts, budget)
        search.kick(draw)
        search.descend(effort.passes)
        tried = Accounts(case, sharing, accounts.home)
        if tried.storage <= budget and tried.total < cost - EPSILON * cost:
            home, cost = accounts.home.copy(), tried.total
    return home
