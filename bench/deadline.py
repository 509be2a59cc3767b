"""Deadline estimation (DSSP Eqs. 3-6) at fanout 1,000 and 8, against NumPy and against one row.

python -m bench.deadline
"""

import math
import random
import time
from array import array

import numpy as np

from _core import _bench
from _core.deadlines.histogram import bucket_bounds, bucket_of
from _core.deadlines.order_statistics import NodeSet, UnloadedModel, task_percentile
from bench.output import Result, interleaved, report, result

NODES = 1_000
SAMPLES = 1_000
P_T = task_percentile(99.0, 4)
ROUNDS = 9
CALLS = 2_000
WINDOWS = (100, 1_000, 10_000)
TASKS = 5


def service_times(draw: random.Random, count: int) -> list[float]:
    """Service times of the slowest hardware: lognormal, mean 102 ms, sigma 0.6."""
    return [draw.lognormvariate(math.log(0.102) - 0.18, 0.6) for _ in range(count)]


def warm_model(samples: int = SAMPLES, seed: int = 1) -> UnloadedModel:
    """An IAD of NODES nodes with this many samples each, which fill their windows."""
    draw = random.Random(seed)
    model = UnloadedModel(max_count=samples)
    values = service_times(draw, SAMPLES * NODES)
    for column in range(NODES):
        assert model.add_node() == column
    for i in range(samples):
        at = 1_009 * i % len(values)  # nodes shall have different samples
        for column in range(NODES):
            model.observe(column, values[at - column], 0.0)
    return model


class WideTasks:
    """Ten times a second a task requests a deadline over all nodes, then each returns a sample."""

    def __init__(self, samples: int) -> None:
        self.model = warm_model(samples)
        self.nodes = self.model.node_set(range(NODES))
        self.values = service_times(random.Random(4), 100 * NODES)
        self.task = 0

    def measure(self) -> float:
        """Seconds per subtask for the deadline, the samples and the work that they trigger, from
        Python."""
        observe = self.model.observe
        took = 0.0
        for _ in range(TASKS):
            self.task += 1
            now_s = self.task * 0.1
            begin = self.task % 100 * NODES
            values = self.values[begin : begin + NODES]
            started = time.perf_counter()
            self.model.quantile(self.nodes, P_T, now_s)
            for column, value in enumerate(values):
                observe(column, value, now_s)
            took += time.perf_counter() - started
        return took / (TASKS * NODES)


class NumpyPeer:
    """Binary search with vectorised row sums over the same float32 log-CDFs, bucket-major."""

    def __init__(self, model: UnloadedModel, nodes: NodeSet) -> None:
        rows = np.frombuffer(_bench.log_cdf_rows(model, nodes), np.float32)
        self.rows = rows.reshape(-1, len(nodes))
        edges = [bucket_bounds(i)[0] for i in range(len(self.rows))]
        self.edges = np.array([*edges, bucket_bounds(len(edges) - 1)[1]])

    def quantile(self, p_t: float) -> float:
        """x_u in seconds."""
        target = math.log(p_t / 100.0)
        add = np.add.reduce
        low, high = 0, len(self.rows) - 1
        while low < high:
            middle = (low + high) // 2
            if add(self.rows[middle]) < target:
                low = middle + 1
            else:
                high = middle
        return float(math.sqrt(self.edges[low] * self.edges[low + 1]))

    def measure(self) -> float:
        """Seconds for one quantile."""
        started = time.perf_counter()
        for _ in range(100):
            self.quantile(P_T)
        return (time.perf_counter() - started) / 100


def run() -> list[Result]:
    """All results; goals: deadline-1000 at least 20, its row at least 1/12, deadline-8 <= 1 us."""
    model = warm_model()
    wide = model.node_set(range(NODES))
    narrow = model.node_set(range(3, NODES, NODES // 8))
    scattered = model.node_set(random.Random(2).sample(range(NODES), NODES // 2))
    peer = NumpyPeer(model, wide)
    narrow_peer = NumpyPeer(model, narrow)
    ours = model.quantile(wide, P_T, 0.0)
    if abs(ours / peer.quantile(P_T) - 1.0) > 0.01:
        raise AssertionError("NumPy finds another deadline")
    row = bucket_of(ours)
    buckets = array("i", (bucket_of(t) for t in service_times(random.Random(3), CALLS)))

    def changed(nodes: NodeSet, part: int) -> float:
        return _bench.deadline_after_change(model, nodes, P_T, buckets)[part]

    refresh_s, wide_s, narrow_s, half_s, numpy_s, numpy_8_s, row_s, cached_s, cold_s = interleaved(
        ROUNDS,
        lambda: changed(wide, 0),
        lambda: changed(wide, 1),
        lambda: changed(narrow, 1),
        lambda: changed(scattered, 1),
        peer.measure,
        narrow_peer.measure,
        lambda: _bench.read_row(model, wide, row, CALLS),
        lambda: _bench.deadline_cached(model, wide, P_T, CALLS),
        lambda: _bench.deadline_without_start(model, wide, math.log(P_T / 100.0), CALLS),
    )
    wide_tasks = [WideTasks(samples) for samples in WINDOWS]
    per_subtask_s = interleaved(3 * ROUNDS, *(tasks.measure for tasks in wide_tasks))
    numpy_peer = "NumPy, binary search over the same log-CDFs"
    return [
        result("deadline-1000", wide_s, "us", numpy_peer, numpy_s, least_ratio=20.0),
        result(
            "deadline-1000-row",
            wide_s,
            "us",
            "sum of one row of 1,000 floats",
            row_s,
            least_ratio=1 / 12,
        ),
        result("deadline-1000-no-start", cold_s, "us", numpy_peer, numpy_s),
        result("deadline-1000-cached", cached_s, "us", numpy_peer, numpy_s),
        result("deadline-column-refresh", refresh_s, "us"),
        result("deadline-500-gathered", half_s, "us"),
        result("deadline-8", narrow_s, "us", numpy_peer, numpy_8_s, most=1e-6),
        *(
            result(f"deadline-per-subtask-1000-n{samples}", seconds, "us")
            for samples, seconds in zip(WINDOWS, per_subtask_s, strict=True)
        ),
    ]


if __name__ == "__main__":
    report(run())
