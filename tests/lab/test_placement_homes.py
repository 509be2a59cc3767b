"""`fleet lab homes`: RELOC's experiments, on small cases."""

import csv

import numpy as np
import pytest

from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.case import NOWHERE
from fleet.placement.homes.sharing import PerTopic, Ratio
from lab.placement import command
from lab.placement.homes import online, sweeps
from lab.placement.homes import tables as page
from lab.placement.homes.draw import Setting, draw
from lab.placement.homes.sweeps import Extent, Point

SMALL = Extent(
    sigmas=(2.0,),
    factors=(2.5,),
    clusters=(2,),
    hard=((4.0, 1.0),),
    seeds=1,
    topics=4,
    optimum_clients=(16,),
    optimum_seeds=1,
    events=20,
)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_drawn_case_is_the_papers(overlap):
    case, sites = draw(Setting(overlap=overlap, topics=12), 1)
    members = [len(each) for each in case.publishers]
    assert min(members) >= 10
    assert max(members) <= 20
    assert (case.clients == len(case.client)) is not overlap
    assert case.servers == len(sites) == 16
    assert case.delay.max() <= 0.1 * 25 * 2**0.5
    again, _ = draw(Setting(overlap=overlap, topics=12), 1)
    assert (again.delay == case.delay).all()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("sharing", [Ratio(), PerTopic()])
def test_ours_stores_no_more_than_reloc_and_is_no_dearer_than_who_does_so(overlap, sharing):
    setting = Setting(overlap=overlap, topics=8, storage=80.0)
    case, sites = draw(setting, 2)
    homes = sweeps.assign(case, sites, 4, 2, sharing)
    found = {name: Accounts(case, sharing, home) for name, home in homes.items()}
    reloc = found[sweeps.RELOC]
    assert found[sweeps.OURS].storage <= reloc.storage
    peers = [found[name] for name in sweeps.PEERS]
    assert found[sweeps.OURS].total <= min(p.total for p in peers if p.storage <= reloc.storage)
    assert found[sweeps.FREE].total <= min(p.total for p in peers)


@pytest.mark.parametrize("overlap", [False, True])
def test_events_move_few_and_cost_what_the_planners_accounts_say(overlap):
    case, _ = draw(Setting(overlap=overlap, topics=8, storage=60.0), 3)
    follower = online.Online(case, np.arange(case.clients) != 3, 1)
    for client in range(6, 30, 3):
        follower.leave(client)
    for client in range(6, 30, 6):
        follower.join(client)
    follower.moved(1, case.delay[1][::-1].copy())
    where = [follower.placement.where(online.home(client)) for client in range(case.clients)]
    homes = np.array([NOWHERE if at is None else at for at in where])
    assert (homes[[0, 6, 3, 9]] != NOWHERE).tolist() == [True, True, False, False]
    accounts = Accounts(case, PerTopic(), homes)
    assert follower.price.total() == pytest.approx(accounts.total)
    assert follower.migrations <= 3 * 13
    assert -0.1 < follower.off() < 0.1


def test_the_whole_run_writes_data_picture_and_tables(tmp_path):
    assert command.homes(tmp_path, 1, SMALL) == 0
    text = (tmp_path / "placement-homes.md").read_text("utf-8")
    for table in ("goals", "sigma", "spool", "clusters", "claims", "hard", "optimum", "online"):
        assert f"<!-- table: {table} -->\n|" in text
    with (tmp_path / "placement-homes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # Two kinds of topics: one point of two sweeps and two of the third; one under hard limits.
    assert len(rows) == 2 * (4 + 1) * SMALL.seeds * len(sweeps.METHODS)
    assert (tmp_path / "placement-homes.svg").stat().st_size > 1_000


def test_goals_count_who_is_dearer():
    def row(method, delay, storage):
        return sweeps.Row(
            *("ratio", "σ", "disjoint", 1.0, 1.0, 4, 1, method), delay, 0.0, storage, 0.5, 0.5
        )

    delays = dict(zip(sweeps.METHODS, (9.0, 1.0, 2.0, 3.0, 2.5, 2.0, 1.5), strict=True))
    case = {m: row(m, d, 20.0 if m == sweeps.NEAREST else 10.0) for m, d in delays.items()}
    found = page.goals({page.case_of(case[sweeps.RELOC]): case}, page.Results([], [], []))
    said = {what: value for what, _, value in found.rows}
    assert said["delay against RELOC, at most its storage, mean"] == "−20.0 %"
    assert said["dearer than a peer that stores no more than RELOC"] == "0 of 1"
    assert said["without a budget of bytes: dearer than a peer"] == "1 of 1"
    assert said["with RELOC's bytes: dearer than a peer that stores more"] == "1 of 1"


def test_points_have_every_sweep_for_both_kinds_of_topics():
    found = list(sweeps.points(Extent()))
    assert len(found) == 2 * (5 + 5 + 2 * 5)
    assert all(isinstance(each, Point) for each in found)
    assert {each.sweep for each in found} == {"σ", "spool", "clusters"}
