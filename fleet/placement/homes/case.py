"""A placement problem of homes as arrays: delays, memberships, spools and limits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

NOWHERE: Final = -1  # the home of a client that is not there


class CaseError(ValueError):
    """The problem contradicts itself; its text is one line."""


@dataclass(frozen=True)
class Case:
    """n clients, S servers, T topics. Delays are of one way, in any one unit.

    A membership is a client's part in a topic: it publishes `rate` messages a unit of time there
    (0 of one that only listens) and hears what comes out, or does not. Memberships are sorted by
    client. A server that is home of a publisher of topic t stores t's spool once, and has a load of
    ``work[t]`` for each message; without `work`, of ``spool[t]``, which is RELOC's Eq. 1 where
    every publisher has the rate 1.
    """

    delay: Floats  # n × S, client to server
    between: Floats  # S × S, from a server to another, 0 within one
    client: Ints  # of a membership, as the three below
    topic: Ints
    rate: Floats
    hears: Floats  # 1 or 0
    spool: Floats  # T
    storage: Floats  # S, limits
    compute: Floats  # S, limits
    cloud: float  # delay from any server to where delegated messages are processed
    allowed: Bools | None = None  # n × S: pins, masters that take nobody; None: all
    work: Floats | None = None  # T
    extra: Floats | None = None  # n × S: delay by a client's place alone, besides its memberships
    opening: Floats | None = None  # S: what it costs that a resident lives there
    resident: Bools | None = None  # n: who is one; None: all

    def __post_init__(self) -> None:
        n, servers = self.delay.shape
        sizes = {
            "delays between servers": (self.between.shape, (servers, servers)),
            "storage limits": (self.storage.shape, (servers,)),
            "compute limits": (self.compute.shape, (servers,)),
            **({} if self.opening is None else {"opening": (self.opening.shape, (servers,))}),
            "topics of memberships": (self.topic.shape, self.client.shape),
            "rates of memberships": (self.rate.shape, self.client.shape),
            "hearing of memberships": (self.hears.shape, self.client.shape),
        }
        for what, (found, due) in sizes.items():
            if found != due:
                raise CaseError(f"{what}: {found} where {due} is due")
        if not servers:
            raise CaseError("there is no server to place a client on")
        for what, values in (
            ("a delay", self.delay),
            ("a delay between servers", self.between),
            ("a rate", self.rate),
            ("a spool's size", self.spool),
            ("a storage limit", self.storage),
            ("a compute limit", self.compute),
            ("the cloud's delay", np.array([self.cloud])),
        ):
            if np.isnan(values).any() or (values < 0).any():
                raise CaseError(f"{what} is negative or not a number")
        if not all(np.isfinite(v).all() for v in (self.delay, self.between, self.rate, self.spool)):
            raise CaseError("a delay, rate or size is infinite")
        if np.diagonal(self.between).any():
            raise CaseError("a server has a delay to itself")
        for what, values_, end in (("client", self.client, n), ("topic", self.topic, self.topics)):
            if len(values_) and not (values_.min() >= 0 and values_.max() < end):
                raise CaseError(f"a membership names a {what} that is not there")
        if (np.diff(self.client) < 0).any():
            raise CaseError("memberships are not sorted by client")
        if self.allowed is not None and not self.allowed.any(axis=1).all():
            nobody = int(np.flatnonzero(~self.allowed.any(axis=1))[0])
            raise CaseError(f"client {nobody} may live on no server")

    def processed(
        self, stored: Floats, load: Floats, servers: Ints | int | slice = slice(None)
    ) -> Floats:
        """w of these servers, the share that each processes itself (RELOC): min(1, M/m, C/l)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            of_storage = np.where(stored > 0, self.storage[servers] / stored, 1.0)
            of_compute = np.where(load > 0, self.compute[servers] / load, 1.0)
        return np.minimum(1.0, np.minimum(of_storage, of_compute))

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return int(self.delay.shape[0])

    @property
    def servers(self) -> int:
        """How many servers there are."""
        return int(self.delay.shape[1])

    @property
    def topics(self) -> int:
        """How many topics there are."""
        return int(self.spool.shape[0])

    @cached_property
    def starts(self) -> Ints:
        """Starts of the memberships of each client; n + 1 numbers."""
        return np.searchsorted(self.client, np.arange(self.clients + 1)).astype(np.int64)

    @cached_property
    def load_of_message(self) -> Floats:
        """The load of one message of each topic."""
        return self.spool if self.work is None else self.work

    @cached_property
    def load_of_client(self) -> Floats:
        """Load that each client adds to its home."""
        load = self.rate * self.load_of_message[self.topic]
        return np.bincount(self.client, load, self.clients).astype(np.float64)

    @cached_property
    def traffic(self) -> Floats:
        """Deliveries that pass between each client and its home, when everybody is there."""
        sent = np.bincount(self.topic, self.rate, self.topics)[self.topic]
        heard = np.bincount(self.topic, self.hears, self.topics)[self.topic]
        both = self.rate * (heard - self.hears) + self.hears * (sent - self.rate)
        return np.bincount(self.client, both, self.clients).astype(np.float64)

    @cached_property
    def may_live(self) -> Bools:
        """n × S: where a client may live."""
        if self.allowed is None:
            return np.ones(self.delay.shape, np.bool_)
        return self.allowed

    @cached_property
    def reachable(self) -> Floats:
        """The delays, infinite where a client may not live."""
        return np.where(self.may_live, self.delay, np.inf)

    @cached_property
    def co_membership(self) -> list[tuple[Ints, Ints]]:
        """Of each client those who share a topic with it, and how many they share; most first.

        The paper factorises this matrix. That serves to guess entries that nobody has observed; of
        memberships all are known, and the rank that reproduces them is O(n³).
        """
        from scipy.sparse import csr_array

        shape = (self.clients, self.topics)
        one = np.ones(len(self.client))
        members = csr_array((one, (self.client, self.topic)), shape=shape)
        shared = (members @ members.T).tocsr()
        shared.setdiag(0)
        shared.eliminate_zeros()
        found = []
        for c in range(self.clients):
            part = slice(shared.indptr[c], shared.indptr[c + 1])
            who, times = shared.indices[part].astype(np.int64), shared.data[part].astype(np.int64)
            order = np.lexsort((who, -times))
            found.append((who[order], times[order]))
        return found

    @cached_property
    def publishers(self) -> list[Ints]:
        """Of each topic."""
        says = self.rate > 0
        client, topic = self.client[says], self.topic[says]
        order = np.argsort(topic, kind="stable")
        ends = np.searchsorted(topic[order], np.arange(1, self.topics))
        return np.split(client[order], ends)

    def part(self, client: int) -> slice:
        """The memberships of a client."""
        return slice(int(self.starts[client]), int(self.starts[client + 1]))

    def memberships_of(self, clients: Ints) -> tuple[Ints, Ints]:
        """The memberships of these clients, and where each client's begin among them."""
        counts = self.starts[clients + 1] - self.starts[clients]
        begins = np.concatenate(([0], np.cumsum(counts)))
        inside = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
        return np.repeat(self.starts[clients], counts) + inside, begins.astype(np.int64)
