"""Notifications of a subscription: what is acknowledged, asked for again, lost, and how it ends."""

import pytest

from agent.client import NoReplyError, SubscriptionError, UnknownLoss
from agent.client.subscriptions import MAX_OWED, Notifications
from agent.wire.push import Gap, Lost, Subscribe, Subscribed, Unsubscribe
from tests.client.subscription_line import (
    CUT,
    RENEW_S,
    WANTED,
    Line,
    acknowledged,
    asked,
    notified,
    opened,
    positions,
)

REFUSED = Subscribed("s", "refused", message="gone")
UNKNOWN = Subscribed("s", "unknown")
FULL = Subscribed("s", "refused", renew_ms=2_000.0, message="the disk takes nothing now")


@pytest.fixture
def line(monkeypatch):
    return Line(monkeypatch)


def test_a_notification_is_acknowledged_when_the_loop_asks_for_more(line):
    found = line.open(notified(1), notified(2))
    assert next(found) == notified(1)
    assert (found.after, line.said()) == (0, [])
    assert next(found) == notified(2)
    assert (found.after, line.said()) == (1, [acknowledged(1)])
    found.acknowledge()
    found.acknowledge()
    assert (found.after, line.said()) == (2, [acknowledged(2)])


def test_without_a_disk_a_few_are_acknowledged_together(line):
    line.says_all(MAX_OWED)
    with line.open(*map(notified, range(1, 2 * MAX_OWED + 3))) as found:
        assert positions(found, MAX_OWED) == [*range(1, MAX_OWED + 1)]
        assert line.said() == []
        positions(found, MAX_OWED)
        assert line.said() == [acknowledged(MAX_OWED)]
        positions(found, 2)
        assert line.said() == [acknowledged(2 * MAX_OWED)]
        # Asked to say so, or when it is time for a sign of life.
        found.acknowledge()
        assert line.said() == [acknowledged(2 * MAX_OWED + 2)]
        found.acknowledge()
        line.coming.append(notified(2 * MAX_OWED + 3))
        positions(found, 1)
        assert found.wait(RENEW_S / 3 + 1.0) is None
        assert line.said() == [acknowledged(2 * MAX_OWED + 3)]
        line.coming.append(Subscribed("s", "cancelled"))


def test_a_durable_one_is_acknowledged_at_once(line):
    line.says_all(MAX_OWED)
    found = line.open(notified(1), notified(2), durable=True)
    positions(found, 2)
    assert line.said() == [acknowledged(1)]


def test_what_comes_twice_is_passed_over_and_what_was_lost_on_the_way_is_asked_for(line):
    again = opened(1), notified(2), notified(3), notified(4), notified(4), notified(5)
    found = line.open(notified(1), notified(1), notified(3), notified(4), *again)
    assert positions(found, 5) == [1, 2, 3, 4, 5]
    sent = [acknowledged(1), asked(after=1), *map(acknowledged, (2, 3, 4))]
    assert line.said() == sent


def test_what_came_before_a_cut_is_given_before_anything_is_asked_for(line):
    found = line.open(notified(1), notified(2), notified(3))
    assert positions(found, 1) == [1]
    for _ in range(2):
        line.take(0)  # in the loop's body, as a query does
    found.cut()
    assert positions(found, 2) == [2, 3]
    assert (found.after, line.said()) == (2, [])
    line.coming.extend((opened(3), notified(4)))
    assert positions(found, 1) == [4]
    assert line.said() == [asked(after=3)]


def test_a_gap_is_given_as_it_is_but_nothing_twice(line):
    lost = Lost("iad1", "4f1d2a", 7, 9, 2)
    gaps = Gap("s", 1, 3), Gap("s", 2, 5), Gap("s", 4, 5), Gap("s", 6, 6, lost)
    found = line.open(*gaps, notified(7))
    told = [next(found) for _ in range(4)]
    assert told == [Gap("s", 1, 3), Gap("s", 4, 5), Gap("s", 6, 6, lost), notified(7)]
    assert line.said() == [acknowledged(position) for position in (3, 5, 6)]


def test_a_durable_subscription_goes_on_where_its_client_was(line):
    found = line.open(notified(8), position=7, durable=True)
    assert (found.after, positions(found, 1)) == (7, [8])


def test_nothing_for_a_while_is_none_and_the_next_comes_later(line):
    found = line.open()
    assert found.wait(0.0) is None
    assert found.wait(7.0) is None
    assert line.now == pytest.approx(107.0, abs=0.01)
    line.coming.append(notified(1))
    assert found.wait(7.0) == notified(1)


def test_who_waits_is_heard_of_three_times_in_the_time_to_renew(line):
    found = line.open(notified(1))
    assert positions(found, 1) == [1]
    assert found.wait(59.0) is None
    assert [at - 100.0 for at in line.times] == pytest.approx([0, 20, 40], abs=0.01)
    assert line.said() == [acknowledged(1)] * 3


def test_a_master_that_is_silent_for_long_is_asked_and_that_is_no_news(line):
    found, words = line.open(notified(1)), []
    found.on_word = words.append
    assert positions(found, 1) == [1]
    assert found.wait(60.5) is None
    assert line.said()[-1] == asked(after=1)
    line.coming.append(opened(1))
    assert found.wait(40.0) is None
    assert words == []
    assert line.said() == [acknowledged(1)] * 2


def test_who_gets_no_answer_asks_again_at_longer_and_longer_intervals_and_says_so(line):
    found, words = line.open(patience_s=100.0), []
    found.on_word = words.append
    line.coming.append(CUT)
    with pytest.raises(NoReplyError):
        next(found)
    assert [at - 100.0 for at in line.times] == pytest.approx([0, 5, 15, 35, 75], abs=0.01)
    assert line.said() == [asked(after=0)] * 5
    assert words[:2] == [
        "no word from the master for 5 s; asking again",
        "no word from the master for 15 s; asking again",
    ]
    line.coming.extend((opened(), notified(1)))  # the loop may go on
    assert positions(found, 1) == [1]


# --- a master that knows it no more -------------------------------------------------------------


def test_what_a_master_does_not_know_is_asked_for_again_from_the_last_one_taken(line):
    found = line.open(notified(1), notified(2), UNKNOWN, UNKNOWN, opened(2), notified(3))
    assert positions(found, 3) == [1, 2, 3]
    # The second word is on the acknowledgement before, and says nothing new.
    assert line.said() == [acknowledged(1), acknowledged(2), asked(after=2)]


def test_after_a_cut_it_is_asked_for_again_from_the_last_one_taken(line):
    found = line.open(notified(1), CUT, opened(1), notified(2))
    assert positions(found, 2) == [1, 2]
    assert line.said() == [acknowledged(1), asked(after=1)]


def test_what_is_taken_while_it_is_asked_for_is_acknowledged_as_soon_as_it_is_open(line):
    found = line.open(notified(1), CUT, notified(2), opened(1))
    assert positions(found, 2) == [1, 2]
    assert line.said() == [acknowledged(1), asked(after=1)]
    assert found.wait(1.0) is None
    assert line.said() == [acknowledged(2)]


def test_what_is_not_kept_is_an_unknown_loss_and_begins_anew(line):
    anew = REFUSED, opened(), notified(1), notified(2)
    found = line.open(notified(1), UNKNOWN, *anew)
    assert next(found) == notified(1)
    assert next(found) == UnknownLoss("s", 1, 0, "gone")
    assert positions(found, 2) == [1, 2]
    sent = [acknowledged(1), asked(after=1), asked(), acknowledged(0), acknowledged(1)]
    assert line.said() == sent


def test_of_what_came_before_an_unknown_loss_nothing_is_acknowledged(line):
    found = line.open(notified(1), notified(2), notified(3), position=0)
    assert next(found) == notified(1)
    for _ in range(2):
        line.take(0)  # in the loop's body, as a query does
    found.cut()
    found._ask()
    line.coming.extend((REFUSED, opened(), notified(1)))
    line.take(0)
    found._keep_up()
    line.take(0)
    line.take(0)
    line.said()
    assert positions(found, 2) == [2, 3]
    assert next(found) == UnknownLoss("s", 3, 0, "gone")
    assert line.said() == []
    assert next(found) == notified(1)
    assert line.said() == [acknowledged(0)]


def test_a_position_given_by_the_caller_that_is_not_kept_is_a_loss_too(line):
    line.coming.append(REFUSED)
    subscribe = asked(after=7, durable=True)
    found = line.notifications = Notifications(line, subscribe, 60.0)
    line.coming.append(opened(2))
    found.open()
    assert line.said() == [subscribe, asked(durable=True)]
    assert (next(found), found.after) == (UnknownLoss("s", 7, 2, "gone"), 2)


def test_a_word_on_what_was_asked_before_does_not_refuse(line):
    found = line.open()
    line.coming.append(CUT)
    assert found.wait(12.0) is None
    assert line.said() == [asked(after=0)] * 2
    # They come together, when the master is back.
    line.coming.extend((REFUSED, REFUSED, opened(), notified(1)))
    assert isinstance(next(found), UnknownLoss)
    assert positions(found, 1) == [1]
    assert line.said() == [asked(), acknowledged(0)]


def test_the_same_refusal_counts_if_no_other_word_follows_in_the_end(line):
    found = line.open(CUT)
    line.always = (REFUSED,)
    with pytest.raises(SubscriptionError, match="gone"):
        next(found)
    assert line.said() == [asked(after=0), *[asked()] * 3]
    assert line.now == pytest.approx(135.0, abs=0.01)
    again = line.notifications = Notifications(line, asked(after=7), 60.0)
    with pytest.raises(SubscriptionError, match="gone"):
        again.open()


def test_what_comes_before_the_word_on_where_it_begins_is_not_counted(line):
    subscribe = Subscribe("s", WANTED)
    found = line.notifications = Notifications(line, subscribe, 60.0)
    line.coming.extend((notified(1), CUT, opened(), notified(1), notified(2)))
    found.open()
    assert positions(found, 2) == [1, 2]


def test_what_is_refused_for_now_is_asked_for_again_from_the_same_place(line):
    found = line.open(notified(1))
    heard = []
    found.on_word = heard.append
    positions(found, 1)
    line.coming.extend((UNKNOWN, FULL))
    assert found.wait(2.5) is None
    assert line.said() == [acknowledged(1), asked(1), asked(1)]
    line.coming.append(FULL)
    assert found.wait(2.5) is None
    assert line.said() == [asked(1)]
    line.coming.extend((opened(1), notified(2)))
    assert next(found) == notified(2)
    assert heard == ["the disk takes nothing now"] * 2


def test_a_subscription_that_begins_and_is_refused_for_now_is_an_error(line):
    found = line.notifications = Notifications(line, asked(after=7), 60.0)
    line.coming.append(FULL)
    with pytest.raises(SubscriptionError, match="takes nothing now"):
        found.open()


def test_what_is_refused_anew_is_an_error(line):
    no_more = Subscribed("s", "refused", message="100 subscriptions are open for you")
    found = line.open(notified(1), UNKNOWN, REFUSED, no_more)
    assert positions(found, 1) == [1]
    for _ in range(2):
        with pytest.raises(SubscriptionError, match="100 subscriptions are open for you"):
            next(found)
    assert not found.is_open


def test_two_clients_do_not_take_one_subscription_from_each_other_for_ever(line):
    found = line.open(*[UNKNOWN, opened()] * 2, UNKNOWN)
    with pytest.raises(SubscriptionError, match="another client took subscription 's' over"):
        next(found)


def test_many_acknowledgements_of_what_is_unknown_are_no_other_client(line):
    found = line.open(*[UNKNOWN] * 4)
    for _ in range(4):
        line.take(0)  # in the loop's body, as a query does
    line.coming.extend((opened(), notified(1)))
    assert positions(found, 1) == [1]


def test_masters_that_restart_are_no_other_client(line):
    found = line.open(*[UNKNOWN, opened(), CUT, opened()] * 4, notified(1))
    assert positions(found, 1) == [1]


# --- the end ------------------------------------------------------------------------------------


def test_the_end_of_the_block_ends_the_subscription(line):
    with line.open(notified(1)) as found:
        next(found)
        line.coming.extend((notified(2), Subscribed("s", "cancelled")))
    assert line.said() == [acknowledged(1), Unsubscribe("s")]
    assert line.forgotten == ["s"]
    with pytest.raises(SubscriptionError, match="was ended"):
        next(found)


def test_an_end_that_nobody_confirms_says_so(line):
    found = line.open()
    assert not found.cancel()
    assert not found.is_open
    assert line.said() == [Unsubscribe("s")]


def test_an_end_over_a_connection_that_is_cut_is_said_again(line):
    found = line.open()
    line.coming.extend((CUT, Subscribed("s", "cancelled")))
    assert found.cancel()
    assert line.said() == [Unsubscribe("s")] * 2


def test_a_durable_subscription_is_left_with_what_was_taken(line):
    with line.open(notified(1), durable=True) as found:
        next(found)
    assert line.said() == [acknowledged(1)]
    assert line.forgotten == ["s"]


def test_what_the_loop_was_busy_with_when_it_broke_is_not_taken(line):
    found = line.open(notified(1), durable=True)

    def loop():
        with found:
            next(found)
            raise RuntimeError("in the loop")

    with pytest.raises(RuntimeError, match="in the loop"):
        loop()
    assert (found.after, line.said()) == (0, [])
