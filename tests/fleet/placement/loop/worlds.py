"""What a lake has learned of three masters, and what they say now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agent.wire.messages import Slo
from agent.wire.placement import (
    Delay,
    KnownFacts,
    Listeners,
    PlacementFacts,
    PlacementReport,
    Source,
    TopicFacts,
)
from fleet.placement.loop.learned import Arrivals, Learned, Recorded, Service, Way

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
IADS = ("iad1", "iad2", "iad3")
SLO = Slo(90.0, 100.0)


def arrivals(topic="comfort", source="iad1", hour=12, per_s=10.0, records=60, peer=""):
    return Arrivals(topic, source, peer, hour, per_s, per_s, records, 1)


def recorded(iad, topics=(), age_s=30.0, records=60, **more):
    fields = {
        "mode": "open", "cores": 2, "compute": 2.0, "storage_bytes": None, "most_processors": 32,
        "opening_cost": 0.0, "listeners": (), "pins": (),
    } | more  # fmt: skip
    return Recorded(iad, NOW - timedelta(seconds=age_s), records, topics=tuple(topics), **fields)


def service(topic="comfort", iad="iad1", cpu_ms=2.0, slo=SLO, **more):
    goal = (None, None) if slo is None else (slo.percentile, slo.latency_ms)
    fields = {"achieved_ms": 12.0, "state_bytes": 100} | more
    return Service(topic, "comfort_index", iad, *goal, messages=100, cpu_ms=cpu_ms, **fields)


def ways(ms=10.0):
    return tuple(Way(one, two, ms, 2 * ms, 60) for one in IADS for two in IADS if one != two)


def learned(rates=None, services=None, masters=None, delays_ms=10.0):
    """Comfort lives at iad1; who listens is at iad2."""
    heard = (Listeners("comfort", 1),)
    masters = masters or (
        recorded("iad1", ["comfort"]), recorded("iad2", listeners=heard), recorded("iad3"),
    )  # fmt: skip
    rates, services = rates or [arrivals()], services or [service()]
    return Learned(tuple(services), tuple(rates), ways(delays_ms), tuple(masters))


def reports(topics=("comfort",), move_cost=0.01, moves=()):
    """What the three say now; rates are of the last minute only."""
    facts = {
        iad: PlacementFacts(
            iad, 1, 1, 5.0, cores=2, compute=2.0, most_processors=32,
            topics=tuple(
                TopicFacts(name, (Source("iad1", 1.0),), "comfort_index", cpu_ms=9.0, slo=SLO)
                for name in topics
            ) if iad == "iad1" else (),
            listeners=(Listeners("comfort", 1),) if iad == "iad2" else (),
            delays=tuple(Delay(other, 1.0, 1.0) for other in IADS if other != iad),
        )
        for iad in IADS
    }  # fmt: skip
    return [
        PlacementReport(
            "r", ok=True, iad=iad, move_cost=move_cost, moves=moves if iad == "iad1" else (),
            known=tuple(KnownFacts(facts[each], 0.0) for each in (iad, *sorted({*IADS} - {iad}))),
        )
        for iad in IADS
    ]  # fmt: skip
