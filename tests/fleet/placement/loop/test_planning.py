"""Plans by day and by night: how many masters, where everything should live, what that gains."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from rich.console import Console

from agent.placement.world import PlacementError
from agent.wire.placement import Listeners
from fleet.placement import plans
from fleet.placement.loop import planning, screen
from fleet.placement.loop.command import _written
from fleet.placement.loop.planning import Period, outlooks, periods
from tests.fleet.placement.loop.worlds import NOW, arrivals, learned, recorded, service

DAY, NIGHT = periods(7, 19, NOW)


def lines(found, file=None):
    to = io.StringIO()
    screen.show(Console(file=to, width=120, highlight=False), found, file)
    return [line.rstrip() for line in to.getvalue().splitlines()]


def test_day_and_night_are_hours_of_this_clock():
    zone = timezone(timedelta(hours=2))
    day, night = periods(7, 19, datetime(2026, 11, 20, 8, tzinfo=zone))
    assert day.hours == frozenset(range(5, 17))
    assert night.hours == frozenset(range(24)) - day.hours
    late, _ = periods(22, 6, datetime(2026, 11, 20, 8, tzinfo=UTC))
    assert late.hours == {22, 23, 0, 1, 2, 3, 4, 5}


def test_by_day_it_lives_at_one_master_and_by_night_at_another():
    rates = [
        arrivals(hour=9, per_s=2.0), arrivals(hour=15, per_s=10.0),
        arrivals(source="iad2", hour=2, per_s=20.0),
    ]  # fmt: skip
    heard = (Listeners("comfort", 1),)
    masters = [recorded("iad1", ["comfort"], listeners=heard), *map(recorded, ("iad2", "iad3"))]
    night_shift = learned(rates, masters=masters)
    day, night = outlooks(night_shift, (DAY, NIGHT))
    # One subscriber at iad1; by night 20 messages a second come from iad2 to there and no way
    # round is shorter, so it is as cheap at both.
    assert (day.per_s, day.needed, day.plan.moves) == (10.0, 1, ())
    assert day.plan.cost == pytest.approx((0.0, 0.0), abs=0.001)  # it waits a little
    assert (night.per_s, night.plan.moves) == (20.0, ())
    assert night.plan.cost == pytest.approx((0.2, 0.2), abs=0.001)
    # With a subscriber at iad2, too, it is cheaper there.
    masters[1] = recorded("iad2", listeners=(Listeners("comfort", 2),))
    day, night = outlooks(learned(rates, masters=masters), (DAY, NIGHT))
    assert [(move.source, move.target) for move in night.plan.moves] == [("iad1", "iad2")]
    assert night.plan.cost[1] < night.plan.cost[0]
    (expected,) = night.expected
    assert (expected.today, expected.planned) == ("iad1", "iad2")
    assert expected.slo_ms == 100.0
    assert 0.0 < expected.planned_ms < 100.0
    assert not expected.misses(expected.planned_ms)
    shown = lines(night, Path("p-night.json"))
    assert shown[0] == "night: 1 topic, 20 messages/s, 3 masters"
    assert shown[2].split()[:5] == ["comfort", "p90", "≤", "100", "ms"]
    assert shown[3].startswith("masters in use 1 → 1, the objectives need 1; delay ")
    assert shown[3].endswith("topics over their objectives 0 → 0")
    assert shown[4] == "the plan is in p-night.json: fleet placement apply p-night.json"


def test_the_plan_of_a_period_is_a_file_that_apply_reads(tmp_path):
    rates = [arrivals(source="iad2", hour=2, per_s=20.0)]
    (night,) = outlooks(learned(rates), (NIGHT,))
    path = _written(night, tmp_path / "plan.json", several=False)
    assert path == tmp_path / "plan-night.json"
    assert plans.read(path).moves == night.plan.moves
    assert _written(night, tmp_path / "plan.json", several=True).name == "plan-iad1-night.json"


def test_hours_without_records_are_not_planned():
    (day, night) = outlooks(learned([arrivals(hour=9)]), (DAY, NIGHT))
    assert day.plan is not None
    assert (night.plan, night.trouble) == (None, "no record is of these hours")
    assert lines(night)[1] == "no record is of these hours"


def test_more_masters_are_needed_than_objectives_leave_to_one():
    four = ("comfort", "calm", "wind", "rain")
    services = [service(each, cpu_ms=33.0) for each in four]
    masters = [recorded("iad1", four), recorded("iad2"), recorded("iad3")]

    def by_day(per_s):
        rates = [arrivals(each, hour=9, per_s=per_s) for each in four]
        return outlooks(learned(rates, services, masters), (DAY,))[0]

    day = by_day(14.0)
    assert day.needed in (2, 3)
    assert day.plan.masters[0] == 1
    assert day.plan.masters[1] >= day.needed  # more where waiting costs more than they do
    assert day.plan.cost[0] is None
    assert sum(each.misses(each.today_ms) for each in day.expected) > 0
    assert sum(each.misses(each.planned_ms) for each in day.expected) == 0
    much = by_day(27.0)
    assert much.needed is None
    assert much.trouble.startswith("the processors need 4 masters")
    assert lines(much)[1] == much.trouble


def test_a_master_that_went_is_left_out():
    masters = [recorded("iad1", ["comfort"]), recorded("iad2"), recorded("iad3", age_s=3_600.0)]
    (found,) = outlooks(learned(masters=masters), (Period("all", frozenset(range(24))),))
    assert found.masters == ("iad1", "iad2")


def test_facts_that_make_no_world_are_one_line(monkeypatch):
    def refuse(*_):
        raise PlacementError("iad1 has two masters")

    monkeypatch.setattr(planning, "View", refuse)
    day, night = outlooks(learned(), (Period("day", frozenset(range(24))), NIGHT))
    assert (day.plan, day.topics, day.trouble) == (None, 1, "iad1 has two masters")
    assert night.trouble == "no record is of these hours"
    assert any("iad1 has two masters" in line for line in lines(day))
