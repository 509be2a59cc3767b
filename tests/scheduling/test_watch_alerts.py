"""Watches on alerts, one rule at a time."""

import math

import pytest
from msgspec.structs import replace

from agent.runtime.state_machine import InvalidTransition
from agent.scheduling.watches.alerts import AHEAD_S, HISTORY_S, SAVE_EVERY, SUBSCRIBE_AGAIN_S
from agent.scheduling.watches.events import (
    AskInbox,
    AskRound,
    CancelArrived,
    Cursor,
    ForgetWatch,
    Gathered,
    InboxSaid,
    RoundsDue,
    SaveAlerts,
    SavedAlerts,
    SavedWatch,
    SaveWatch,
    WatchArrived,
)
from agent.scheduling.watches.rounds import MAX_AHEAD, MAX_PAUSE_S
from agent.scheduling.watches.scheduler import EXPIRE_S, LAG_S, SETTLE_S
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from agent.wire.principals import Sender
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.watches import MAX_ALERTS, Cancel, Round, Watching
from tests.scheduling.watch_rig import ALICE, T0, Rig, watch

ON = "value > 1"
NOTHING_YET = Cursor()
KEY = ("alice", "w")
SUBSCRIBE = AskInbox(KEY, Subscribe("s1", read_filter(ON), durable=True))


def alert(number, date_s=0.0):
    """At so many seconds after the start."""
    return Notification(Origin("iad2", "h", number), round((T0 + date_s) * 1e3), {"value": 2.0})


class AlertRig(Rig):
    """A watch on alerts, which is open, and its inbox in the test's hands."""

    def __init__(self, opened=True, **fields):
        super().__init__()
        self.watched = watch("event", **{"on": ON, "interval_s": 10.0, "window_s": 3.0} | fields)
        self.position = 0
        if opened:
            self.watch(self.watched)
            self.say(Subscribed("s1", "open", 0, 60_000.0))

    def watch(self, message, sender=ALICE, peer="link"):
        self.do(WatchArrived(peer, sender, message))
        return self.sent[-1] if self.sent else None

    def say(self, message):
        return self.do(InboxSaid(KEY, message))

    def alerts(self, count=1, date_s=None, id_="s1"):
        """Each is dated now, if not otherwise."""
        for _ in range(count):
            self.position += 1
            dated = alert(self.position, self.now - T0 if date_s is None else date_s)
            done = self.say(Notified(id_, self.position, dated))
        return done

    def of(self, *kinds):
        return [each for each in self.all if isinstance(each, kinds)]

    @property
    def windows(self):
        return [
            (a.query.window.start_ms - T0 * 1000, a.query.window.end_ms - T0 * 1000)
            for a in self.asked
        ]


def test_a_filter_that_nobody_may_fulfil_is_told_until_an_alert_comes():
    rig = AlertRig(opened=False)
    rig.watch(rig.watched)
    rig.say(Subscribed("s1", "open", 0, 60_000.0, "nobody covers b9"))
    assert (rig.sent[-1].state, rig.sent[-1].message) == ("open", "nobody covers b9")
    rig.alerts()
    assert rig.watch(rig.watched).message == ""


def numbers(told):
    return [each.origin.sequence for each in told.alerts]


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


def restored(saved, cursor=NOTHING_YET, **fields):
    rig = AlertRig(opened=False, **fields)
    rig.ids = 1
    known = SavedWatch("alice", round(T0 * 1e3), rig.watched)
    rig.until(20.0)
    rig.scheduler.restore(known, cursor, rig.now, saved)
    rig.until(20.0)
    return rig


def test_after_a_restart_it_subscribes_behind_what_is_on_disk_and_waits_for_client_and_nodes():
    made = Gathered(1, round(T0 * 1e3), (alert(7),))
    rig = restored(SavedAlerts("s1", 9, 1, round(T0 * 1e3), (made,), Gathered(1, 0, (alert(9),))))
    assert rig.all == [AskInbox(KEY, replace(SUBSCRIBE.message, after=9))]
    rig.say(Subscribed("s1", "open", 9, 60_000.0))
    rig.position = 9
    rig.alerts()
    rig.until(21.0)
    assert not rig.asked
    assert rig.watch(replace(rig.watched, after=0)) == Watching("w", "open", 1)
    rig.until(20.0 + SETTLE_S - 0.01)
    assert not rig.asked
    rig.until(20.0 + SETTLE_S)
    assert [a.query.id for a in rig.asked] == ["w.1", "w.2"]
    for _ in range(2):
        rig.answer()
    told = [m for m in rig.sent if isinstance(m, Round)]
    assert [numbers(each) for each in told] == [[7], [9, 10]]


def test_while_its_client_is_gone_alerts_are_gathered():
    rig = restored(SavedAlerts("s1"))
    rig.say(Subscribed("s1", "open", 0, 60_000.0))
    rig.until(60.0)
    rig.alerts(SAVE_EVERY)
    assert rig.of(SaveAlerts)[-1].saved.gathered.count == SAVE_EVERY
    rig.watch(rig.watched)
    assert len(rig.asked) == 1


@pytest.mark.parametrize(
    ("cursor", "kept"), [(Cursor(), [3, 4]), (Cursor(3, 3), [4]), (Cursor(9, 9), [])]
)
def test_of_what_was_saved_the_later_counts(cursor, kept):
    made = tuple([Gathered(1, 0, (alert(n),)) for n in (3, 4)])
    rig = restored(SavedAlerts("s1", 4, 4, 0, made), cursor)
    rig.until(40.0)
    rig.watch(rig.watched)
    assert [a.query.id for a in rig.asked] == [f"w.{n}" for n in kept]


def test_an_inbox_that_knows_it_no_more_is_asked_again_behind_what_is_on_disk():
    rig = AlertRig()
    rig.alerts()
    rig.alerts()  # in memory alone
    rig.all.clear()
    rig.say(Subscribed("s1", "unknown"))
    assert rig.all == [AskInbox(KEY, replace(SUBSCRIBE.message, after=1))]
    rig.say(Subscribed("s1", "open", 1, 60_000.0))
    rig.position = 1
    rig.alerts(2)  # the first of them again
    rig.until(10.0)
    rig.answer()
    rig.answer()
    assert numbers(rig.sent[-1]) == [2, 3]


def test_a_position_that_is_missing_is_asked_for_again():
    rig = AlertRig()
    rig.say(Notified("s1", 2, alert(2)))
    assert rig.all[-1] == SUBSCRIBE
    assert not rig.asked


def test_an_inbox_that_lost_everything_is_subscribed_to_anew_and_the_client_told():
    rig = AlertRig()
    rig.alerts()
    rig.say(Subscribed("s1", "unknown"))
    rig.all.clear()
    rig.say(Subscribed("s1", "refused", message="nothing is kept"))
    word = "alerts may be missing: what was kept of them here was lost"
    assert rig.sent[-1] == Watching("w", "open", 1, word)
    assert [type(each) for each in rig.all[1:]] == [SaveAlerts, AskInbox]
    assert rig.all[1].saved.subscription == "s2"
    assert rig.all[1].at_once
    assert rig.all[2] == AskInbox(KEY, replace(SUBSCRIBE.message, id="s2"))
    rig.say(Subscribed("s2", "open", 0, 60_000.0))
    rig.position = 0
    rig.until(10.0)
    rig.alerts(id_="s1")
    assert len(rig.asked) == 1
    rig.position = 0
    rig.alerts(id_="s2")
    assert len(rig.asked) == 2


def test_a_clock_that_is_set_back_keeps_no_round_waiting():
    rig = AlertRig()
    rig.alerts()
    rig.until(4.0)
    rig.alerts()
    assert len(rig.of(AskRound)) == 1
    rig.now -= 3_600.0
    rig.do(RoundsDue())
    assert len(rig.of(AskRound)) == 2
    # Nor one that is refused for now.
    rig.answer()
    rig.answer(reason="over_rate")
    rig.now -= 3_600.0
    rig.do(RoundsDue())
    assert len(rig.of(AskRound)) == 2
    rig.now += MAX_PAUSE_S
    rig.do(RoundsDue())
    assert len(rig.of(AskRound)) == 3


def test_a_clock_that_is_set_back_keeps_no_inbox_waiting():
    rig = restored(SavedAlerts("s1", 9))
    rig.do(InboxSaid(KEY, None))
    rig.now -= 3_600.0
    rig.do(RoundsDue())
    rig.all.clear()
    rig.now += SUBSCRIBE_AGAIN_S
    rig.do(RoundsDue())
    assert [type(each) for each in rig.all] == [AskInbox]


def test_an_inbox_that_takes_nothing_for_a_while_is_asked_again():
    rig = restored(SavedAlerts("s1", 9))
    rig.watch(rig.watched)
    rig.do(InboxSaid(KEY, None))
    assert rig.sent[-1].message == "no alerts come: this master's disk takes nothing now"
    rig.all.clear()
    rig.until(20.0 + SUBSCRIBE_AGAIN_S - 0.01)
    assert rig.all == []
    rig.until(20.0 + SUBSCRIBE_AGAIN_S)
    # Behind the same position: that it refused means nothing for what it has.
    assert rig.all == [AskInbox(KEY, replace(SUBSCRIBE.message, after=9))]
    rig.say(Subscribed("s1", "open", 9, 60_000.0))
    assert rig.sent[-1] == Watching("w", "open", 1)


def test_its_time_ends_with_the_alerts_dated_before_and_the_client_hears_of_it():
    rig = AlertRig(lasting_s=12.0)
    rig.until(11.0)
    rig.alerts()
    rig.until(12.5)
    rig.alerts(date_s=11.9)
    rig.alerts(date_s=12.1)
    rig.until(12.0 + LAG_S)
    assert rig.all[-2:] == [
        SaveAlerts(KEY, replace(rig.of(SaveAlerts)[-1].saved, subscription=""), at_once=True),
        AskInbox(KEY, Unsubscribe("s1")),
    ]
    rig.alerts(date_s=11.9)  # too late
    rig.until(21.0)
    rig.answer()
    rig.answer()
    assert [numbers(m) for m in rig.sent if isinstance(m, Round)] == [[1], [2]]
    rig.acknowledge(2)
    # Nobody but this master knows that there were two: it says so until its client knows, and
    # the end counts as a round.
    assert rig.sent[-1] == Watching("w", "finished", 4)
    assert rig.acknowledge(2) == []
    assert rig.watch(replace(rig.watched, after=2)) == Watching("w", "finished", 4)
    assert rig.acknowledge(3) == [ForgetWatch(KEY)]
    assert rig.scheduler.next_tick is None


def test_a_time_without_alerts_ends_too():
    rig = AlertRig(lasting_s=1.0)
    rig.until(1.0 + LAG_S)
    assert rig.sent[-1] == Watching("w", "finished", 2)
    assert rig.acknowledge(1) == [ForgetWatch(KEY)]


def test_what_ended_while_the_master_was_down_takes_what_waited():
    rig = restored(SavedAlerts("s1"), lasting_s=12.0)
    rig.watch(rig.watched)
    rig.until(30.0)
    rig.say(Subscribed("s1", "open", 0, 60_000.0))
    rig.alerts(date_s=11.0)
    rig.until(30.0 + LAG_S)
    rig.answer()
    rig.acknowledge(1)
    assert rig.sent[-1] == Watching("w", "finished", 3)
    again = restored(SavedAlerts("", 1, 1, 0), lasting_s=12.0)
    assert again.watch(again.watched) == Watching("w", "finished", 3)


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_watch_that_ends_takes_its_subscription_with_it(how):
    rig = AlertRig()
    rig.alerts()
    rig.all.clear()
    if how == "cancel":
        rig.do(CancelArrived("link", ALICE, Cancel("w")))
    else:
        rig.until(EXPIRE_S + 20.0)
    assert rig.all[:2] == [AskInbox(KEY, Unsubscribe("s1")), ForgetWatch(KEY)]
    assert rig.say(Notified("s1", 2, alert(2))) == []


def test_a_client_that_lost_what_it_acknowledged_is_told_and_goes_on():
    rig = AlertRig()
    rig.alerts()
    rig.answer()
    rig.acknowledge(1)
    assert rig.watch(replace(rig.watched, after=0)) == Watching(
        "w", "open", 2, "rounds 1 to 1 were acknowledged, and nothing is kept of them"
    )
    rig.until(10.0)
    rig.alerts()
    rig.answer()
    assert (rig.sent[-1].number, rig.sent[-1].previous) == (2, 0)
    assert "round 3 of watch 'w' is yet to come" in rig.watch(replace(rig.watched, after=3)).message


def test_a_clock_that_is_set_back_stops_nothing():
    rig = AlertRig()
    rig.until(1_000.0)
    rig.alerts()
    rig.now = T0 + 500.0
    rig.alerts()
    assert rig.windows[1:] == [(497_001, 500_001)]


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
