"""The advances of query classes."""

import random

import pytest

from _core.deadlines.class_advance import ClassBalance, limited_advance


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


def after(steps: int, classes: list[tuple[float, float]], shares: list[int]) -> ClassBalance:
    """A balance that has seen so many rounds of queries, none of which missed."""
    b = balance(*classes)
    for _ in range(steps):
        for number, share in enumerate(shares):
            for _ in range(share):
                b.finished(number, False)
    return b


@pytest.mark.parametrize(
    ("allowed", "shares"),
    [((0.01, 0.01), [1, 199]), ((0.0001, 0.05, 0.02), [10, 10, 20]), ((0.02, 0.001), [1, 499])],
)
def test_at_equal_misses_per_allowance_nothing_moves(
    allowed: tuple[float, ...], shares: list[int]
) -> None:
    """Rare and strict classes too: what each class moves when another misses, by how often."""
    classes = [(10.0, a) for a in allowed]
    drift_s = [0.0] * len(allowed)
    scale_s = [0.0] * len(allowed)
    for missing, (share, may) in enumerate(zip(shares, allowed, strict=True)):
        b = after(4_000 // sum(shares), classes, shares)
        b.finished(missing, True)
        for number in range(len(allowed)):
            drift_s[number] += share * may * b.advance(number)
            scale_s[number] += share * may * abs(b.advance(number))
    # Shares are estimates: the class that came last counts for more.
    assert all(abs(d) <= 0.25 * s for d, s in zip(drift_s, scale_s, strict=True))


def test_a_rare_and_strict_class_that_always_misses_leaves_the_others_alone() -> None:
    b = balance((1.0, 0.01), (2.0, 0.01), (0.001, 1e-6))
    for _ in range(100):
        for number in (0, 1) * 40 + (2,):
            b.finished(number, number == 2)
    assert b.advance(2) == pytest.approx(0.0005)
    assert b.advance(0) == pytest.approx(0.0, abs=0.001)
    assert b.advance(1) == pytest.approx(0.0, abs=0.001)


def test_one_miss_moves_no_class_further_than_ten_steps() -> None:
    b = after(20, [(10.0, 0.01), (10.0, 1e-6)], [199, 1])
    b.finished(1, True)
    # The first steps are longer: 5 / 2 times 2 % of the mean SLO.
    assert 0.0 < b.advance(1) <= 10 * 2.5 * 0.02 * 10.0


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
    for number in range(ClassBalance.MAX_CLASSES):
        b.set_class(number, 1.0, 0.5)
    with pytest.raises(ValueError, match="nor the next"):
        b.set_class(ClassBalance.MAX_CLASSES, 1.0, 0.5)


def test_an_advance_is_limited_to_half_of_the_budget() -> None:
    assert limited_advance(0.1, 0.5) == 0.1
    assert limited_advance(1e306, 0.5) == 0.25
    assert limited_advance(-0.3, 0.5) == -0.25
