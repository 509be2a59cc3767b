"""What a neighbour changes is taken in a slice a turn, and comes to the same in the end."""

from __future__ import annotations

import random

import pytest

from agent.overlay import advertisements, subscriptions
from agent.overlay.events import Subscribe, Tick, Unsubscribe
from agent.overlay.matcher import Matcher
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    CibClear,
    CibSet,
    CibState,
    Notification,
    Notify,
    Origin,
    SubscriptionPart,
)
from agent.wire.predicates import Predicate
from tests.overlay.one_broker import B1, A, C, broker, does, told

CONJUNCTIONS = 64
# No slice is later than this: these brokers have nothing else to do for long.
SOON_S = 1_000.0


def wide(rng):
    """A filter of many conjunctions."""
    return tuple((Predicate("x", "=", (float(rng.randrange(10_000)),)),) for _ in range(64))


def is_behind(made):
    """Whether a slice is due, now or soon."""
    return made.next_tick is not None and made.next_tick < SOON_S


def until_idle(made):
    """What it sends, slice by slice, until nothing is left to do."""
    while is_behind(made):
        yield does(made, Tick(), made.next_tick)


@pytest.fixture
def work(monkeypatch):
    """The conjunctions that came to matchers in the last turn, and were looked for there."""
    done = []

    def counted(name, at):
        real = getattr(Matcher, name)

        def count(self, *given):
            done.append(len(given[at]))
            return real(self, *given)

        monkeypatch.setattr(Matcher, name, count)

    counted("put", 1)
    counted("intersects", 0)
    counted("intersecting", 0)
    return done


def test_no_turn_takes_a_whole_set(work):
    rng = random.Random(4)
    made = broker()
    hosted = tuple((key, wide(rng)) for key in range(1, 201))
    wanted = tuple((key, wide(rng)) for key in range(1, 201))
    most, now = 0, 0.0
    for sender, message in (
        (B1, AdvertisementPart(1, 200, 0, 200, hosted)),
        (A, SubscriptionPart("a", 1, 200, 0, 200, wanted)),
        (A, SubscriptionPart("a", 2, 0, 0, 0, ())),
    ):
        work.clear()
        told(made, sender, message, now)
        most = max(most, sum(work))
        while is_behind(made):
            now = made.next_tick
            work.clear()
            does(made, Tick(), now)
            most = max(most, sum(work))
    assert most <= 2 * (subscriptions.CONJUNCTIONS_A_TURN + CONJUNCTIONS)


def some(rng):
    """A small filter."""
    return tuple(
        (Predicate("x", rng.choice("<>="), (float(rng.randrange(20)),)),)
        for _ in range(rng.randrange(1, 4))
    )


def changes(seed):
    """Random changes by neighbours: sender and message."""
    rng, advertised, versions = random.Random(seed), 0, {A: 1, C: 1}
    for _ in range(12):
        sender = rng.choice((A, C, B1))
        if sender == B1:
            advertised += 1
            item = some(rng) if rng.random() < 0.7 else None
            yield B1, AdvertisementChange(1, advertised, rng.randrange(1, 6), item)
        else:
            versions[sender] += 1
            wanted = tuple((key, some(rng)) for key in range(1, rng.randrange(1, 5)))
            total = len(wanted)
            yield (
                sender,
                SubscriptionPart(sender.vertex, versions[sender], total, 0, total, wanted),
            )


def hear(stated, messages):
    """What B1 is told of its advertisements."""
    for to, message in messages:
        if to == B1 and isinstance(message, CibState):
            stated.clear()
            stated.update(dict.fromkeys(message.wanted, True))
            stated.update(dict.fromkeys(message.unwanted, False))
        elif to == B1 and isinstance(message, CibSet | CibClear):
            stated[message.key] = isinstance(message, CibSet)


def outcome(monkeypatch, slice_, seed):
    """Which advertisements B1 was told are wanted, and who gets what is published, after random
    changes; often the next one comes before the last is taken in."""
    for module in (advertisements, subscriptions):
        monkeypatch.setattr(module, "CONJUNCTIONS_A_TURN", slice_)
    made, stated, pauses, now = broker(), {}, random.Random(seed), 0.0
    does(made, Subscribe("own", ((Predicate("x", "=", (3.0,)),),)))
    for sender, message in changes(seed):
        if isinstance(message, AdvertisementChange) and message.filter is None:
            stated.pop(message.key, None)
        hear(stated, told(made, sender, message, now))
        while pauses.random() < 0.6 and is_behind(made):
            now = made.next_tick
            hear(stated, does(made, Tick(), now))
    for turn in until_idle(made):
        hear(stated, turn)
    homes = []
    for x in range(20):
        notify = Notify(Notification(Origin("q", "h", x + 1), 0, {"x": float(x)}), b"")
        sent_to = told(made, B1, notify, SOON_S)
        homes.append(sorted({to for to, each in sent_to if isinstance(each, Notify)}))
    return {key for key, wanted in stated.items() if wanted}, homes


@pytest.mark.parametrize("seed", range(20))
def test_slices_come_to_the_same_as_all_at_once(monkeypatch, seed):
    whole = outcome(monkeypatch, 1 << 20, seed)
    assert outcome(monkeypatch, 1, seed) == whole


def test_what_is_not_taken_in_yet_misses_nothing(monkeypatch):
    """A home whose set is being taken in gets what it may want."""
    monkeypatch.setattr(subscriptions, "CONJUNCTIONS_A_TURN", 1)
    made = broker()
    wanted = tuple((key, ((Predicate("x", "=", (float(key),)),),)) for key in range(1, 9))
    told(made, A, SubscriptionPart("a", 1, 8, 0, 8, wanted))
    assert is_behind(made)
    notify = Notify(Notification(Origin("q", "h", 1), 0, {"x": 8.0}), b"")
    assert any(to == A and isinstance(each, Notify) for to, each in told(made, B1, notify))


def ever_new(rng):
    """What a neighbour wants, never the same twice, and more than a slice takes."""
    version = 1
    while True:
        version += 1
        wanted = tuple((key, wide(rng)) for key in range(1, 101))
        yield SubscriptionPart("a", version, 100, 0, 100, wanted)


def test_what_a_neighbour_changes_is_taken_in_a_slice_at_a_time_however_often_it_is_called(work):
    """Else all that is done beside pays for one message."""
    made = broker()
    told(made, A, next(ever_new(random.Random(4))))
    work.clear()
    for _ in range(10):
        does(made, Tick())
        told(made, C, SubscriptionPart("c", 1, 0, 0, 0, ()))
    assert work == []
    assert made.next_tick > 0.0
    does(made, Tick(), made.next_tick)
    assert 0 < sum(work) <= 2 * (subscriptions.CONJUNCTIONS_A_TURN + CONJUNCTIONS)


def test_a_neighbour_that_changes_without_end_keeps_nobody_from_being_heard():
    made, now = broker(), 0.0
    told(made, B1, AdvertisementChange(1, 1, 1, ((Predicate("x", ">", (20_000.0,)),),)))
    changes = ever_new(random.Random(4))
    told(made, A, next(changes))
    heard = does(made, Subscribe("own", ((Predicate("x", "=", (30_000.0,)),),)))
    for _ in range(4):
        now = made.next_tick
        heard += does(made, Tick(), now)
        heard += told(made, A, next(changes), now)
    assert [type(each) for to, each in heard if to == B1] == [CibSet]
    # That it is wanted no more is told once it is certain.
    heard = does(made, Unsubscribe("own"), now)
    while made._tables.subscriptions.is_behind:
        assert not any(to == B1 for to, _ in heard)
        heard = does(made, Tick(), made.next_tick)
    for turn in until_idle(made):
        heard += turn
    assert [type(each) for to, each in heard if to == B1] == [CibClear]
