"""What homes take of their servers: spools, once for each topic, and load."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fleet.placement.homes.case import NOWHERE, Case, Floats, Ints


class Usage:
    """Where clients live, and what each server stores and computes for them: `count` (T × S) has
    the publishers of each topic, `stored` and `load` the servers' use if nothing is delegated."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.home = np.full(case.clients, NOWHERE)
        self.count = np.zeros((case.topics, case.servers), np.int64)
        self.stored = np.zeros(case.servers)
        self.load = np.zeros(case.servers)
        publishes = case.rate > 0
        ends = case.starts
        self._topics: list[Ints] = [case.topic[a:b][publishes[a:b]] for a, b in pairwise(ends)]

    def published(self, client: int) -> Ints:
        """The topics that a client publishes to."""
        return self._topics[client]

    def put(self, client: int, server: int) -> None:
        """Let a client live there, or `NOWHERE`. O(its topics)."""
        before, topics = int(self.home[client]), self._topics[client]
        spool, load = self.case.spool, self.case.load_of_client[client]
        if before != NOWHERE:
            left = self.count[topics, before] - 1
            self.count[topics, before] = left
            self.stored[before] -= spool[topics][left == 0].sum()
            self.load[before] -= load
        if server != NOWHERE:
            found = self.count[topics, server]
            self.count[topics, server] = found + 1
            self.stored[server] += spool[topics][found == 0].sum()
            self.load[server] += load
        self.home[client] = server

    def exhausted(self, server: int) -> bool:
        """Whether a limit is exceeded."""
        case = self.case
        return bool(
            self.stored[server] > case.storage[server] or self.load[server] > case.compute[server]
        )

    def added(self, topics: Ints) -> Floats:
        """The bytes that each server would store more with these topics. O(topics · S)."""
        missing = self.count[topics] == 0
        return np.asarray(self.case.spool[topics] @ missing)
