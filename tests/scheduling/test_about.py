"""Queries of form `about`: what masters know of areas and services, without asking a node."""

import pytest

from agent.alerts.raised_triggers import RaisedTriggers
from agent.scheduling.admission import AREAS_A_TOKEN, ClientRates
from agent.scheduling.aggregation import merge_results
from agent.scheduling.events import (
    ANYONE,
    NodeLeft,
    ServiceChanged,
    TaskArrived,
    TaskReturned,
    TaskUndeliverable,
    Tick,
)
from agent.scheduling.pools import MAX_ROOTS, Pool
from agent.scheduling.tasks.entry import RETURNS_S
from agent.scheduling.tasks.planner import JOINING
from agent.wire import messages as m
from agent.wire.about import About, ChannelInfo, Raised, ServiceInfo
from agent.wire.market import Member, Service, Terms
from agent.wire.operator import NodeAlert
from agent.wire.principals import Sender
from tests.scheduling.oracle import found
from tests.scheduling.rigs import QueryRig, TaskRig

EVERYWHERE = ("*",)
CELSIUS = ChannelInfo("temperature", "celsius")
HOT = Raised("hot", 1_000, "temperature > 30")


class RaisedThere:
    """Triggers in the hands of a test."""

    def __init__(self):
        self.changes = 0
        self.by_node = {}

    def set(self, node, *alerts):
        self.changes += 1
        self.by_node[node] = alerts

    def raised(self, node):
        return self.by_node.get(node, ())


def alert(*areas, trigger="hot", since_ms=1_000, text="temperature > 30"):
    return NodeAlert(trigger, areas, since_ms, True, text)


def rig(**options):
    made = TaskRig(**options)
    made.scheduler.catalog.source = made.raised = RaisedThere()
    return made


def ask(rig, areas=EVERYWHERE, now=0.0, sender=ANYONE, client="client", **fields):
    task = m.Task("t", areas, m.Window(last_s=1.0), 99.0, 5e3, 5e3, form="about", **fields)
    rig.do(TaskArrived("origin", task, sender, client), now)
    return rig.results[-1]


def abouts(result):
    return {each.area: each.about for each in result.results}


def test_all_areas_with_channels_and_units():
    master = rig(names={"b1/f4/r2": "Meeting 4.2"})
    master.join("n1", channels=("temperature", "vote"), units={"temperature": "celsius"})
    master.join("n3", channels=("co2",), units={"co2": "ppm"}, now=0.25)
    result = ask(master, now=1.0)
    assert (result.status, result.missing) == ("complete", ())
    assert [(each.area, each.name) for each in result.results] == [
        ("b1/f4/r1", None),
        ("b1/f4/r2", "Meeting 4.2"),
        ("b1/f5/r9", None),
    ]
    ppm = About((ChannelInfo("co2", "ppm"),), heard_ms_ago=750)
    assert abouts(result) == {
        "b1/f4/r1": About((CELSIUS, ChannelInfo("vote")), heard_ms_ago=1_000),
        "b1/f4/r2": ppm,
        "b1/f5/r9": ppm,
    }
    assert not master.dispatched
    assert not master.records


def test_a_node_of_an_earlier_version_has_the_known_units():
    master = rig()
    master.join("n1", channels=("temperature", "humidity", "co2"))
    [found] = ask(master).results
    percent = ChannelInfo("humidity", "percent")
    assert found.about.channels == (CELSIUS, percent, ChannelInfo("co2"))


def test_an_area_of_several_nodes_has_the_channels_of_all():
    master = rig()
    master.join("n1", areas=("b1/f4/r1",), channels=("co2",))
    master.join("n2", areas=("b1/f4/r1",), channels=("temperature", "co2"), units={"co2": "ppm"})
    master.do(NodeLeft("link-n2", "boot-n2"), 2.0)
    [found] = ask(master, now=3.0).results
    assert found.about == About((ChannelInfo("co2", "ppm"), CELSIUS), (), 3_000)
    master.do(NodeLeft("link-n1", "boot-n1"), 3.0)
    assert ask(master, now=3.5).results[0].about.down


def test_some_areas_and_those_that_nobody_covers():
    master = rig()
    master.join("n1")
    master.join("n3")
    result = ask(master, ("b1/f4/r2", "b1/f5", "b1/f4/r3", "b9"))
    assert abouts(result).keys() == {"b1/f4/r2", "b1/f5/r9"}
    assert [(gap.area, gap.reason) for gap in result.missing] == [
        ("b1/f4/r3", "no_node"),
        ("b9", "no_node"),
    ]


def test_ordinary_results_have_the_names_of_rooms():
    master = rig(names={"b1/f4/r1": "Kitchen"})
    master.join("n1")
    master.join("n2")
    task = m.Task("t", ("b1",), m.Window(last_s=1.0), 99.0, 5e3, 5e3, form="aggregate")
    master.do(TaskArrived("origin", task), 0.0)
    for node, subtask in master.dispatched:
        master.answer(found(subtask.id), node.removeprefix("link-"), 0.1)
    assert [(each.area, each.name) for each in master.results[0].results] == [
        ("b1/f4/r1", "Kitchen"),
        ("b1/f4/r2", None),
    ]
    merged = merge_results(master.results[0].results * 2)
    assert [each.name for each in merged] == ["Kitchen", None]


def test_gaps_have_the_names_of_rooms_too():
    master = rig(names={"b1/f4/r1": "Kitchen"})
    master.join("n1")
    master.do(NodeLeft("link-n1", "boot-n1"), 0.0)
    task = m.Task("t", ("b1/f4/r1", "b9"), m.Window(last_s=1.0), 99.0, 5e3, 5e3, form="aggregate")
    master.do(TaskArrived("origin", task), 0.0)
    assert [(gap.area, gap.reason, gap.name) for gap in master.results[0].missing] == [
        ("b1/f4/r1", "node_down", "Kitchen"),
        ("b9", "no_node", None),
    ]


def test_raised_triggers_concern_their_areas_and_those_below():
    master = rig()
    master.join("n3")
    assert abouts(ask(master))["b1/f4/r2"].raised == ()
    later = alert("b1/f5", trigger="dry", since_ms=2_000, text="humidity < 30")
    master.raised.set("n3", alert(), later)
    found = abouts(ask(master))
    assert found["b1/f4/r2"].raised == (HOT,)
    assert found["b1/f5/r9"].raised == (HOT, Raised("dry", 2_000, "humidity < 30"))
    master.raised.set("n3")
    assert abouts(ask(master))["b1/f5/r9"].raised == ()


def test_of_a_node_that_is_gone_nothing_is_told_as_raised():
    master = rig()
    master.join("n3")
    master.join("n1")
    master.raised.set("n3", alert())
    master.do(NodeLeft("link-n3", "boot-n3"), 0.0)
    # It may only be restarted.
    assert abouts(ask(master, now=RETURNS_S - 1.0))["b1/f5/r9"].raised == (HOT,)
    assert abouts(ask(master, now=RETURNS_S))["b1/f5/r9"].raised == ()


def test_what_is_known_is_looked_up_again_only_after_a_change(monkeypatch):
    master = rig()
    master.join("n1")
    looks = []
    look = master.scheduler.catalog._look
    monkeypatch.setattr(
        master.scheduler.catalog, "_look", lambda *given: looks.append(given) or look(*given)
    )
    for _ in range(3):
        ask(master)
    assert len(looks) == 1
    master.join("n1", channels=("co2",), incarnation="later", now=1.0)
    assert abouts(ask(master))["b1/f4/r1"].channels == (ChannelInfo("co2"),)
    master.join("n2")
    assert "b1/f4/r2" in abouts(ask(master))
    master.raised.set("n1", alert())
    assert abouts(ask(master))["b1/f4/r1"].raised == (HOT,)
    assert len(looks) == 4
    for number in range(50):
        ask(master, (f"b1/f{number}",))
    assert len(master.scheduler.catalog._found) <= 8


def test_nodes_that_are_still_joining_are_told():
    known = {"n1": ("b1/f4/r1",), "n2": ("b1/f4/r2",), "n9": ("b9/r1",)}
    master = rig(started_s=0.0, known=known)
    master.join("n1")
    late = [m.Missing(area, "timeout", message=JOINING) for area in ("b1/f4/r2", "b9/r1")]
    assert ask(master).missing == tuple(late)
    assert ask(master, ("b1", "b9", "b8")).missing == (m.Missing("b8", "no_node"), *late)
    master.do(Tick(), 30.0)
    assert ask(master, now=30.0).missing == ()


def test_a_service_shows_its_areas_and_its_channel_alone():
    master = rig()
    master.join("n1", channels=("temperature", "co2"))
    master.join("n3")
    service = Service(
        "warm", "iad1", 1, (Member("iad1", "tcp://x", ("b1/f4",)),), capability="temperature"
    )
    master.do(ServiceChanged(service), 0.0)
    result = ask(master, service="warm")
    assert {area: found.channels for area, found in abouts(result).items()} == {
        "b1/f4/r1": (CELSIUS,),
        "b1/f4/r2": (CELSIUS,),
    }
    [gap] = ask(master, ("b1/f5",), service="warm").missing
    assert gap.reason == "no_node"
    assert ask(master, service="none").reason == "unknown_service"


def test_who_may_not_send_tasks_learns_nothing():
    master = rig()
    master.join("n1")
    stranger = ask(master, sender=Sender("iad", "iad9"))
    assert (stranger.reason, stranger.results) == ("not_authorised", ())


def test_another_iad_has_a_rate_and_the_client_of_this_master_not_twice():
    master = rig(rates=ClientRates(0.1, 1.0))
    for _ in range(10):
        assert ask(master, client=None).status == "complete"
    assert ask(master, client=None).reason == "over_rate"
    assert ask(master, client=Sender("client", "c")).status == "complete"


# --- at the query scheduler ---------------------------------------------------------------------

POOL = (Member("iad1", "", ("b1/f1",)), Member("iad2", "", ("b1/f2", "b1/f4")))


def told(*areas, raised=()):
    return tuple(m.AreaResult(area, about=About((CELSIUS,), raised, 5)) for area in areas)


def give(queries, number, *areas, missing=(), **fields):
    iad, task = queries.tasks[number]
    status = "partial" if missing else "complete"
    result = m.TaskResult(task.id, status, 1.0, told(*areas, **fields), missing)
    queries.do(TaskReturned(iad, result), 0.1)


def refuse(queries, number, reason, message):
    iad, task = queries.tasks[number]
    result = m.TaskResult(task.id, "refused", 1.0, reason=reason, message=message)
    queries.do(TaskReturned(iad, result), 0.1)


def test_all_iads_of_the_pool_are_asked_for_all_they_have():
    queries = QueryRig(POOL)
    queries.ask("*", form="about")
    assert [(iad, task.areas, task.form) for iad, task in queries.tasks] == [
        ("iad1", EVERYWHERE, "about"),
        ("iad2", EVERYWHERE, "about"),
    ]
    give(queries, 0, "b1/f1/r1")
    give(queries, 1, "b1/f2/r1", "b1/f7/r1")
    [answer] = queries.answers
    assert [each.area for each in answer.results] == ["b1/f1/r1", "b1/f2/r1"]
    assert answer.missing == (m.Missing("b1/f4", "no_node"),), "declared, and nobody there"
    assert answer.services == (ServiceInfo("default", areas=("b1/f1", "b1/f2", "b1/f4")),)
    assert not queries.records


def test_an_iad_tells_only_about_areas_that_it_declared():
    queries = QueryRig(POOL)
    queries.ask("*", form="about")
    give(queries, 0, "b1/f1/r1", "b1/f2/r1", "b2", missing=(m.Missing("b1/f4", "no_node"),))
    give(queries, 1, "b1/f2/r1", "b1/f4/r1")
    [answer] = queries.answers
    assert [each.area for each in answer.results] == ["b1/f1/r1", "b1/f2/r1", "b1/f4/r1"]
    assert answer.missing == ()


def test_some_areas_go_to_those_that_have_them():
    queries = QueryRig(POOL)
    queries.ask("b1/f1/r3", "b8", form="about")
    assert [(iad, task.areas) for iad, task in queries.tasks] == [("iad1", ("b1/f1/r3",))]
    give(queries, 0, "b1/f1/r3")
    [answer] = queries.answers
    assert [each.area for each in answer.results] == ["b1/f1/r3"]
    assert [gap.area for gap in answer.missing] == ["b8"]


@pytest.mark.parametrize(
    ("reason", "message", "why"),
    [
        (
            "malformed",
            "Invalid enum value 'about' - at `$.form`",
            "its master is of an earlier version, which knows no form about",
        ),
        ("not_authorised", "iad1 is not in the pool", "iad1 is not in the pool"),
        ("over_rate", "", "its master refused"),
    ],
)
def test_an_iad_that_refuses_leaves_a_gap(reason, message, why):
    queries = QueryRig(POOL)
    queries.ask("*", form="about")
    refuse(queries, 0, reason, message)
    give(queries, 1, "b1/f2/r1", "b1/f4/r1")
    [answer] = queries.answers
    assert answer.status == "partial"
    assert answer.missing == (m.Missing("b1/f1", "iad_unreachable", message=why),)


def test_an_iad_that_is_away_or_late_leaves_a_gap():
    queries = QueryRig(POOL)
    queries.ask("*", form="about")
    iad, task = queries.tasks[0]
    queries.do(TaskUndeliverable(iad, task.id), 0.0)
    queries.do(Tick(), 100.0)
    [answer] = queries.answers
    assert [(gap.area, gap.reason) for gap in answer.missing] == [
        ("b1/f1", "iad_unreachable"),
        ("b1/f2", "timeout"),
        ("b1/f4", "timeout"),
    ]


WARM = Service(
    "warm",
    "iad1",
    1,
    (Member("iad1", "", ("b1/f1",)),),
    capability="temperature",
    terms=Terms(20.0, 99.5, 500.0),
)
DRY = Service("dry", "iad1", 1, (Member("iad1", "", ("b1/f1", "b1/f3")),), capability="humidity")


def market(*services):
    queries = QueryRig(())
    for service in services:
        queries.do(ServiceChanged(service), 0.0)
    return queries


def test_without_a_default_all_services_are_asked_and_the_areas_merged():
    queries = market(WARM, DRY)
    queries.ask("*", form="about")
    assert [(iad, task.service) for iad, task in queries.tasks] == [
        ("iad1", "warm"),
        ("iad1", "dry"),
    ]
    give(queries, 0, "b1/f1/r1", raised=(HOT,))
    iad, task = queries.tasks[1]
    percent = About((ChannelInfo("humidity", "percent"),), (HOT,), 3)
    found = (m.AreaResult("b1/f1/r1", about=percent), m.AreaResult("b1/f3/r1", about=percent))
    queries.do(TaskReturned(iad, m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = queries.answers
    assert answer.results[0].about == About((CELSIUS, *percent.channels), (HOT,), 3)
    assert answer.services == (
        ServiceInfo("dry", "humidity", areas=("b1/f1", "b1/f3")),
        ServiceInfo("warm", "temperature", 99.5, 500.0, 20.0, ("b1/f1",)),
    )


def test_a_named_service_is_asked_alone():
    queries = market(WARM, DRY)
    queries.ask("*", form="about", service="dry")
    assert [task.service for _, task in queries.tasks] == ["dry"]


def test_a_client_learns_of_services_that_it_may_query_and_of_alerts_that_it_may_have():
    queries = market(WARM, DRY)
    client = Sender("client", "c", services=("warm",))
    queries.ask("*", form="about", sender=client)
    assert [task.service for _, task in queries.tasks] == ["warm"]
    give(queries, 0, "b1/f1/r1", raised=(HOT,))
    [answer] = queries.answers
    assert [each.name for each in answer.services] == ["warm"]
    assert answer.results[0].about.raised == ()
    queries.ask("*", form="about", service="dry", sender=client)
    assert queries.answers[-1].reason == "not_authorised"
    queries.ask("*", form="about", sender=Sender("node", "n1"))
    assert queries.answers[-1].reason == "not_authorised"
    queries.ask("*", form="about", sender=Sender("client", "d"))
    give(queries, 1, "b1/f1/r1", raised=(HOT,))
    give(queries, 2, "b1/f1/r1")
    assert queries.answers[-1].results[0].about.raised == (HOT,)


def test_a_master_without_services_says_so():
    queries = QueryRig(())
    queries.ask("*", form="about")
    assert queries.answers[-1].reason == "unknown_service"
    assert not queries.records


def test_an_about_of_everything_costs_as_much_as_one_that_names_it():
    pool = (Member("iad1", "", tuple(f"b1/r{n}" for n in range(640))),)
    queries = QueryRig(pool, clients=ClientRates(0.01, 1.0))
    queries.ask("*", form="about")
    give(queries, 0, "b1/r1")
    assert queries.answers[-1].status == "partial"
    queries.ask("*", form="about")
    assert "counts as 10" in queries.answers[-1].message


@pytest.mark.parametrize("area", ["*", "b1"])
def test_an_about_costs_by_the_areas_that_it_tells(area):
    pool = (Member("iad1", "", ("b1",)),)
    queries = QueryRig(pool, clients=ClientRates(0.01, 1.0))
    queries.ask(area, form="about")
    give(queries, 0, *[f"b1/r{n}" for n in range(10 * AREAS_A_TOKEN)])
    assert queries.answers[-1].status == "complete"
    queries.ask(area, form="about")
    assert queries.answers[-1].reason == "over_rate"


def test_an_about_of_another_iad_costs_by_the_areas_that_it_tells():
    master = rig(rates=ClientRates(0.1, 1.0))
    areas = [f"b1/f4/r{n}" for n in range(10 * AREAS_A_TOKEN)]
    master.join("n1", areas=tuple(areas))
    assert len(ask(master, ("b1",), client=None).results) == len(areas)
    assert ask(master, ("b1",), client=None).reason == "over_rate"


def test_a_service_tells_its_areas_in_few_words():
    def roots(*areas):
        return Pool(Service("x", "iad1", 1, (Member("iad1", "", areas),)), None).roots

    assert roots("b1/f2", "b1/f1", "b1/f1/r1") == ("b1/f1", "b1/f2")
    rooms = [f"b1/f{floor}/r{room}" for floor in range(3) for room in range(20)]
    assert roots(*rooms) == ("b1/f0", "b1/f1", "b1/f2")
    assert len(roots(*[f"b{n}/r1" for n in range(100)])) == 100 > MAX_ROOTS


def test_changes_of_triggers_are_counted():
    triggers = RaisedTriggers()
    triggers.restore("n1", triggers.of("n1"))
    assert triggers.changes == 1
