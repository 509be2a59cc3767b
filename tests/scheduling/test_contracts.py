"""Services at the task scheduler: whose tasks are served, for which areas and channels, how many;
and tasks that are cancelled."""

import pytest
from msgspec.structs import replace

from agent.scheduling.admission import AGREED_BURST, ClientRates
from agent.scheduling.events import ServiceChanged, ServiceRemoved, TaskArrived, TaskCancelled
from agent.scheduling.tasks.contracts import GRACE_S
from agent.wire import messages as m
from agent.wire.market import Member, Service, Terms
from agent.wire.principals import Sender
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.scheduling.oracle import aggregate, found, task
from tests.scheduling.rigs import TaskRig

IAD2, IAD3 = Sender("iad", "iad2"), Sender("iad", "iad3")


def climate(*members, areas=("b1/f4",), **fields):
    pool = (Member("iad1", "inproc://1", areas), *(Member(i, "inproc://") for i in members))
    return ServiceChanged(Service("climate", "iad2", 1, pool, **fields))


@pytest.fixture
def rig():
    rig = TaskRig(pool=[Member("iad1", "inproc://1"), Member("iad2", "inproc://2")])
    for node in ("n1", "n2", "n3"):
        rig.join(node)
    yield rig
    rig.scheduler.check_invariants()


def reasons(rig):
    return [r.reason for r in rig.results]


def test_the_fixed_pool_counts_for_the_default_service(rig):
    rig.ask(1, sender=IAD3)
    rig.ask(2, sender=IAD2)
    rig.ask(3, sender=Sender("iad", "iad1"))
    assert reasons(rig) == ["not_authorised"]
    assert rig.scheduler.open_tasks == 2
    alone = TaskRig()
    alone.join("n1")
    alone.ask(1, sender=Sender("iad", "iad1"))
    assert alone.scheduler.open_tasks == 1, "this IAD's own tasks need no pool"
    assert rig.scheduler.counters["tasks_refused_not_authorised"] == 1


def test_only_members_of_its_pool_may_use_a_service(rig):
    rig.ask(1, service="climate", sender=IAD2)
    rig.do(climate("iad3"), 0.0)
    rig.ask(2, service="climate", sender=IAD2)
    rig.ask(3, service="climate", sender=IAD3, origin="iad2")
    rig.ask(4, service="climate", sender=IAD3, origin="iad3")
    rig.ask(5, service="climate")
    assert reasons(rig) == ["unknown_service", "not_authorised", "not_authorised"]
    assert rig.scheduler.open_tasks == 2


def test_nobody_can_take_over_the_default_service(rig):
    rig.do(ServiceChanged(Service("default", "iad3", 9, (Member("iad3", "inproc://"),))), 0.0)
    rig.do(ServiceRemoved("default"), 0.0)
    rig.ask(1, sender=IAD3, now=1e6)
    assert reasons(rig) == ["not_authorised"]
    rig.ask(2, sender=IAD2, now=1e6)
    assert rig.scheduler.open_tasks == 1


def test_a_service_is_about_its_own_areas_alone(rig):
    rig.do(climate(areas=("b1/f4/r1", "b1/f4/r2")), 0.0)
    rig.ask(1, ("b1", "b1/f5", "b1/f4/r2/desk"), service="climate")
    # n3 has b1/f4/r2 too, and is not asked for its other room.
    assert [peer for peer, _ in rig.dispatched] == ["link-n1", "link-n2", "link-n3"]
    for peer, subtask in list(rig.dispatched):
        rig.answer(found(subtask.id), peer.removeprefix("link-"), now=0.1)
    [result] = rig.results
    assert [r.area for r in result.results] == ["b1/f4/r1", "b1/f4/r2"]
    assert m.Missing("b1/f5", "no_node", unknown=True) in result.missing


def test_a_member_without_areas_serves_nothing(rig):
    rig.do(climate("iad2", areas=()), 0.0)
    rig.ask(1, ("b1",), service="climate", sender=IAD2)
    assert rig.results[0].missing == (m.Missing("b1", "no_node"),)


def test_a_service_gives_its_channel_before_calibration_where_that_is_named(rig):
    rig.do(climate(capability="temperature"), 0.0)
    for number, channels in enumerate([("temperature_raw",), ()]):
        rig.ask(number, ("b1/f4/r1",), service="climate", channels=channels)
        [(peer, subtask)] = rig.dispatched
        assert subtask.channels == (channels or ("temperature",))
        [content] = aggregate(20.0).channels.values()
        told = m.Aggregate(0, 1, dict.fromkeys(subtask.channels, content))
        rig.answer(replace(found(subtask.id), aggregate=told), peer.removeprefix("link-"), now=0.1)
        rig.dispatched.clear()
    assert [result.status for result in rig.results] == ["complete"] * 2


def test_a_service_gives_its_capability_and_no_other_channel(rig):
    rig.do(climate(capability="temperature"), 0.0)
    rig.ask(1, ("b1/f4/r1",), service="climate", channels=("humidity",))
    rig.ask(2, ("b1/f4/r1",), service="climate", channels=("temperature", "humidity"))
    assert reasons(rig) == ["malformed", "malformed"]
    rig.ask(3, ("b1/f4/r1",), service="climate")
    rig.ask(4, ("b1/f4/r2",), service="climate", channels=("temperature",))
    assert {subtask.channels for _, subtask in rig.dispatched} == {("temperature",)}


def terms(rate_per_s):
    return Terms(rate_per_s, 99.0, 500.0)


def flood(rig, count, now=0.0, start=0, **options):
    for number in range(start, start + count):
        rig.ask(number, ("b1/f4",), now=now, service="climate", **options)


def test_tasks_over_the_agreed_rate_are_refused_with_the_rate_and_when_to_try_again(rig):
    rig.do(climate("iad2", "iad3", terms=terms(10.0)), 0.0)
    most = int(AGREED_BURST)
    flood(rig, most, sender=IAD2)
    assert not rig.results
    rig.ask(9_000, ("b1/f4",), service="climate", sender=IAD3)
    [result] = rig.results
    assert (result.status, result.reason) == ("refused", "over_rate")
    assert "agreed rate of 10/s for tasks that ask everything; try again in 0.0" in result.message
    rig.ask(9_001, ("b1/f4",), now=0.1, service="climate", sender=IAD3)
    assert len(rig.results) == 1


def test_a_task_that_reaches_one_of_three_nodes_counts_a_third(rig):
    rig.do(climate("iad2", terms=terms(10.0)), 0.0)
    for number in range(3 * int(AGREED_BURST)):
        rig.ask(number, ("b1/f4/r1",), service="climate")
    assert not rig.results
    rig.ask(9_000, ("b1/f4",), service="climate")
    assert reasons(rig) == ["over_rate"]


def test_the_rate_of_this_iads_share_goes_before_the_services(rig):
    pool = (Member("iad1", "inproc://1", ("b1/f4",), rate_per_s=2.0),)
    rig.do(ServiceChanged(Service("climate", "iad2", 1, pool, terms=terms(100.0))), 0.0)
    flood(rig, int(AGREED_BURST) + 1)
    assert "agreed rate of 2/s for tasks" in rig.results[0].message


def test_what_is_refused_uses_nothing_up(rig):
    rig.do(climate("iad2", terms=terms(10.0), capability="temperature"), 0.0)
    for _ in range(200):
        rig.estimator.observe(0, 0.1, 0.2)
    for number in range(200):
        rig.ask(number, ("b1/f4/r1",), now=0.3, service="climate", channels=("humidity",))
        rig.ask(number, ("b1/f4/r1",), now=0.3, service="climate", sender=IAD3)
    for number in range(9):
        rig.ask(1_000 + number, ("b1/f4/r1",), now=0.3, service="climate", budget_ms=10)
    assert set(reasons(rig)) == {"malformed", "not_authorised", "infeasible"}
    flood(rig, int(AGREED_BURST), now=0.3, start=5_000)
    assert "over_rate" not in reasons(rig)


def test_a_new_instance_with_the_same_rate_does_not_fill_the_bucket(rig):
    rig.do(climate("iad2", terms=terms(10.0)), 0.0)
    flood(rig, int(AGREED_BURST))
    rig.do(climate("iad2", "iad3", terms=terms(10.0)), 0.0)
    flood(rig, 1, start=9_000)
    assert reasons(rig) == ["over_rate"]


def test_who_changes_the_agreed_rate_all_the_time_gets_no_more(rig):
    accepted = 0
    for number in range(20):
        # Between them one that asks nothing of this IAD, and has no rate.
        rig.do(climate("iad2", areas=()), 0.0)
        rig.do(climate("iad2", terms=terms(10.0 - number / 10)), 0.0)
        before = len(rig.results)
        flood(rig, int(AGREED_BURST), start=1_000 * number)
        accepted += int(AGREED_BURST) - (len(rig.results) - before)
    assert accepted == int(AGREED_BURST)
    assert set(reasons(rig)) == {"over_rate"}
    rig.do(climate("iad2", terms=terms(20.0)), 10.0)
    # What came meanwhile came at the rate of then, 8.1/s and a tenth.
    flood(rig, int(AGREED_BURST), now=10.0, start=90_000)
    assert rig.scheduler.open_tasks == int(AGREED_BURST) + 89
    flood(rig, int(AGREED_BURST), now=11.0, start=91_000)
    assert rig.scheduler.open_tasks == int(AGREED_BURST) + 89 + 22


def order(policy, service_task, local_task, percentile=99.0):
    """The tasks 2 and 3 in the order in which a node with one pod that is busy serves them: 2 is of
    the service that has 500 ms, 3 of a client of this IAD."""
    rig = TaskRig(policy=policy)
    rig.join("n1")
    rig.do(climate("iad2", areas=("b1/f4/r1",), terms=terms(10.0)), 0.0)
    rig.ask(1, ("b1/f4/r1",))
    rig.ask(2, ("b1/f4/r1",), 0.02, IAD2, service="climate", percentile=percentile, **service_task)
    rig.ask(3, ("b1/f4/r1",), 0.02, **local_task)
    for _ in range(3):
        rig.answer(found(rig.dispatched[-1][1].id), "n1", now=0.03)
    return [result.id for result in rig.results[1:]]


@pytest.mark.parametrize("policy", ["edfq", "tedfq", "spr", "sanderling"])
@pytest.mark.parametrize("percentile", [0.1, 99.0, 99.999])
def test_a_task_is_no_more_urgent_than_was_agreed(policy, percentile):
    hard = {"budget_ms": 110.0}
    assert order(policy, hard, {"budget_ms": 450.0}, percentile) == ["t3", "t2"]
    assert order(policy, hard, {"budget_ms": 900.0}, percentile) == ["t2", "t3"]
    assert order(policy, {"budget_ms": 700.0}, {"budget_ms": 600.0}) == ["t3", "t2"]


def test_what_the_nodes_cannot_keep_is_refused_though_the_terms_are_kept(rig):
    rig.do(climate("iad2", terms=terms(10.0)), 0.0)
    for _ in range(2_000):
        rig.estimator.observe(0, 0.1, 0.2)
    rig.ask(1, ("b1/f4/r1",), now=0.3, service="climate", budget_ms=10)
    assert reasons(rig) == ["infeasible"]
    assert rig.records[-1].budget_ms == 10.0


def test_who_left_may_finish_and_no_more(rig):
    rig.do(climate("iad2", "iad3"), 0.0)
    rig.do(climate("iad2"), 10.0)
    rig.ask(1, service="climate", sender=IAD3, now=9.9 + GRACE_S)
    assert not rig.results
    rig.ask(2, service="climate", sender=IAD3, now=10.0 + GRACE_S)
    assert reasons(rig) == ["not_authorised"]
    rig.do(ServiceRemoved("climate"), 100.0)
    rig.ask(3, service="climate", sender=IAD2, now=99.9 + GRACE_S)
    assert len(rig.results) == 1
    rig.ask(4, service="climate", sender=IAD2, now=100.0 + GRACE_S)
    assert reasons(rig) == ["not_authorised", "unknown_service"]


def test_who_comes_back_in_time_stays(rig):
    rig.do(climate("iad2", "iad3"), 0.0)
    rig.do(climate("iad2"), 10.0)
    rig.do(climate("iad2", "iad3"), 20.0)
    rig.do(ServiceRemoved("climate"), 30.0)
    rig.do(climate("iad2", "iad3"), 40.0)
    rig.ask(1, service="climate", sender=IAD3, now=1_000.0)
    assert not rig.results


def test_an_id_is_used_once_at_a_time(rig):
    rig.ask(1, ("b1/f4/r1",))
    rig.ask(1, ("b1/f4/r1",))
    rig.ask(1, ("b1/f4/r1",), client="another")
    assert reasons(rig) == ["malformed"]
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=0.1)
    rig.ask(1, ("b1/f4/r1",))
    assert len(rig.results) == 2


def test_every_refusal_is_counted_by_its_reason(rig):
    rig.ask(1, service="water")
    rig.ask(2, sender=IAD3)
    rig.ask(3)
    rig.ask(3)
    counted = {k: v for k, v in rig.scheduler.counters.items() if "_refused_" in k and v}
    assert counted == {
        "tasks_refused_unknown_service": 1,
        "tasks_refused_not_authorised": 1,
        "tasks_refused_malformed": 1,
    }


# --- cancelled tasks ------------------------------------------------------------------------------


def test_a_cancelled_task_leaves_the_queues_and_no_result_goes_back(rig):
    rig.ask(1, ("b1/f4",), now=1.0)
    rig.ask(2, ("b1/f4/r1",), now=1.0)
    rig.ask(3, ("b1/f4/r1",), now=1.0)
    rig.do(TaskCancelled("client", "t2"), 1.1)
    rig.do(TaskCancelled("client", "t1"), 1.2)
    assert not rig.results
    assert rig.scheduler.open_tasks == 1
    # The pod of n1 finishes for nobody, and then serves the third task at once.
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.3)
    assert rig.scheduler.counters["late_results"] == 1
    assert len(rig.dispatched) == 4
    rig.answer(found(rig.dispatched[3][1].id), "n1", now=1.4)
    assert [r.id for r in rig.results] == ["t3"]
    assert rig.scheduler.next_tick is not None, "liveness only: no timeout is left"
    tasks = {r.task: r for r in rig.records if isinstance(r, TaskRecord)}
    assert {t: r.status for t, r in tasks.items()} == {
        "t1": "cancelled",
        "t2": "cancelled",
        "t3": "complete",
    }
    assert tasks["t1"].aggregated_ms == pytest.approx(200.0)
    subtasks = [r for r in rig.records if isinstance(r, SubtaskRecord)]
    assert [(r.task, r.outcome) for r in subtasks] == [
        ("t2", "cancelled"),
        *[("t1", "cancelled")] * 3,
        ("t3", "ok"),
    ]


def test_a_cancelled_task_says_what_had_been_answered(rig):
    rig.ask(1, ("b1",), now=1.0)
    # n1 has one room, n2 another, n3 that and a third.
    rig.answer(found(rig.dispatched[0][1].id), "n1", now=1.1)
    rig.do(TaskCancelled("client", "t1"), 1.2)
    [record] = [r for r in rig.records if isinstance(r, TaskRecord)]
    assert (record.answered, record.asked) == (1, 3)


def test_only_its_origin_may_cancel_a_task(rig):
    rig.ask(1, ("b1/f4/r1",))
    rig.do(TaskCancelled("another", "t1"), 0.1)
    rig.do(TaskCancelled("client", "t9"), 0.1)
    assert rig.scheduler.open_tasks == 1
    assert rig.scheduler.counters["cancelled"] == 0


def test_records_name_the_iad_that_sent_the_task(rig):
    rig.ask(1, ("b2",), sender=IAD2)
    rig.ask(2, ("b2",), origin="iad7")
    assert [r.origin for r in rig.records] == ["iad2", "iad7"]


def test_without_an_agreed_rate_each_iad_has_the_rate_of_a_client():
    pool = [Member(iad, "inproc://") for iad in ("iad1", "iad2", "iad3")]
    rig = TaskRig(pool=pool, rates=ClientRates(1.0, 20.0, "an IAD may send {:g} tasks/s"))
    rig.join("n1")
    rig.do(climate("iad2", terms=Terms(50.0, 95.0, 500.0)), 0.0)
    for number in range(4):
        rig.ask(number, ("b1", *(f"x{n}" for n in range(300))), sender=IAD2)
    assert rig.scheduler.open_tasks == 4
    # Each counts as five.
    rig.ask(5, sender=IAD2)
    assert reasons(rig) == ["over_rate"]
    assert rig.results[0].message == "an IAD may send 1 tasks/s; try again in 1 s"
    rig.ask(6, sender=IAD3)
    rig.ask(7, sender=IAD2, service="climate")
    own = Sender("iad", "iad1")
    for number in range(100, 130):
        rig.do(TaskArrived("own", task(number), own, Sender("client", "app")), 0.0)
    assert reasons(rig) == ["over_rate"]
    rig.ask(8, sender=IAD2, now=1.0)
    assert reasons(rig) == ["over_rate"]
