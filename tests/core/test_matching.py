"""The matching engine against going through all predicates; covering and intersection, too.

SANDERLING_MATCHING=1000000 compares a million pairs of an event and a population, in minutes.
"""

from __future__ import annotations

import gc
import math
import os
import random
import string
import sys
from collections.abc import Callable
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from _core.matching.engine import Conjunctions, covers, holds, intersects
from tests.core import matching_populations as populations
from tests.core.matching_populations import Event, Predicate
from tests.examples import examples
from tests.oracles import matching as oracle

PAIRS = int(os.environ.get("SANDERLING_MATCHING", "20000"))
POPULATION = 25  # conjunctions that each event is held against
SEEDS = range(8)


def naive_match(population: dict[int, list[Predicate]], event: Event) -> list[int]:
    return sorted(number for number, one in population.items() if oracle.holds(one, event))


def compare_churn(
    draw: random.Random,
    pairs: int,
    size: int,
    conjunction: Callable[[random.Random], list[Predicate]],
    event: Callable[[random.Random], Event],
) -> None:
    """Hold so many events against a population of about `size` that changes with each of them."""
    engine = Conjunctions()
    population: dict[int, list[Predicate]] = {}
    fresh = 0
    for pair in range(pairs):
        for _ in range(2 if len(population) < size else draw.randint(0, 2)):
            population[fresh] = conjunction(draw)
            engine.insert(fresh, population[fresh])
            fresh += 1
        while len(population) > size or (population and draw.random() < 0.3):
            gone = draw.choice(list(population))
            del population[gone]
            engine.remove(gone)
        if pair % (20 * size) == 19 * size:  # down to a few now and then
            for gone in draw.sample(list(population), len(population) * 9 // 10):
                del population[gone]
                engine.remove(gone)
        happened = event(draw)
        found = engine.match(happened)
        assert sorted(found) == naive_match(population, happened), (happened, population)
        assert len(engine) == len(population)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changing_population_of_all_operators(seed: int) -> None:
    draw = random.Random(seed)
    share = PAIRS // len(SEEDS) // 2
    compare_churn(draw, share, POPULATION, populations.some_conjunction, populations.some_event)
    compare_churn(draw, share, POPULATION, populations.some_alert, populations.some_reading)


@pytest.mark.parametrize("seed", range(3))
def test_a_changing_population_of_many_attributes(seed: int) -> None:
    """More than a group has columns for, most of them of few conjunctions."""
    many = string.ascii_letters
    compare_churn(
        random.Random(seed),
        400,
        80,
        lambda draw: populations.some_conjunction(draw, draw.choice((many, many[:3]))),
        lambda draw: populations.some_event(draw, draw.choice((many, many[:3]))),
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_large_population_that_grows_and_shrinks(seed: int) -> None:
    """Thousands in one group: several blocks of rows, full buckets, slots used again."""
    draw = random.Random(seed)
    engine = Conjunctions()
    population: dict[int, list[Predicate]] = {}

    def compare(count: int) -> None:
        for _ in range(count):
            event: Event = {"v": draw.choice((draw.uniform(0, 9), draw.randrange(10))), "w": 5.0}
            event["r"] = populations.some_area(draw)
            assert sorted(engine.match(event)) == naive_match(population, event)

    for number in range(9_000):
        low, high = populations.some_range(draw, 9)
        low = draw.choice((low, float(int(low))))
        area = populations.some_area(draw)
        narrow = [("v", ">=", (low,)), ("v", "<=", (high,)), ("w", ">", (high,))]
        population[number] = draw.choice(
            (
                narrow,
                narrow,
                narrow,
                [("v", ">", (low,)), ("w", ">", (1,))],
                [("r", "under", (area,))],
            )
        )
        engine.insert(number, population[number])
        if number % 1_500 == 0:
            compare(2)
    compare(10)
    for gone in draw.sample(list(population), 8_800):
        del population[gone]
        engine.remove(gone)
        if gone % 1_500 == 0:
            compare(2)
    compare(10)
    for number in range(20_000, 20_300):
        population[number] = [("v", ">=", (number % 9,)), ("w", ">", (0,))]
        engine.insert(number, population[number])
    compare(10)


class EngineAgainstTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = Conjunctions()
        self.population: dict[int, list[Predicate]] = {}
        self.draw = random.Random(0)

    @rule(seed=st.integers(0, 2**32), number=st.integers(0, 40), like=st.booleans())
    def insert(self, seed: int, number: int, like: bool) -> None:
        self.draw.seed(seed)
        conjunction = populations.some_conjunction(self.draw, "ab")
        if like and self.population:
            conjunction = self.draw.choice(list(self.population.values()))
        if number in self.population:
            with pytest.raises(ValueError, match="there already"):
                self.engine.insert(number, conjunction)
        else:
            self.engine.insert(number, conjunction)
            self.population[number] = conjunction

    @precondition(lambda self: self.population)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.population)))
        self.engine.remove(number)
        del self.population[number]
        with pytest.raises(KeyError):
            self.engine.remove(number)

    @rule(seed=st.integers(0, 2**32))
    def match(self, seed: int) -> None:
        self.draw.seed(seed)
        event = populations.some_event(self.draw, "abc")
        assert sorted(self.engine.match(event)) == naive_match(self.population, event)

    @rule(seed=st.integers(0, 2**32))
    def intersecting(self, seed: int) -> None:
        self.draw.seed(seed)
        asked = populations.some_conjunction(self.draw, "ab")
        expected = sorted(
            number for number, one in self.population.items() if oracle.intersects(one, asked)
        )
        assert sorted(self.engine.intersecting(asked)) == expected
        assert self.engine.intersects(asked) == bool(expected)

    @invariant()
    def same_ids(self) -> None:
        assert len(self.engine) == len(self.population)
        assert all((number in self.engine) == (number in self.population) for number in range(41))


TestEngineAgainstTwin = EngineAgainstTwin.TestCase
TestEngineAgainstTwin.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)


@given(st.integers(0, 2**64))
@settings(max_examples=examples(800), deadline=None)
def test_covering_intersection_and_holding_of_pairs(seed: int) -> None:
    draw = random.Random(seed)
    a = populations.some_conjunction(draw, "ab")
    b = populations.some_conjunction(draw, "ab")
    event = populations.some_event(draw, "ab")
    assert holds(a, event) == oracle.holds(a, event)
    assert covers(a, b) == oracle.covers(a, b)
    assert covers(b, a) == oracle.covers(b, a)
    assert intersects(a, b) == oracle.intersects(a, b)
    assert covers(a, [*a, *b])
    assert covers(a, a)


@pytest.mark.parametrize("seed", range(4))
def test_who_intersects_an_advertisement(seed: int) -> None:
    draw = random.Random(seed)
    some = (populations.some_conjunction, populations.some_alert)[seed % 2]
    population = dict(enumerate(some(draw) for _ in range(300)))
    engine = Conjunctions()
    for number, conjunction in population.items():
        engine.insert(number, conjunction)
    for _ in range(15):
        asked = some(draw)
        expected = [number for number, one in population.items() if oracle.intersects(one, asked)]
        assert sorted(engine.intersecting(asked)) == expected
        assert engine.intersects(asked) == bool(expected)


BY_HAND: list[tuple[Predicate, list[object], list[object]]] = [
    (("a", "=", (1,)), [1, 1.0], [True, "1", 2, math.nan]),
    (("a", "=", (True,)), [True], [1, 1.0, False, "True"]),
    (("a", "=", (0,)), [0, -0.0], [False, ""]),
    (("a", "=", (2**53,)), [2**53, 2**53 + 1], [2**53 + 2]),
    (("a", "!=", (1,)), [2, True, "1", ""], [1, 1.0, math.nan]),
    (("a", "!=", (False,)), [True, 0, "a"], [False, math.nan]),
    (("a", "<", (3,)), [2.999, -math.inf, -(10**400)], [3, "2", True, math.nan]),
    (("a", "<=", (3,)), [3, 3.0], [math.nextafter(3, 4), "3"]),
    (("a", ">", (3,)), [3.001, math.inf, 10**400], [3, "4", math.nan]),
    (("a", ">=", (0,)), [0, -0.0, 5e-324], [-5e-324, False]),
    (("a", "<", ("b",)), ["a", "", "a" + populations.LAST], ["b", "ba", 1]),
    (("a", ">", ("building",)), ["building\0", "building/a", "c"], ["building", "buildin"]),
    (("a", "prefix", ("b1",)), ["b1", "b1/f4", "b10"], ["b", "B1", "", 1]),
    (("a", "prefix", ("",)), ["", "x"], [1, True]),
    (("a", "under", ("b1/f4",)), ["b1/f4", "b1/f4/r413"], ["b1/f41", "b1/f4-", "b1", "b1/f40"]),
    (("a", "in", (1, "x", True)), [1, "x", True, 1.0], [2, "1", False]),
    (("a", "present", ()), [0, False, "", math.nan, "x", -math.inf], []),
]


@pytest.mark.parametrize(("predicate", "fulfil", "others"), BY_HAND)
def test_what_a_predicate_means(
    predicate: Predicate, fulfil: list[object], others: list[object]
) -> None:
    engine = Conjunctions()
    engine.insert(7, [predicate])
    engine.insert(8, [predicate, ("b", "present", ())])
    for value in fulfil:
        assert list(engine.match({"a": value})) == [7], value
        assert holds([predicate], {"a": value})
    for value in others:
        assert list(engine.match({"a": value})) == [], value
        assert not holds([predicate], {"a": value})
    assert list(engine.match({"b": 1})) == []


def test_a_conjunction_without_predicates_holds_for_everything() -> None:
    engine = Conjunctions()
    engine.insert(3, [])
    engine.insert(4, [("a", ">", (1,))])
    assert list(engine.match({})) == [3]
    assert sorted(engine.match({"a": 2})) == [3, 4]
    assert sorted(engine.intersecting([])) == [3, 4]


def test_what_nothing_can_fulfil_is_kept_and_never_found() -> None:
    engine = Conjunctions()
    engine.insert(1, [("a", ">", (3,)), ("a", "<", (3,))])
    assert 1 in engine
    assert list(engine.match({"a": 3})) == []
    assert list(engine.intersecting([])) == []
    assert not engine.intersects([])
    assert covers([("b", "=", (1,))], [("a", ">", (3,)), ("a", "<", (3,))])
    engine.remove(1)
    assert len(engine) == 0


def test_covering_by_hand() -> None:
    hot = [("metric", "=", ("temperature",)), ("value", ">", (30,))]
    hotter = [*hot, ("value", ">=", (31.5,)), ("area", "under", ("b1/f4",))]
    assert covers(hot, hotter)
    assert not covers(hotter, hot)
    assert covers([("area", "prefix", ("b1",))], [("area", "under", ("b1",))])
    assert not covers([("area", "under", ("b1",))], [("area", "prefix", ("b1",))])
    assert covers([("value", "<", (0.0,))], [("value", "<=", (-5e-324,))])
    assert covers([("value", "<=", (-5e-324,))], [("value", "<", (0,))])
    assert intersects(hot, hotter)
    assert not intersects(hot, [("value", "<=", (30,))])
    assert intersects(hot, [("humidity", "<", (10,))])


WRONG: list[tuple[object, str]] = [
    (("a", "~", (1,)), "on a: ~ is no operator"),
    (("a", "=", ()), "on a: = takes one value, not 0"),
    (("a", "<", (1, 2)), "on a: < takes one value, not 2"),
    (("a", "<", (True,)), "takes a number or a str, not bool"),
    (("a", "in", ()), "on a: in needs a value at least"),
    (("a", "present", (1,)), "on a: present takes no value"),
    (("a", "prefix", (1,)), "prefix takes a str, not int"),
    (("a", "under", (True,)), "under takes a str, not bool"),
    (("a", "=", (math.nan,)), "cannot compare with NaN"),
    (("a", "=", (None,)), "takes a bool, an int, a float or a str, not NoneType"),
    (("a", "=", ("\ud800",)), "surrogates"),
    (("a", "="), r"is \(attribute, operator, operands\), not \('a', '='\)"),
    (("a", "=", 5), "operands are a sequence"),
    ((1, "=", (1,)), "attribute and operator are str"),
    (None, "a predicate is"),
]


@pytest.mark.parametrize(("predicate", "words"), WRONG)
def test_predicates_that_make_no_sense(predicate: object, words: str) -> None:
    engine = Conjunctions()
    with pytest.raises(ValueError, match=words):
        engine.insert(1, [("b", "=", (1,)), predicate])  # type: ignore[list-item]  # the test
    assert len(engine) == 0
    assert 1 not in engine
    for call in (covers, intersects):
        with pytest.raises(ValueError, match=words):
            call([predicate], [])  # type: ignore[list-item]  # the test


def test_values_that_are_none() -> None:
    engine = Conjunctions()
    engine.insert(1, [("a", "=", (1,))])
    engine.insert(2, [("b", ">", (1,))])
    for event in ({"a": None}, {"b": None}, {"b": [1]}):
        with pytest.raises(ValueError, match="a value is a bool, an int, a float or a str, not"):
            engine.match(event)  # type: ignore[arg-type]  # that is the test
    assert list(engine.match({"a": 1, "b": 2, "c": None})) in ([1, 2], [2, 1])  # type: ignore[dict-item]


@pytest.mark.parametrize("number", [-1, 2**63])
def test_ids_out_of_range(number: int) -> None:
    with pytest.raises(ValueError, match=f"an id is from 0 to .*, not {number}"):
        Conjunctions().insert(number, [])


def test_an_id_is_an_int() -> None:
    with pytest.raises(TypeError, match="an id is an int, not str"):
        Conjunctions().insert("1", [])  # type: ignore[arg-type]  # that is the test


def test_the_greatest_id_comes_back() -> None:
    engine = Conjunctions()
    engine.insert(2**63 - 1, [("a", "=", ("x",))])
    assert list(engine.match({"a": "x"})) == [2**63 - 1]


def test_events_of_another_mapping_and_with_many_attributes() -> None:
    engine = Conjunctions()
    for number in range(200):
        engine.insert(number, [(f"a{number}", ">", (1,)), ("b", "=", ("x",))])
    few = {"a7": 2, "b": "x"}
    assert list(engine.match(few)) == [7]
    assert list(engine.match(MappingProxyType(few))) == [7]
    assert sorted(engine.match({f"a{number}": 2 for number in range(200)} | {"b": "x"})) == [
        *range(200)
    ]


def test_references_are_given_back() -> None:
    ids = [10**12 + i for i in range(600)]
    before = [sys.getrefcount(number) for number in ids]
    engine = Conjunctions()
    for i, number in enumerate(ids):
        conjunction = [("a", "=", ("x",))] if i % 2 else [("a", ">", (i,)), ("b", "<", (9,))]
        engine.insert(number, conjunction)
    assert len(engine.match({"a": "x", "b": 1})) == 300
    for number in ids[:550]:
        engine.remove(number)
    assert sorted(engine.match({"a": 10**6, "b": 1})) == ids[550::2]
    del engine, number
    gc.collect()
    assert [sys.getrefcount(number) for number in ids] == before
