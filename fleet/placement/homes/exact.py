"""The cheapest homes there are, for small cases: a mixed-integer program, solved by HiGHS."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from fleet.placement.homes.case import Case, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Optimum(Struct, frozen=True):
    """The best homes found, their price, and a bound that no placement beats."""

    home: Ints
    total: float
    bound: float


def best_homes(
    case: Case, budget: float = np.inf, seconds: float = 60.0, gap: float = 1e-4
) -> Optimum:
    """Homes of least price under hard limits of storage and compute and at most `budget` bytes in
    all, with nothing delegated; `Case.opening` is left out. ValueError where that is impossible,
    or not found in `seconds`.

    x says where clients live, y where topics are stored. f is, for each pair that talks, the share
    of (server, server): its margins are both clients' x, which makes the relaxation that of the
    earth mover, tight for distances in the plane.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    model = _Model(case, budget)
    found = milp(
        model.cost,
        constraints=LinearConstraint(model.matrix(), model.low, model.high),
        bounds=Bounds(0.0, model.upper),
        integrality=model.integral,
        options={"time_limit": seconds, "mip_rel_gap": gap},
    )
    if found.x is None:
        raise ValueError("no placement keeps the limits, or none was found in time")
    x = found.x[: model.places].reshape(case.clients, case.servers)
    bound = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
    return Optimum(x.argmax(axis=1), float(found.fun), float(bound))


class _Model:
    def __init__(self, case: Case, budget: float) -> None:
        self.case = case
        n, servers, topics = case.clients, case.servers, case.topics
        self.pairs = _pairs(case)
        self.places = n * servers
        self.spools = self.places
        self.flows = self.places + topics * servers
        size = self.flows + len(self.pairs) * servers * servers
        self.cost = np.zeros(size)
        self.upper = np.ones(size)
        self.integral = np.zeros(size)
        self.integral[: self.places] = 1
        own = case.traffic[:, None] * case.delay
        self.cost[: self.places] = (own if case.extra is None else own + case.extra).ravel()
        self.upper[: self.places] = case.may_live.ravel()
        onward = case.between
        for i, (there, back) in enumerate(self.pairs.values()):
            at = self.flows + i * servers * servers
            flow = there * onward + back * onward.T
            self.cost[at : at + servers * servers] = flow.ravel()
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._count = 0
        self._everybody_lives_somewhere()
        self._spools_where_publishers_are()
        self._limits(budget)
        self._margins()

    @property
    def low(self) -> Floats:
        return np.concatenate(self._low)

    @property
    def high(self) -> Floats:
        return np.concatenate(self._high)

    def matrix(self) -> csr_array:
        from scipy.sparse import csr_array

        parts = [np.concatenate(each) for each in (self._rows, self._columns, self._values)]
        rows, columns, values = parts
        return csr_array((values, (rows, columns)), shape=(self._count, len(self.cost)))

    def _add(self, columns: Ints, values: Floats, low: float, high: float) -> None:
        """Constraints low ≤ Σ values · columns ≤ high, a row of `columns` each."""
        rows, width = columns.shape
        self._rows.append(np.repeat(np.arange(self._count, self._count + rows), width))
        self._columns.append(columns.ravel())
        self._values.append(np.broadcast_to(values, columns.shape).ravel())
        self._low.append(np.full(rows, low))
        self._high.append(np.full(rows, high))
        self._count += rows

    def _everybody_lives_somewhere(self) -> None:
        places = np.arange(self.places).reshape(self.case.clients, self.case.servers)
        self._add(places, np.ones(1), 1.0, 1.0)

    def _spools_where_publishers_are(self) -> None:
        case, servers = self.case, np.arange(self.case.servers)
        for client, topic in zip(
            case.client[case.rate > 0], case.topic[case.rate > 0], strict=True
        ):
            place = client * case.servers + servers
            spool = self.spools + topic * case.servers + servers
            self._add(np.stack([place, spool], axis=1), np.array([1.0, -1.0]), -np.inf, 0.0)

    def _limits(self, budget: float) -> None:
        case = self.case
        stored = self.spools + np.arange(case.topics)[:, None] * case.servers
        lives = np.arange(case.clients)[:, None] * case.servers
        for s in range(case.servers):
            if np.isfinite(case.storage[s]):
                self._add((stored + s).T, case.spool, -np.inf, float(case.storage[s]))
            if np.isfinite(case.compute[s]):
                self._add((lives + s).T, case.load_of_client, -np.inf, float(case.compute[s]))
        if np.isfinite(budget):
            everywhere = (stored + np.arange(case.servers)).reshape(1, -1)
            self._add(everywhere, np.repeat(case.spool, case.servers), -np.inf, budget)

    def _margins(self) -> None:
        servers = self.case.servers
        minus_one = np.concatenate((np.ones(servers), [-1.0]))
        for i, (one, other) in enumerate(self.pairs):
            start = self.flows + i * servers * servers
            flow = np.arange(start, start + servers * servers).reshape(servers, servers)
            for margin, client in ((flow, one), (flow.T, other)):
                place = client * servers + np.arange(servers)
                self._add(np.column_stack([margin, place]), minus_one, 0.0, 0.0)


def _pairs(case: Case) -> dict[tuple[int, int], tuple[float, float]]:
    """Traffic between pairs: the rates of deliveries from the first to the second, and back."""
    rates: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    order = np.argsort(case.topic, kind="stable")
    ends = np.searchsorted(case.topic[order], np.arange(case.topics + 1))
    for a, b in pairwise(ends):
        of = order[a:b]
        members = list(
            zip(
                case.client[of].tolist(),
                case.rate[of].tolist(),
                case.hears[of].tolist(),
                strict=True,
            )
        )
        for one, says, hears in members:
            for other, replies, listens in members:
                if one < other and (says * listens or replies * hears):
                    rates[one, other][0] += says * listens
                    rates[one, other][1] += replies * hears
    return {pair: (there, back) for pair, (there, back) in rates.items()}
