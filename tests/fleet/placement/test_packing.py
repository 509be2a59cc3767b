"""Planners of packing, against exhaustive search and by their properties."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pytest

from _core.colocation.model import Colocation
from agent.placement.headroom import Headroom
from fleet.placement.columns import exact, fewest
from fleet.placement.latency import Topic, candidates
from fleet.placement.packing import (
    Bins,
    Planner,
    Problem,
    balanced,
    disjoint_sets,
    either,
    ffd,
    first_fit,
    hybrid,
    lfs,
    matched,
)
from fleet.placement.repair import best_fit, leave, repaired

MODEL = Colocation(shared=False, cores=4.0, interference=0.08, window_s=90.0)
PLANNERS: dict[str, Planner] = {
    "ffd": ffd,
    "balanced": balanced,
    "hybrid": hybrid(3),
    "lfs": lfs,
    "either": either,
    "exact": exact,
}


def some(seed: int, count: int, *, least: float = 0.2) -> list[Topic]:
    draw = random.Random(seed)
    topics = []
    for _ in range(count):
        service_s = draw.choice([0.0126, 0.0262, 0.0398, 0.0466])
        rate = int(draw.uniform(least, 0.9) / service_s)
        topics.append(Topic(service_s, rate, draw.choice([0, rate])))
    return topics


def problem(topics: Sequence[Topic], most: int = 6) -> Problem:
    asked = candidates(MODEL, topics)
    numbers = list(range(len(topics)))
    alone = [asked.latencies([n])[0] for n in numbers]
    return Problem(numbers, alone, [topic.load for topic in topics], most, asked.feasible)


def partitions(topics: list[int]) -> Iterator[Bins]:
    if not topics:
        yield []
        return
    first, rest = topics[0], topics[1:]
    for bins in partitions(rest):
        yield [[first], *bins]
        for place, each in enumerate(bins):
            yield [*bins[:place], [first, *each], *bins[place + 1 :]]


def least(given: Problem) -> int:
    feasible = cache(given.feasible)
    return min(
        len(bins)
        for bins in partitions(given.topics)
        if all(
            len(each) == 1 or (len(each) <= given.most and feasible(tuple(each))) for each in bins
        )
    )


def check(bins: Bins, given: Problem) -> None:
    assert sorted(topic for each in bins for topic in each) == given.topics
    for each in bins:
        assert len(each) <= given.most
        assert len(each) == 1 or given.feasible(each)


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("most", [1, 2, 3, 6])
def test_bins_are_feasible_and_have_each_topic_once(name: str, most: int) -> None:
    for seed in range(4):
        given = problem(some(seed, 14), most)
        check(PLANNERS[name](given), given)


@pytest.mark.parametrize("seed", range(5))
def test_exact_is_the_least_and_says_so(seed: int) -> None:
    given = problem(some(seed, 8, least=0.4), 3)
    found = fewest(given, clock=lambda: 0.0)  # never in a hurry
    assert len(found.bins) == least(given)
    assert found.bound <= len(found.bins)
    assert found.proven


@pytest.mark.parametrize("seed", range(4))
def test_exact_is_never_worse_than_the_others(seed: int) -> None:
    given = problem(some(seed, 24), 6)
    found = fewest(given, seconds=2.0)
    assert all(len(found.bins) <= len(PLANNERS[name](given)) for name in ("ffd", "lfs"))
    assert found.bound <= len(found.bins)


def test_a_clock_that_has_run_out_leaves_a_packing_all_the_same() -> None:
    times = iter(range(10_000))
    given = problem(some(1, 24), 6)
    found = fewest(given, seconds=1.0, clock=lambda: float(next(times)))
    check(found.bins, given)
    assert not found.proven or found.bound == 4


def test_two_a_master_is_solved_exactly() -> None:
    for seed in range(4):
        given = problem(some(seed, 8, least=0.5), 2)
        assert len(lfs(given)) == len(matched(given.topics, given.feasible)) == least(given)


def test_the_largest_sets_come_first_and_none_is_left() -> None:
    given = problem(some(3, 14), 4)
    sets = list(disjoint_sets(given.heaviest_first(), 4, given.feasible))
    rest = [t for t in given.topics if not any(t in each for each in sets)]
    assert all(len(each) == 4 and given.feasible(each) for each in sets)
    assert not list(disjoint_sets(rest, 4, given.feasible))


def test_what_is_infeasible_alone_gets_its_own_master_and_is_named() -> None:
    topics = [*some(1, 6), Topic(0.05, 40.0)]
    given = problem(topics)
    assert given.infeasible_alone() == [6]
    for plan in PLANNERS.values():
        bins = plan(given)
        check(bins, given)
        assert [6] in bins


def test_nothing_to_pack() -> None:
    for plan in PLANNERS.values():
        assert plan(Problem([], [], [], 6, lambda _: True)) == []


def counted(given: Problem) -> tuple[Callable[[Sequence[int]], bool], list[int]]:
    asked: list[int] = []

    def feasible(topics: Sequence[int]) -> bool:
        asked.append(len(topics))
        return given.feasible(topics)

    return feasible, asked


def test_first_fit_asks_few_questions() -> None:
    given = problem(some(2, 70))
    feasible, asked = counted(given)
    bins = ffd(Problem(given.topics, given.latency_alone, given.load, 6, feasible))
    assert len(asked) <= 70 * len(bins)


def test_repair_leaves_no_infeasible_bin_and_moves_little() -> None:
    for seed in range(6):
        topics = some(seed, 40)
        before = ffd(problem(topics))
        draw = random.Random(seed)
        for number in draw.sample(range(40), 8):
            old = topics[number]
            faster = min(1.5 * old.rate, 0.9 / old.service_s)
            topics[number] = Topic(old.service_s, faster, old.publishers)
        given = problem(topics)
        after, moved = repaired(before, given.load, given.fits)
        check([each for each in after if each], given)
        broken = sum(not given.feasible(each) for each in before)
        assert broken <= len(moved) <= 3 * broken
        at = {topic: place for place, each in enumerate(after) for topic in each}
        stayed = [t for place, each in enumerate(before) for t in each if at[t] == place]
        assert sorted([*stayed, *moved]) == given.topics


def test_repair_of_what_is_feasible_moves_nothing() -> None:
    given = problem(some(1, 30))
    bins = ffd(given)
    assert repaired(bins, given.load, given.fits) == (bins, [])


def test_topics_come_and_go() -> None:
    topics = some(5, 60)
    given = problem(topics)
    draw = random.Random(5)
    bins: Bins = []
    here: list[int] = []
    moves = 0
    for _ in range(300):
        gone = [topic for topic in given.topics if topic not in here]
        if here and (not gone or draw.random() < len(here) / 60):
            topic = draw.choice(here)
            here.remove(topic)
            moves += len(leave(bins, topic, given.load, given.fits))
        else:
            topic = draw.choice(gone)
            here.append(topic)
            best_fit(bins, topic, given.load, given.fits)
        used = [each for each in bins if each]
        check(used, Problem(sorted(here), given.latency_alone, given.load, 6, given.feasible))
    assert 0 < moves < 150
    assert (
        len(used)
        <= 1.3 * len(ffd(Problem(here, given.latency_alone, given.load, 6, given.feasible))) + 1
    )


def test_repair_with_less_headroom_for_who_stays_moves_less() -> None:
    topics = some(2, 40)
    given = problem(topics)
    bins = ffd(given)
    asked = candidates(MODEL, topics, Headroom(0.1))
    strict = Problem(given.topics, given.latency_alone, given.load, 6, asked.feasible).fits
    _, many = repaired(bins, given.load, strict)
    _, none = repaired(bins, given.load, strict, given.fits)
    assert many
    assert not none


def test_repair_puts_a_topic_where_it_fits_though_an_earlier_master_is_free() -> None:
    sizes = (2.0, 0.5, 2.0)

    def fits(place: int, topics: Sequence[int]) -> bool:
        return sum(load[topic] for topic in topics) <= sizes[place]

    load = [1.9, 1.0]
    assert repaired([[0, 1], [], []], load, fits) == ([[0], [], [1]], [1])


def test_headroom_by_chance_is_for_poisson_arrivals_and_shrinks_with_the_rate() -> None:
    headroom = Headroom(0.1, 2.0, 100.0)
    assert headroom.raised(25.0) == pytest.approx(27.5 + 2.0 * 0.5)
    assert headroom.raised(25.0, publishers=25) == pytest.approx(27.5)
    assert headroom.part(0.5) == Headroom(0.05, 1.0, 100.0)


def test_balanced_takes_fewer_masters_than_first_fit_where_the_number_of_topics_binds() -> None:
    """Heavy and light topics: first fit leaves the light ones among themselves."""
    load = [1.0] * 6 + [0.1] * 6
    given = Problem(
        list(range(12)), load, load, 4, lambda topics: sum(load[t] for t in topics) <= 2.05
    )
    assert len(ffd(given)) == 5
    bins = balanced(given)
    assert len(bins) == 4
    check(bins, given)


@pytest.mark.parametrize("seed", range(4))
def test_balanced_never_takes_more_masters_than_first_fit_by_load(seed: int) -> None:
    given = problem(some(seed, 40, least=0.02))
    first = first_fit(given.heaviest_first(), given.most, given.feasible)
    assert len(balanced(given)) <= len(first)
    assert len(either(given)) == min(len(balanced(given)), len(lfs(given)))
