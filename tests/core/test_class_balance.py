"""The advances of query classes."""

import random

import pytest

from _core.balance import ClassBalance, limited_advance


def balance(*classes: tuple[float, float]) -> ClassBalance:
    made = ClassBalance()
    for number, (slo_s, allowed) in enumerate(classes):
        made.set_class(number, slo_s, allowed)
    return made


def test_a_miss_by_hand() -> None:
    b = balance((1.0, 0.01), (3.0, 0.01))
    b.finished(0, False)
    b.finished(1, False)
    b.finished(1, True)
    # Shares 1/2 and 1/2, mean SLO 2 s: a step of 0.02 * 2 / 2 / 0.5 = 0.04, half of it taken back,
    # and the first is 5 / 2 times as long.
    assert b.advance(0) == pytest.approx(-0.05)
    assert b.advance(1) == pytest.approx(0.05)


def test_without_misses_nothing_moves() -> None:
    b = balance((1.0, 0.01), (3.0, 0.001))
    for i in range(10_000):
        b.finished(i % 3 == 0, False)
    assert b.advance(0) == b.advance(1) == 0.0


def test_classes_that_miss_as_often_as_they_may_stay_together() -> None:
    allowed = (0.01, 0.05, 0.002)
    b = balance(*((2.0, a) for a in allowed))
    draw = random.Random(3)
    credit = [0.0, 0.0, 0.0]
    for _ in range(200_000):
        number = draw.choice((0, 1, 1, 1, 1, 2, 2, 2, 2, 2))
        credit[number] += 2.0 * allowed[number]
        missed = credit[number] >= 1.0
        credit[number] -= missed
        b.finished(number, missed)
    # No chance and no feedback here: a wrong factor would drift to the limit of 1 s.
    assert [b.advance(number) for number in range(3)] == pytest.approx([0.0] * 3, abs=0.5)


def test_the_class_that_misses_is_advanced_until_it_misses_no_more_than_others() -> None:
    draw = random.Random(7)
    b = balance((1.0, 0.01), (2.0, 0.01))

    def chance(number: int) -> float:
        base = (0.04, 0.0025)[number]
        return min(1.0, base * 2.718 ** (-4.0 * b.advance(number)))

    missed = [0, 0]
    for i in range(60_000):
        number = int(draw.random() < 0.5)
        miss = draw.random() < chance(number)
        b.finished(number, miss)
        if i >= 20_000:
            missed[number] += miss
    assert b.advance(0) > 0.1 > -0.1 > b.advance(1)
    assert 0.6 < missed[0] / missed[1] < 1.6


def test_advances_are_limited_and_average_to_nothing() -> None:
    b = balance((1.0, 0.01), (2.0, 0.01))
    for i in range(100):
        b.finished(i % 2, i % 2 == 0)
        if b.advance(0) < 0.5:
            assert b.advance(0) + b.advance(1) == pytest.approx(0.0, abs=0.06)
    for _ in range(1_000):
        b.finished(0, True)
        b.finished(1, False)
    assert b.advance(0) == 0.5
    assert b.advance(1) >= -1.0


def test_a_class_begins_anew() -> None:
    b = balance((1.0, 0.01), (3.0, 0.01))
    b.finished(0, False)
    b.finished(1, False)
    b.finished(1, True)
    b.set_class(1, 2.0, 0.01)
    assert b.advance(1) == 0.0
    assert b.advance(0) == pytest.approx(-0.05)


def test_bad_arguments() -> None:
    b = ClassBalance()
    with pytest.raises(ValueError, match="nor the next"):
        b.set_class(1, 1.0, 0.01)
    for slo_s, allowed in ((0.0, 0.01), (1.0, 0.0), (1.0, 1.0), (float("nan"), 0.5)):
        with pytest.raises(ValueError, match="out of range"):
            b.set_class(0, slo_s, allowed)
    with pytest.raises(ValueError, match="not one of 0"):
        b.finished(0, False)
    with pytest.raises(ValueError, match="not one of 0"):
        b.advance(0)
    for number in range(ClassBalance.MOST_CLASSES):
        b.set_class(number, 1.0, 0.5)
    with pytest.raises(ValueError, match="nor the next"):
        b.set_class(ClassBalance.MOST_CLASSES, 1.0, 0.5)


def test_an_advance_is_limited_to_half_of_the_budget() -> None:
    assert limited_advance(0.1, 0.5) == 0.1
    assert limited_advance(1e306, 0.5) == 0.25
    assert limited_advance(-0.3, 0.5) == -0.25
