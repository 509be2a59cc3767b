"""Turns between senders are fair by what their requests cost."""

import random
from collections import Counter

import pytest

from agent.net.start_time_fair_queue import OVERHEAD_BYTES, StartTimeFairQueue


def queue(of_one=1 << 20, of_all=1 << 24):
    return StartTimeFairQueue(of_one, of_all)


def serve(queue, cost_of):
    sender, request = queue.pop()
    queue.charge(sender, cost_of(sender))
    return request


def test_who_asks_once_is_next_whatever_others_have_waiting():
    waiting = queue()
    for n in range(1_000):
        waiting.put("flood", n, 100)
    for _ in range(10):
        serve(waiting, lambda _: 0.01)
    waiting.put("honest", "mine", 100)
    assert "mine" in [serve(waiting, lambda _: 0.01) for _ in range(2)]


def test_senders_get_the_same_time_and_not_the_same_number():
    waiting = queue()
    cost = {"dear": 0.016, "cheap": 0.001}
    for n in range(2_000):
        waiting.put("dear", "dear", n % 7)
        waiting.put("cheap", "cheap", n % 7)
    served = Counter(serve(waiting, cost.get) for _ in range(1_000))
    assert served["cheap"] == pytest.approx(16 * served["dear"], rel=0.05)


def test_requests_of_one_sender_keep_their_order():
    waiting, draw = queue(), random.Random(7)
    sent = {name: [] for name in "abc"}
    got = {name: [] for name in "abc"}
    for n in range(3_000):
        name = draw.choice("abc")
        waiting.put(name, (name, n), 10)
        sent[name].append(n)
        if draw.random() < 0.5:
            name, number = serve(waiting, lambda _: draw.random())
            got[name].append(number)
    while waiting:
        name, number = serve(waiting, lambda _: draw.random())
        got[name].append(number)
    assert got == sent
    assert waiting.waiting_bytes == 0


def test_who_was_idle_saves_nothing_up():
    waiting = queue()
    for _ in range(100):
        waiting.put("busy", "busy", 1)
    for _ in range(50):
        serve(waiting, lambda _: 1.0)
    for _ in range(50):
        waiting.put("late", "late", 1)
    served = Counter(serve(waiting, lambda _: 1.0) for _ in range(20))
    assert abs(served["busy"] - served["late"]) <= 1


def test_what_waits_is_bounded_for_one_sender_and_in_all():
    size = 1_000 - OVERHEAD_BYTES
    waiting = queue(of_one=3_000, of_all=5_000)
    assert [waiting.put("a", n, size) for n in range(4)] == [True, True, True, False]
    assert not waiting.full
    assert waiting.put("b", 0, 10_000)  # larger than all that one may have, and alone
    assert waiting.full


def every(_request):
    return True


def test_what_a_sender_queued_goes_with_it():
    waiting = queue()
    for n in range(5):
        waiting.put("gone", n, 100)
        waiting.put("here", n, 100)
    assert waiting.drop("gone", every) == 5
    assert waiting.drop("gone", every) == 0
    assert waiting.drop("nobody", every) == 0
    assert [serve(waiting, lambda _: 1.0) for _ in range(5)] == list(range(5))
    assert not waiting
    assert waiting.waiting_bytes == 0
    waiting.put("gone", "again", 100)
    assert waiting
    assert serve(waiting, lambda _: 1.0) == "again"


def test_part_of_what_a_sender_queued_goes_and_the_rest_keeps_its_order():
    waiting = queue()
    for n in range(6):
        waiting.put("a", n, 100)
    assert waiting.drop("a", lambda n: n % 2 == 0) == 3
    assert [serve(waiting, lambda _: 1.0) for _ in range(3)] == [1, 3, 5]
    assert not waiting
    assert waiting.waiting_bytes == 0


def test_who_drops_its_requests_keeps_its_debt():
    waiting = queue()
    for _ in range(10):
        waiting.put("debtor", "debtor", 1)
        waiting.put("other", "other", 1)
    sender, _ = waiting.pop()
    assert waiting.drop(sender, every) == 9, "one is being served"
    waiting.charge(sender, 3.5)
    waiting.put("debtor", "debtor", 1)
    assert [serve(waiting, lambda _: 1.0) for _ in range(6)] == [*["other"] * 4, "debtor", "other"]


def test_one_whose_requests_go_while_it_is_served_may_come_again():
    waiting = queue()
    waiting.put("a", 1, 1)
    waiting.put("a", 2, 1)
    sender, _ = waiting.pop()
    waiting.drop("a", every)
    waiting.charge(sender, 1.0)
    assert not waiting
    waiting.put("a", 3, 1)
    assert serve(waiting, lambda _: 1.0) == 3


def test_idle_senders_are_forgotten():
    waiting = queue()
    for n in range(10_000):
        waiting.put(n, n, 1)
        serve(waiting, lambda _: 1e-6)
    assert len(waiting._flows) < 200


def test_a_small_request_does_not_wait_for_a_large_one_that_came_before():
    waiting = queue()
    waiting.put("flood", "first", 100)
    assert serve(waiting, lambda _: 0.001) == "first"
    for name in ("one", "other"):
        waiting.put(name, name, 7_000)
    waiting.put("honest", "mine", 100)
    assert serve(waiting, lambda _: 0.001) == "mine"


def test_a_large_request_is_served_however_many_small_ones_come():
    waiting = queue()
    waiting.put("large", "large", 100_000)
    served = []
    for n in range(100):
        waiting.put(n % 2, n, 10)
        served.append(serve(waiting, lambda _: 0.001))
    assert "large" in served
