"""Workload of DSSP's testbed (Table II): query classes, Poisson arrivals, random rooms; pure.

One seed gives one endless trace. Its first 30 s are what the real fleet is asked; virtual time
asks the same and goes on.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.wire.messages import Query, Slo, Window
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout

MAX_WINDOW_S: Final = 10_800.0
PERCENTILE: Final = 99.0
# Label of a run; its queries are in no class.
WARM_UP: Final = "warm-up"


class QueryClass(Struct, frozen=True):
    """A class of queries: its share of them, how many IADs (k_q) and how many nodes of each (k_t) a
    query asks, and its SLO latency x99. `hot_spot`: always the last IAD."""

    name: str
    share: float
    iads: int
    nodes: int
    slo_ms: float
    hot_spot: bool = False


TABLE_II: Final = (
    QueryClass("1.1", 0.10, iads=1, nodes=1, slo_ms=500.0),
    QueryClass("1.2", 0.40, iads=1, nodes=1, slo_ms=500.0, hot_spot=True),
    QueryClass("2", 0.40, iads=4, nodes=1, slo_ms=800.0),
    QueryClass("3", 0.10, iads=4, nodes=8, slo_ms=1_200.0),
)


class Arrival(Struct, frozen=True):
    """One query of a trace: its time (seconds from the start), the IAD whose query scheduler it
    reaches, and what it asks. `emulation_seed` fixes the service times that emulated nodes draw for
    it."""

    number: int
    at_s: float
    scheduler: str
    kind: str
    areas: tuple[str, ...]
    last_s: float
    ago_s: float
    slo_ms: float
    emulation_seed: int
    service: str = "default"

    def query(self, run: str) -> Query:
        """The query as it goes on the wire; `run` and the class become its label."""
        return Query(
            id=f"{run}-{self.number}",
            areas=self.areas,
            window=Window(last_s=self.last_s, ago_s=self.ago_s),
            slo=Slo(PERCENTILE, self.slo_ms),
            service=self.service,
            label=f"{run} {self.kind}".strip(),
            emulation_seed=self.emulation_seed,
        )


def arrivals(
    plan: FleetLayout,
    *,
    rate_per_s: float,
    seed: int,
    classes: tuple[QueryClass, ...] = TABLE_II,
    history_s: float = float(PRELOAD_ROWS),
    services: Sequence[str] = ("default",),
) -> Iterator[Arrival]:
    """An endless trace: Poisson arrivals of `rate_per_s` queries per second over all query
    schedulers, every scheduler with the same rate.

    A window is 1 s to 3 h long (uniform) and lies anywhere within the last `history_s` seconds. The
    queries take the `services` in turn.
    A fleet smaller than a class asks for is asked whole.
    """
    draw = random.Random(seed)
    shares = [kind.share for kind in classes]
    at_s = 0.0
    number = 0
    while True:
        number += 1
        at_s += draw.expovariate(rate_per_s)
        [kind] = draw.choices(classes, shares)
        scheduler = draw.choice(plan.iads).name
        if kind.hot_spot:
            iads = [plan.iads[-1]]
        else:
            iads = draw.sample(plan.iads, min(kind.iads, len(plan.iads)))
        areas = [
            node.area
            for iad in iads
            for node in draw.sample(iad.nodes, min(kind.nodes, len(iad.nodes)))
        ]
        last_s = draw.uniform(1.0, min(MAX_WINDOW_S, history_s))
        yield Arrival(
            number=number,
            at_s=at_s,
            scheduler=scheduler,
            kind=kind.name,
            areas=tuple(areas),
            last_s=last_s,
            ago_s=draw.uniform(0.0, history_s - last_s),
            slo_ms=kind.slo_ms,
            emulation_seed=draw.getrandbits(53),
            service=services[number % len(services)],
        )


def warm_up(
    plan: FleetLayout,
    *,
    seconds: float,
    rate_per_s: float,
    seed: int,
    services: Sequence[str] = ("default",),
) -> list[Arrival]:
    """Queries that make every node's response times known: each node alone, `rate_per_s` times a
    second, windows as in the real load; evenly spaced, because unloaded times are wanted.

    Their SLOs come as often as in Table II: masters learn from the shares of classes, and a class
    of its own would count there long after it is gone.
    """
    draw = random.Random(f"warm-up {seed}")
    draw_slo = random.Random(f"warm-up SLOs {seed}")
    slos_ms = [kind.slo_ms for kind in TABLE_II]
    shares = [kind.share for kind in TABLE_II]
    nodes = [(iad.name, node.area) for iad in plan.iads for node in iad.nodes]
    trace = []
    for number in range(round(seconds * rate_per_s * len(nodes))):
        scheduler, area = nodes[number % len(nodes)]
        last_s = draw.uniform(1.0, MAX_WINDOW_S)
        trace.append(
            Arrival(
                number=number,
                at_s=number / (rate_per_s * len(nodes)),
                scheduler=scheduler,
                kind="",
                areas=(area,),
                last_s=last_s,
                ago_s=draw.uniform(0.0, PRELOAD_ROWS - last_s),
                slo_ms=draw_slo.choices(slos_ms, shares)[0],
                emulation_seed=draw.getrandbits(53),
                service=services[number % len(services)],
            )
        )
    return trace


def within(trace: Iterable[Arrival], seconds: float) -> list[Arrival]:
    """The arrivals of a trace's first `seconds`."""
    return list(takewhile(lambda arrival: arrival.at_s < seconds, trace))


def record(trace: Iterable[Arrival], path: Path) -> None:
    """Write a trace as JSON lines."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(trace)))


def replay(path: Path) -> list[Arrival]:
    """Read a trace back; `msgspec.ValidationError` for a line that is not an arrival."""
    return msgspec.json.Decoder(Arrival).decode_lines(path.read_bytes())
