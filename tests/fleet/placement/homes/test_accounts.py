"""The accounts of homes against their naive twin, delivery by delivery."""

import numpy as np
import pytest

from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.case import NOWHERE
from fleet.placement.homes.sharing import PerTopic, Ratio
from tests.fleet.placement.homes.cases import draw
from tests.oracles import homes as oracle

TIGHT = {"storage": 12.0, "compute": 4.0}


def shares(accounts):
    return accounts.share.T.tolist()


def same(accounts):
    found = oracle.cost(accounts.case, accounts.home.tolist(), shares(accounts))
    assert accounts.total == pytest.approx(found.total, rel=1e-9, abs=1e-6)
    assert accounts.delegated == pytest.approx(found.delegated, abs=1e-6)
    assert accounts.deliveries == pytest.approx(found.deliveries, abs=1e-6)
    assert accounts.stored == pytest.approx(found.stored, abs=1e-6)
    assert accounts.load == pytest.approx(found.load, abs=1e-6)


@pytest.mark.parametrize("sharing", [Ratio(), PerTopic()])
@pytest.mark.parametrize("limits", [{}, TIGHT])
@pytest.mark.parametrize("seed", range(3))
def test_accounts_follow_every_move_arrival_and_departure(sharing, limits, seed):
    case = draw(seed, **limits)
    of = np.random.default_rng(seed)
    accounts = Accounts(case, sharing, of.integers(NOWHERE, case.servers, case.clients))
    same(accounts)
    for _ in range(60):
        before = accounts.total
        some = of.permutation(case.clients)[: int(of.integers(1, 4))].tolist()
        change = accounts.move(some, int(of.integers(NOWHERE, case.servers)))
        assert accounts.total == pytest.approx(before + change, abs=1e-6)
        same(accounts)
    again = Accounts(case, sharing, accounts.home)
    assert again.total == pytest.approx(accounts.total)
    np.testing.assert_allclose(again.share, accounts.share)


@pytest.mark.parametrize("seed", range(3))
def test_the_ratio_is_the_papers(seed):
    case = draw(seed, plain=True, storage=15.0, compute=40.0)
    home = np.random.default_rng(seed).integers(0, case.servers, case.clients)
    accounts = Accounts(case, Ratio(), home)
    due = oracle.ratio(case, home.tolist())
    here = accounts.count.T > 0
    np.testing.assert_allclose(accounts.share.T[here], np.array(due)[here])
    assert (accounts.share < 1).any()


@pytest.mark.parametrize("seed", range(3))
def test_limits_are_hard_where_topics_are_delegated_whole(seed):
    case = draw(seed, everybody_publishes=True, **TIGHT)
    home = np.random.default_rng(seed).integers(0, case.servers, case.clients)
    accounts = Accounts(case, PerTopic(), home)
    kept = accounts.share * (accounts.count > 0)
    assert set(np.unique(accounts.share)) == {0.0, 1.0}
    assert (case.spool @ kept <= case.storage).all()
    assert (case.work @ (kept * accounts.rate) <= case.compute + 1e-9).all()
    assert accounts.used() == pytest.approx(case.spool @ kept)
    assert ((kept == 0) & (accounts.count > 0)).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("absent", [False, True])
def test_changes_are_those_that_moves_make_while_nothing_is_delegated(seed, absent):
    case = draw(seed)
    of = np.random.default_rng(seed)
    accounts = Accounts(case, Ratio(), of.integers(-absent, case.servers, case.clients))
    everybody = np.arange(case.clients)
    change, bytes_ = accounts.changes(everybody, price_of_byte=0.25)
    for client in everybody.tolist():
        alone, _ = accounts.changes(np.array([client]), price_of_byte=0.25)
        np.testing.assert_allclose(alone[0], change[client], atol=1e-9)
        home, stored = int(accounts.home[client]), accounts.storage
        for server in range(case.servers):
            found = accounts.move([client], server)
            added = accounts.storage - stored
            assert bytes_[client, server] == pytest.approx(added, abs=1e-6)
            if server == 0 and home == NOWHERE:  # The others' own ways are the same everywhere.
                others = found + 0.25 * added - change[client, 0]
            assert change[client, server] == pytest.approx(
                found + 0.25 * added - (others if home == NOWHERE else 0.0), abs=1e-6
            )
            accounts.move([client], home)


def test_traffic_of_a_whole_case_is_what_the_accounts_count_when_everybody_is_there():
    case = draw(1)
    accounts = Accounts(case, Ratio(), np.zeros(case.clients, np.int64))
    assert [accounts.traffic(c) for c in range(case.clients)] == pytest.approx(case.traffic)
