"""The simulator against figures that nobody here measured: tests/core/data/README.md."""

import csv

import numpy as np
import pytest

from bench.masstree import DATA, FANOUTS, Masstree, masstree

SEEDS = 5  # as many as the reference has
REFERENCE = list(
    csv.DictReader((DATA / "masstree_reference_p99.csv").read_text("utf-8").splitlines())
)


@pytest.fixture(scope="module")
def workloads() -> list[Masstree]:
    return [masstree(seed) for seed in range(SEEDS)]


def p99_by_fanout(work: Masstree, policy: str, load: float, seed: int) -> list[float]:
    trace = work.trace(load, by_fanout=policy == "spr")
    latency = np.asarray(work.run(trace, policy, load, seed).query_latency_s)
    return [float(np.percentile(latency[work.fanout == k], 99)) for k in FANOUTS]


@pytest.mark.parametrize("row", REFERENCE, ids=lambda row: f"{row['policy']}-{row['load']}")
def test_the_99th_percentiles_are_the_published_ones(
    workloads: list[Masstree], row: dict[str, str]
) -> None:
    found = [
        p99_by_fanout(work, row["policy"], float(row["load"]), seed)
        for seed, work in enumerate(workloads)
    ]
    for k, ours in zip(FANOUTS, np.mean(found, axis=0), strict=True):
        mean, deviation = (float(row[f"p99_fanout{k}_{of}"]) for of in ("mean", "sd"))
        assert abs(ours - mean) <= 3 * deviation + 0.01 * mean, f"fanout {k}"
