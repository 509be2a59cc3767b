"""What is raised now agrees with the log of alerts: nothing that it cleared comes back, and the
words of a trigger are of the same time as its value."""

import asyncio
import math

import pytest

from agent.gateway.feed import raised_table
from agent.gateway.feed.alert_log import AlertLog
from agent.gateway.feed.hub import Hub
from agent.gateway.feed.raised import OVERLAP_MS, asked_raised, raised_now
from agent.gateway.feed.raised_table import Cleared
from agent.gateway.feed.rooms import Rooms
from agent.wire.about import About, Raised
from agent.wire.messages import Answer, AreaResult, Coverage, Slo
from tests.gateway.conftest import Reader, ask
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.samples import notification

HEARD_MS = 10_000
AREA = "b1/f1/r002"
TEXT = "temperature > 30: temperature 31.5 celsius"


@pytest.fixture
def fleet():
    made = FakeFleet(3)
    made.every_s = math.inf
    made.raised[AREA] = (Raised("hot", 1_000, TEXT),)
    return made


def test_what_the_log_cleared_does_not_come_back_and_words_are_of_their_time(tmp_path, fleet):
    """The master is asked now and then only."""
    fleet.raise_alert(AREA, at_ms=1_000)
    with FakeGateway(tmp_path, fleet) as made, Reader(made, made.token("viewer")) as events:
        told = events.until("snapshot", lambda told: told["source"]["state"] == "up").data["raised"]
        # The master may answer before the alert is here, or after it.
        while [each["value"] and each["text"] for each in told] != [TEXT]:
            told = events.until("raised").data["raised"]
        [raised] = told
        assert (raised["text"], raised["value"], raised["since_ms"]) == (TEXT, 31.5, 1_000)
        fleet.raise_alert(AREA, kind="cleared", at_ms=2_000)
        events.until("raised", lambda told: told["raised"] == [])
        token = made.token("viewer", "program")
        assert ask(made, "/api/v1/alerts/raised", token=token).json["raised"] == []
        fleet.raise_alert(AREA, at_ms=3_000, value=40.0)
        [raised] = events.until("raised").data["raised"]
        assert (raised["text"], raised["value"], raised["since_ms"]) == ("", 40.0, 3_000)


def test_a_stream_is_told_what_the_master_adds_without_an_alert(tmp_path, fleet, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.watching.ABOUT_EVERY_S", 0.01)
    fleet.raised.clear()
    with FakeGateway(tmp_path, fleet) as made, Reader(made, made.token("viewer")) as events:
        events.until("snapshot", lambda told: told["source"]["state"] == "up")
        fleet.raised[AREA] = (Raised("hot", 1_000, TEXT),)
        [raised] = events.until("raised", lambda told: told["raised"]).data["raised"]
        assert (raised["trigger"], raised["text"]) == ("hot", TEXT)


def test_the_words_of_a_new_alert_come_soon(tmp_path, fleet, monkeypatch):
    """Long before the master is asked of all areas again."""
    monkeypatch.setattr("agent.gateway.feed.watching.ABOUT_EVERY_S", math.inf)
    fleet.raised.clear()
    with FakeGateway(tmp_path, fleet) as made, Reader(made, made.token("viewer")) as events:
        events.until("snapshot", lambda told: told["source"]["state"] == "up")
        fleet.raised[AREA] = (Raised("hot", 1_000, TEXT),)
        fleet.raise_alert(AREA, at_ms=1_000)
        [raised] = events.until("raised", lambda told: told["raised"][0]["text"]).data["raised"]
        assert (raised["text"], raised["value"]) == (TEXT, 31.5)


@pytest.fixture
def log(tmp_path):
    made = AlertLog(tmp_path / "alerts.sqlite", print, now_ms=lambda: HEARD_MS)
    yield made
    made.close()


def told(*raised, area="b1/r1", asked_ms=HEARD_MS):
    about = AreaResult(area, about=About((), tuple(Raised("hot", at, f"at {at}") for at in raised)))
    return asked_raised(Answer("q", "complete", 1.0, True, Coverage(1, 1), (about,)), asked_ms)


def shown(log, asked):
    return [(each.area, each.since_ms, each.text) for each in raised_now(log.triggers, asked)]


def test_the_log_and_the_master_together(log):
    assert shown(log, None) == []
    assert shown(log, told(5)) == [("b1/r1", 5, "at 5")], "raised before the log began"
    log.append(notification(1, at_ms=5))
    assert shown(log, told(5)) == [("b1/r1", 5, "at 5")]
    assert shown(log, told(3, 5)) == [("b1/r1", 5, "at 5")], "of several nodes"
    assert shown(log, told(3)) == [("b1/r1", 5, "")], "the master was asked before"
    later_ms = HEARD_MS + OVERLAP_MS + 1
    assert shown(log, told(asked_ms=later_ms)) == [], "its end was lost"
    assert shown(log, told(8, asked_ms=later_ms)) == [("b1/r1", 8, "at 8")], "and a beginning"
    log.append(notification(2, kind="cleared", at_ms=7))
    assert shown(log, told(5)) == []
    assert shown(log, told(8)) == [("b1/r1", 8, "at 8")], "raised again, which comes later"
    assert shown(log, told(5, asked_ms=later_ms)) == [("b1/r1", 5, "at 5")], "by another node"


@pytest.mark.parametrize("above", ["", "b1", "b1/r1"])
def test_a_trigger_of_an_area_above_is_cleared_below_it(log, above):
    log.append(notification(1, kind="cleared", area=above, at_ms=7))
    assert shown(log, told(5)) == []
    assert shown(log, told(5, area="b10")) == ([] if not above else [("b10", 5, "at 5")])


def test_of_ends_without_end_the_newest_are_known(log, monkeypatch):
    monkeypatch.setattr(raised_table, "MAX_RAISED", 2)
    for number in range(3):
        log.append(notification(number, kind="cleared", area=f"b1/r{number}", at_ms=7))
    known = [log.triggers.cleared("hot", f"b1/r{number}") for number in range(3)]
    assert known == [None, Cleared(7, HEARD_MS), Cleared(7, HEARD_MS)]


def about_areas(raised):
    """What a master tells of areas, each with so many raised triggers."""
    results = [
        AreaResult(area, about=About((), tuple(Raised(f"t{n}", n, "") for n in range(count))))
        for area, count in raised.items()
    ]
    return Answer("q", "complete", 1.0, True, Coverage(1, 1), tuple(results))


def test_what_the_master_tells_is_bounded_in_equal_shares(log, monkeypatch):
    """Another IAD may name 65,536 areas, each with 64 triggers, and the list is made anew with each
    alert."""
    monkeypatch.setattr("agent.gateway.feed.raised.MAX_RAISED", 40)
    liars = {f"b9/f{n}/r1": 5 for n in range(100)}
    asked = asked_raised(
        about_areas({"b1/r1": 3, **liars, "b1/r2": 2, "b8": 70, "b8/r1": 1}), 1_000
    )
    found = [each.area for each in raised_now(log.triggers, asked)]
    assert len(found) == 40
    assert (found.count("b1/r1"), found.count("b1/r2"), found.count("b8/r1")) == (3, 2, 1)
    assert found.count("b8") == 16, "half of what the small ones left, less its room's"
    assert asked.areas == {"b1/r1", "b1/r2", "b8/r1"}, "of the others not all is known"


def test_an_area_has_so_many_of_what_the_master_tells(log):
    asked = asked_raised(about_areas({"b1/r1": 70, "b1/r2": 1}), 1_000)
    found = [each.trigger for each in raised_now(log.triggers, asked) if each.area == "b1/r1"]
    assert found == [f"t{n}" for n in range(6, 70)], "the newest"
    assert asked.areas == {"b1/r2"}


def test_an_alert_is_shown_after_the_clock_was_set_back_since_the_master_was_asked(tmp_path):
    now_ms = [HEARD_MS + 10_800_000]
    log = AlertLog(tmp_path / "alerts.sqlite", print, now_ms=lambda: now_ms[0])
    hub = Hub(Rooms(), log, every_s=5.0, slo=Slo(99.0, 1_000.0), now_ms=lambda: now_ms[0])

    async def set_back():
        about = AreaResult(AREA, about=About(()))
        hub.learned(Answer("q", "complete", 1.0, True, Coverage(1, 1), (about,)))
        now_ms[0] = HEARD_MS
        hub._tick()
        log.append(notification(area=AREA, at_ms=HEARD_MS), None, 1)
        raised = [each.area for each in hub.raised()]
        hub.close()
        return raised

    assert asyncio.run(set_back()) == [AREA]
    log.close()
