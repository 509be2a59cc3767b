"""The matching engine on real stock quotes, against a vectorised NumPy scan and a plain dict.

python -m bench.matching [memory KIND COUNT]: `memory` prints the bytes that a conjunction costs.

Two populations have 2 % selectivity: `symbol` subscribes to one of 50 symbols, `ranges` to ranges
of the same two attributes. In a third, `any`, each subscribes to ranges of any two of five
attributes, most of which are correlated. Both sides get quotes as dicts, one at a time, and return
the ids of all matches in an array. The scan compares the bounds (or one-byte codes of symbols) of
all subscriptions, each operation into preallocated memory: the best that is possible without an
index.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from _core.matching.engine import Conjunctions
from bench.output import Result, interleaved, report, result

Quote = dict[str, str | float]
Conjunction = list[tuple[str, str, tuple[str | float, ...]]]

QUOTES = Path(__file__).resolve().parent / "data/stock_quotes.csv.gz"
NUMBERS = ("open", "high", "low", "close", "volume")
KINDS = ("symbol", "ranges", "any")
SELECTIVITY = 0.02
SUBSCRIPTIONS = 5_000
MANY = 100_000
MAX_SUBSCRIPTIONS = 1_000_000
CHANGES = 2_000
ROUNDS = 9
LEAST_RATIO = {(kind, SUBSCRIPTIONS): 5.0 for kind in KINDS} | {("symbol", MAX_SUBSCRIPTIONS): 3.0}


def quotes() -> list[Quote]:
    """All quotes of half the symbols, in random order: 2 % is one of 50."""
    with gzip.open(QUOTES, "rt") as lines:
        rows = list(csv.DictReader(lines))
    symbols = sorted({row["symbol"] for row in rows})[::2]
    made: list[Quote] = [
        {"class": "STOCK", "symbol": row["symbol"], "date": row["date"]}
        | {name: float(row[name]) for name in NUMBERS}
        for row in rows
        if row["symbol"] in symbols
    ]
    random.Random(1).shuffle(made)
    return made


def subscriptions(kind: str, events: list[Quote]) -> Iterator[Conjunction]:
    """An endless supply of subscriptions."""
    draw = random.Random(2)
    if kind == "symbol":
        for symbol in itertools.cycle(sorted({event["symbol"] for event in events})):
            yield [("symbol", "=", (symbol,))]
    columns = {name: sorted(float(event[name]) for event in events) for name in NUMBERS}
    # The attributes are nearly independent; a range covers this share of an attribute's quotes.
    share = SELECTIVITY**0.5
    while True:
        conjunction: Conjunction = []
        for name in ("close", "volume") if kind == "ranges" else draw.sample(NUMBERS, 2):
            column = columns[name]
            first = draw.uniform(0, 1 - share) * (len(column) - 1)
            low, high = column[int(first)], column[int(first + share * len(column))]
            conjunction += [(name, ">=", (low,)), (name, "<=", (high,))]
        yield conjunction


def engine_of(conjunctions: list[Conjunction]) -> Conjunctions:
    """An engine with ids from 0."""
    engine = Conjunctions()
    for number, conjunction in enumerate(conjunctions):
        engine.insert(number, conjunction)
    return engine


def symbol_scan(conjunctions: list[Conjunction]) -> Callable[[Quote], np.ndarray]:
    """One byte per subscription."""
    symbols = [conjunction[0][2][0] for conjunction in conjunctions]
    codes = {symbol: np.uint8(i) for i, symbol in enumerate(sorted(set(symbols)))}
    column = np.array([codes[symbol] for symbol in symbols])
    same = np.empty(len(column), bool)
    equal = np.equal

    def scan(event: Quote) -> np.ndarray:
        return equal(column, codes[event["symbol"]], out=same).nonzero()[0]

    return scan


def ranges_scan(conjunctions: list[Conjunction]) -> Callable[[Quote], np.ndarray]:
    """Two bounds per subscription as doubles, for each constrained attribute."""
    bounds: dict[tuple[str, str], np.ndarray] = {}
    for number, conjunction in enumerate(conjunctions):
        for name, operator, (value,) in conjunction:
            if (name, operator) not in bounds:
                open_end = -math.inf if operator == ">=" else math.inf
                bounds[name, operator] = np.full(len(conjunctions), open_end)
            bounds[name, operator][number] = value
    # An attribute is at least its lower end: the end is at most the attribute.
    compares = [
        (np.less_equal if operator == ">=" else np.greater_equal, ends, name)
        for (name, operator), ends in bounds.items()
    ]
    (compare_first, first_ends, first_name), *others = compares
    all_hold, holds = np.empty((2, len(conjunctions)), bool)
    both = np.bitwise_and

    def scan(event: Quote) -> np.ndarray:
        compare_first(first_ends, event[first_name], out=all_hold)
        for compare, ends, name in others:
            both(all_hold, compare(ends, event[name], out=holds), out=all_hold)
        return all_hold.nonzero()[0]

    return scan


SCANS = {"symbol": symbol_scan, "ranges": ranges_scan, "any": ranges_scan}


def time_matching(match: Callable[[Quote], object], events: list[Quote]) -> float:
    """Seconds per event."""
    started = time.perf_counter()
    for event in events:
        match(event)
    return (time.perf_counter() - started) / len(events)


def matching(kind: str, events: list[Quote], count: int) -> Result:
    """Both sides on the same events; the result includes the population's selectivity."""
    conjunctions = list(itertools.islice(subscriptions(kind, events), count))
    engine = engine_of(conjunctions)
    scan = SCANS[kind](conjunctions)
    events = events[: max(len(events) * SUBSCRIPTIONS // count, 50)]
    matched = 0
    for event in events[:50]:
        found = engine.match(event)
        if sorted(found) != scan(event).tolist():
            sys.exit("error: the engine and the scan disagree")
        matched += len(found)
    engine_s, scan_s = interleaved(
        ROUNDS,
        lambda: time_matching(engine.match, events),
        lambda: time_matching(scan, events),
    )
    return result(
        f"matching-{kind}-{count}",
        engine_s,
        "us",
        "NumPy scan",
        scan_s,
        least_ratio=LEAST_RATIO.get((kind, count)),
        events_s=round(1 / engine_s),
        selectivity=round(matched / count / 50, 4),
    )


def time_changes(engine: Conjunctions, fresh: list[Conjunction], draw: random.Random) -> float:
    """Seconds for an insertion and the removal of a random entry."""
    size = len(engine)
    gone = draw.sample(range(size), len(fresh))
    insert, remove = engine.insert, engine.remove
    started = time.perf_counter()
    for number, conjunction in zip(gone, fresh, strict=True):
        remove(number)
        insert(number, conjunction)
    return (time.perf_counter() - started) / len(fresh)


def time_dict(
    known: dict[int, Conjunction], fresh: list[Conjunction], draw: random.Random
) -> float:
    """The same of a dict."""
    gone = draw.sample(range(len(known)), len(fresh))
    started = time.perf_counter()
    for number, conjunction in zip(gone, fresh, strict=True):
        del known[number]
        known[number] = conjunction
    return (time.perf_counter() - started) / len(fresh)


def changes(kind: str, events: list[Quote]) -> list[Result]:
    """At both sizes, alternately; `growth` is the larger over the smaller."""
    draw = random.Random(3)
    source = subscriptions(kind, events)
    measures: list[Callable[[], float]] = []
    for count in (SUBSCRIPTIONS, MANY):
        conjunctions = list(itertools.islice(source, count))
        engine, known = engine_of(conjunctions), dict(enumerate(conjunctions))
        fresh = list(itertools.islice(source, CHANGES))
        measures.append(lambda engine=engine, fresh=fresh: time_changes(engine, fresh, draw))
        measures.append(lambda known=known, fresh=fresh: time_dict(known, fresh, draw))
    few_s, few_dict_s, many_s, many_dict_s = interleaved(ROUNDS, *measures)
    return [
        result(f"matching-change-{kind}-{SUBSCRIPTIONS}", few_s, "us", "dict", few_dict_s),
        result(
            f"matching-change-{kind}-{MANY}",
            many_s,
            "us",
            "dict",
            many_dict_s,
            also={"growth ≤ 4": many_s / few_s <= 4.0},
            growth=round(many_s / few_s, 2),
            growth_of_dict=round(many_dict_s / few_dict_s, 2),
        ),
    ]


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def memory_of(kind: str, count: int) -> float:
    """Bytes per subscription, including its id; in a process that has done nothing else."""
    source = subscriptions(kind, quotes())
    engine = Conjunctions()
    engine.insert(2**40, next(source))
    before = resident_bytes()
    for number in range(count):
        engine.insert(2**41 + number, next(source))
    return (resident_bytes() - before) / count


def memory(kind: str, count: int) -> Result:
    """In a process of its own."""
    command = [sys.executable, "-m", "bench.matching", "memory", kind, str(count)]
    answer = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return result(f"matching-memory-{kind}-{count}", float(answer), "bytes")


def run() -> Iterator[Result]:
    """Goals: matching-…-5000 at least 5 times the scan, matching-symbol-1000000 3 times; `growth`
    of changes at most 4; memory about the same for each subscription at every size."""
    events = quotes()
    for count, kind in itertools.product((SUBSCRIPTIONS, MANY, MAX_SUBSCRIPTIONS), KINDS):
        yield matching(kind, events, count)
    for kind in KINDS:
        yield from changes(kind, events)
    for kind, count in itertools.product(KINDS, (SUBSCRIPTIONS, MANY, MAX_SUBSCRIPTIONS)):
        yield memory(kind, count)


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print(memory_of(sys.argv[2], int(sys.argv[3])))
    else:
        report(run())
