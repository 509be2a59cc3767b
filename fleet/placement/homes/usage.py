"""Use of servers by homes: spools, once for each topic, and load."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from agent.placement.congestion import ROUNDING
from fleet.placement.homes.case import NOWHERE, Case, Floats, Ints


class Usage:
    """Homes of clients, and each server's storage and computation for them: `count` (T × S) has
    the publishers of each topic, `stored` and `load` the servers' use if nothing is delegated."""

    def __init__(self, case: Case, home: Ints | None = None) -> None:
        """O(memberships) where homes are given."""
        self.case = case
        publishes = case.rate > 0
        self._published: list[Ints] = [
            case.topic[a:b][publishes[a:b]] for a, b in pairwise(case.starts)
        ]
        self._spools = [case.spool[topics] for topics in self._published]
        self.home = np.full(case.clients, NOWHERE) if home is None else np.array(home, np.int64)
        self.count = np.zeros((case.topics, case.servers), np.int64)
        says = publishes & (self.home[case.client] != NOWHERE)
        np.add.at(self.count, (case.topic[says], self.home[case.client[says]]), 1)
        self.stored = np.asarray(case.spool @ (self.count > 0))
        here = np.flatnonzero(self.home != NOWHERE)
        load = case.load_of_client[here]
        self.load = np.bincount(self.home[here], load, case.servers).astype(np.float64)

    def published(self, client: int) -> Ints:
        """The topics that a client publishes to."""
        return self._published[client]

    def put(self, client: int, server: int) -> None:
        """Let a client live there, or `NOWHERE`. O(its topics)."""
        before, topics = int(self.home[client]), self._published[client]
        spool, load = self._spools[client], self.case.load_of_client[client]
        if before != NOWHERE:
            left = self.count[topics, before] - 1
            self.count[topics, before] = left
            self.stored[before] -= spool @ (left == 0)
            self.load[before] -= load
        if server != NOWHERE:
            found = self.count[topics, server]
            self.count[topics, server] = found + 1
            self.stored[server] += spool @ (found == 0)
            self.load[server] += load
        self.home[client] = server

    def excess(self, server: int) -> tuple[float, float]:
        """The bytes and the load beyond a server's limits, up to rounding; below 0 within them."""
        storage, compute = self.case.storage[server], self.case.compute[server]
        return (
            float(self.stored[server] - storage * (1 + ROUNDING)),
            float(self.load[server] - compute * (1 + ROUNDING)),
        )

    def exhausted(self, server: int) -> bool:
        """Whether a limit is exceeded."""
        return max(self.excess(server)) > 0

    def added(self, topics: Ints) -> Floats:
        """The bytes that each server would store more with these topics. O(topics · S)."""
        missing = self.count[topics] == 0
        return np.asarray(self.case.spool[topics] @ missing)
