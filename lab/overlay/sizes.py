"""Costs of advertisements and subscriptions: tables, messages and delays (OctopiA Fig. 9, 11)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

from agent.overlay.events import Advertise, Subscribe
from agent.overlay.scot import Scot
from lab.overlay import quotes
from lab.overlay.contenders import CONTENDERS, Contender
from lab.overlay.model import costs_of
from lab.overlay.topology import paper
from lab.overlay.world import Reach, World

# Time between two of them, so that none waits for another.
SPACING_S: Final = 0.25
PUBLISHERS: Final = 100

Experiment = Literal["advertisements", "subscriptions"]
EXPERIMENTS: Final[tuple[Experiment, ...]] = get_args(Experiment)


class Sizes(Struct, frozen=True, repr_omit_defaults=True):
    """One run: `count` advertisements, or `count` subscriptions with those of `publishers`."""

    experiment: Experiment
    contender: str
    count: int
    seed: int
    publishers: int = PUBLISHERS


class Cost(Struct, frozen=True):
    """The result: entries of a broker's tables, mean and maximum over all brokers; messages between
    brokers in all, and by the name of their class; delays in milliseconds."""

    case: Sizes
    srt_mean: float
    srt_most: int
    prt_mean: float
    prt_most: int
    messages: int
    by_kind: dict[str, int]
    delay_mean_ms: float
    delay_most_ms: float


def measure(case: Sizes) -> Cost:
    """Run it. Deterministic."""
    contender, scot = CONTENDERS[case.contender], paper()
    # The same clients at the same brokers for all contenders.
    draw = random.Random(f"{case.experiment} {case.count} {case.seed}")
    world = World(scot, contender.maker(scot), costs_of(contender))
    world.connect()
    symbols = sorted(quotes.shipped())
    subscribing = case.experiment == "subscriptions"
    publishers = case.publishers if subscribing else case.count
    reached = advertise(world, contender, scot, quotes.offered(symbols, publishers), draw)
    if subscribing:
        world.messages.clear()
        reached = subscribe(world, contender, scot, symbols, case.count, draw)
    return _cost(case, world, reached)


def advertise(
    world: World, contender: Contender, scot: Scot, offers: Sequence[str], draw: random.Random
) -> list[Reach]:
    """Add a publisher for each symbol, at random places, one after the other."""
    places = quotes.placed(list(scot.brokers()), len(offers), draw)
    reached = []
    for number, (symbol, place) in enumerate(zip(offers, places, strict=True)):
        event = Advertise(f"p{number}", quotes.of(symbol))
        reached.append(world.happen(world.now + SPACING_S, place, event, contender.advertisements))
        world.run()
    return reached


def subscribe(
    world: World,
    contender: Contender,
    scot: Scot,
    symbols: Sequence[str],
    count: int,
    draw: random.Random,
) -> list[Reach]:
    """Add this many subscribers, at random places, one after the other."""
    places = quotes.placed(list(scot.brokers()), count, draw)
    reached = []
    for number, (wanted, place) in enumerate(
        zip(quotes.wanted(symbols, count, draw), places, strict=True)
    ):
        event = Subscribe(f"s{number}", wanted)
        reached.append(world.happen(world.now + SPACING_S, place, event, contender.subscriptions))
        world.run()
    return reached


def _cost(case: Sizes, world: World, reached: Sequence[Reach]) -> Cost:
    srt = [broker.srt_entries for broker in world.brokers]
    prt = [broker.prt_entries for broker in world.brokers]
    delays_ms = [1e3 * each.delay_s for each in reached]
    return Cost(
        case=case,
        srt_mean=sum(srt) / len(srt),
        srt_most=max(srt),
        prt_mean=sum(prt) / len(prt),
        prt_most=max(prt),
        messages=world.messages.total(),
        by_kind=dict(sorted(world.messages.items())),
        delay_mean_ms=sum(delays_ms) / len(delays_ms),
        delay_most_ms=max(delays_ms),
    )


OCTOPIA: Final = "snr"  # tables and their messages are the same with dynamic routing


BASELINE: Final = "tid"


class Measure(Struct, frozen=True):
    """A column of the comparison: the quantity, and the paper's reduction of it (percent)."""

    title: str
    of: Callable[[Cost], float]
    form: str
    paper: dict[Experiment, float]


MEASURES: Final = (
    Measure(
        "SRT entries a broker",
        lambda cost: cost.srt_mean,
        ".1f",
        {"advertisements": -93.0},
    ),
    Measure(
        "PRT entries a broker",
        lambda cost: cost.prt_mean,
        ".1f",
        {"subscriptions": 33.0},
    ),
    Measure(
        "messages each",
        lambda cost: cost.messages / cost.case.count,
        ".2f",
        {"advertisements": -98.9, "subscriptions": 48.6},
    ),
    Measure(
        "delay, ms",
        lambda cost: cost.delay_mean_ms,
        ".1f",
        {"advertisements": -63.5, "subscriptions": -33.0},
    ),
)


def measures_of(experiment: Experiment) -> list[Measure]:
    """The columns that apply."""
    return [measure for measure in MEASURES if experiment in measure.paper]


class Pair(Struct, frozen=True):
    """The two contenders in one case."""

    count: int
    ours: Cost
    theirs: Cost


def pairs(costs: Sequence[Cost], experiment: Experiment) -> list[Pair]:
    """By count."""
    found = {
        (cost.case.contender, cost.case.count): cost
        for cost in costs
        if cost.case.experiment == experiment
    }
    counts = sorted({count for _, count in found})
    return [Pair(n, found[OCTOPIA, n], found[BASELINE, n]) for n in counts]
