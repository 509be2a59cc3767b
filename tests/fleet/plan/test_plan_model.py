"""The model of `fleet plan` against closed forms and counting: load, x_u, highest rates, pods."""

import math

import numpy as np
import pytest

from _core.deadlines.order_statistics import UnloadedModel, task_percentile
from _core.queue.policy import DEMOTING, POLICIES
from agent.wire.base import Policy
from fleet.plan.case import Case, Model, make_cases
from fleet.plan.classes import LoadClass
from fleet.plan.draw import draw, visits
from fleet.plan.pods import PodPlan, plan_pods
from fleet.plan.records import Overheads
from fleet.plan.search import highest_rate
from fleet.plan.times import NodeTimes, Times
from fleet.plan.unloaded import Unloaded
from fleet.simulation import policies
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout

NO_OVERHEADS = Overheads(0.0, 0.0)
MU = 10.0  # services/s of a pod
ANY = LoadClass("any", 1.0, 1, 1, 1.0)


def exponential(mean_s: float) -> Times:
    parts = np.arange(1, 4_000) / 4_000
    return Times(-mean_s * np.log1p(-parts), mean_s)


def model(
    sizes: list[int],
    classes: list[LoadClass],
    times: list[Times] | None = None,
    overheads: Overheads = NO_OVERHEADS,
) -> Model:
    """IADs of so many nodes; with several `times` the nodes take them in turn."""
    times = times or [exponential(1.0 / MU)]
    iads = tuple(
        IadLayout(f"iad{i}", tuple(NodeLayout(f"iad{i}-n{n}", "", "") for n in range(size)))
        for i, size in enumerate(sizes)
    )
    kind = tuple(n % len(times) for n in range(sum(sizes)))
    return Model(
        FleetLayout(iads), tuple(classes), NodeTimes(tuple(times), kind, 0, 0, {}), overheads
    )


def cases_of(of: Model, pods: int = 1, queries: int = 60_000, seeds: int = 5) -> list[Case]:
    return make_cases(of, [pods] * sum(of.sizes), queries=queries, seed=1, seeds=seeds)


# --- the load -------------------------------------------------------------------------------------

CLASSES = [
    LoadClass("spot", 0.2, 1, 1, 0.5, iad=1),
    LoadClass("some", 0.5, 2, 2, 0.8, 99.9),
    LoadClass("all", 0.3, 3, None, 1.2, 95.0),
]
SIZES = [2, 5, 3]


def test_a_draw_is_what_the_classes_say() -> None:
    drawn = draw(SIZES, [1] * 10, CLASSES, Overheads(0.1, 0.2), queries=20_000, seed=3)
    sets = [
        drawn.set_nodes[a:b].tolist()
        for a, b in zip(drawn.set_first[:-1], drawn.set_first[1:], strict=True)
    ]
    by_query: dict[int, list[list[int]]] = {}
    for query, chosen in zip(drawn.task_query.tolist(), drawn.task_set.tolist(), strict=True):
        by_query.setdefault(query, []).append(sets[chosen])
    iad_of = [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    for query, tasks in by_query.items():
        kind = CLASSES[drawn.query_class[query]]
        iads = [iad_of[nodes[0]] for nodes in tasks]
        assert len(set(iads)) == kind.iads
        assert kind.iad in {None, iads[0]}
        for iad, nodes in zip(iads, tasks, strict=True):
            assert {iad_of[node] for node in nodes} == {iad}
            assert len(set(nodes)) == len(nodes) == kind.nodes_of(SIZES[iad])
    shares = np.bincount(drawn.query_class) / 20_000
    assert shares == pytest.approx([0.2, 0.5, 0.3], abs=0.02)
    asked = [node for tasks in by_query.values() for nodes in tasks for node in nodes]
    counted = np.bincount(asked) / 20_000
    assert visits(SIZES, CLASSES) == pytest.approx(counted, rel=0.05)
    assert drawn.enqueued_s(2.0)[0] == drawn.unit_arrival[0] / 2.0 + 0.1
    expected = [task_percentile(kind.percentile, kind.iads) for kind in CLASSES]
    assert set(drawn.percentile.tolist()) == set(expected)


def test_x_u_is_that_of_a_model_of_all_nodes() -> None:
    """Questions are shared between nodes of one kind; here each is of its own nodes."""
    kinds = [exponential(0.05), exponential(0.1)]
    of = model(SIZES, CLASSES, kinds)
    drawn = draw(SIZES, [1] * 10, CLASSES, NO_OVERHEADS, queries=300, seed=3)
    found = Unloaded(of.sizes, of.times.kind, of.times.kinds).of_tasks(drawn)
    models = []
    first = 0
    for size in SIZES:
        whole = UnloadedModel()
        for node in range(first, first + size):
            column = whole.add_node()
            for value_s in kinds[node % 2].window_s().tolist():
                whole.observe(column, value_s, 0.0)
        for _ in range(10):
            whole.quantile(whole.node_set(range(size)), 99.0, 10.0)
        models.append((first, whole))
        first += size
    for task, chosen in enumerate(drawn.task_set):
        nodes = drawn.set_nodes[drawn.set_first[chosen] : drawn.set_first[chosen + 1]]
        first, whole = models[drawn.node_iad[nodes[0]]]
        columns = whole.node_set([int(node) - first for node in nodes])
        expected = whole.quantile(columns, float(drawn.percentile[task]), 10.0)
        assert found[task] == pytest.approx(expected, rel=0.01)


# --- highest rates --------------------------------------------------------------------------------


def test_the_lab_knows_all_policies() -> None:
    assert set(policies.POLICIES) == set(POLICIES)


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_one_node_sustains_what_a_queue_of_poisson_arrivals_does(policy: Policy) -> None:
    """M/M/1: P(T > t) = exp(-(μ - λ) t). With one class every policy serves in order of arrival,
    unless it lets those wait for whom it is too late: then it sustains more."""
    found = highest_rate(cases_of(model([1], [ANY])), policy)
    expected = MU - math.log(100) / ANY.slo_s
    if policy in DEMOTING:
        assert expected < found.rate_per_s.mean < MU
    else:
        assert found.rate_per_s.mean == pytest.approx(expected, rel=0.04)
    assert found.ratios[0] == pytest.approx(1.0, abs=0.03)
    assert found.utilisation == pytest.approx(found.rate_per_s.mean / MU, rel=0.05)


def test_a_loose_slo_is_sustained_by_nodes_that_are_not_overloaded() -> None:
    loose = LoadClass("any time", 1.0, 1, 1, 1_000.0)
    found = [case.search("edfq", None) for case in cases_of(model([1], [loose]))]
    assert [point.rate_per_s for point in found] == pytest.approx([MU] * len(found), rel=0.02)
    assert all(0.95 < point.utilisation < 1.0 for point in found)


def test_another_percentile_and_overheads() -> None:
    kind = LoadClass("median", 1.0, 1, 1, 0.5, 50.0)
    found = highest_rate(cases_of(model([1], [kind], None, Overheads(0.15, 0.05))), "edfq")
    expected = MU - math.log(2) / 0.3
    assert found.rate_per_s.mean == pytest.approx(expected, rel=0.04)


def test_the_class_that_binds_and_the_busiest_node_are_named() -> None:
    classes = [LoadClass("slack", 0.5, 1, 1, 9.0, iad=0), LoadClass("tight", 0.5, 1, 1, 1.0, iad=1)]
    found = highest_rate(cases_of(model([1, 1], classes), seeds=3), "fifo")
    assert (found.binding, found.busiest in {0, 1}) == (1, True)
    # Each node has half of the queries.
    assert found.rate_per_s.mean == pytest.approx(2 * (MU - math.log(100)), rel=0.06)


def test_what_an_idle_node_misses_no_rate_sustains() -> None:
    kind = LoadClass("hopeless", 1.0, 1, 1, 0.4)
    found = highest_rate(cases_of(model([1], [kind]), queries=10_000, seeds=2), "edfq")
    assert found.rate_per_s.mean == 0.0
    assert found.ratios[0] == pytest.approx(math.log(100) / MU / 0.4, rel=0.06)


# --- pods -----------------------------------------------------------------------------------------


def pods_needed(rate_per_s: float, slo_s: float) -> int:
    """The fewest pods c with P(T > slo) <= 1 % in M/M/c."""
    a = rate_per_s / MU
    for c in range(math.floor(a) + 1, 99):
        terms = [a**n / math.factorial(n) for n in range(c)]
        last = a**c / math.factorial(c) * c / (c - a)
        waits = last / (sum(terms) + last)
        slack = c - 1 - a
        queued = (1 - math.exp(-MU * slo_s * slack)) / slack
        if math.exp(-MU * slo_s) * (1 + waits * queued) <= 0.01:
            return c
    raise AssertionError


def planned(of: Model, rate_per_s: float, most: int = 8, policy: Policy = "edfq") -> PodPlan:
    return plan_pods(cases_of(of, queries=20_000), policy, rate_per_s, most)


@pytest.mark.parametrize(("rate_per_s", "pods"), [(4.0, 1), (17.0, 2), (30.0, 3), (75.0, 5)])
def test_two_nodes_need_the_pods_of_the_closed_form(rate_per_s: float, pods: int) -> None:
    kind = LoadClass("any", 1.0, 1, 1, 0.6)
    found = planned(model([2], [kind]), rate_per_s)
    assert found.kept
    assert found.pods == (pods, pods)
    assert pods_needed(rate_per_s / 2, kind.slo_s) == pods
    assert found.highest.rate_per_s.mean >= rate_per_s * 0.98


def test_pods_go_where_the_late_queries_wait() -> None:
    classes = [LoadClass("a", 0.5, 1, 1, 0.8, iad=0), LoadClass("b", 0.5, 1, None, 0.8, iad=1)]
    found = planned(model([1, 3], classes, [exponential(0.1)]), 12.0)
    assert found.kept
    one, *three = found.pods
    assert one <= min(three)
    # Fewer do not do.
    cases = cases_of(model([1, 3], classes), queries=20_000)
    for node in range(4):
        fewer = [n - (i == node) for i, n in enumerate(found.pods)]
        if fewer[node]:
            points = [case.with_pods(fewer).point("edfq", 12.0) for case in cases]
            assert max(np.mean([p.ratios for p in points], axis=0)) > 1.0


def test_no_more_pods_than_a_node_may_have() -> None:
    kind = LoadClass("any", 1.0, 1, 1, 0.6)
    overloaded = planned(model([1], [kind]), 55.0, most=4)
    assert (overloaded.kept, overloaded.pods) == (False, (4,))
    assert overloaded.obstacle == ("iad0-n0 needs 6 pods to keep up at all, pods.most allows 4")
    slow = model([1], [kind], [exponential(7_200.0)])
    cases = cases_of(slow, queries=2_000, seeds=1)
    hopeless = plan_pods(cases, "fifo", 1e6, 4)
    assert (hopeless.kept, hopeless.pods) == (False, (4,))
    late = planned(model([1], [kind]), 38.0, most=4)
    assert (late.kept, late.obstacle) == (
        False,
        "iad0-n0 has 4 pods, as many as pods.most allows",
    )


def test_pods_do_not_help_what_an_idle_fleet_misses() -> None:
    found = planned(model([1], [LoadClass("hopeless", 1.0, 1, 1, 0.4)]), 5.0)
    assert (found.kept, found.obstacle) == (
        False,
        "class hopeless misses its SLO on an idle fleet",
    )


def test_other_pods_have_the_same_load() -> None:
    [case] = cases_of(model([2], [ANY]), queries=5_000, seeds=1)
    again = case.with_pods([2, 3])
    assert again.draw.pods.tolist() == [2, 3]
    assert again.draw.unit_arrival is case.draw.unit_arrival
    assert again.point("fifo", 9.0).ratios <= case.point("fifo", 9.0).ratios
