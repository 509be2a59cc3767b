"""What predicates mean: the oracle by hand, and against itself."""

import math

import pytest
from hypothesis import assume, given

from agent.wire.predicate_logic import contradiction
from agent.wire.predicates import Predicate, plain
from tests.oracles.matching import covers, fulfils, holds, intersects, satisfiable
from tests.predicate_samples import conjunctions, events, on_one_attribute, unhurried

NEXT = math.nextafter(1.0, 2.0)
CAN_HOLD = [
    ([("x", ">", (1,)), ("x", "<", (1,))], False),
    ([("x", ">=", (1,)), ("x", "<=", (1,))], True),
    ([("x", ">=", (1,)), ("x", "<=", (1,)), ("x", "!=", (1,))], False),
    ([("x", ">", (1,)), ("x", "<", (NEXT,))], False),
    ([("x", ">", (1,)), ("x", "<=", (NEXT,))], True),
    ([("x", ">", (1,)), ("x", "prefix", ("",))], False),
    ([("x", ">", ("a",)), ("x", "<", ("a\0",))], False),
    ([("x", ">=", ("a",)), ("x", "<", ("a\0",))], True),
    ([("x", "<", ("",))], False),
    ([("x", "!=", (True,)), ("x", "!=", (False,))], True),
    ([("x", "in", (True, False)), ("x", "!=", (True,)), ("x", "!=", (False,))], False),
    ([("x", "under", ("b1",)), ("x", "prefix", ("b1",)), ("x", "!=", ("b1",))], True),
    ([("x", "under", ("b1",)), ("x", "prefix", ("b12",))], False),
    ([("x", "under", ("b1",)), ("x", "<", ("b1/",)), ("x", "!=", ("b1",))], False),
    ([("x", "in", ())], False),
]


@pytest.mark.parametrize(
    ("operator", "operands", "fulfil", "fail"),
    [
        ("=", (1,), [1, 1.0], [True, "1", 2, math.nan]),
        ("=", (True,), [True], [1, "true", False]),
        ("=", (0,), [-0.0, 0], [False, ""]),
        ("!=", (1,), [True, "1", 2], [1, 1.0, math.nan]),
        ("<", (1,), [0.5, -math.inf], [1, "", False, math.nan]),
        (">=", ("b",), ["b", "ba", "é"], ["B", "", 5, True]),
        ("prefix", ("b1",), ["b1", "b12", "b1/f4"], ["b", "", 1]),
        ("prefix", ("",), ["", "b"], [0, False]),
        ("under", ("b1/f4",), ["b1/f4", "b1/f4/r413"], ["b1/f41", "b1", "b1/f", 4]),
        ("in", ("a", 3, False), ["a", 3.0, False], [0, "3", True, math.nan]),
        ("in", (), [], [1, "", True]),
        ("present", (), [1, "", False, math.nan], []),
    ],
)
def test_predicates_by_hand(operator, operands, fulfil, fail):
    assert all(fulfils(value, operator, operands) for value in fulfil)
    assert not any(fulfils(value, operator, operands) for value in fail)
    assert not holds([("x", operator, operands)], {"y": 1})


def test_no_predicates_hold_for_everything():
    assert holds([], {})
    assert covers([], [("x", "=", (1,))])
    assert not covers([("x", "present", ())], [])


@pytest.mark.parametrize(("conjunction", "can_hold"), CAN_HOLD)
def test_conjunctions_that_can_and_cannot_hold(conjunction, can_hold):
    assert satisfiable(conjunction) == can_hold
    assert (contradiction([Predicate(*each) for each in conjunction]) == "") == can_hold


@pytest.mark.parametrize(
    ("general", "special", "expected"),
    [
        ([("x", ">", (1,))], [("x", ">=", (NEXT,))], True),
        ([("x", ">", (1,))], [("x", ">=", (1,))], False),
        ([("x", "!=", (1,))], [("x", "prefix", ("",))], True),
        ([("x", "present", ())], [("x", "<", (3,))], True),
        ([("x", "<", (3,))], [("x", "present", ())], False),
        ([("x", "prefix", ("b1",))], [("x", "under", ("b1",))], True),
        ([("x", "under", ("b1",))], [("x", "prefix", ("b1/",))], True),
        ([("x", "under", ("b1",))], [("x", "prefix", ("b1",))], False),
        ([("x", "in", (1, 2))], [("x", "=", (2.0,))], True),
        ([("x", "<", ("b",))], [("x", "prefix", ("a",))], True),
        ([("x", "<", ("b",))], [("x", "<=", ("b",)), ("x", "!=", ("b",))], True),
        ([("y", "present", ())], [("x", "=", (1,))], False),
        ([("y", "present", ())], [("x", "=", (1,)), ("x", "=", (2,))], True),
    ],
)
def test_covering_by_hand(general, special, expected):
    assert covers(general, special) == expected


@unhurried
@given(conjunctions, conjunctions, events)
def test_no_event_contradicts_covering_and_intersection(a, b, event):
    if holds(a, event) and holds(b, event):
        assert intersects(a, b)
    if holds(b, event) and not holds(a, event):
        assert not covers(a, b)


@unhurried
@given(*[conjunctions | on_one_attribute] * 3)
def test_laws_of_covering(a, b, c):
    assert covers(a, a)
    assert intersects(a, b) == intersects(b, a)
    assert covers(a, a + b)
    assert intersects(a, b) == satisfiable(a + b)
    if covers(a, b) and covers(b, c):
        assert covers(a, c)
    if covers(a, b) and satisfiable(b):
        assert intersects(a, b)


@unhurried
@given(on_one_attribute, on_one_attribute)
def test_what_is_not_covered_meets_the_opposite(a, b):
    assume(b and satisfiable(b))
    opposites = {"=": "!=", "!=": "="}
    for _, operator, operands in a:
        if operator in opposites:
            opposite = ("x", opposites[operator], operands)
            assert covers([("x", operator, operands)], b) != intersects(b, [opposite])


def test_plain_tuples():
    conjunction = (Predicate("area", "under", ("b1",)), Predicate("co2", "present"))
    assert plain(conjunction) == (("area", "under", ("b1",)), ("co2", "present", ()))
