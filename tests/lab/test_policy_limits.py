"""Bounds for every policy: the exact search against all orders, the linear programs against
matchings, and neither is passed by a policy."""

from __future__ import annotations

import csv
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.simulation import limits, small
from lab.simulation.bound import Instance, Node, highest_bound, instance, least_late, violated
from lab.simulation.run import Setting, World
from lab.simulation.table_v import CLASSES, SIZES, Size

TIMES = st.integers(0, 12).map(lambda n: n / 4)


@st.composite
def jobs(draw, most=5):
    """Released, due and how long, in s; eighths, so that no sum is rounded."""
    count = draw(st.integers(1, most))
    of = st.lists(TIMES, min_size=count, max_size=count)
    released_s, slack_s, service_s = draw(of), draw(of), draw(of)
    due_s = [a + b for a, b in zip(released_s, slack_s, strict=True)]
    return np.array(released_s), np.array(due_s), np.array(service_s) + 0.125


def in_time(released_s, due_s, service_s, order):
    now_s = -math.inf
    for job in order:
        now_s = max(now_s, released_s[job]) + service_s[job]
        if now_s > due_s[job]:
            return False
    return True


@given(jobs())
def test_a_set_is_feasible_if_one_of_its_orders_is(case):
    found = small.feasible(*case)
    count = len(case[0])
    for mask in range(1 << count):
        members = [job for job in range(count) if mask >> job & 1]
        expected = any(in_time(*case, order) for order in itertools.permutations(members))
        assert found[mask] == expected


def naive_fewest_late(case: small.Burst) -> int:
    """All sets of queries, at each node all orders."""
    drawn = case.draw
    released_s = drawn.enqueued_s(small.LOAD_PER_S)
    times_s = np.split(case.execution_s + case.communication_s, np.cumsum(drawn.node_fanout)[:-1])

    def kept(chosen):
        for rank in range(drawn.size.nodes_per_iad):
            asked = [query for query in chosen if drawn.node_fanout[query] > rank]
            service_s = {query: times_s[query][rank] for query in asked}
            orders = itertools.permutations(asked)
            if not any(in_time(released_s, case.due_s, service_s, order) for order in orders):
                return False
        return True

    for late in range(drawn.queries):
        if any(map(kept, itertools.combinations(range(drawn.queries), drawn.queries - late))):
            return late
    return drawn.queries


def squeezed(seed: int) -> small.Burst:
    """A burst of six queries that is too much."""
    case = small.burst(seed, queries=6, size=Size(1, 5))
    return small.Burst(case.draw, 3.0 * case.execution_s, case.communication_s, case.unloaded_s)


def test_the_fewest_late_are_those_of_all_schedules():
    found = [small.fewest_late(squeezed(seed)) for seed in range(8)]
    assert found == [naive_fewest_late(squeezed(seed)) for seed in range(8)]
    assert sum(found) > 0


def test_no_policy_has_fewer_late_queries_than_the_optimum():
    names = (*limits.BLIND, "sizes-demotion")
    for seed in range(6):
        case = small.burst(seed, queries=9)
        assert small.fewest_late(case) <= min(small.late(case, name) for name in names)


@st.composite
def cases(draw, nodes):
    """Up to seven queries of one class, and nodes with a few epochs."""
    count = draw(st.integers(1, 7))
    gaps = draw(st.lists(TIMES, min_size=count, max_size=count))
    slack = draw(st.lists(TIMES, min_size=count, max_size=count))
    arrived_s = np.cumsum(gaps)
    found = []
    for _ in range(nodes):
        asked = draw(st.sets(st.integers(0, count - 1)))
        epochs = draw(st.sets(st.integers(0, 40), max_size=8))
        # Between the times of queries: nothing happens at one instant.
        epochs_s = np.array(sorted(epochs)) / 2 + 0.1
        found.append(Node(np.array(sorted(asked), dtype=np.int32), epochs_s))
    classes = np.zeros(count, dtype=np.int32)
    # One may be late, so that t is a count.
    return Instance(arrived_s, arrived_s + np.array(slack), classes, (1,), tuple(found))


def served(case: Instance, node: Node, queries) -> int:
    """The most of `queries` that get an epoch of their own: a maximum matching."""
    asked = [query for query in node.queries if query in queries]
    if not asked or not len(node.epochs_s):
        return 0
    edges = [
        [int(case.arrived_s[query] < at_s <= case.due_s[query]) for at_s in node.epochs_s]
        for query in asked
    ]
    graph = scipy.sparse.csr_matrix(np.array(edges))
    return int((scipy.sparse.csgraph.maximum_bipartite_matching(graph, "column") >= 0).sum())


@given(cases(nodes=1))
@settings(max_examples=60)
def test_with_one_node_the_linear_program_gives_up_what_no_matching_serves(case):
    node = case.nodes[0]
    expected = len(node.queries) - served(case, node, set(node.queries.tolist()))
    assert least_late(case) == pytest.approx(expected, abs=1e-6)


@given(cases(nodes=3))
@settings(max_examples=40)
def test_with_more_nodes_it_never_gives_up_more_than_the_least_set_that_must_go(case):
    count = len(case.arrived_s)

    def enough(late) -> bool:
        kept = set(range(count)) - set(late)
        return all(
            served(case, node, kept) == sum(query in kept for query in node.queries.tolist())
            for node in case.nodes
        )

    exact = next(
        late
        for late in range(count + 1)
        if any(map(enough, itertools.combinations(range(count), late)))
    )
    alone = [least_late(Instance(*_parts(case), (node,))) for node in case.nodes]
    found = least_late(case)
    assert max(alone) - 1e-6 <= found <= exact + 1e-6


def _parts(case: Instance):
    return case.arrived_s, case.due_s, case.query_class, case.allowed


@given(cases(nodes=1))
@settings(max_examples=60)
def test_rows_hold_for_every_set_of_queries_that_a_node_can_serve(case):
    node = case.nodes[0]
    asked = node.queries.tolist()
    rows = violated(case, node, np.ones(len(case.arrived_s)))
    for size in range(len(asked) + 1):
        for kept in itertools.combinations(asked, size):
            if served(case, node, set(kept)) == size:
                for row in rows:
                    assert sum(query not in kept for query in row.queries) >= row.excess


def test_allowed_are_as_many_as_the_nearest_rank_leaves_above_it():
    world = World(Setting(SIZES[0], "query", "clip", 4_000, 1))
    case = instance(world.draw, 8.0, 2, 1)
    for k, allowed in enumerate(case.allowed):
        count = int((case.query_class == k).sum())
        late = [0.0] * (count - allowed) + [9.0] * allowed
        rank = {"q": 99, "method": "inverted_cdf"}
        assert np.percentile(late, **rank) == 0.0
        assert np.percentile([*late[1:], 9.0], **rank) == 9.0
    assert (case.query_class[:400] == -1).all()
    assert len(case.allowed) == len(CLASSES)


def test_no_policy_passes_the_bound_and_more_nodes_do_not_raise_it():
    world = World(Setting(SIZES[0], "query", "clip", 3_000, 2))
    bounds = [highest_bound(world.draw, nodes, 2) for nodes in (1, 6)]
    assert bounds[1] <= bounds[0]
    assert world.point("demotion", 1.05 * bounds[1]).worst > 1.0


def test_the_command_writes_its_tables_and_a_row_per_result(tmp_path):
    options = limits.Options(tmp_path, (100,), bursts=2, seeds=2, seed=1, queries=1_000)
    assert limits.run(options) == 0
    with (tmp_path / "policy-limits.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (len(limits.BLIND) + 2) + 2 * (len(limits.BLIND) + 1)
    names = {path.stem for path in (tmp_path / "policy-limits").iterdir()}
    assert names == {"provenance", "bursts", "bounds", "shares"}
