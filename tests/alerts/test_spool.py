"""The spool, step by step."""

import itertools
from itertools import pairwise

import msgspec
import pytest

from agent.alerts.dedup_window import Taken
from agent.alerts.losses import GATHER_LOST_S, MAX_LOST
from agent.alerts.spool import BURST, CLIENTS, Spool
from agent.alerts.spool_events import (
    Accepted,
    Brought,
    EventAlerts,
    ForgetLost,
    ForgetSpooled,
    ForgetTaken,
    LostTold,
    PublishSpooled,
    SavedSpool,
    SaveLost,
    SaveTaken,
    Settled,
    SpoolDue,
    StoreSpooled,
    TellLost,
    Undeliverable,
)
from agent.runtime.state_machine import InvalidTransition
from agent.wire.base import MAX_EVENT_AREAS, MAX_EVENTS
from agent.wire.push import Lost
from tests.alerts.samples import notification


def brought(*sequences, node="n1", history="h1", oldest=0, token="t", padding=0):
    events = [
        EventAlerts(
            each,
            (
                notification(
                    each, history if node == "n1" else f"{node}-{history}", padding=padding
                ),
            ),
        )
        for each in sequences
    ]
    return Brought(token, node, history, oldest, tuple(events))


def body(sequence, history="h1"):
    return msgspec.msgpack.encode(notification(sequence, history))


def published(instructions):
    return [
        each.notification.origin.sequence
        for each in instructions
        if isinstance(each, PublishSpooled)
    ]


def test_what_is_brought_is_stored_published_and_then_accepted():
    spool = Spool()
    assert spool.handle(brought(7, 9, oldest=3), 1.0) == [
        StoreSpooled(1, body(7)),
        PublishSpooled(notification(7)),
        StoreSpooled(2, body(9)),
        PublishSpooled(notification(9)),
        SaveTaken("n1", "h1", Taken(3, (7, 9))),
        Accepted("t"),
    ]
    assert spool.handle(Settled(notification(7).origin), 2.0) == [ForgetSpooled(1)]
    assert spool.handle(Settled(notification(7).origin), 2.0) == []
    assert len(spool) == 1
    assert spool.bytes == len(body(9))


def several(count, padding=0):
    return [notification(100 + n, padding=padding) for n in range(count)]


def test_half_of_it_is_the_nodes():
    spool = Spool(most=10)
    spool.handle(brought(1, 2), 1.0)
    assert spool.has_room_for(several(3))
    assert not spool.has_room_for(several(4))
    # More than half at once would wait for ever; these push nothing out.
    assert spool.has_room_for(several(8))
    assert not spool.has_room_for(several(9))
    spool.handle(brought(3, 4, 5), 1.0)
    assert not spool.has_room_for(several(1))
    assert not spool.has_room_for(several(6))
    assert Spool(most=10).has_room_for(several(11))


def test_half_of_its_bytes_is_the_nodes():
    size = len(msgspec.msgpack.encode(notification(100, padding=100)))
    spool = Spool(most_bytes=10 * size)
    assert spool.has_room_for(several(5, padding=100))
    spool.handle(brought(101, padding=100), 1.0)
    assert spool.has_room_for(several(4, padding=100))
    assert not spool.has_room_for(several(5, padding=100))
    assert spool.has_room_for(several(9, padding=100))
    assert not spool.has_room_for(several(10, padding=100))


def test_what_comes_again_is_only_accepted():
    spool = Spool()
    spool.handle(brought(7), 1.0)
    spool.handle(Settled(notification(7).origin), 1.0)
    assert spool.handle(brought(7), 2.0) == [Accepted("t")]
    new = spool.handle(brought(7, 8, 8), 3.0)
    assert published(new) == [8]
    assert spool.counters["spooled"] == 2
    assert spool.counters["spooled_repeated"] == 3


def test_alerts_are_counted_apart_from_what_topics_and_clients_publish():
    spool = Spool()
    spool.handle(brought(1, 2), 1.0)
    spool.handle(brought(1, history="h2", node="topic/means"), 2.0)
    spool.handle(brought(1, history="h3", node=f"{CLIENTS}app"), 3.0)
    assert (spool.counters["spooled"], spool.counters["spooled_alerts"]) == (4, 2)


def test_a_full_message_that_comes_again_is_no_news():
    spool = Spool()
    events = tuple(
        [
            EventAlerts(n, tuple([notification(16 * n + area) for area in range(MAX_EVENT_AREAS)]))
            for n in range(1, MAX_EVENTS + 1)
        ]
    )
    first = spool.handle(Brought("t", "n1", "h1", 1, events), 1.0)
    assert len(published(first)) == len(spool) == MAX_EVENTS * MAX_EVENT_AREAS
    assert spool.handle(Brought("t", "n1", "h1", 1, events), 2.0) == [Accepted("t")]
    spool.check_invariants()


def test_what_is_still_spooled_is_known_though_the_window_forgot_it():
    spool = Spool(most_histories=1)
    spool.handle(brought(1), 0.0)
    spool.handle(brought(1, history="h2"), 0.0)
    again = spool.handle(brought(1, 2), 1.0)
    assert published(again) == [2]
    spool.check_invariants()
    spool.handle(Settled(notification(1).origin), 2.0)
    spool.check_invariants()


def test_nodes_with_copies_of_one_history_do_not_hide_each_others_alerts():
    spool = Spool()
    assert published(spool.handle(brought(1, 2, oldest=2**53 - 1), 0.0)) == [1, 2]
    assert published(spool.handle(brought(1, 2, node="n2"), 0.0)) == [1, 2]
    assert len(spool) == 4
    saved = spool.handle(brought(3, node="n2"), 1.0)
    assert SaveTaken("n2", "h1", Taken(0, (1, 2, 3))) in saved


def test_after_a_restart_it_publishes_again_what_it_kept_at_its_pace():
    spool = Spool(backlog_per_s=10.0)
    kept = tuple((n, body(n)) for n in range(1, BURST + 6))
    spool.restore(SavedSpool(kept, (("n1", "h1", Taken(0, (1, 2))),)), 100.0)
    assert spool.next_tick == 100.0
    assert published(spool.handle(SpoolDue(), 100.0)) == list(range(1, BURST + 1))
    # What is new does not wait behind them.
    assert published(spool.handle(brought(1, 500), 100.0)) == [500]
    for n in range(BURST + 1, BURST + 6):
        due = spool.next_tick
        assert due == pytest.approx(100.0 + (n - BURST) / 10.0)
        assert published(spool.handle(SpoolDue(), due)) == [n]
    assert spool.next_tick == 100.0 + 300.0
    assert spool.handle(brought(600), 200.0)[0].number == BURST + 7


def test_what_somebody_did_not_get_goes_again_later_and_later():
    spool = Spool()
    spool.handle(brought(1), 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        assert spool.handle(Undeliverable(notification(1).origin), now) == []
        assert spool.handle(Undeliverable(notification(1).origin), now) == []
        pauses.append(spool.next_tick - now)
        assert spool.handle(SpoolDue(), spool.next_tick - 0.001) == []
        now = spool.next_tick
        assert published(spool.handle(SpoolDue(), now)) == [1]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert spool.handle(Undeliverable(notification(2).origin), now) == []


def test_without_a_word_it_is_published_again_and_late_words_count():
    spool = Spool(again_s=50.0)
    spool.handle(brought(1), 0.0)
    assert spool.next_tick == 50.0
    assert published(spool.handle(SpoolDue(), 50.0)) == [1]
    spool.handle(Undeliverable(notification(1).origin), 51.0)
    assert spool.handle(Settled(notification(1).origin), 51.5) == [ForgetSpooled(1)]
    assert spool.next_tick is None


def test_of_too_many_the_oldest_go_counted_and_told_as_a_range():
    spool = Spool(most=2)
    spool.handle(brought(5, 3), 0.0)
    instructions = spool.handle(brought(8, 9, 11), 10.0)
    first = Lost("iad1", "h1", 3, 5, 2)
    assert [each for each in instructions if isinstance(each, ForgetSpooled)] == [
        ForgetSpooled(1),
        ForgetSpooled(2),
        ForgetSpooled(3),
    ]
    whole = Lost("iad1", "h1", 3, 8, 3)
    assert SaveLost(whole) in instructions
    assert spool.counters["spooled_given_up"] == 3
    # One range for what goes within a while.
    assert spool.next_tick == 10.0 + GATHER_LOST_S
    assert spool.handle(SpoolDue(), 15.0) == [TellLost(whole)]
    assert spool.handle(LostTold(first), 16.0) == []
    assert spool.handle(SpoolDue(), 25.0) == [TellLost(whole)]
    assert spool.handle(LostTold(whole), 26.0) == [ForgetLost("iad1", "h1")]
    assert spool.handle(LostTold(whole), 26.0) == []
    assert spool.handle(SpoolDue(), 45.0) == []
    assert spool.next_tick == 310.0  # nothing to tell any more; the two that are left go again


def test_of_one_outage_one_notice_is_under_way_and_what_grew_meanwhile_is_the_next():
    spool = Spool(most=1)
    spool.handle(brought(0), 0.0)
    told = []
    for n in range(1, 20_001):
        spool.handle(brought(n, oldest=n), float(n))
        if spool.next_tick <= n:
            told += [(n, each) for each in spool.handle(SpoolDue(), n) if is_told(each)]
    first = Lost("iad1", "h1", 0, 5, 6)
    assert {each for _, each in told} == {TellLost(first)}
    # Again and again, ever more rarely.
    times = [when for when, _ in told]
    assert times[:8] == [6, 16, 36, 76, 156, 316, 616, 916]
    rest = Lost("iad1", "h1", 6, 19_999, 19_994)
    assert spool.handle(LostTold(first), 20_001.0) == [SaveLost(rest)]
    [again] = [each for each in spool.handle(SpoolDue(), 20_400.0) if is_told(each)]
    assert again == TellLost(rest)
    assert spool.handle(LostTold(rest), 20_401.0) == [ForgetLost("iad1", "h1")]
    spool.check_invariants()


def is_told(instruction):
    return isinstance(instruction, TellLost)


def test_what_goes_all_the_time_is_told_ever_more_rarely():
    spool = Spool(most=1)
    told = []
    for n in range(7_200):
        spool.handle(brought(n, oldest=n), float(n))
        for each in spool.handle(SpoolDue(), float(n)):
            if is_told(each):
                told.append(each.lost)
                spool.handle(LostTold(each.lost), float(n))
    assert len(told) == 28
    # Each is in one of them.
    assert all(a.last + 1 == b.first for a, b in pairwise(told))
    assert sum(each.count for each in told) == told[-1].last + 1


def test_a_restart_tells_what_was_under_way_and_what_came_after_as_one():
    spool = Spool(most=1)
    spool.handle(brought(1, 2), 0.0)
    assert TellLost(Lost("iad1", "h1", 1, 1, 1)) in spool.handle(SpoolDue(), 5.0)
    assert SaveLost(Lost("iad1", "h1", 1, 2, 2)) in spool.handle(brought(3), 6.0)


def test_what_is_lost_is_told_after_a_restart():
    spool = Spool()
    lost = Lost("iad1", "h1", 3, 8, 3)
    spool.restore(SavedSpool(lost=(lost,)), 5.0)
    assert spool.next_tick == 5.0
    assert spool.handle(SpoolDue(), 6.0) == [TellLost(lost)]


def test_bytes_are_bounded_and_what_came_last_stays():
    size = len(msgspec.msgpack.encode(notification(1, padding=100)))
    spool = Spool(most_bytes=2 * size)
    spool.handle(brought(1, 2, padding=100), 0.0)
    assert spool.bytes == 2 * size
    spool.handle(brought(3, padding=100), 0.0)
    assert (len(spool), spool.bytes) == (2, 2 * size)
    spool.handle(brought(4, padding=300), 0.0)
    spool.check_invariants()
    assert len(spool) == 1
    assert spool.handle(Settled(notification(4).origin), 0.0) == [ForgetSpooled(4)]


def test_histories_and_ranges_are_bounded():
    spool = Spool(most=1, most_histories=2)
    spool.handle(brought(1, history="a"), 0.0)
    spool.handle(brought(1, history="b"), 0.0)
    assert ForgetTaken("n1", "a") in spool.handle(brought(1, history="c"), 0.0)
    for n in range(MAX_LOST + 1):
        instructions = spool.handle(brought(1, history=f"h{n}"), 0.0)
    spool.check_invariants()
    # Of 1,027 that were lost, a, b and c are not told any more.
    assert ForgetLost("iad1", "c") in instructions


def test_an_arrow_that_is_not_in_the_table_raises():
    spool = Spool()
    spool.handle(brought(1), 0.0)
    [entry] = spool._spooled.values()
    with pytest.raises(InvalidTransition, match="published → new is not allowed for <spooled 1"):
        entry.become("new")


def test_it_is_crowded_when_it_is_half_full():
    spool = Spool(most=4)
    spool.handle(brought(1), 0.0)
    assert not spool.crowded
    spool.handle(brought(2), 0.0)
    assert spool.crowded
    spool.handle(Settled(notification(1).origin), 0.0)
    assert not spool.crowded
    spool = Spool(most_bytes=2 * len(body(1)))
    spool.handle(brought(1), 0.0)
    assert spool.crowded


def test_one_client_leaves_room_to_others_in_the_half_that_topics_may_fill():
    spool = Spool(most=24)
    taken = 0
    while not spool.is_crowded_by("client/ann"):
        taken += 1
        spool.handle(brought(taken, node="client/ann", history="a"), 0.0)
    assert taken == 6, "a quarter"
    assert not spool.crowded
    assert not spool.is_crowded_by("client/bob")
    spool.handle(brought(1, node="client/bob", history="b"), 0.0)
    spool.check_invariants()
    for name in ("ann", "bob"):
        origins = [each for each in spool._spooled if spool._spooled[each].client.endswith(name)]
        for origin in origins:
            spool.handle(Settled(origin), 1.0)
        spool.check_invariants()
    assert not spool.is_crowded_by("client/ann")
    spool, taken = Spool(most_bytes=40 * len(body(1))), 0
    while not spool.is_crowded_by("client/ann"):
        taken += 1
        spool.handle(brought(taken, node="client/ann", history="a"), 0.0)
    assert 8 <= taken <= 11, "a quarter in bytes"


def test_clients_that_choose_many_histories_do_not_make_those_of_nodes_forgotten():
    spool = Spool(most_histories=2)
    spool.handle(brought(1), 0.0)
    for number in range(5):
        spool.handle(brought(1, node="client/wall", history=f"c{number}"), 0.0)
    assert published(spool.handle(brought(1), 0.0)) == []
    saved = [each for each in spool.handle(brought(2), 0.0) if isinstance(each, SaveTaken)]
    assert saved == [SaveTaken("n1", "h1", Taken(0, (1, 2)))]
    # After a restart, too.
    again = Spool(most_histories=2)
    windows = [("client/wall", f"c{n}", Taken(0, (1,))) for n in range(5)]
    again.restore(SavedSpool(taken=(("n1", "h1", Taken(0, (1,))), *windows)), 0.0)
    assert published(again.handle(brought(1), 0.0)) == []


def test_a_client_that_chooses_many_histories_makes_none_of_other_clients_forgotten():
    spool = Spool(most_histories=4)
    spool.handle(brought(1, node="client/ann"), 0.0)
    spool.handle(brought(1, node="client/bob"), 0.0)
    forgotten = []
    for number in range(9):
        done = spool.handle(brought(1, node="client/wall", history=f"c{number}"), 0.0)
        forgotten += [each for each in done if isinstance(each, ForgetTaken)]
    assert forgotten == [ForgetTaken("client/wall", f"c{n}") for n in range(7)]
    for client in ("ann", "bob"):
        assert published(spool.handle(brought(1, node=f"client/{client}"), 0.0)) == []


def test_of_as_many_clients_as_there_is_room_for_the_one_heard_of_last_stays():
    spool = Spool(most_histories=2)
    for client in ("ann", "bob", "ann", "cid"):
        done = spool.handle(brought(1, node=f"client/{client}"), 0.0)
    assert ForgetTaken("client/bob", "h1") in done


def test_a_client_that_leaves_gaps_in_many_histories_takes_bounded_memory():
    spool = Spool(most_client_sequences=50)
    forgotten = []
    for history, number in itertools.product(range(4), range(1, 21)):
        event = brought(number, node="client/ann", history=f"h{history}")
        forgotten += [each for each in spool.handle(event, 0.0) if isinstance(each, ForgetTaken)]
    assert forgotten == [ForgetTaken("client/ann", f"h{n}") for n in (0, 1)]
