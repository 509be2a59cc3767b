"""Rounds of a watch on alerts, one rule at a time: what makes one, and what it tells."""

import math

import pytest
from msgspec.structs import replace

from agent.runtime.state_machine import InvalidTransition
from agent.scheduling.watches.alerts import AHEAD_S, HISTORY_S, SAVE_EVERY
from agent.scheduling.watches.events import (
    AskInbox,
    AskRound,
    ForgetWatch,
    Gathered,
    InboxSaid,
    SaveAlerts,
    SavedAlerts,
    SaveWatch,
)
from agent.scheduling.watches.rounds import MAX_AHEAD
from agent.wire.principals import Sender
from agent.wire.push import AcknowledgeNotifications, Gap, Lost, Subscribed, Unsubscribe
from agent.wire.watches import MAX_ALERTS, Round, Watching
from tests.scheduling.watch_alert_rig import KEY, ON, SUBSCRIBE, AlertRig, alert, numbers
from tests.scheduling.watch_rig import T0, watch


def test_a_filter_that_nobody_may_fulfil_is_told_until_an_alert_comes():
    rig = AlertRig(opened=False)
    rig.watch(rig.watched)
    rig.say(Subscribed("s1", "open", 0, 60_000.0, "nobody covers b9"))
    assert (rig.sent[-1].state, rig.sent[-1].message) == ("open", "nobody covers b9")
    rig.alerts()
    assert rig.watch(rig.watched).message == ""


def test_an_alert_makes_a_round_at_once_which_is_on_disk_before_it_is_acknowledged():
    rig = AlertRig()
    rig.until(4.0)
    done = rig.alerts(date_s=3.99)
    assert [type(each) for each in done] == [AskRound, SaveAlerts, AskInbox]
    # [start, end): the reading of that very millisecond is in it.
    assert rig.windows == [(991, 3991)]
    made = Gathered(1, round((T0 + 3.99) * 1e3), (alert(1, 3.99),))
    saved = SavedAlerts("s1", 1, 1, round((T0 + 4) * 1e3), (made,))
    assert done[1:] == [
        SaveAlerts(KEY, saved, at_once=True),
        AskInbox(KEY, AcknowledgeNotifications("s1", 1)),
    ]
    rig.answer()
    [told] = [m for m in rig.sent if isinstance(m, Round)]
    assert (told.number, told.previous, told.alert_count) == (1, 0, 1)
    assert told.alerts == (alert(1, 3.99),)
    assert told.end_ms == round((T0 + 3.99) * 1e3) + 1
    assert told.fired == ()


def test_it_is_open_when_its_inbox_is():
    rig = AlertRig(opened=False)
    assert rig.watch(rig.watched) is None
    assert [type(each) for each in rig.all] == [SaveWatch, SaveAlerts, AskInbox]
    assert rig.all[-1] == SUBSCRIBE
    assert rig.all[1] == SaveAlerts(KEY, SavedAlerts("s1"), at_once=True)
    rig.watch(rig.watched)
    assert rig.sent == []
    rig.say(Subscribed("s1", "open", 0, 60_000.0))
    assert rig.sent == [Watching("w", "open", 1)]


def test_alerts_that_come_sooner_make_one_round_that_ends_with_the_latest():
    rig = AlertRig()
    rig.alerts()
    rig.until(2.0)
    rig.alerts(date_s=1.8)
    rig.alerts(date_s=1.9)
    rig.alerts(date_s=1.7)
    rig.until(9.999)
    assert rig.windows == [(-2999, 1)]
    rig.until(10.0)
    assert rig.windows[1:] == [(-1099, 1901)]
    rig.answer()
    rig.answer()
    rounds = [m for m in rig.sent if isinstance(m, Round)]
    assert [numbers(each) for each in rounds] == [[1], [2, 3, 4]]
    assert [each.alert_count for each in rounds] == [1, 3]
    # Nothing came: nothing is asked.
    rig.until(100.0)
    assert not rig.asked
    rig.alerts()
    assert len(rig.asked) == 1


def test_of_many_alerts_the_latest_come_and_all_are_counted():
    rig = AlertRig()
    rig.alerts()
    rig.answer()
    rig.alerts(2 * SAVE_EVERY + 5)
    # What is gathered is kept here, so that the inbox need not.
    saves = [each.saved for each in rig.of(SaveAlerts)][2:]
    assert [each.position for each in saves] == [1 + SAVE_EVERY, 1 + 2 * SAVE_EVERY]
    assert saves[-1].gathered.count == 2 * SAVE_EVERY
    assert len(saves[-1].gathered.alerts) == MAX_ALERTS
    acknowledged = [
        each.message.position
        for each in rig.of(AskInbox)
        if isinstance(each.message, AcknowledgeNotifications)
    ]
    assert acknowledged == [1, 1 + SAVE_EVERY, 1 + 2 * SAVE_EVERY]
    rig.until(10.0)
    rig.answer()
    last = 1 + 2 * SAVE_EVERY + 5
    assert rig.sent[-1].alert_count == last - 1
    assert numbers(rig.sent[-1]) == list(range(last - MAX_ALERTS + 1, last + 1))


@pytest.mark.parametrize(
    ("date_s", "end_s"),
    [
        (50.0 + AHEAD_S, 50.0 + AHEAD_S),
        (50.0 + AHEAD_S + 0.1, 50.0),
        (50.0 - HISTORY_S + 1.0, 51.0 - HISTORY_S),
        (50.0 - HISTORY_S - 1.0, 50.0),
        (-T0, 50.0),
    ],
)
def test_an_alert_of_a_clock_that_cannot_be_right_counts_as_of_when_it_came(date_s, end_s):
    rig = AlertRig()
    rig.until(50.0)
    rig.alerts(date_s=date_s)
    assert rig.windows == [(round(end_s * 1e3) - 2999, round(end_s * 1e3) + 1)]


def test_without_a_window_it_is_the_interval():
    rig = AlertRig(window_s=None)
    rig.alerts(date_s=0.0)
    assert rig.windows == [(-9_999, 1)]


def test_a_client_that_does_not_acknowledge_makes_it_pause_and_gets_the_rest_in_one():
    rig = AlertRig()
    for number in range(MAX_AHEAD + 3):
        rig.until(10.0 * number)
        rig.alerts()
    assert len(rig.asked) == MAX_AHEAD
    for _ in range(MAX_AHEAD):
        rig.answer()
    assert rig.rounds == list(range(1, MAX_AHEAD + 1))
    rig.acknowledge(2)
    [ask] = rig.asked
    assert ask.query.id == "w.9"
    rig.answer()
    assert rig.sent[-1].alert_count == 3


def test_what_there_was_no_room_for_is_told_in_words():
    rig = AlertRig()
    rig.say(Gap("s1", 1, 12))
    word = "12 alerts were given up on the way, perhaps some of these"
    assert rig.sent[-1] == Watching("w", "open", 1, word)
    rig.say(Gap("s1", 13, 13, Lost("iad2", "h", 4, 40, 30)))
    assert rig.sent[-1].message.startswith("42 alerts were given up")
    rig.position = 13
    rig.alerts()
    rig.answer()
    assert rig.rounds == [1]
    assert rig.watch(replace(rig.watched, after=0)).message.startswith("42 alerts")


def test_of_one_alert_the_words_are_right():
    rig = AlertRig()
    rig.say(Gap("s1", 1, 1))
    assert rig.sent[-1].message.startswith("1 alert was given up")


def test_what_its_inbox_refuses_at_first_it_refuses():
    rig = AlertRig(opened=False)
    rig.watch(rig.watched)
    rig.say(Subscribed("s1", "refused", message="10000 subscriptions are open here"))
    assert rig.sent == [
        Watching("w", "refused", 1, "no alerts come: 10000 subscriptions are open here")
    ]
    assert rig.all[-3:-1] == [AskInbox(KEY, Unsubscribe("s1")), ForgetWatch(KEY)]
    assert rig.scheduler.open_watches == 0
    rig.all.clear()
    rig.watch(rig.watched)
    assert rig.all[-1].message.id == "s2"
    rig.do(InboxSaid(KEY, None))
    assert rig.sent[-1].message == "no alerts come: this master's disk takes nothing now"


def test_refused_for_now_the_round_is_asked_again_and_the_next_gathers():
    rig = AlertRig(interval_s=0.1)
    rig.alerts()
    rig.answer(reason="over_rate")
    rig.until(0.2)
    rig.alerts()
    assert not rig.asked
    rig.until(0.25)
    assert [a.query.id for a in rig.asked] == ["w.1"]


def test_who_may_not_subscribe_may_not_watch_alerts():
    rig = AlertRig(opened=False)
    rig.services["climate"] = ""
    some = Sender("client", "carol", ("climate",))
    reply = rig.watch(watch("event", on=ON, service="climate"), some)
    assert reply.state == "refused"
    assert "carol may only query climate; who subscribes needs the service default" in reply.message


@pytest.mark.parametrize(
    ("on", "why"),
    [
        ("value > hot", "on: at character 9: expected a number"),
        ("value > 3 and value < 2", "on: at character 11: "),
    ],
)
def test_what_is_no_filter_is_refused_in_a_line(on, why):
    reply = AlertRig(opened=False, on=on)
    told = reply.watch(reply.watched)
    assert told.state == "refused"
    assert told.message.startswith(why)


@pytest.mark.parametrize(
    ("style", "fields"),
    [("event", {"on": ON, "trigger": "hot"}), ("periodic", {"on": ON}), ("event", {})],
)
def test_on_and_trigger_do_not_go_together(style, fields):
    with pytest.raises(ValueError, match="belongs to style event, which needs one of them"):
        watch(style, **fields)


def test_it_may_last_less_than_an_interval():
    assert watch("event", on=ON, lasting_s=0.5).lasting_s == 0.5


def test_an_arrow_that_the_table_lacks_raises():
    rig = AlertRig()
    alerts = next(iter(rig.scheduler._watches)).alerts
    with pytest.raises(InvalidTransition, match=r"open → new is not allowed for <alerts s1 open"):
        alerts.become("new")
    assert alerts.next_tick(0.0, attached=True) == math.inf
