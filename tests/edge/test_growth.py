"""Nothing accumulates while a node samples and answers; `bench edge` has the week. About 9 s."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from bench.edge_week import Node

HOUR_S = 3_600


def allocated():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.long
def test_python_holds_no_more_after_hours(tmp_path):
    tracemalloc.start()
    node = Node(str(tmp_path))
    try:
        node.run(7 * HOUR_S)  # then the cache of groups is full
        before = allocated()
        node.run(10 * HOUR_S)
        grown = allocated() - before
    finally:
        tracemalloc.stop()
        node.close()
    # Of 10,800 readings and 180 queries; the group that grows breathes.
    assert grown < 50_000
