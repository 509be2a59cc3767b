"""`fleet lab placement-clones`: Flock's experiments, on small games."""

import csv
from itertools import product
from math import inf

import numpy as np
import pytest
from msgspec.structs import replace

from agent.placement.congestion import Waiting
from agent.placement.drift import Drift
from agent.placement.price import Price
from lab.placement import command
from lab.placement.clones import central, experiments, paper, tables
from lab.placement.clones.anarchy import every
from lab.placement.clones.draw import NOWHERE, Setting, draw, placed, places, scattered
from lab.placement.clones.flock import Conditions, Flock

SMALL = experiments.Extent(
    seeds=1,
    clouds=5,
    printed=(6,),
    scaled=(15,),
    annealed=(6, 15),
    utilisations=(0.5,),
    few=((0.6, 50.0),),
    games=1,
    starts=1,
    ages=(2,),
    lost=(0.5,),
    clones=15,
    many=((20, 1), (40, 1), (80, 1)),
    masters=8,
    slow=20,
    sweeps=2,
)


def test_a_game_is_the_papers_and_may_be_scaled():
    printed = draw(Setting(30, share=0.5), 1)
    assert printed.clouds == 37
    assert 50 <= printed.capacity.min() <= printed.capacity.max() <= 100
    off = printed.delay[~np.eye(37, dtype=bool)]
    assert 10 <= off.min() <= off.max() <= 100
    assert (printed.delay == printed.delay.T).all()
    assert 0.4 < 2 * len(printed.rate) / (30 * 29) < 0.6
    scaled = draw(Setting(30, utilisation=0.7), 1)
    assert scaled.load.sum() == pytest.approx(0.7 * scaled.capacity.sum())
    assert 3 < 2 * len(scaled.rate) / 30 < 9


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_labs_cost_and_prices_are_the_products(seed):
    game = draw(Setting(14, 5, utilisation=0.6), seed)
    at = central.greedy(game)
    placement = placed(game, at)
    price = Price(placement, Waiting(game.delta))
    assert (places(placement, 14) == at).all()
    assert game.cost(at) == pytest.approx(price.total())
    state = central.State(game, at)
    for i, unit in enumerate(sorted(placement.by_name())):
        prices = state.prices(i)
        prices[prices >= central.FULL] = inf
        assert prices == pytest.approx(price.all(unit))


def test_the_papers_costs_are_those_of_its_formulas():
    """u_i(y) and w_y, one by one, with the clone really there."""
    game = draw(Setting(7, 4, utilisation=0.5), 5)
    at = scattered(game, 5)
    cost, weights = paper.costs(game, at)

    def u(i, where):
        load = np.bincount(where, game.load, game.clouds)
        rho = paper.delays(game, load)
        ways = game.delay[where[i], where] + rho[where[i]] + rho[where]
        return float(game.demand[i] @ ways)

    for i, y in product(range(7), range(4)):
        where = at.copy()
        where[i] = y
        assert cost[i, y] == pytest.approx(u(i, where))
    own = cost[np.arange(7), at]
    for i, y in product(range(7), range(4)):
        others = [j for j in range(7) if at[j] == y and j != i]
        assert weights[i, y] == pytest.approx(own[others].sum())
    assert own.sum() == pytest.approx(2 * game.cost(at))


def test_every_placement_is_priced_and_equilibria_are_those_of_the_rules():
    game = draw(Setting(4, 3, 0.7, delta=20.0), 3)
    found = every(game)
    least = inf
    for where in product(range(3), repeat=4):
        at = np.array(where)
        cost = game.cost(at)
        least = min(least, cost)
        assert found.potential[where] == pytest.approx(cost)
        stays = not paper.wishes(*paper.costs(game, at), at, 0.9).any()
        assert stays == (found.pull[where] > 0.9)
        flock = Flock(placed(game, at), game.delta, 0.0)
        if cost < inf and flock.settled():
            assert cost <= found.ours(1e-9) * least * (1 + 1e-9) or cost / least < 10
    assert found.least == pytest.approx(least)
    assert 1.0 <= found.ours(0.0) <= found.ours(100.0)
    assert found.paper(0.9) <= found.paper(0.5)


@pytest.mark.parametrize("conditions", [Conditions(), Conditions(3, 0.5), Conditions(0, 0.3, 4)])
def test_every_move_lowers_the_cost_by_its_gain_and_it_settles(conditions):
    game = draw(Setting(30, 8, utilisation=0.5), 4)
    flock = Flock(placed(game, scattered(game, 4)), game.delta, 15.0, conditions, 4)
    outcome = flock.run()
    assert outcome.settled
    assert flock.settled()
    assert outcome.moves > 0
    assert outcome.rose == 0
    assert outcome.costs[-1] == pytest.approx(game.cost(places(flock.placement, 30)))
    finite = [cost for cost in outcome.costs if cost < inf]
    assert finite == sorted(finite, reverse=True)
    assert outcome.moves <= 1 + (finite[0] - finite[-1]) / 15.0 or outcome.costs[0] == inf


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_gains_that_are_not_what_the_cost_fell_by_are_counted(monkeypatch, factor):
    checked = Drift.checked

    def wrong(self, move):
        found = checked(self, move)
        return found and replace(found, gain=factor * found.gain)

    monkeypatch.setattr(Drift, "checked", wrong)
    game = draw(Setting(30, 8, utilisation=0.5), 4)
    outcome = Flock(placed(game, scattered(game, 4)), game.delta, 15.0, seed=4).run()
    assert outcome.moves > 0
    assert outcome.rose == (factor != 1.0)


def test_a_master_makes_one_move_a_round():
    game = draw(Setting(40, 4, utilisation=0.4), 2)
    flock = Flock(placed(game, np.zeros(40, np.int64)), game.delta, 1.0)
    before = places(flock.placement, 40)
    flock.round()
    moved = before != places(flock.placement, 40)
    assert moved.sum() == 1


def test_the_papers_rule_settles_alone_and_not_with_old_facts():
    game = draw(Setting(40, 8, utilisation=0.5), 1)
    at = scattered(game, 1)
    alone = paper.run(game, at, 1, rounds=300)
    assert alone.settled
    assert not paper.wishes(*paper.costs(game, alone.at), alone.at, paper.ETA).any()
    assert not paper.run(game, at, 1, rounds=300, age=10).settled


def test_both_rules_meet_the_same_changes():
    rows = list(experiments.changes(SMALL, 2))
    for change in ("a master dies", "a fifth arrive"):
        methods = [row.method for row in rows if row.experiment == change]
        assert methods == [experiments.ARRIVED, experiments.PAPER]
    assert {row.clouds for row in rows if row.experiment == "a master dies"} == {4}
    assert {row.clones for row in rows} == {15}
    table = tables.changes(experiments.Results(rows, []))
    assert [line[2] for line in table.rows] == 2 * [experiments.ARRIVED, experiments.PAPER]


def test_faults_are_met_from_random_clouds_and_after_arrivals_by_price():
    rows = list(experiments.faults(SMALL, 3))
    assert {row.method for row in rows} == {*tables.RULES}
    lines = tables.goals(experiments.Results(rows, [])).rows
    random, by_price = (row for row in rows if row.method != experiments.PAPER)
    assert [line[2] for line in lines if line[1] == "always"] == ["1 of 1", "1 of 1"]
    moves = [line[2] for line in lines if line[1] == "≤ 1.5"]
    assert moves == [f"{random.moves:.2f}", f"{by_price.moves:.2f}"]
    assert by_price.moves < random.moves


def test_clones_that_are_somewhere_stay_when_others_come():
    game = draw(Setting(30, 5, utilisation=0.6), 3)
    before = scattered(game, 3)
    before[before == 2] = NOWHERE
    after = scattered(game, 4, before)
    assert (after[before != NOWHERE] == before[before != NOWHERE]).all()
    assert after.min() >= 0
    assert game.cost(after) < inf


def test_annealing_finds_the_optimum_of_a_few():
    game = draw(Setting(7, 4, 0.6), 2)
    found = every(game)
    annealed = central.anneal(game, central.greedy(game), 1, sweeps=200)
    assert game.cost(annealed) <= 1.05 * found.least
    assert game.cost(central.best_response(game, central.greedy(game))) >= found.least


def test_the_whole_run_writes_data_picture_and_tables(tmp_path):
    assert command.clones(tmp_path, 1, quick=True, extent=SMALL) == 0
    text = (tmp_path / "placement-clones.md").read_text("utf-8")
    for table in ("goals", "claims", "printed", "rounds", "anarchy", "cost", "faults", "changes",
                  "many", "fit"):  # fmt: skip
        assert f"<!-- table: {table} -->\n|" in text
    with (tmp_path / "placement-clones.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(experiments.METHODS) + 3 + 2 * 2 + 3 + 1
    assert all(row["rose"] == "0" for row in rows if row["method"].startswith("ours"))
    assert (tmp_path / "placement-clones.svg").stat().st_size > 1_000


def test_the_exponent_is_that_of_the_sizes():
    def row(clones, rounds):
        return experiments.Row(
            *("many, 20 a round", clones, 100, 6.0, True, 0.5, "ours", 0, 0.0, 1, True, rounds),
            *(0.1, 0),
        )

    rows = [row(n, round(3 * np.log(n) ** 3)) for n in (100, 1_000, 10_000)]
    k, c, _ = tables.exponent(rows)
    assert k == pytest.approx(1.5, abs=0.01)
    assert c == pytest.approx(3.0, rel=0.05)


def test_a_plan_of_the_worst_of_the_few_games_is_the_optimum():
    """Its clones are apart in a way that no single move mends."""
    game = draw(Setting(8, 5, 0.3, delta=1.0), 8)
    flock = experiments.arrived(game, 8_000)
    flock.run(100)
    least = every(game).least
    assert game.cost(places(flock.placement, 8)) > 1.5 * least
    planned = experiments.planned(flock, game, experiments.Extent(), 0.0)
    assert game.cost(planned) == pytest.approx(least)
