"""Health of random channels against a plain loop over their readings."""

import itertools
import random
import statistics

import pytest

from fleet.report.jobs.health import sensor_health
from sensors.quality.channel import FLAT_GAP
from sensors.quality.flags import FLATLINE, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import DEFAULTS
from tests.fleet.spark_jobs.readings import NAN, nodes, reading, readings

LIMITS = DEFAULTS["humidity", "percent"]
CHANNELS = 60
FLAGS = (NO_RESPONSE, OUT_OF_RANGE, SPIKE, FLATLINE)


def _channel(dice):
    """(seconds, value, flags) of some days: long runs, jumps, holes, and steps of all lengths."""
    usual = dice.choice((600, 1200, 1800))
    rows, at, value = [], dice.randrange(86_400), 50.0
    stays = dice.choice((0.5, 0.9, 0.99))
    for _ in range(dice.randrange(1, 500)):
        if dice.random() > stays:
            value = dice.choice((50.0, 51.0, 55.0, 75.0, 100.0))
        seen = dice.choice((NAN, 1.0, 150.0)) if dice.random() < 0.03 else value
        rows.append((at, seen, dice.choice(FLAGS) if dice.random() < 0.02 else 0))
        at += usual if dice.random() < 0.97 else dice.choice((60, 2160, 2161, 7200, 100_000))
    return rows


def _usable(value, flags):
    return LIMITS.low <= value <= LIMITS.high and not flags & (NO_RESPONSE | OUT_OF_RANGE)


def _is_missing(value, flags):
    return value != value or bool(flags & NO_RESPONSE)


def _is_spike(day, i):
    at, value, flags = day[i]
    if flags & SPIKE:
        return True
    beside = [day[j] for j in (i - 2, i - 1, i + 1, i + 2) if 0 <= j < len(day)]
    beside = [row for row in beside if _usable(*row[1:])]
    near = sum(
        abs(value - v) <= LIMITS.max_step + LIMITS.max_rate_per_s * abs(at - t)
        for t, v, _ in beside
    )
    return len(beside) >= 2 and 2 * near < len(beside)


def _flatlines(rows):
    runs = []
    for at, value, flags in rows:
        if not _usable(value, flags):
            continue
        run = runs[-1] if runs else None
        if run and run["value"] == value and at - run["end"] <= FLAT_GAP * LIMITS.flat_s:
            run["end"], run["told"] = at, flags & FLATLINE
        else:
            runs.append({"value": value, "start": at, "end": at, "told": flags & FLATLINE})
    return [
        run["end"] - run["start"]
        for run in runs
        if run["told"]
        or (run["end"] - run["start"] >= LIMITS.flat_s and LIMITS.low < run["value"] < LIMITS.high)
    ]


def _expected(rows):
    steps = [b[0] - a[0] for a, b in itertools.pairwise(rows)]
    interval = statistics.median(steps) if steps else None
    gaps = [step for step in steps if step > 3 * interval]
    days = {}
    for row in rows:
        days.setdefault(row[0] // 86_400, []).append(row)
    spikes = sum(
        _usable(*day[i][1:]) and _is_spike(day, i) for day in days.values() for i in range(len(day))
    )
    missing = sum(_is_missing(*row[1:]) for row in rows)
    flat = _flatlines(rows)
    return {
        "interval_s": interval,
        "readings": len(rows),
        "gaps": len(gaps),
        "gap_s": sum(gaps),
        "longest_gap_s": max(gaps, default=0),
        "missing": missing,
        "out_of_range": sum(not _usable(*row[1:]) for row in rows) - missing,
        "spikes": spikes,
        "flatlines": len(flat),
        "flatline_s": sum(flat),
    }


@pytest.mark.long
def test_random_channels(spark):
    dice = random.Random(11)
    made = {f"n{number}": _channel(dice) for number in range(CHANNELS)}
    rows = [reading(*row, node=node, channel="humidity") for node, of in made.items() for row in of]
    dice.shuffle(rows)
    found = sensor_health(readings(spark, rows), nodes(spark, [{"n0": ["b1"]}])).collect()
    assert len(found) == CHANNELS
    told = {row.node: row.asDict() for row in found}
    expected = {node: _expected(of) for node, of in made.items()}
    assert {
        node: {name: told[node][name] for name in of} for node, of in expected.items()
    } == expected
    # It would say nothing if nothing happened.
    for name in ("gaps", "missing", "out_of_range", "spikes", "flatlines"):
        assert sum(of[name] > 0 for of in expected.values()) > 10
