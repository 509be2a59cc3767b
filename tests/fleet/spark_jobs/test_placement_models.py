"""Models of placement: by hand from records, as planners read them, and what is planned of them."""

from datetime import UTC, datetime, timedelta

import pytest

from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import models as tables
from fleet.lake.schema.tables.base import PLACEMENT, PROCESSING
from fleet.placement.loop.jobs import master_delays, masters, service_times, topic_arrivals
from fleet.placement.loop.learned import read_learned
from fleet.placement.loop.planning import outlooks, periods
from fleet.report.jobs.models import write_models
from tests.fleet.spark_jobs import landings
from tests.fleet.spark_jobs.recorded import START, found, frame
from tests.fleet.spark_jobs.test_models import has_declared_schemas


def told(hours, iad, *arrivals, topics=(), other="iad2", ms=10.0, **more):
    time = START + timedelta(hours=hours)
    rows = [
        {"topic": topic, "source": source, "peer": peer, "per_s": rate}
        for topic, source, peer, rate in arrivals
    ]
    delays = [{"iad": other, "p50_ms": ms, "p90_ms": 2 * ms}] if other else []
    made = landings.placement(iad, arrivals=rows, delays=delays, topics=list(topics), **more)
    return made | {"time": time, "date": time.date(), "start_s": 3600.0 * hours}


COMFORT = ("comfort", "iad1", "", 4.0)
CLONE = ("comfort", "", "clone-1", 1.0)
# Noon and one o'clock of two days, and the night between.
RECORDS = [
    told(0.0, "iad1", COMFORT, CLONE, topics=["comfort"]),
    told(0.5, "iad1", topics=["comfort"]),
    told(1.0, "iad1", ("comfort", "iad1", "", 9.0), topics=["comfort"], ms=30.0),
    told(14.0, "iad1", ("comfort", "iad2", "", 20.0), topics=["comfort"]),
    told(24.0, "iad1", COMFORT, topics=["comfort"], mode="frozen"),
    told(24.0, "iad2", topics=["calm"], other="iad1", listeners=[{"topic": "comfort", "count": 1}]),
]


def test_models_by_hand_and_what_is_planned_of_them(spark, tmp_path):
    placement = frame(spark, PLACEMENT, RECORDS).persist()
    processing = frame(
        spark,
        PROCESSING,
        [
            landings.processing("iad1", processed=100, cpu_ms=2.0, achieved_ms=8.0)
            | {"time": START, "date": START.date()},
            landings.processing(
                "iad2", processed=300, cpu_ms=4.0, start_s=70.0, slo_ms=90.0, achieved_ms=10.0
            )
            | {"time": START + timedelta(hours=1), "date": START.date()},
            landings.processing("iad2", processed=0, cpu_ms=None, start_s=80.0, achieved_ms=None)
            | {"time": START, "date": START.date()},
        ],
    )
    made = {
        "service_times": service_times(processing),
        "topic_arrivals": topic_arrivals(placement),
        "master_delays": master_delays(placement),
        "masters": masters(placement),
    }
    (took,) = found(made["service_times"], tables.SERVICE_TIMES)
    assert (took["iad"], took["slo_ms"], took["messages"]) == ("iad2", 90.0, 400)
    assert (took["cpu_ms"], took["achieved_ms"]) == (3.5, 9.0)
    came = {
        (row["topic"], row["source"], row["peer"], row["hour"]): row
        for row in found(made["topic_arrivals"], tables.TOPIC_ARRIVALS)
    }
    noon = came["comfort", "iad1", "", 12]
    assert (noon["per_s"], noon["most_per_s"]) == (pytest.approx(8 / 3), 4.0)
    assert (noon["records"], noon["days"]) == (3, 2)
    assert came["comfort", "", "clone-1", 12]["per_s"] == pytest.approx(1 / 3)
    assert came["comfort", "iad1", "", 13]["per_s"] == 9.0
    assert came["comfort", "iad2", "", 2]["per_s"] == 20.0
    assert came["calm", "", "", 12]["per_s"] == 0.0
    assert len(came) == 5
    way, _back = found(made["master_delays"], tables.MASTER_DELAYS)
    assert (way["p50_ms"], way["p90_ms"], way["records"]) == (10.0, 20.0, 5)
    first, second = found(made["masters"], tables.MASTERS)
    assert (first["records"], first["mode"], first["topics"]) == (5, "frozen", ["comfort"])
    assert second["listeners"][0]["count"] == 1
    # As planners read it: the night's messages come from iad2, where the subscriber is.
    lake = Lake(tmp_path)
    write_models(made, lake)
    flat = [table for table in tables.PLACING if table is not tables.MASTERS]
    has_declared_schemas(lake, flat)
    placement.unpersist()
    learned = read_learned(lake)
    assert learned.masters[0].time == datetime(2026, 11, 21, 12, tzinfo=UTC)
    day, night = outlooks(learned, periods(7, 19, datetime(2026, 11, 21, 12, tzinfo=UTC)))
    # iad1 is frozen, so comfort stays there, by night, too, and nothing else comes.
    assert (day.period, day.per_s, day.needed) == ("day", 9.0, 2)
    assert night.per_s == 20.0
    assert [move.unit.name for move in night.plan.moves] == []
