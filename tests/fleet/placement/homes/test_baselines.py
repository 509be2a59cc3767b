"""RELOC and what it is compared with, against their definitions."""

from dataclasses import replace

import numpy as np
import pytest

from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.baselines import nearest_homes, otos_homes, random_homes
from fleet.placement.homes.case import Case, CaseError
from fleet.placement.homes.cooperation import cooperate
from fleet.placement.homes.reloc import kmeans, reloc_homes
from fleet.placement.homes.search import greedy_homes
from fleet.placement.homes.sharing import PerTopic, Ratio
from fleet.placement.homes.usage import Usage
from tests.fleet.placement.homes.cases import draw
from tests.oracles import homes as oracle


def line(places, sites, topics, *, storage=100.0, compute=1e9, spool=10.0):
    """Clients and servers on a line; a topic is the list of its members, who all publish."""
    pairs = sorted((c, t) for t, members in enumerate(topics) for c in members)
    client, topic = np.array(pairs, np.int64).T
    one = np.ones(len(pairs))
    at, site = np.array(places, float), np.array(sites, float)
    return Case(
        np.abs(at[:, None] - site),
        np.abs(site[:, None] - site),
        client,
        topic,
        one,
        one,
        np.full(len(topics), spool),
        np.full(len(sites), storage),
        np.full(len(sites), compute),
        50.0,
    )


PLANNERS = {
    "random": lambda case: random_homes(case, 1),
    "nearest": nearest_homes,
    "OTOS, centroid": lambda case: otos_homes(case, "centroid"),
    "OTOS, least used": lambda case: otos_homes(case, "least used"),
    "RELOC": lambda case: reloc_homes(case, 2, 1),
    "greedy": lambda case: greedy_homes(case, PerTopic()),
}


@pytest.mark.parametrize("name", PLANNERS)
def test_everybody_lives_somewhere_allowed_and_twice_the_same_is_the_same(name):
    case = draw(1, storage=15.0)
    of = np.random.default_rng(1)
    allowed = of.random(case.delay.shape) < 0.4
    allowed[np.arange(case.clients), of.integers(0, case.servers, case.clients)] = True
    case = replace(case, allowed=allowed)
    home = PLANNERS[name](case)
    assert allowed[np.arange(case.clients), home].all()
    assert (PLANNERS[name](case) == home).all()


def test_usage_is_the_oracles_after_any_puts():
    case = draw(2)
    of = np.random.default_rng(2)
    usage = Usage(case)
    for _ in range(200):
        usage.put(int(of.integers(case.clients)), int(of.integers(-1, case.servers)))
    stored, load = oracle.use(case, usage.home.tolist())
    assert usage.stored == pytest.approx(stored)
    assert usage.load == pytest.approx(load)
    everything = np.arange(case.topics)
    assert usage.added(everything) == pytest.approx(case.spool.sum() - usage.stored)


def test_otos_puts_a_topic_on_one_server_near_its_centroid_or_on_the_least_used():
    case = line([0, 1, 9, 10, 0, 1], [0, 5, 10], [[0, 1, 2, 3], [4, 5]])
    assert otos_homes(case, "centroid").tolist() == [1, 1, 1, 1, 0, 0]
    # The first finds all empty, and the nearest of these; the second all but that.
    assert otos_homes(case, "least used").tolist() == [1, 1, 1, 1, 0, 0]
    case = line([0, 1, 9, 10, 4, 6], [0, 5, 10], [[0, 1, 2, 3], [4, 5]])
    assert otos_homes(case, "centroid").tolist() == [1, 1, 1, 1, 1, 1]
    assert otos_homes(case, "least used").tolist() == [1, 1, 1, 1, 0, 0]


def test_a_client_of_two_topics_lives_where_the_first_put_it():
    case = line([0, 1, 9, 10], [0, 10], [[0, 1], [1, 2, 3]])
    assert otos_homes(case, "centroid").tolist() == [0, 0, 1, 1]


def test_reloc_keeps_the_related_of_a_cluster_together():
    # Of topic 0 two live in each half; all are nearest to a server of their own.
    case = line([0, 4, 20, 24], [0, 4, 20, 24], [[0, 1, 2, 3]])
    assert reloc_homes(case, 2, 1).tolist() == [0, 0, 2, 2]
    assert reloc_homes(case, 1, 1).tolist() == [0, 0, 0, 0]
    assert reloc_homes(case, 4, 1).tolist() == [0, 1, 2, 3]


def test_the_most_related_decides():
    # Client 2 shares one topic with 0, two with 1.
    case = line([0, 4, 0], [0, 4], [[0, 2], [1, 2], [1, 2]])
    assert case.co_membership[2][0].tolist() == [1, 0]
    assert case.co_membership[2][1].tolist() == [2, 1]
    assert reloc_homes(case, 1, 1).tolist() == [0, 1, 1]


def test_cooperation_takes_the_publishers_of_the_clients_topics_to_the_nearest_with_room():
    # Server 0 has room for one spool: with client 2 comes a second one, of topics 0 and 1.
    case = line([0, 0, 0, 1], [0, 5, 3], [[0, 1], [2, 3]], storage=10.0)
    usage = Usage(case)
    for client in range(4):
        usage.put(client, 0)
    cooperate(usage, 2, np.array([0, 1, 2]))
    assert usage.home.tolist() == [0, 0, 2, 2]
    assert usage.stored.tolist() == [10.0, 0.0, 10.0]
    assert not usage.exhausted(0)


def test_cooperation_takes_the_largest_share_where_none_has_room():
    case = line([0, 0, 0], [0, 5, 3], [[0], [1], [2]], storage=10.0, spool=10.0)
    case = replace(case, storage=np.array([10.0, 9.0, 4.0]))
    usage = Usage(case)
    for client in range(3):
        usage.put(client, 0)
    cooperate(usage, 2, np.array([0, 1, 2]))
    assert usage.home.tolist() == [0, 0, 1]  # w = 0.9 there, 0.4 at 2, a third at 0
    cooperate(usage, 1, np.array([0, 2]))
    assert usage.home.tolist() == [0, 0, 1]  # it has a half here, and 0.4 there


def test_kmeans_finds_what_is_far_apart():
    of = np.random.default_rng(1)
    points = np.concatenate([of.normal(0, 1, (5, 2)), of.normal(40, 1, (7, 2))])
    cluster = kmeans(points, 2, 1)
    assert len(set(cluster[:5])) == len(set(cluster[5:])) == 1
    assert cluster[0] != cluster[5]
    assert len(set(kmeans(np.zeros((3, 2)), 3, 1).tolist())) == 1


def test_greedy_is_no_worse_than_everything_on_one_server():
    case = draw(3, plain=True)
    greedy = Accounts(case, Ratio(), greedy_homes(case, Ratio())).total
    for server in range(case.servers):
        alone = np.full(case.clients, server)
        assert greedy <= Accounts(case, Ratio(), alone).total


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate": np.array([-1.0, 1.0])}, "a rate is negative or not a number"),
        ({"spool": np.array([np.nan])}, "a spool's size is negative or not a number"),
        ({"delay": np.array([[np.inf], [1.0]])}, "a delay, rate or size is infinite"),
        ({"between": np.array([[1.0]])}, "a server has a delay to itself"),
        ({"client": np.array([1, 0])}, "memberships are not sorted by client"),
        ({"client": np.array([0, 2])}, "a membership names a client that is not there"),
        ({"topic": np.array([0, 1])}, "a membership names a topic that is not there"),
        ({"storage": np.ones(2)}, "storage limits: (2,) where (1,) is due"),
        ({"allowed": np.array([[True], [False]])}, "client 1 may live on no server"),
        ({"delay": np.ones((2, 0)), "between": np.ones((0, 0))}, "there is no server"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(change, said):
    case = line([0, 1], [0], [[0, 1]])
    if not change.get("delay", case.delay).size:
        change = {**change, "storage": np.ones(0), "compute": np.ones(0)}
    with pytest.raises(CaseError, match=r"^[^\n]*$") as told:
        replace(case, **change)
    assert said in str(told.value)
