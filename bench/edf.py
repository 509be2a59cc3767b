"""EDF queue: one push and one pop at 10,000 queued, against heapq.

python -m bench.edf
"""

import heapq
import random
import time
from array import array

from _core import _bench
from _core.queue.edf import EdfQueue
from bench.output import Result, interleaved, report, result

QUEUED = 10_000
PAIRS = 100_000
ROUNDS = 9


def deadlines(seed: int = 1) -> list[float]:
    """Deadlines of a busy master: time passes, budgets are spread over a second."""
    draw = random.Random(seed)
    waiting = [draw.random() for _ in range(QUEUED)]
    return waiting + [i / QUEUED + draw.random() for i in range(PAIRS)]


def edf_queue(keys: list[float]) -> float:
    """Seconds per push and pop of our queue, called from Python."""
    queue: EdfQueue[object] = EdfQueue()
    item = object()
    for key in keys[:QUEUED]:
        queue.push(key, item)
    push, pop, later = queue.push, queue.pop, keys[QUEUED:]
    started = time.perf_counter()
    for key in later:
        push(key, item)
        pop()
    return (time.perf_counter() - started) / PAIRS


def heapq_tuples(keys: list[float]) -> float:
    """The same with heapq over (key, sequence, item): as stable, but without handles."""
    queue: list[tuple[float, int, object]] = []
    item = object()
    for sequence, key in enumerate(keys[:QUEUED]):
        heapq.heappush(queue, (key, sequence, item))
    push, pop, later = heapq.heappush, heapq.heappop, keys[QUEUED:]
    started = time.perf_counter()
    for sequence, key in enumerate(later, QUEUED):
        push(queue, (key, sequence, item))
        pop(queue)
    return (time.perf_counter() - started) / PAIRS


def run() -> list[Result]:
    """Both results; goals: edf-python at least 2.5, edf-cython at least 5."""
    keys = deadlines()
    packed = array("d", keys)
    python_s, cython_s, heapq_s = interleaved(
        ROUNDS,
        lambda: edf_queue(keys),
        lambda: _bench.edf_push_pop(packed, QUEUED),
        lambda: heapq_tuples(keys),
    )
    peer = "heapq of tuples, from Python"
    return [
        result("edf-python", python_s, "ns", peer, heapq_s, least_ratio=2.5),
        result("edf-cython", cython_s, "ns", peer, heapq_s, least_ratio=5.0),
    ]


if __name__ == "__main__":
    report(run())
