"""Cost of a placement of homes, kept up to date, and the gain of each move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fleet.placement.homes.case import NOWHERE, Case, Floats, Ints
from fleet.placement.homes.usage import Usage


class Accounts(Usage):
    """A placement with its price: the delay of all deliveries together, times their rate.

    A message of publisher u to subscriber v, processed by u's home h(u), takes
    ``d(u, h(u)) + d(h(u), h(v)) + d(h(v), v)``; a delegated one twice the cloud's delay in place of
    the middle (RELOC Eq. 6). `sharing` says what is delegated. Nobody hears its own message.

    Clients that are `NOWHERE` neither publish nor hear.
    """

    def __init__(self, case: Case, sharing: Sharing, home: Ints | None = None) -> None:
        """O(T · S²) where homes are given."""
        super().__init__(case, home)
        self.sharing = sharing
        self.detour = 2.0 * case.cloud
        self._opening = np.zeros(case.servers) if case.opening is None else case.opening
        parts = [case.part(c) for c in range(case.clients)]
        block = np.stack([case.rate, case.hears, case.rate * case.hears])
        self._topics = [case.topic[part] for part in parts]
        self._blocks = [block[:, part] for part in parts]
        self._onward = np.ascontiguousarray(case.between.T)
        there = self.home[case.client] != NOWHERE
        topic, server = case.topic[there], self.home[case.client[there]]
        delay = case.delay[case.client[there], server]
        shape = (case.topics, case.servers)

        def at_servers(values: Floats) -> Floats:
            found = np.zeros(shape)
            np.add.at(found, (topic, server), values)
            return found

        def of_topics(values: Floats) -> Floats:
            return np.bincount(topic, values, case.topics).astype(np.float64)

        # What is published, who hears, and what of the first would be heard by who says it, which
        # is not delivered: by topic and server, by topic, and by topic times the delay to the home.
        present = block[:, there]
        self._table = np.stack([at_servers(values) for values in present])
        self.rate, self.ears, self.own = self._table
        self._present = np.stack([of_topics(values) for values in present])
        self._legs = np.stack([of_topics(values * delay) for values in present])
        self._sent, self._heard, _ = self._present
        self.share = np.ones(shape)
        self.short = np.zeros(case.servers, np.bool_)  # who delegates something
        self._kept = np.zeros(case.servers)  # bytes that these store
        for s in range(case.servers):
            self._share_anew(s)
        self.cost_of_topic = self._cost(np.arange(case.topics))
        here = np.flatnonzero(self.home != NOWHERE)
        every = np.ones(case.clients, np.int64)
        self._resident: Ints = every if case.resident is None else every * case.resident
        counted = np.bincount(self.home[here], self._resident[here], case.servers)
        self.residents = counted.astype(np.int64)
        self.extra = float(self._opening[self.residents > 0].sum())
        if case.extra is not None:
            self.extra += float(case.extra[here, self.home[here]].sum())

    # -- reading ---------------------------------------------------------------------------------

    @property
    def total(self) -> float:
        """Σ rate · delay over all deliveries."""
        return float(self.cost_of_topic.sum()) + self.extra

    @property
    def deliveries(self) -> float:
        """Their rate."""
        return float((self._sent * self._heard).sum() - self.own.sum())

    @property
    def mean(self) -> float:
        """The mean delay of a delivery."""
        return self.total / self.deliveries if self.deliveries else 0.0

    @property
    def delegated(self) -> float:
        """The part of `total` that the way to the cloud and back has: the resource part."""
        topics = np.arange(self.case.topics)
        return float((self.detour * (1.0 - self.share) * self._apart(topics)).sum())

    @property
    def storage(self) -> float:
        """Σ of the servers' storage, if nothing is delegated."""
        return float(self.stored.sum())

    def used(self) -> Floats:
        """True storage of each server, topics that it delegates left out."""
        return np.where(self.short, self._kept, self.stored)

    def traffic(self, client: int) -> float:
        """Deliveries that pass, or would pass, between a client and its home now."""
        topics, (rate, hears, _) = self._topics[client], self._blocks[client]
        there = self.home[client] != NOWHERE
        heard, sent = self._heard[topics] - there * hears, self._sent[topics] - there * rate
        return float(rate @ heard + hears @ sent)

    def deliveries_from(self, topics: Ints, server: int) -> Floats:
        """The rate at which what is published there is delivered, by topic."""
        heard = self._heard[topics]
        return np.asarray(self.rate[topics, server] * heard - self.own[topics, server])

    def at_stake(self) -> Floats:
        """Extra cost if a server delegated everything, by server."""
        topics = np.arange(self.case.topics)
        local = self.rate * (self.ears @ self._onward)
        return np.asarray((self.detour * self._apart(topics) - local).sum(axis=0))

    # -- changing --------------------------------------------------------------------------------

    def move(self, clients: Sequence[int], target: int) -> float:
        """Let clients live there, or `NOWHERE`; returns by how much `total` changes."""
        clients = [c for c in clients if self.home[c] != target]
        if not clients:
            return 0.0
        extra = self.extra
        topics = self._topics[clients[0]]
        if len(clients) > 1:
            topics = np.unique(np.concatenate([self._topics[c] for c in clients]))
        servers = {target}
        for client in clients:
            servers.add(int(self.home[client]))
            self.put(client, target)
        servers.discard(NOWHERE)
        others = [changed for s in servers if len(changed := self._share_anew(s))]
        if others:
            topics = np.unique(np.concatenate([topics, *others]))
        after = self._cost(topics)
        change = float((after - self.cost_of_topic[topics]).sum())
        self.cost_of_topic[topics] = after
        return change + self.extra - extra

    def put(self, client: int, server: int) -> None:
        """As `Usage.put`; whoever calls it computes shares and costs anew."""
        case, source = self.case, int(self.home[client])
        super().put(client, server)
        topics, block, delay = self._topics[client], self._blocks[client], 0.0
        if source != NOWHERE:
            self._resides(source, -int(self._resident[client]))
            self._table[:, topics, source] -= block
            delay -= case.delay[client, source]
        if server != NOWHERE:
            self._resides(server, int(self._resident[client]))
            self._table[:, topics, server] += block
            delay += case.delay[client, server]
        self._legs[:, topics] += delay * block
        if NOWHERE in (source, server):
            self._present[:, topics] += block if source == NOWHERE else -block
        if case.extra is not None:
            here, there = (0.0 if s == NOWHERE else case.extra[client, s] for s in (source, server))
            self.extra += float(there - here)

    def _resides(self, server: int, number: int) -> None:
        before = self.residents[server] > 0
        self.residents[server] += number
        self.extra += self._opening[server] * (int(self.residents[server] > 0) - int(before))

    def _share_anew(self, server: int) -> Ints:
        """Topics there of which another share is delegated than before."""
        over = self.exhausted(server)
        if not over and not self.short[server]:
            return np.empty(0, np.int64)
        before, here = self.share[:, server].copy(), self.count[:, server] > 0
        self.share[:, server] = self.sharing.shares(self, server) if over else 1.0
        self.short[server] = over
        self._kept[server] = self.case.spool @ (here & (self.share[:, server] > 0))
        return np.flatnonzero(here & (before != self.share[:, server]))

    def _apart(self, topics: Ints) -> Floats:
        """Deliveries of what is published at each server."""
        return np.asarray(self.rate[topics] * self._heard[topics][:, None] - self.own[topics])

    def _cost(self, topics: Ints) -> Floats:
        rate = self.rate[topics]
        if self.short.any():
            share = self.share[topics]
            middle = share * rate * (self.ears[topics] @ self._onward)
            middle += (self.detour * (1.0 - share)) * self._apart(topics)
        else:
            middle = rate * (self.ears[topics] @ self._onward)
        said, heard, own = self._legs[:, topics]
        legs = said * self._heard[topics] + heard * self._sent[topics] - 2.0 * own
        return np.asarray(middle.sum(axis=1) + legs)

    # -- prices ----------------------------------------------------------------------------------

    def changes(self, clients: Ints, price_of_byte: float = 0.0) -> tuple[Floats, Floats]:
        """Change by moving each of these clients to each server: `total` plus the price of
        the bytes stored; and the bytes (clients × S). Exact while nothing is delegated, else a
        first guess. Infinite where a client may not live. Of a client that is `NOWHERE`, without
        what the others' ways to their homes cost more: that is the same at every server.
        O(memberships · S) with all clients, O(topics of the client · S²) with one."""
        case = self.case
        index, begins = case.memberships_of(clients)
        topics, rate, hears = case.topic[index], case.rate[index], case.hears[index]
        rows, onward, inward, count = self._tables(topics)
        cost = _weighted(rate, onward, rows, begins) + _weighted(hears, inward, rows, begins)
        stored = (rate > 0) * case.spool[topics]
        bytes_ = _weighted(stored, (count == 0).astype(np.float64), rows, begins)
        # Nobody hears its own message: the tables have it where a client is there already.
        home = self.home[clients]
        homes = np.repeat(home, np.diff(begins))
        there = homes != NOWHERE
        deliveries = _sums(rate * (self._heard[topics] - there * hears), begins)
        received = _sums(hears * (self._sent[topics] - there * rate), begins)
        cost += (deliveries + received)[:, None] * case.delay[clients]
        if case.extra is not None:
            cost += case.extra[clients]
        resident = self._resident[clients][:, None]
        cost += self._opening * (self.residents == 0) * resident
        load = case.load_of_client[clients]
        tight = bool(self.short.any()) or self._near(bytes_, load)
        toll = self.sharing.toll(self, bytes_, load, deliveries) if tight else None
        placed = np.flatnonzero(home != NOWHERE)
        if len(placed):
            at = home[placed]
            own = _sums(rate * hears, begins)[placed]
            cost[placed] -= own[:, None] * (case.between[at] + self._onward[at])
            freed = _sums(stored * (there & (count[rows, homes] == 1)), begins)[placed]
            bytes_[placed] -= freed[:, None]
            bytes_[placed, at] = 0.0
            alone_there = (self.residents[at] == 1) * resident[placed, 0]
            stay = cost[placed, at] + self._opening[at] * alone_there
            if toll is not None:
                toll[placed, at] = 0.0
                stay = stay + self.sharing.relief(self, at, freed, load[placed])
            cost[placed] -= stay[:, None]
        if toll is not None:
            cost += toll
        cost += price_of_byte * bytes_
        if case.allowed is not None:
            cost[~case.allowed[clients]] = np.inf
        cost[placed, home[placed]] = 0.0
        return cost, bytes_

    def _near(self, bytes_: Floats, load: Floats) -> bool:
        """Whether somebody's coming could exceed a limit."""
        case = self.case
        return bool(
            (self.stored + bytes_.max(axis=0, initial=0.0) > case.storage).any()
            or (self.load + load.max(initial=0.0) > case.compute).any()
        )

    def _tables(self, topics: Ints) -> tuple[Ints, Floats, Floats, Ints]:
        """The rows of these topics in tables by topic and server: the delay onward of what a
        publisher there says, inward of what a subscriber there hears, and the publishers there."""
        if 2 * len(topics) > self.case.topics:  # Once a topic, not once a membership.
            return topics, *self._tables_of(np.arange(self.case.topics))
        return np.arange(len(topics)), *self._tables_of(topics)

    def _tables_of(self, topics: Ints) -> tuple[Floats, Floats, Ints]:
        rate, count = self.rate[topics], self.count[topics]
        onward, inward = self.ears[topics] @ self._onward, rate @ self.case.between
        share = self.sharing.outlook(self, topics)
        if not (share == 1.0).all():
            apart = self.detour * self._heard[topics][:, None]
            onward = share * onward + (1.0 - share) * apart
        if self.short.any():
            local = self.share[topics] * rate
            inward = local @ self.case.between
            inward += self.detour * (rate - local).sum(axis=1)[:, None]
        return onward, inward, count


def _sums(values: Floats, begins: Ints) -> Floats:
    """Sums of the values begins[i] to begins[i + 1]."""
    found = np.add.reduceat(np.append(values, 0.0), begins[:-1])
    found[begins[1:] == begins[:-1]] = 0.0
    return np.asarray(found)


def _weighted(weights: Floats, table: Floats, rows: Ints, begins: Ints) -> Floats:
    """For each i the sum of the table's `rows` begins[i] to begins[i + 1], by their weights."""
    if len(begins) == 2:  # One client: most of a greedy plan's calls.
        return np.asarray(weights @ table[rows])[None, :]
    from scipy.sparse import csr_array  # for many clients only: it takes a while to import

    each = csr_array((weights, rows, begins), shape=(len(begins) - 1, len(table)))
    return np.asarray(each @ table)


class Sharing(Protocol):
    """Share of each topic that a server processes itself. It depends on that server alone, so
    that a placement has one price, whatever the order of its moves."""

    def shares(self, accounts: Accounts, server: int) -> Floats:
        """T shares of 0 to 1, by what lives there now."""

    def outlook(self, accounts: Accounts, topics: Ints) -> Floats:
        """The share that a publisher of each of these topics would find at each server."""

    def toll(self, accounts: Accounts, added: Floats, load: Floats, deliveries: Floats) -> Floats:
        """Cost of `added` bytes (clients × S) and the load of each client at each server,
        beyond what `outlook` says; a client has that many `deliveries`."""

    def relief(self, accounts: Accounts, homes: Ints, freed: Floats, load: Floats) -> Floats:
        """Gain of each client's home if it lost so many bytes, and the client's load."""
