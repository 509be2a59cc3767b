"""Tables of a report, made by hand: small, with names that somebody hostile chose."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from fleet.lake.schema.tables import placing, report, requests, sensing
from fleet.lake.schema.tables.model import Table
from fleet.report.files import DATA, write_csv
from fleet.report.page.page import compose
from fleet.report.page.sections.sources import Made
from fleet.report.page.shown import Shown
from fleet.report.threads import threads

START = datetime(2026, 11, 20, 22, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "\" onmouseover='x' &amp; <img src=http://evil.example/x.png>",
    "two\nlines\x1b[31m and a \0",
    "a$b$ and $\\frac{1}{",
    "=HYPERLINK(1)",
    "@SUM(1)",
    "\u202eleft to right 溫度 🌡",
    "x" * 10_000,
)
TABLES = (*requests.TABLES, *placing.TABLES, *sensing.TABLES, *report.TABLES)


def interval(value: float, spread: float) -> tuple[float, float, float]:
    return value, value * (1 - spread), value * (1 + spread)


def attainment(names: tuple[str, ...] = ("p99 live", "p95 dashboard", "p90 export")):
    rows = []
    for n, name in enumerate(names):
        for policy, kept in (("edfq", 0.993), ("fifo", 0.81)):
            slo = (400.0, 900.0, 2500.0)[n % 3]
            p99 = slo * (0.93 if policy == "edfq" else 1.8) - 20 * n
            rows.append(
                (
                    policy, name, "temperature", 99.0, slo, 400, 390, 5, 5, round(395 * kept),
                    kept, kept - 0.02, min(kept + 0.004, 1.0),
                    *interval(p99 * 0.3, 0.04), *interval(p99 * 0.7, 0.06),
                    *interval(p99, 0.15), p99 * 1.2, p99 * 1.05, None, 0,
                )
            )  # fmt: skip
    return rows


def time_spent():
    rows = []
    for iad in range(1, 5):
        for policy in ("edfq", "fifo"):
            queue = (8.0, 11.5, 14.0, 160.25)[iad - 1] * (1.2 if policy == "fifo" else 1)
            rows.append(
                (
                    f"iad{iad}", policy, 120 * iad, 900 * iad, 0.41, queue, queue * 5,
                    88.5, 190.0, 6.5, 2.0, 80.0, 1.5, queue * 2 + 120,
                )
            )  # fmt: skip
    return rows


def node_hours(nodes: int = 32, hours: int = 60):
    draws = random.Random(1)
    rows = []
    for node in range(nodes):
        for hour in range(hours):
            busy = 1 + math.sin(hour / 24 * 6.28) + (3 if node % 8 == 3 else 0)
            missed = sum(draws.random() < busy / 60 for _ in range(200))
            share = missed / 2
            rows.append(
                (
                    f"iad{node // 8 + 1}", f"pi{node}", START + timedelta(hours=hour), 200, missed,
                    share, max(share - 2, 0.0), share + 2, 12.0 + missed, 0.6,
                    int(missed < 2), int(missed > 8), 1 + missed // 4,
                )
            )  # fmt: skip
    return rows


def load_curve():
    rows = []
    for policy, steep in (("edfq", 1.0), ("fifo", 1.6)):
        for rate in range(2, 30, 2):
            q = steep * 4 / (1 - rate / 32)
            rows.append(
                (
                    policy, float(rate), 12, 12 * rate * 10, 400 * rate, q, q * 6, 100 + 2 * q,
                    250 + 9 * q, min(q / 4, 100.0),
                )
            )  # fmt: skip
    return rows


def processed():
    return [
        (
            f"iad{n % 3 + 1}", f"comfort{n}", "comfort_index", *((90.0, 1_000.0) if n % 4 else
            (None, None)), 3_600.0, 7_200, 7_190, 30 * n, 30 * n / 7_190,
            n, 0, 2.0, 1.5 + n, 0.003 + n / 300,
            60, 60 - 9 * (n == 5) - 40 * (n == 6), 20.0 * n + 4, 1_500.0 + n, 4_096, "ready",
        )
        for n in range(8)
    ] + [("iad1", "idle", "threshold", None, None, 60.0, 0, 0, 0, None, 0, 0, 0.0, None, 0.0, 0, 0,
          None, None, 0, "loading")]  # fmt: skip


def master_load():
    return [
        ("iad1", 4, 3, 4, 4, 1.25, 3.5, 28_000, 90, 1, 0),
        ("iad2", 3, 3, 2, 2, 0.25, 0.5, 21_000, 0, 0, 2),
        ("iad3", 0, 0, 0, 0, 0.0, 0.0, 0, 0, 1, 0),
    ]


def moved():
    return [
        ("iad2", START + timedelta(minutes=n), 12.5 + n, "processor", f"comfort{n}", "iad2",
         f"iad{1 + 2 * n}", "settled" if n < 2 else "aborted", "drain", None if n == 2 else
         8.0 + n, 740.0)
        for n in range(3)
    ]  # fmt: skip


def move_effects():
    def side(ms, way_ms):
        return (60, 10.0, ms, ms * 1.5, 0.01, way_ms)

    return [
        ("iad2", f"comfort{n}", 12.5 + n, START + timedelta(minutes=n), f"iad{1 + 2 * n}", "plan",
         8.0 + n, *((90.0, 100.0) if n else (None, None)), *side(80.0 + 30 * n, 5.0),
         *(side(40.0 + 40 * n, 0.5) if n < 3 else (0, None, None, None, None, None)))
        for n in range(4)
    ]  # fmt: skip


def climate_hours(rooms: int = 32, hours: int = 60):
    rows = []
    for room in range(rooms):
        for hour in range(hours):
            for channel, middle, swing in (("temperature", 21.0, 2.5), ("humidity", 45.0, 8.0)):
                mean = middle + room % 7 / 3 + swing * math.sin((hour + room % 5) / 24 * 6.28)
                if room == 5 and 20 < hour < 30:
                    continue
                rows.append(
                    (
                        f"iad{room // 8 + 1}", f"b1/f{room // 8 + 1}/r{room}", channel,
                        START + timedelta(hours=hour), 3600, 12, mean - 0.4, mean, mean + 0.5,
                    )
                )  # fmt: skip
    return rows


def climate_days(hours):
    days: dict[tuple, list] = {}
    for row in hours:
        days.setdefault((*row[:3], row[3].date()), []).append(row)
    return [
        (
            *key, sum(r[4] for r in rows), sum(r[5] for r in rows), min(r[6] for r in rows),
            sum(r[7] for r in rows) / len(rows), max(r[8] for r in rows),
        )
        for key, rows in days.items()
    ]  # fmt: skip


def sensor_health(rooms: int = 32):
    rows = []
    for room in range(rooms):
        for channel in ("temperature", "humidity"):
            verdict, success = "ok", 0.998 - room / 1e4
            if room == 19:
                verdict, success = "broken", 0.31
            if room == 7 and channel == "humidity":
                verdict, success = "drift", 0.991
            rows.append(
                (
                    f"iad{room // 8 + 1}", f"pi{room}", "dht22", channel,
                    f"b1/f{room // 8 + 1}/r{room}", START, START + timedelta(hours=60), 1.0,
                    215_000, 216_000, success, 2, 1000.0, 720.0, 12, 1, 3, 0, 0.0,
                    7.5 if verdict == "drift" else 0.2, 0.1, verdict == "drift", verdict,
                )
            )  # fmt: skip
    return rows


def worst_sensors(health):
    rows = []
    for row in health:
        if row[-1] == "ok":
            continue
        for n in range(180):
            if 60 < n < 90 and row[-1] == "broken":
                continue
            mean = 21 + 2 * math.sin(n / 20)
            at = START + timedelta(minutes=20 * n)
            rows.append((*row[:4], at, 1200, 40, mean - 1, mean, mean + 1))
    return rows


def contents(iads: int = 4):
    last = START + timedelta(hours=60)
    return [
        (
            f"iad{n + 1}", 8, START, last, 1_234 * (n + 1), 4_321, 34_567, 17, 1_728_000,
            9, int(n == 2), 0, 4 * (n == 2), 2_400 * (n == 2), 3 * (n == 3),
        )
        for n in range(iads)
    ]  # fmt: skip


def pulled():
    error = "connection refused; is the host up?"
    return [
        ("iad3", "iad3/n4", 9, 1, START, "unreachable", error, 123_456, 0, 4, 2_400),
        ("iad3", "iad3/n5", 9, 0, START, "done", "", 123_456, 0, 0, 0),
    ]


def client():
    return [
        (
            policy,
            name,
            slo,
            400,
            slo / 4,
            slo * 0.8,
            slo * 0.95,
            kept,
            3,
            6,
            1,
            398,
            kept,
            slo / 4.2,
            slo * 0.93,
        )
        for policy, kept in (("edfq", 0.985), ("fifo", 0.8))
        for name, slo in (("live", 400.0), ("dashboard", 900.0))
    ]


def sample(*, hostile: bool = False) -> dict[str, list[tuple]]:
    """Rows of every table, by its name."""
    health = sensor_health()
    hours = climate_hours()
    rows = {
        "attainment": attainment((*HOSTILE,)) if hostile else attainment(),
        "time_spent": time_spent(),
        "node_hours": node_hours(),
        "load_curve": load_curve(),
        "processed": processed(),
        "master_load": master_load(),
        "moved": moved(),
        "move_effects": move_effects(),
        "climate_hours": hours,
        "climate_days": climate_days(hours),
        "sensor_health": health,
        "contents": contents(),
        "pulled": pulled(),
        "quarantined": [("iad4", "not JSON", 3, '{"record":')],
        "client": client(),
        "worst_sensors": worst_sensors(health),
    }
    if hostile:
        rows = {
            name: [_spoilt(row, n) for n, row in enumerate(all_)] for name, all_ in rows.items()
        }
    return rows


def _spoilt(row: tuple, n: int) -> tuple:
    """The row with hostile texts in place of its names; rows stay apart by their number."""
    return tuple(
        f"{HOSTILE[(n + k) % len(HOSTILE)]} {value}"
        if isinstance(value, str) and value not in ("temperature", "humidity", "ok")
        else value
        for k, value in enumerate(row)
    )


ARROW = {
    "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(),
    "boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


def write_sample(
    spark: SparkSession, folder: Path, rows: dict[str, list[tuple]]
) -> dict[Table, int]:
    """Write tables, page and pictures to `folder`; the tables without Spark, which takes longer."""
    (folder / DATA).mkdir()
    written = {}
    for table in TABLES:
        schema = pa.schema([(c.name, ARROW[c.type], c.nullable) for c in table.columns])
        named = [dict(zip(table.names, row, strict=True)) for row in rows.get(table.name, [])]
        path = folder / DATA / f"{table.name}.parquet"
        pq.write_table(pa.Table.from_pylist(named, schema), path)
        written[table] = write_csv(path)
    made = Made(
        "0.1.0", "fleet report --lake 'var/demo/lake'", "2026-11-23 10:00",
        "the beginning", "the end", tuple(written.items()),
    )  # fmt: skip
    with threads() as executor:
        compose(Shown(spark, folder), made, executor)
    return written
