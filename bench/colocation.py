"""Co-location: whether six topics may share a master, and planning for 70.

python -m bench.colocation
"""

import random
import time

from _core.colocation.model import Candidates, Colocation
from bench.output import Result, interleaved, report, result
from fleet.placement.columns import fewest
from fleet.placement.packing import Planner, Problem, balanced, ffd, lfs
from tests.oracles import colocation as oracle

TOPICS = 70
MAX_TOPICS = 6
SETS = 2_000
ROUNDS = 5
GOAL_S = 10e-6
CORES, INTERFERENCE = 4.0, 0.08
NODES = 15  # of a full tree with three levels of questions
TREES = 40


def topics(seed: int = 1) -> list[oracle.Topic]:
    """Topics of the k-TCP paper with rates from 0.4 to 0.9 r_max; Poisson arrivals."""
    draw = random.Random(seed)
    found = []
    for _ in range(TOPICS):
        service_s, most = draw.choice([(0.0126, 78), (0.0262, 37), (0.0398, 24), (0.0466, 20)])
        found.append(
            (service_s, float(draw.randint(int(0.4 * most), int(0.9 * most))), 0.0, 1.0, 0.9)
        )
    return found


def tree(draw: random.Random) -> list[list[float]]:
    """A full tree as it comes from training."""
    inner = NODES // 2
    return [
        [draw.randrange(10) if n < inner else 0 for n in range(NODES)],
        [draw.uniform(-1.0, 1.0) if n < inner else 0.0 for n in range(NODES)],
        [2 * n + 1 if n < inner else -1 for n in range(NODES)],
        [2 * n + 2 if n < inner else -1 for n in range(NODES)],
        [draw.uniform(-0.01, 0.01) for _ in range(NODES)],
    ]


def candidates(*, shared: bool, trees: int = TREES) -> Candidates:
    """The topics with a model that has trees."""
    draw = random.Random(2)
    model = Colocation(
        shared=shared,
        cores=CORES,
        interference=INTERFERENCE,
        trees=[tree(draw) for _ in range(trees)],
    )
    return Candidates(model, *(list(each) for each in zip(*topics(), strict=True)))


def sets() -> list[list[int]]:
    """Random sets of six."""
    draw = random.Random(3)
    return [draw.sample(range(TOPICS), MAX_TOPICS) for _ in range(SETS)]


def asked(model: Candidates) -> float:
    """Seconds of CPU time a question."""
    chosen = sets()
    started = time.process_time()
    for each in chosen:
        model.feasible(each)
    return (time.process_time() - started) / SETS


def in_python() -> float:
    """Seconds of CPU time a question of the formulas written in Python, without trees."""
    every = topics()
    chosen = sets()[: SETS // 40]
    started = time.process_time()
    for each in chosen:
        some = [every[number] for number in each]
        oracle.latencies(some, shared=False, cores=CORES, interference=INTERFERENCE)
    return (time.process_time() - started) / len(chosen)


def run() -> list[Result]:
    """Both disciplines; goal: at most 10 µs."""
    own, shared = candidates(shared=False), candidates(shared=True)
    own_s, shared_s, python_s = interleaved(
        ROUNDS, lambda: asked(own), lambda: asked(shared), in_python
    )
    peer = "the formulas in Python, without trees"
    return [
        result(
            "colocation-threads",
            own_s,
            "us",
            peer,
            python_s,
            most=GOAL_S,
            trees=TREES,
            topics=MAX_TOPICS,
        ),
        result(
            "colocation-queue",
            shared_s,
            "us",
            peer,
            python_s,
            most=GOAL_S,
            trees=TREES,
            topics=MAX_TOPICS,
        ),
    ]


def packing() -> list[Result]:
    """Plans for 70 topics; goals: FFD and balanced 5 ms, LFS 1 s, exact 10 s."""
    model = candidates(shared=False, trees=0)
    numbers = list(range(TOPICS))
    alone = [model.latencies([number])[0] for number in numbers]
    load = [topic[0] * topic[1] for topic in topics()]
    problem = Problem(numbers, alone, load, MAX_TOPICS, model.feasible)

    def timed(plan: Planner) -> float:
        started = time.perf_counter()
        plan(problem)
        return time.perf_counter() - started

    ffd_s, balanced_s, lfs_s = interleaved(
        ROUNDS, lambda: timed(ffd), lambda: timed(balanced), lambda: timed(lfs)
    )
    started = time.perf_counter()
    exact = fewest(problem)
    exact_s = time.perf_counter() - started
    return [
        result("packing-70-ffd", ffd_s, "ms", most=5e-3, masters=len(ffd(problem))),
        result("packing-70-balanced", balanced_s, "ms", most=5e-3, masters=len(balanced(problem))),
        result("packing-70-lfs", lfs_s, "ms", most=1.0, masters=len(lfs(problem))),
        result(
            "packing-70-exact", exact_s, "s", most=10.0, masters=len(exact.bins), bound=exact.bound
        ),
    ]


if __name__ == "__main__":
    report([*run(), *packing()])
