"""Watches on alerts over restarts, lost inboxes and clocks that are set back, and their end."""

import pytest
from msgspec.structs import replace

from agent.scheduling.watches.alerts import SAVE_EVERY, SUBSCRIBE_AGAIN_S
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
    SendWatch,
)
from agent.scheduling.watches.rounds import MAX_PAUSE_S
from agent.scheduling.watches.scheduler import EXPIRE_S, LAG_S, SETTLE_S
from agent.wire.push import Notified, Subscribed, Unsubscribe
from agent.wire.watches import Cancel, Round, Watching
from tests.scheduling.watch_alert_rig import KEY, SUBSCRIBE, AlertRig, alert, numbers
from tests.scheduling.watch_rig import ALICE, T0

NOTHING_YET = Cursor()


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
    ending = [each for each in rig.all if not isinstance(each, SendWatch)]
    assert ending == [AskInbox(KEY, Unsubscribe("s1")), ForgetWatch(KEY)]
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
