"""Alerts in line: in order, behind the cursor when they are delivered, and none lost."""

from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.feed.alert_log import Logged, Loss
from agent.gateway.outputs.alert_line import BATCH, AlertLine
from agent.runtime.retrying import Answered, Retrying
from tests.gateway.samples import notification

OK, DOWN, NO, GONE = Answered(200, ""), Answered(0, "down"), Answered(403, "no"), Answered(410, "x")


def line(*, window=1, cursor=0, wanted=lambda _: True, give_up_s=100.0):
    return AlertLine(cursor, Retrying(jitter=lambda: 1.0, give_up_s=give_up_s), wanted, window)


def entries(first, last):
    return [Logged(number, 0, notification(number)) for number in range(first, last + 1)]


def positions(found):
    return [each.position for each in found]


def test_one_after_the_other_and_the_cursor_follows():
    made = line()
    assert made.to_read() == (0, BATCH)
    assert made.to_read() is None
    made.read(entries(1, 3))
    assert positions(made.next(0.0)) == [1]
    assert made.next(0.0) == []
    assert made.answered(1, OK, 1.0) == ""
    assert made.cursor == 1
    assert positions(made.next(1.0)) == [2]


def test_a_window_may_be_confirmed_in_any_order():
    made = line(window=2)
    made.to_read()
    made.read(entries(1, 3))
    assert positions(made.next(0.0)) == [1, 2]
    made.answered(2, OK, 0.0)
    assert made.cursor == 0
    assert positions(made.next(0.0)) == [3]
    made.answered(1, OK, 0.0)
    assert made.cursor == 2


def test_what_fails_is_tried_again_after_growing_pauses_and_told_once():
    made = line()
    made.to_read()
    made.read(entries(1, 1))
    said = []
    for pause in (1.0, 2.0, 4.0):
        now = made.due_s
        made.next(now)
        said.append(made.answered(1, DOWN, now))
        assert made.due_s == now + pause
    assert said == ["does not deliver, and will try again: down", "", ""]
    made.next(made.due_s)
    assert made.answered(1, OK, 20.0) == "delivers again"
    assert (made.delivered, made.failed, made.cursor) == (1, 3, 1)


def test_what_is_refused_for_too_long_is_given_up_and_told():
    made = line(give_up_s=5.0)
    made.to_read()
    made.read(entries(1, 2))
    said = []
    for now in (0.0, 10.0):
        made.next(now)
        said.append(made.answered(1, NO, now))
    assert said[-1] == "gave up alert 1, refused for too long: no"
    assert positions(made.next(11.0)) == [2]


def test_gone_ends_it_and_keeps_the_cursor():
    made = line()
    made.to_read()
    made.read(entries(1, 2))
    made.next(0.0)
    assert made.answered(1, GONE, 0.0).startswith("ended until the gateway is started again")
    assert made.next(1e9) == []
    assert made.due_s is None
    assert made.cursor == 0


def test_what_the_filter_does_not_let_through_moves_the_cursor():
    made = line(wanted=lambda each: each.origin.sequence != 1)
    made.to_read()
    made.read(entries(1, 2))
    assert made.cursor == 1
    assert positions(made.next(0.0)) == [2]


def test_a_log_that_began_anew_is_read_from_its_beginning():
    made = line(cursor=50)
    made.to_read()
    made.read([Logged(0, 0, loss=Loss("another")), *entries(1, 2)])
    assert positions(made.next(0.0)) == [0]
    made.answered(0, OK, 0.0)
    made.check_invariants()
    assert made.cursor == 0
    assert positions(made.next(0.0)) == [1]


def test_an_alert_upon_which_the_session_always_ends_is_given_up_and_the_others_come():
    made, now, had, said = line(window=5), 0.0, [], []
    made.to_read()
    made.read(entries(1, 9))
    while made.waiting and now < 1e4:
        now = max(now, made.due_s)
        found = positions(made.next(now))
        for each in found if 4 not in found else found[: found.index(4)]:
            had.append(each)
            made.answered(each, OK, now)
        if 4 in found:
            said.append(made.ended("protocol error", now, took_others=True))
        made.check_invariants()
    assert had == [1, 2, 3, 5, 6, 7, 8, 9]
    given_up = "gave up alert 4, upon which the receiver ends the session: protocol error"
    assert [each for each in said if each] == [given_up]
    assert made.given_up == 1


def test_a_session_that_ends_before_anything_is_taken_is_held_against_no_alert():
    made, now = line(window=5), 0.0
    made.to_read()
    made.read(entries(1, 9))
    for _ in range(50):
        now = max(now, made.due_s)
        assert made.next(now)
        assert made.ended("cut", now, took_others=False) == ""
    assert (made.given_up, made.waiting) == (0, 9)


@given(st.data())
def test_whatever_the_receiver_does_each_is_delivered_in_order_of_the_log(data):
    log, made, now, had = entries(1, 150), line(window=5, give_up_s=1e9), 0.0, []
    for _ in range(400):
        if wanted := made.to_read():
            after, most = wanted
            made.read(log[after : after + most])
            made.grew()
        for each in made.next(now):
            answer = data.draw(st.sampled_from([OK, OK, OK, OK, DOWN])) if now < 300 else OK
            if answer is OK:
                had.append(each.position)
            made.answered(each.position, answer, now)
        if data.draw(st.booleans()) and now < 300:
            made.ended("cut", now, took_others=False)
        made.check_invariants()
        assert set(range(1, made.cursor + 1)) <= set(had)
        now += 7.0
    assert made.cursor == 150
