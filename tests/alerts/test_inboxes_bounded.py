"""Inboxes that are full: what each client and all may have, and what goes first."""

from agent.alerts import inbox
from agent.alerts.inbox_events import (
    ForgetItem,
    ForgetPositions,
    InboxesDue,
)
from agent.alerts.shares import Shares
from agent.wire.predicates import Predicate
from agent.wire.push import (
    Gap,
    Subscribed,
)
from tests.alerts.inbox_rig import LEASE_MS, Rig, refusal, sent


def test_an_inbox_that_is_full_gives_up_the_oldest():
    rig = Rig(most=3)
    rig.subscribe(durable=True)
    rig.now = 60.0
    assert rig.handle(InboxesDue()) == []  # nobody was heard of
    assert sent(rig.come(10, 20, 30, 40, 50)) == []
    assert rig.inboxes.counters["notifications_dropped"] == 2
    assert sent(rig.subscribe(durable=True, after=0)) == [
        Subscribed("s", "open", 0, LEASE_MS),
        Gap("s", 1, 2),
        (3, 30),
        (4, 40),
        (5, 50),
    ]


def test_a_slow_client_is_sent_no_more_for_what_is_dropped_behind_it():
    rig = Rig(window=2, most_queued=3)
    rig.subscribe()
    assert sent(rig.come(10, 20, 30, 40, 50, 60)) == [(1, 10), (2, 20)]
    assert sent(rig.acknowledge(1)) == [Gap("s", 3, 3)]
    assert sent(rig.acknowledge(3)) == [(4, 40), (5, 50)]


def test_bytes_are_bounded_and_what_came_last_stays():
    rig = Rig(most_bytes=400, window=1)
    rig.subscribe(durable=True)
    rig.come(1, 2, 3, padding=100)
    assert rig.inboxes.waiting == 2
    rig.come(4, padding=1_000)
    assert rig.inboxes.waiting == 1
    rig.come(5)
    assert rig.inboxes.waiting == 1


def test_the_bytes_of_clients_are_told_by_what_follows_a_prefix():
    rig = Rig(window=1)
    rig.subscribe(durable=True, client="topic/a")
    rig.subscribe(durable=True, client="c")
    assert rig.inboxes.bytes_for("topic/") == {"a": 0}
    rig.come(1, padding=1_000)
    few = rig.inboxes.bytes_for("topic/")["a"]
    assert few > 1_000
    rig.come(2, 3, padding=1_000)
    assert rig.inboxes.bytes_for("topic/") == {"a": 3 * few}
    assert rig.inboxes.bytes_for("none/") == {}


def test_memory_of_what_came_is_bounded():
    rig = Rig(most=10, most_remembered=100)
    rig.subscribe(durable=True)
    instructions = rig.come(*range(1, 165))
    assert [each for each in instructions if isinstance(each, ForgetPositions)] == [
        ForgetPositions(1, 64)
    ]
    assert len([each for each in instructions if isinstance(each, ForgetItem)]) == 64
    assert rig.come(65) == []
    assert rig.come(64) != []


def test_a_connection_without_a_name_uses_up_nobody_elses_subscriptions():
    rig = Rig(most_owned=2)
    for name in ("s", "t"):
        assert sent(rig.subscribe(name, client="", peer="stranger"))[0].state == "open"
    refused = sent(rig.subscribe("u", client="", peer="stranger"))[0]
    assert "2 subscriptions are open for you" in refused.message
    assert sent(rig.subscribe("v", client="", peer="honest"))[0].state == "open"
    # Found again from a new connection, it counts there.
    assert sent(rig.subscribe("t", client="", peer="again"))[0].state == "open"
    assert sent(rig.subscribe("u", client="", peer="stranger"))[0].state == "open"
    rig.inboxes.check_invariants()


def large(number, bytes_):
    """A filter of so many bytes, or a few more."""
    return ((Predicate("metric", "=", (f"{number}" + "x" * bytes_,)),),)


def test_the_filters_of_one_client_and_of_all_are_bounded_in_bytes():
    rig = Rig(most_filter_bytes=1_000, most_filter_bytes_in_all=1_800)
    rig.subscribe("s", wanted=large(1, 450), durable=True)
    rig.subscribe("t", wanted=large(2, 450))
    assert "your filters would have more than 1000 bytes" in refusal(
        rig, name="u", wanted=large(3, 100)
    )
    assert "your filters would" in refusal(rig, name="t", wanted=large(2, 550))
    # What gets no larger goes on: after a reconnection, or with a smaller filter.
    assert sent(rig.subscribe("s", wanted=large(1, 450), durable=True))[0].state == "open"
    assert sent(rig.subscribe("t", wanted=large(2, 300)))[0].state == "open"
    rig.subscribe("t", wanted=large(2, 450))
    rig.subscribe("s", client="d", wanted=large(1, 700))
    assert "all filters here would have more than 1800 bytes" in refusal(
        rig, client="e", wanted=large(1, 200)
    )
    rig.unsubscribe("s")
    assert sent(rig.subscribe("s", client="e", wanted=large(1, 200)))[0].state == "open"


def test_inboxes_that_are_full_at_the_same_time_are_not_counted_in_one_turn(monkeypatch):
    counted = []

    def count():
        counted.append(True)
        return Shares()

    monkeypatch.setattr(inbox, "Shares", count)
    rig = Rig(most=100)
    names = tuple(map(str, range(1, 101)))
    for name in names:
        rig.subscribe(name, durable=True)
    each_turn = []
    for sequence in range(1, 103):
        before = len(counted)
        rig.come(sequence, names=names)
        each_turn.append(len(counted) - before)
    assert sum(each_turn) == 100
    assert max(each_turn) == 2
    assert rig.inboxes.counters["notifications_dropped"] == 200
