"""Packings of random requests, run on simulated brokers: how many brokers, and what misses τ."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from _core.colocation.model import Colocation
from agent.placement.headroom import Headroom
from fleet.placement.columns import fewest
from fleet.placement.latency import LatencyModel, Topic, candidates
from fleet.placement.packing import Bins, Planner, Problem, balanced, either, ffd, hybrid, lfs
from fleet.placement.repair import best_fit, leave, repaired
from lab.placement.topics.broker import QUANTILE, TAU_S, Broker, drawn

if TYPE_CHECKING:
    import numpy as np

PLANNERS: Final[dict[str, Planner]] = {
    "FFD": ffd,
    "balanced": balanced,
    "LFS3+FFD": hybrid(3),
    "LFS": lfs,
    "balanced or LFS": either,
}
RATE_SHARE: Final = 0.9  # of r_max, at most
DRIFT: Final = 1.5
DRIFTING: Final = 0.2  # of the topics
KEEP: Final = 1 / 3  # of the headroom, for topics that stay where they are


class Packed(Struct, frozen=True):
    """A packing of one request, measured. `bound`: no packing has fewer brokers by the same model;
    `seconds` are CPU time of planning; shares are of topics and messages over τ, `p90_s` the mean
    over topics."""

    feasibility: str
    planner: str
    topics: int
    brokers: int
    bound: int
    seconds: float
    topics_over: float
    messages_over: float
    p90_s: float


class Drifted(Struct, frozen=True):
    """A packing after a drift, repaired after one window, and planned anew."""

    topics_over_before: float
    topics_over_after: float
    moves: int
    brokers_before: int
    brokers_after: int
    brokers_anew: int


class Online(Struct, frozen=True):
    """Topics that come and go: brokers over those of a plan made anew, and moves an event."""

    extra: float
    moves_an_event: float


def request(
    count: int, draw: np.random.Generator, *, periodic: bool, least: float = 0.0
) -> list[Topic]:
    """Topics to place, with rates from the share `least` of r_max."""
    return [drawn(draw, periodic=periodic, least=least, most=RATE_SHARE) for _ in range(count)]


def ask(model: Colocation, topics: Sequence[Topic], most: int, headroom: Headroom) -> Problem:
    """The problem as our model sees it, with headroom on rates."""
    asked = candidates(model, topics, headroom)
    numbers = list(range(len(topics)))
    alone = [asked.latencies([number])[0] for number in numbers]
    return Problem(numbers, alone, [topic.load for topic in topics], most, asked.feasible)


def ask_any(model: LatencyModel, topics: Sequence[Topic], most: int, headroom: Headroom) -> Problem:
    """The same with any model; a topic alone is feasible by the paper's definition."""
    raised = [
        structs.replace(topic, rate=headroom.raised(topic.rate, topic.publishers))
        for topic in topics
    ]

    def feasible(chosen: Sequence[int]) -> bool:
        some = [raised[number] for number in chosen]
        if len(some) == 1:
            return True
        return all(
            latency <= topic.objective_s
            for latency, topic in zip(model.latencies(some), some, strict=True)
        )

    alone = [model.latencies([topic])[0] for topic in raised]
    return Problem(
        list(range(len(topics))), alone, [topic.load for topic in topics], most, feasible
    )


def packed(
    feasibility: str,
    planner: str,
    problem: Problem,
    topics: Sequence[Topic],
    broker: Broker,
    draw: np.random.Generator,
) -> Packed:
    """Plan, and run the plan."""
    started = time.process_time()
    bound = 0
    if planner == "exact":
        exact = fewest(problem)
        bins, bound = exact.bins, exact.bound
    else:
        bins = PLANNERS[planner](problem)
    seconds = time.process_time() - started
    over, messages, p90_s = measured(bins, topics, broker, draw)
    return Packed(
        feasibility, planner, len(topics), len(bins), bound, seconds, over, messages, p90_s
    )


def measured(
    bins: Bins, topics: Sequence[Topic], broker: Broker, draw: np.random.Generator
) -> tuple[float, float, float]:
    """The shares of topics and of messages over τ, and the mean 90th percentile (s)."""
    import numpy as np

    latencies = [
        each for chosen in bins if chosen for each in broker.run([topics[n] for n in chosen], draw)
    ]
    p90s = np.array([np.quantile(each, QUANTILE) for each in latencies])
    every = np.concatenate(latencies)
    return float((p90s > TAU_S).mean()), float((every > TAU_S).mean()), float(p90s.mean())


def drifted(
    model: Colocation, headroom: Headroom, most: int, count: int, draw: np.random.Generator,
    *, periodic: bool,
) -> Drifted:  # fmt: skip
    """A fifth of the topics sends half as much again; after one window the rates are known."""
    topics = request(count, draw, periodic=periodic)
    before = either(ask(model, topics, most, headroom))
    # Those that would be infeasible alone need another processor, not another place.
    able = [
        number
        for number, topic in enumerate(topics)
        if candidates(model, [_grown(topic)], headroom).feasible([0])
    ]
    for number in draw.choice(able, int(DRIFTING * count), replace=False):
        topics[number] = _grown(topics[number])
    now = ask(model, topics, most, headroom)
    keep = ask(model, topics, most, headroom.part(KEEP))
    after, moved = repaired(before, now.load, now.fits, keep.fits)
    broker = Broker()
    return Drifted(
        measured(before, topics, broker, draw)[0],
        measured(after, topics, broker, draw)[0],
        len(moved),
        len(before),
        sum(map(bool, after)),
        len(either(now)),
    )


def _grown(topic: Topic) -> Topic:
    rate = round(DRIFT * topic.rate)
    return structs.replace(topic, rate=float(rate), publishers=rate if topic.publishers else 0)


def online(
    model: Colocation, headroom: Headroom, most: int, count: int, events: int,
    draw: np.random.Generator, *, periodic: bool,
) -> Online:  # fmt: skip
    """About `count` of twice as many topics are there at a time."""
    topics = request(2 * count, draw, periodic=periodic)
    problem = ask(model, topics, most, headroom)
    bins: Bins = []
    here: list[int] = []
    moves = used = fresh = 0
    for event in range(count + events):
        if event >= count and draw.random() < len(here) / (2 * count):
            topic = here.pop(int(draw.integers(len(here))))
            gone = leave(bins, topic, problem.load, problem.fits)
            moves += len(gone) if event >= count else 0
        else:
            topic = int(draw.choice([n for n in problem.topics if n not in here]))
            here.append(topic)
            best_fit(bins, topic, problem.load, problem.fits)
        if event >= count and event % 10 == 0:
            used += sum(map(bool, bins))
            fresh += len(either(structs.replace(problem, topics=sorted(here))))
    return Online(used / fresh - 1.0, moves / events)
