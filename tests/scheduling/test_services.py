"""Services at the query scheduler: pools that change, capabilities, rates, rights, cancellation."""

import pytest

from agent.scheduling.admission import AGREED_BURST, ClientRates
from agent.scheduling.events import (
    SendAnswer,
    SendCancel,
    ServiceChanged,
    ServiceRemoved,
    TaskReturned,
    TaskUndeliverable,
    Tick,
    WriteRecord,
)
from agent.wire import messages as m
from agent.wire.market import Member, Service, Terms
from agent.wire.principals import Sender
from tests.scheduling.oracle import aggregate
from tests.scheduling.rigs import QueryRig

POOL = (Member("iad1", "inproc://1", ("b1/f1",)), Member("iad3", "inproc://3", ("b1/f3",)))


def service(*members, name="climate", **fields):
    pool = (Member(iad, "inproc://", tuple(areas)) for iad, *areas in members)
    return ServiceChanged(Service(name, "iad1", 1, tuple(pool), **fields))


@pytest.fixture
def rig():
    return QueryRig(POOL, iad="iad1")


def test_a_query_goes_to_the_pool_of_its_service(rig):
    rig.do(service(("iad4", "b1/f1"), ("iad5", "b1/f5"), ("iad6",)), 0.0)
    rig.ask("b1", service="climate")
    rig.ask("b1")
    # This IAD's own task comes last: a refusal of it may cancel the others.
    assert [(iad, task.service) for iad, task in rig.tasks] == [
        ("iad4", "climate"),
        ("iad5", "climate"),
        ("iad3", "default"),
        ("iad1", "default"),
    ]
    assert {task.origin for _, task in rig.tasks} == {"iad1"}


def test_an_open_query_keeps_the_pool_that_it_started_with(rig):
    rig.do(service(("iad4", "b1/f4"), ("iad5", "b1/f5")), 0.0)
    rig.ask("b1", service="climate")
    rig.do(service(("iad5", "b1/f5"), ("iad6", "b1/f6")), 0.1)
    rig.do(ServiceRemoved("climate"), 0.2)
    for iad, task in list(rig.tasks):
        rig.give(iad, task, 0.3, areas=(f"b1/f{iad[-1]}",))
    assert [(a.status, a.coverage.answered) for a in rig.answers] == [("complete", 2)]
    rig.ask("b1", service="climate")
    assert rig.answers[1].reason == "unknown_service"


def test_an_unknown_service_is_refused_with_those_that_there_are(rig):
    rig.do(service(("iad4", "b1/f4"), name="secret"), 0.0)
    rig.ask("b1", service="water")
    message = rig.answers[0].message
    assert message == "no service water here; there are default, secret"


def test_a_misspelt_service_is_told_from_those_that_the_client_may_ask(rig):
    rig.do(service(("iad4", "b1/f4"), name="temperature"), 0.0)
    rig.ask("b1", service="temprature")
    rig.ask("b1", service="temprature", sender=Sender("client", "lab", ("temprature", "climate")))
    rig.ask("b1", service="temprature", sender=Sender("client", "lab", ("temperature", "climate")))
    other, hidden, listed = (answer.message for answer in rig.answers)
    assert other == (
        "no service temprature here; did you mean temperature? There are default, temperature"
    )
    assert hidden == "no service temprature here, 2 others; ask this IAD's operator"
    assert listed == (
        "lab may not query service temprature; did you mean temperature? Ask this IAD's operator"
    )


def test_whoever_names_no_service_is_told_of_those_that_he_may_query():
    rig = QueryRig(())
    nor_any = "nor any other; ask a master that has one, or have this IAD's operator create one"
    rig.ask("b1")
    rig.do(service(("iad4", "b1/f4"), name="climate"), 0.0)
    rig.ask("b1")
    assert [answer.message for answer in rig.answers] == [
        f"no service is named, and there is no default here, {nor_any}",
        "no service is named, and there is no default here; there is climate",
    ]
    for name in ("a", "b", "c", "secret"):
        rig.do(service(("iad4", "b1/f4"), name=name), 0.0)
    rig.ask("b1", sender=Sender("client", "lab", ("default", "a", "c")))
    rig.ask("b1", sender=Sender("client", "lab", ("default",)))
    rig.ask("b1")
    some, none, many = (answer.message for answer in rig.answers[2:])
    assert some.endswith("; there are a, c")
    assert none.endswith("here, 5 others; ask this IAD's operator")
    assert many.endswith("; there are a, b, c, climate and 1 more")


def test_one_other_service_is_counted_as_one(rig):
    rig.ask("b1", service="water", sender=Sender("client", "lab", ("water",)))
    assert "no service water here, 1 other; " in rig.answers[0].message


def test_without_a_fixed_pool_there_is_no_default_service():
    rig = QueryRig(())
    rig.ask("b1")
    assert rig.answers[0].reason == "unknown_service"


def test_nobody_can_take_over_the_default_service(rig):
    rig.do(service(("iad4", "b1/f4"), name="default"), 0.0)
    rig.do(ServiceRemoved("default"), 0.0)
    rig.ask("b1/f3")
    assert [iad for iad, _ in rig.tasks] == ["iad3"]


def test_a_service_with_a_capability_gives_that_channel(rig):
    rig.do(service(("iad4", "b1/f4"), capability="humidity"), 0.0)
    rig.ask("b1", service="climate", channels=("humidity", "temperature"))
    assert rig.answers[0].reason == "malformed"
    assert rig.answers[0].message == "service climate has only the channel humidity"
    rig.ask("b1", service="climate", channels=("humidity",))
    rig.ask("b1", service="climate")
    assert [task.channels for _, task in rig.tasks] == [("humidity",)] * 2


def test_a_service_gives_its_channel_as_it_was_before_calibration(rig):
    rig.do(service(("iad4", "b1/f4"), capability="humidity"), 0.0)
    rig.ask("b1", service="climate", channels=("humidity_raw", "humidity"))
    assert rig.tasks[-1][1].channels == ("humidity_raw", "humidity")
    rig.ask("b1", service="climate", channels=("temperature_raw",))
    assert rig.answers[0].reason == "malformed"


def test_task_ids_tell_nothing_and_never_repeat():
    first, second = QueryRig(POOL), QueryRig(POOL)
    for _ in range(50):
        first.ask("b1")
        second.ask("b1")
    ids = [task.id for _, task in first.tasks]
    assert len(set(ids)) == len(ids) == 100
    assert ids == [task.id for _, task in second.tasks], "the same secret, the same ids"
    assert all(len(i) == 24 for i in ids)
    assert len({i[:4] for i in ids}) > 90, "no common beginning, no count"


# --- rights and rates -----------------------------------------------------------------------------


def test_who_may_not_query_is_told_so_before_anything_else(rig):
    rig.ask("b1", service="nonsense", sender=Sender("client", "lab", ("climate",)))
    rig.ask("b1", sender=Sender("node", "n1"))
    assert [a.reason for a in rig.answers] == ["not_authorised"] * 2
    assert rig.scheduler.counters["queries_refused_not_authorised"] == 2
    assert not rig.tasks


def test_a_client_over_its_rate_leaves_the_services_rate_to_others():
    rig = QueryRig(POOL, clients=ClientRates(1.0, 1.0))
    rig.do(service(("iad4", "b1/f4"), terms=Terms(10.0, 99.0, 500.0)), 0.0)
    noisy = Sender("client", "noisy")
    for _ in range(500):
        rig.ask("b1", service="climate", sender=noisy)
    assert {a.reason for a in rig.answers} == {"over_rate"}
    assert "this client may ask 1 queries/s; try again in 1 s" in rig.answers[0].message
    taken = len(rig.tasks)
    quiet = Sender("client", "quiet", rate_per_s=1e6)
    for _ in range(int(AGREED_BURST) - taken):
        rig.ask("b1", service="climate", sender=quiet)
    assert len(rig.tasks) == int(AGREED_BURST)
    rig.ask("b1", service="climate", sender=quiet)
    assert "service climate has an agreed rate of 10/s for queries" in rig.answers[-1].message


def test_a_malformed_query_uses_up_nothing_of_the_services_rate(rig):
    rig.do(service(("iad4", "b1"), terms=Terms(10.0, 99.0, 500.0), capability="humidity"), 0.0)
    for _ in range(500):
        rig.ask("b1", service="climate", channels=("temperature",))
    rig.ask("b1", service="climate")
    assert len(rig.tasks) == 1


def test_who_was_refused_did_not_use_up_what_comes_next(rig):
    rig.do(service(("iad4", "b1/f4"), terms=Terms(10.0, 99.0, 500.0)), 0.0)
    for _ in range(1_000):
        rig.ask("b1", service="climate")
    served = len(rig.tasks)
    rig.ask("b1", service="climate", now=0.1)
    assert len(rig.tasks) == served + 1


@pytest.mark.parametrize("rate_per_s", [10.0, 20.0])
def test_a_new_instance_does_not_fill_the_bucket(rig, rate_per_s):
    rig.do(service(("iad4", "b1/f4"), terms=Terms(10.0, 99.0, 500.0)), 0.0)
    while not rig.answers:
        rig.ask("b1", service="climate")
    rig.do(service(("iad5", "b1/f5"), terms=Terms(rate_per_s, 99.0, 500.0)), 0.0)
    rig.ask("b1", service="climate")
    assert [answer.reason for answer in rig.answers] == ["over_rate"] * 2


def test_records_name_clients_by_their_key_alone(rig):
    rig.ask("b2", sender=Sender("client", "lab"))
    rig.ask("b2", sender=Sender("anyone", "00f3a1"))
    assert [r.client for r in rig.records] == ["lab", ""]


# --- cancellation ---------------------------------------------------------------------------------


def test_when_one_iad_refuses_the_others_are_told_to_stop(rig):
    rig.ask("b1")
    [(three, third), (one, first)] = rig.tasks
    rig.give(one, first, now=0.1, status="refused", areas=(), reason="over_rate")
    assert [a.reason for a in rig.answers] == ["over_rate"]
    assert rig.cancels == [(three, third.id)]
    assert rig.scheduler.counters["tasks_cancelled"] == 1
    assert rig.scheduler.counters["queries_refused_over_rate"] == 1


@pytest.mark.parametrize("how", ["refused", "complete", "late"])
def test_the_answer_goes_out_before_the_cancellations(rig, how):
    rig.do(service(("iad3", "b1"), ("iad4", "b1"), redundant=True), 0.0)
    rig.ask("b1", service="climate" if how == "complete" else "default")
    iad, task = rig.tasks[0]
    if how == "late":
        event = Tick()
    else:
        found = (m.AreaResult("b1", aggregate=aggregate(1.0)),) if how == "complete" else ()
        event = TaskReturned(iad, m.TaskResult(task.id, how, 0.0, found))
    kinds = [type(i) for i in rig.do(event, 2.0)]
    assert kinds[:3] == [SendAnswer, WriteRecord, SendCancel]


def test_who_is_late_is_cancelled_and_missing(rig):
    rig.ask("b1")
    [(three, third), (one, first)] = rig.tasks
    rig.give(one, first, now=0.1, areas=("b1/f1",))
    rig.do(Tick(), 2.0)
    assert rig.cancels == [(three, third.id)]
    assert rig.answers[0].missing == (
        m.Missing(
            "b1/f3", "timeout", message="iad3's master gave no answer before the answer timeout"
        ),
    )
    assert [t.iad for t in rig.answers[0].tasks] == ["iad1", "iad3"]


def test_what_was_never_sent_is_not_cancelled(rig):
    rig.ask("b1")
    [(three, third), (one, first)] = rig.tasks
    rig.do(TaskUndeliverable(three, third.id), 0.0)
    rig.give(one, first, now=0.1, status="refused", areas=())
    assert rig.cancels == []
