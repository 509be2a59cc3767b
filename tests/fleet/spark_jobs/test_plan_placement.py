"""`fleet plan --placement`: from the records in a lake to the plans of the day and of the night."""

import pytest

from _core.colocation.model_file import decode
from fleet.cli.commands import run as fleet
from fleet.common import exits
from fleet.lake.schema.folder import Lake
from fleet.placement import plans
from fleet.placement.loop.learned import model_file
from tests.fleet.spark import shared
from tests.fleet.spark_jobs import landings

BEGAN_MS = 1_795_000_000_000
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
# A model takes ten runs, and the first interval of a stay is none.
MINUTES = 12


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """The command with a lake; its exit status and what it printed."""
    shared.lend(monkeypatch)

    def run(lake, *more):
        words = ["plan", "--placement", "--lake", lake.root, "--file", tmp_path / "plan.json"]
        status = fleet([*map(str, words), *more])
        return status, capsys.readouterr()

    return run


@pytest.fixture
def lake(tmp_path):
    """Four times a day apart by six hours, so two of the day and two of the night, wherever: all
    messages of `comfort` come from iad2, where its subscribers are, and it lives at iad1."""
    found = Lake(tmp_path / "lake")
    far = [{"topic": "comfort", "source": "iad2", "peer": "", "per_s": 20.0}]
    here, there = ([{"iad": iad, "p50_ms": 30.0, "p90_ms": 60.0}] for iad in ("iad2", "iad1"))
    heard = [{"topic": "comfort", "count": 5}]
    for n in range(4):
        at = {"wall_ms": BEGAN_MS + 6 * n * HOUR_MS, "start_s": 60.0 + 6 * n * 3_600.0}
        first = landings.placement("iad1", arrivals=far, delays=here, listeners=[], **at)
        second = landings.placement(
            "iad2", arrivals=[], delays=there, listeners=heard, topics=[], **at
        )
        for record in (first, second):
            landings.write_lines(found, f"placement-{n}.jsonl", [record], record["iad"])
    return found


def processed(minute):
    latency_ms = 24.0 + minute % 3
    return landings.processing(
        "iad1",
        wall_ms=BEGAN_MS + minute * MINUTE_MS,
        start_s=60.0 * (minute + 1),
        together=[],
        latency_p90_ms=latency_ms,
        achieved_ms=latency_ms,
    )


def test_the_command_plans_day_and_night_of_a_lake(plan, lake, tmp_path):
    records = [processed(minute) for minute in range(MINUTES)]
    landings.write_lines(lake, "processing.jsonl", records, "iad1")
    status, printed = plan(lake)
    assert status == exits.DONE
    for period in ("day", "night"):
        file = tmp_path / f"plan-{period}.json"
        assert f"{period}: 1 topic, 20 messages/s, 2 masters" in printed.out
        assert f"fleet placement apply {file}" in " ".join(printed.out.split())
        (move,) = plans.read(file).moves  # as `fleet placement apply` reads it
        assert (move.unit.name, move.source, move.target) == ("comfort", "iad1", "iad2")
    # What it has trained is kept for `fleet placement follow`.
    kept, _ = decode(model_file(lake).read_bytes())
    assert len(records) - 1 == kept.runs


def test_it_plans_with_too_few_records_for_a_model_and_writes_nothing_when_dry(
    plan, lake, tmp_path
):
    status, printed = plan(lake, "--dry")
    assert status == exits.DONE
    assert "day: 1 topic" in printed.out
    assert not model_file(lake).exists()
    assert list(tmp_path.glob("plan*")) == []


def test_nothing_is_planned_where_no_masters_have_told_each_other(plan, tmp_path):
    alone = Lake(tmp_path / "alone")
    landings.write_lines(alone, "alone.jsonl", [landings.processing("iad1")], "iad1")
    status, printed = plan(alone)
    assert status == exits.NOTHING
    assert "no two masters have told each other" in printed.err
    assert list(tmp_path.glob("plan*")) == []
