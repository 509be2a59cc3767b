"""A buyer sets a service up: four steps, counter-offers, and who is left out."""

import math

import pytest

from _core.deadlines.order_statistics import task_percentile
from agent.market.buyer import STARTING_S
from agent.market.buyer_events import DiskRefused
from agent.market.rollout import STAGE_S
from agent.wire.messages import Slo
from agent.wire.operator import AddIad, RemoveIad
from tests.market.rig import BUYER, FAST_S, SELLERS, Iad, building, request, slow


def test_a_service_is_set_up_with_everybody():
    market = building()
    market.ask(request())
    market.run(1.0)
    report = market.report()
    assert report.ok, report
    [service] = report.services
    assert service.owner == BUYER
    assert {m.iad: m.areas for m in service.members} == {
        **{f"iad{n}": (f"b1/f{n}/r0", f"b1/f{n}/r1") for n in (1, 2, 3)},
        BUYER: (),
    }
    assert service.terms.percentile == task_percentile(99.0, 3)
    assert (service.terms.budget_ms, service.terms.rate_per_s) == (800.0, 5.0)
    assert market.versions("climate") == dict.fromkeys(market.iads, service.version)
    assert all(iad.pods for iad in market.iads.values() if iad.nodes)
    words = [step.step for step in report.steps]
    assert words == sorted(words, key=["discover", "negotiate", "provision", "pool"].index)
    market.check()


def test_a_clock_that_was_set_is_that_of_the_next_version():
    market = building()
    market.buyer.clock_set(1_700_000_000.0)
    market.ask(request())
    market.run(1.0)
    [service] = market.report().services
    assert 0 <= service.version - 1_700_000_000_000 < 60_000
    market.check()


def test_a_buyer_that_sells_is_a_member_with_its_areas():
    market = building(1)
    market.iads[BUYER].nodes = {"own": ("b1/f0", FAST_S)}
    market.iads[BUYER].start()
    market.ask(request())
    market.run(1.0)
    members = market.report().services[0].members
    assert {m.iad: m.areas for m in members}[BUYER] == ("b1/f0",)
    assert market.iads[BUYER].pods == {("own", "climate"): 1}


def test_schedulers_get_the_pool_and_no_pods():
    market = building()
    market.iads["portal"] = Iad("portal", {}, 4)
    market.ask(request(schedulers=("portal", "iad3")))
    market.run(1.0)
    report = market.report()
    assert report.ok
    areas = {m.iad: m.areas for m in report.services[0].members}
    assert areas["portal"] == areas["iad3"] == ()
    assert report.services[0].terms.percentile == task_percentile(99.0, 2)
    assert report.uncovered == ("b1/f3/r0", "b1/f3/r1")
    assert not market.iads["iad3"].pods
    assert market.versions("climate").keys() == market.iads.keys()


def test_a_scheduler_that_nobody_knows_ends_it():
    market = building()
    market.ask(request(schedulers=("nobody",)))
    report = market.report()
    assert not report.ok
    assert report.message == "no IAD nobody is registered"


def test_only_some_sellers():
    market = building()
    market.ask(request(only=("iad2", "iad9")))
    market.run(1.0)
    report = market.report()
    assert {m.iad for m in report.services[0].members if m.areas} == {"iad2"}
    assert [s.iad for s in report.steps if s.outcome == "does not offer it there"] == ["iad9"]


def test_a_name_is_used_once():
    market = building()
    market.ask(request())
    market.run(1.0)
    assert market.report().ok
    for name in ("climate", "default"):
        market.ask(request(name))
        assert market.report().message == f"the name {name} is taken; choose another"


def test_a_silent_directory_ends_it():
    market = building()
    market.directory_up = False
    market.ask(request())
    assert "runs at the addresses in market.directories" in market.report().message


def test_what_is_just_starting_is_waited_for():
    """Directory, seller and nodes, one after the other, as where people paste commands."""
    market = building(2)
    market.perform(market.buyer.load([], 0.0))
    late, late_nodes = market.iads.pop("iad2"), market.iads["iad1"]
    late_nodes.away, late_nodes.joining_until = True, 10.0
    market.directory_up = False
    market.ask(request(fewest=2, timeout_ms=10_000.0))
    market.run(1.0)
    market.directory_up = True
    market.run(1.0)
    market.iads["iad2"] = late
    market.run(1.0)
    assert market.reports == []
    late_nodes.away = False
    market.run(0.5)
    report = market.report()
    assert report.ok, report
    assert {m.iad for m in report.services[0].members} == {"iad1", "iad2", BUYER}
    assert [s.outcome for s in report.steps if s.step == "discover"] == [
        "2 IADs offer temperature there"
    ]
    market.check()


def test_who_does_not_come_is_left_out_in_time():
    market = building(2)
    market.perform(market.buyer.load([], 0.0))
    market.iads["iad1"].away, market.iads["iad1"].joining_until = True, 100.0
    market.ask(request(timeout_ms=10_000.0))
    market.run(9.9)
    report = market.report()
    assert report.ok, report
    assert report.uncovered == ("b1/f1/r0", "b1/f1/r1")
    assert any("still joining" in step.outcome for step in report.steps)


def test_in_a_settled_market_what_nobody_offers_is_said_at_once():
    market = building(2)
    market.perform(market.buyer.load([], 0.0))
    market.run(STARTING_S)
    market.ask(request(areas=("b2",)))
    assert "no IAD offers" in market.report().message


def test_a_misspelt_capability_names_the_one_that_was_meant():
    market = building(2)
    market.perform(market.buyer.load([], 0.0))
    market.run(STARTING_S)
    for name, asked, says in (
        (
            "one",
            {"capability": "temprature"},
            "IAD offers temprature there; did you mean temperature?",
        ),
        ("two", {"areas": ("b2",)}, "no IAD offers temperature there"),
        ("three", {"capability": "co2"}, "no IAD offers co2 there"),
        ("four", {"fewest": 3}, "2 IADs offer temperature there, of 3 wanted"),
    ):
        market.ask(request(name, **asked))
        market.run(1.0)
        assert market.report().message.endswith(says)


def test_where_only_others_offer_it_they_are_named():
    market = building(3)
    market.perform(market.buyer.load([], 0.0))
    market.run(STARTING_S)
    market.ask(request(only=("iad9",)))
    said = market.report().message
    assert said.startswith("iad9 does not offer temperature there; iad1, iad2, iad3 do")
    market.ask(request(only=("iad9",), areas=("b2",)))
    assert market.report().message == "iad9 does not offer temperature there, nor does any other"


def test_an_iad_that_is_just_registering_is_added():
    market = building(2)
    market.perform(market.buyer.load([], 0.0))
    late = market.iads.pop("iad2")
    market.ask(request())
    market.run(1.0)
    assert market.report().ok
    market.ask(AddIad("a", "climate", "iad2"))
    market.run(1.0)
    assert market.reports == []
    market.iads["iad2"] = late
    market.run(1.0)
    assert market.report().ok


def test_one_change_at_a_time():
    market = building()
    market.ask(request())
    market.ask(request())
    assert "being changed" in market.report().message


def test_who_cannot_is_left_out_and_the_percentile_relaxes():
    market = building()
    slow(market, "iad2", 5.0)  # no rate within 800 ms, no budget at 5/s with 4 pods
    market.ask(request(fewest=2))
    market.run(1.0)
    report = market.report()
    assert report.ok
    assert {m.iad for m in report.services[0].members if m.areas} == {"iad1", "iad3"}
    assert report.services[0].terms.percentile == task_percentile(99.0, 2)
    assert report.uncovered == ("b1/f2/r0", "b1/f2/r1")
    assert "iad2" not in market.versions("climate")


def test_too_few_ends_it_and_nothing_is_held():
    market = building()
    slow(market, "iad2", 5.0)
    market.ask(request(fewest=3))
    market.run(1.0)
    report = market.report()
    assert not report.ok
    assert "too few IADs" in report.message
    assert all(iad.seller.next_due is None for iad in market.iads.values())


def test_the_last_word_names_the_relax_that_would_do():
    market = building(most_pods=1)
    slow(market, "iad2", 0.1)
    market.ask(request(rate_per_s=4.0, fewest=3))
    market.run(1.0)
    words = market.report().message
    assert words.startswith("too few IADs accept these terms; iad2 would keep 2.")
    relax = float(words.rpartition("try --relax ")[2])
    assert 1.0 < relax <= 2.0
    market.ask(request(rate_per_s=4.0, fewest=3, relax=relax))
    market.run(1.0)
    assert market.report().ok


def test_the_last_word_where_no_relax_would_do():
    market = building()
    for iad in SELLERS:
        slow(market, iad, 20.0)
    market.ask(request())
    market.run(1.0)
    assert "try a longer --slo, a lower --rate or fewer areas" in market.report().message
    market.unreachable = set(SELLERS)
    market.ask(request())
    market.run(10.0)
    assert "no answer from iad1, iad2, iad3: try again" in market.report().message


@pytest.mark.parametrize(("relax", "left_out"), [(1.0, {"iad2"}), (2.0, set())])
def test_a_counter_offer_is_taken_within_what_is_relaxed(relax, left_out):
    market = building(most_pods=1)
    # One pod of 0.1 s and θ ≈ 7.9/s leave 2.1/s of the 4 asked.
    slow(market, "iad2", 0.1)
    market.ask(request(rate_per_s=4.0, relax=relax))
    market.run(1.0)
    report = market.report()
    assert report.ok
    service = report.services[0]
    sellers = {m.iad: m.rate_per_s for m in service.members if m.areas}
    assert sellers.keys() == {"iad1", "iad2", "iad3"} - left_out
    if not left_out:
        assert 2.0 <= sellers["iad2"] < 4.0
        assert service.terms.rate_per_s == sellers["iad2"]
        assert sellers["iad1"] == 4.0
    [counter] = {s.outcome for s in report.steps if s.outcome.startswith("counter-offer")}
    assert counter.startswith("counter-offer: 2.")
    market.check()


def test_fewer_iads_make_a_counter_offer_needless():
    market = building(most_pods=1)
    # iad2 keeps p99.5 but not p99.67: once iad3 is out it can.
    asked = 99.0
    decays = {
        k: -math.log(-math.expm1(math.log(task_percentile(asked, k) / 100.0) / 2)) / 0.8
        for k in (2, 3)
    }
    slow(market, "iad2", 1.0 / (4.0 + (decays[2] + decays[3]) / 2.0))
    slow(market, "iad3", 5.0)
    market.ask(request(rate_per_s=4.0))
    market.run(1.0)
    report = market.report()
    assert {m.iad for m in report.services[0].members if m.areas} == {"iad1", "iad2"}
    assert report.services[0].terms.rate_per_s == 4.0


def test_a_silent_candidate_costs_a_round():
    market = building()
    market.unreachable = {"iad2"}
    market.ask(request())
    market.run(10.0)
    report = market.report()
    assert report.ok
    assert report.elapsed_ms == pytest.approx(2_000.0)
    assert [s.outcome for s in report.steps if s.iad == "iad2"] == ["no answer"]


def test_a_member_that_does_not_join_is_left_out():
    market = building()
    market.ask(request())
    while market.network and len(market.network) > 0 and market.network[0][0] == "to":
        market.deliver()  # proposals
    while any(direction == "from" for direction, _, _ in market.network):
        market.deliver([d for d, _, _ in market.network].index("from"))
    market.unreachable = {"iad2"}
    market.network = [m for m in market.network if m[1] != "iad2"]
    market.run(10.0)
    report = market.report()
    assert report.ok
    assert {m.iad for m in report.services[0].members if m.areas} == {"iad1", "iad3"}
    assert "iad2" not in market.versions("climate")
    market.unreachable = set()
    market.run(100.0)
    assert market.versions("climate").keys() == {"iad1", "iad3", BUYER}
    assert not market.disk["climate"].deliveries


def test_who_was_silent_gives_back_what_it_holds():
    market = building()
    market.ask(request())
    late = [m for m in market.network if m[1] == "iad2"]
    market.network = [m for m in market.network if m[1] != "iad2"]
    market.unreachable = {"iad2"}
    market.run(1.9)
    market.network = late
    market.unreachable = set()
    market.deliver()  # its proposal arrives, its offer does not
    market.network = []
    market.tick(2.0)
    market.run(1.0)
    assert market.report().ok
    assert market.iads["iad2"].seller.next_due is None


def test_a_negotiation_that_runs_out_of_time_releases_what_is_held():
    market = building(6, most_pods=1)
    for iad in (*SELLERS, "iad4", "iad5"):
        slow(market, iad, 0.12)  # they counter in every round
    market.unreachable = {"iad1"}
    market.ask(request(rate_per_s=4.0, timeout_ms=400.0))
    market.run(0.05)
    for silent in ("iad2", "iad3", "iad4"):  # a round of 0.1 s each
        assert market.iads["iad6"].seller.next_due is not None
        market.unreachable = {silent}
        market.run(0.1)
    market.run(0.1)
    assert "did not end in time" in market.report().message
    assert market.iads["iad6"].seller.next_due is None


def test_a_set_up_that_a_restart_cuts_off_is_undone():
    market = building()
    market.ask(request())
    while not any(iad.pods for iad in market.iads.values()):
        market.deliver()
    market.restart(BUYER)
    market.run(2 * STAGE_S)
    assert not market.versions("climate")
    assert not market.disk


@pytest.mark.parametrize("joining", [False, True])
def test_a_set_up_that_the_disk_refuses_is_undone(joining):
    market = building()
    market.ask(request())
    while joining and not any(iad.pods for iad in market.iads.values()):
        market.deliver()
    assert market.reports == []
    market.perform(market.buyer.handle(DiskRefused("not now", "later"), market.now))
    report = market.report()
    assert (report.ok, report.message) == (False, "not now")
    market.run(2 * STAGE_S)
    assert market.reports == []
    assert not market.versions("climate")
    assert not market.disk


def test_a_change_that_the_disk_refuses_is_made_later():
    market = building()
    market.ask(request())
    market.run(1.0)
    market.reports.clear()
    market.ask(RemoveIad("r", "climate", "iad1"))
    market.perform(market.buyer.handle(DiskRefused("not now", "later"), market.now))
    report = market.report()
    assert (report.ok, report.message) == (False, "later")
    market.run(1.0)
    assert market.reports == []
    assert market.versions("climate").keys() == {BUYER, "iad2", "iad3"}


def test_an_infeasible_slo_is_refused_everywhere():
    market = building()
    market.ask(request(slo=Slo(99.0, 1.0), rate_per_s=1_000.0))
    market.run(1.0)
    assert not market.report().ok


def test_a_directory_that_says_more_than_it_was_asked_adds_nobody():
    market = building()
    honest = market.looked_up
    market.looked_up = lambda names: honest([*names, *names, "iad1", BUYER])
    market.ask(request(schedulers=("iad3",), areas=("b1/f1", "b1/f2")))
    market.deliver_all()
    [pool] = market.report().services
    assert sorted((m.iad, bool(m.areas)) for m in pool.members) == [
        ("iad0", False),
        ("iad1", True),
        ("iad2", True),
        ("iad3", False),
    ]
