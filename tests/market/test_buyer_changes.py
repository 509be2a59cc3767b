"""A buyer changes a running pool: who comes, who leaves, who lost what it had."""

from _core.deadlines.order_statistics import task_percentile
from agent.market.rollout import MAX_RETRY_S, REFRESH_S, STAGE_S
from agent.market.seller import DRAIN_S
from agent.wire.operator import AddIad, DropService, RemoveIad
from tests.market.rig import BUYER, FAST_S, Iad, building, request, slow


def set_up(**given):
    market = building(**given)
    market.ask(request(only=("iad1", "iad2")))
    market.run(1.0)
    assert market.report().ok
    return market


def test_an_iad_is_added_and_everybody_keeps_the_stricter_percentile():
    market = set_up()
    market.ask(AddIad("a", "climate", "iad3"))
    market.run(1.0)
    report = market.report()
    assert report.ok, report
    [service] = report.services
    assert service.terms.percentile == task_percentile(99.0, 3)
    assert market.versions("climate") == dict.fromkeys(market.iads, service.version)
    market.check()


def test_the_new_iad_serves_before_the_others_hear_of_it():
    market = set_up()
    market.ask(AddIad("a", "climate", "iad3"))
    heard = []
    while market.network:
        before = market.versions("climate")
        market.deliver()
        heard += [iad for iad, v in market.versions("climate").items() if before.get(iad) != v]
    assert heard[0] == "iad3"
    assert set(heard) == set(market.iads)


def test_an_addition_that_one_refuses_changes_nothing():
    market = set_up(most_pods=1)
    slow(market, "iad1", 0.12)  # has become slower: the stricter percentile does not fit
    before = market.versions("climate")
    market.ask(AddIad("a", "climate", "iad3"))
    market.run(1.0)
    assert not market.report().ok
    assert market.versions("climate") == before
    assert not market.iads["iad3"].pods


def test_an_iad_that_offers_nothing_is_added_to_schedule():
    market = set_up()
    market.iads["portal"] = Iad("portal", {}, 4)
    market.ask(AddIad("a", "climate", "portal"))
    market.run(1.0)
    assert market.report().ok
    assert market.versions("climate").keys() == {BUYER, "iad1", "iad2", "portal"}
    market.ask(AddIad("a", "climate", "portal"))
    assert "offers no temperature there" in market.report().message
    market.ask(AddIad("a", "climate", "nobody"))
    assert market.report().message == "no IAD nobody is registered"


def test_an_iad_leaves_after_all_others_have_heard():
    market = set_up()
    market.ask(RemoveIad("r", "climate", "iad2"))
    assert "iad2" not in {name for _, name, _ in market.network}
    market.run(1.0)
    report = market.report()
    assert report.ok
    assert market.versions("climate").keys() == {BUYER, "iad1"}
    assert report.services[0].terms.percentile == 99.0
    assert "climate" in market.iads["iad2"].served  # it drains
    market.run(DRAIN_S)
    assert not market.iads["iad2"].served
    assert not market.iads["iad2"].pods


def test_an_unreachable_member_holds_a_departure_up_for_a_while_only():
    market = set_up()
    market.ask(AddIad("a", "climate", "iad3"))
    market.run(1.0)
    market.report()
    market.unreachable = {"iad1"}
    market.ask(RemoveIad("r", "climate", "iad2"))
    market.run(15.0)
    report = market.report()
    assert report.ok
    assert [s.outcome for s in report.steps if s.iad == "iad1"] == [
        "no answer; it is told when it can be reached"
    ]
    assert "iad2" in market.versions("climate")
    market.run(STAGE_S)
    assert "iad2" not in market.versions("climate")
    market.unreachable = set()
    market.run(MAX_RETRY_S)
    assert len(set(market.versions("climate").values())) == 1


def test_the_last_that_serves_stays():
    market = set_up()
    market.ask(RemoveIad("r", "climate", "iad2"))
    market.run(1.0)
    assert market.report().ok
    market.ask(RemoveIad("r", "climate", "iad1"))
    assert "the last that serves" in market.report().message
    market.ask(RemoveIad("r", "climate", "iad9"))
    assert market.report().message == "iad9 is not in the pool"
    market.ask(RemoveIad("r", "climate", BUYER))
    assert "drop the service instead" in market.report().message


def test_a_dropped_service_is_gone_everywhere_and_its_name_is_free():
    market = set_up()
    market.ask(DropService("d", "climate"))
    market.run(DRAIN_S + 1.0)
    assert market.report().ok
    assert not market.versions("climate")
    assert not market.disk
    assert not any(iad.pods or iad.disk for iad in market.iads.values())
    market.ask(request())
    market.run(1.0)
    assert market.report().ok


def test_only_the_owner_changes_a_service():
    market = set_up()
    for wanted in (
        AddIad("x", "other", "iad3"),
        RemoveIad("x", "other", "iad1"),
        DropService("x", "other"),
    ):
        market.ask(wanted)
        message = market.report().message
        assert "does not own a service other; it owns climate; ask the master" in message
    market.ask(DropService("x", "climat"))
    assert market.report().message == "iad0 does not own a service climat; did you mean climate?"


def test_a_restarted_owner_goes_on_telling():
    market = set_up()
    market.ask(AddIad("a", "climate", "iad3"))
    market.run(1.0)
    market.report()
    market.unreachable = {"iad1"}
    market.ask(RemoveIad("r", "climate", "iad3"))
    market.restart(BUYER)
    market.unreachable = set()
    market.run(2 * STAGE_S)
    assert market.versions("climate").keys() == {BUYER, "iad1", "iad2"}
    assert len(set(market.versions("climate").values())) == 1


def test_a_member_that_lost_its_disk_finds_its_services_again():
    market = set_up()
    market.iads["iad1"].disk = {}
    market.iads["iad1"].pods = {}
    market.restart("iad1")
    assert "iad1" not in market.versions("climate")
    market.run(REFRESH_S)
    assert "iad1" in market.versions("climate")


def test_a_member_that_refuses_later_is_left_out():
    market = set_up(most_pods=1)
    market.iads["iad1"].disk = {}
    market.restart("iad1")
    slow(market, "iad1", 0.3)
    market.ask(RemoveIad("r", "climate", "iad2"))
    market.run(1.0)
    # iad1 is the last that serves: it is asked again, and not dropped.
    assert "iad1" not in market.versions("climate")
    assert [m.iad for m in market.disk["climate"].service.members if m.areas] == ["iad1"]
    slow(market, "iad1", FAST_S)
    market.run(2 * STAGE_S)
    assert market.versions("climate").keys() == {BUYER, "iad1"}
