"""The schedulers of a master: what they take from its clocks."""

from types import SimpleNamespace

from agent.master.queries import schedulers as made
from agent.master.storage.state import State
from agent.scheduling.admission import ClientRates
from agent.scheduling.events import QueryArrived, TaskArrived, WriteRecord
from agent.scheduling.shared_budget import SharedBudget
from agent.wire.master_config import MasterConfig, MasterIdentity, MasterSockets
from agent.wire.messages import Query, Slo, Task, Window
from agent.wire.principals import Sender


def test_records_follow_a_wall_clock_that_is_set_while_the_master_runs(monkeypatch):
    wall_s, clock = [1_000.0], lambda: 5.0
    monkeypatch.setattr(made, "time", SimpleNamespace(time=lambda: wall_s[0]))
    config = MasterConfig(
        MasterIdentity("iad1"), MasterSockets("tcp://127.0.0.1:1", operator="tcp://127.0.0.1:2")
    )
    queries, tasks = made.schedulers(
        config, clock, State(None, clock), SharedBudget(), ClientRates(), SimpleNamespace()
    )
    sender = Sender("iad", "iad1")

    def dated():
        query = Query("q", ("b1",), Window(last_s=1.0), Slo(99.0, 100.0), service="none")
        task = Task("t", ("b1",), Window(last_s=1.0), 99.0, 100.0, 1_000.0, service="none")
        done = queries.handle(QueryArrived("client", query, Sender("client", "c")), 5.0)
        done += tasks.handle(TaskArrived("iad", task, sender), 5.0)
        return [each.record.wall_ms for each in done if isinstance(each, WriteRecord)]

    assert dated() == [1_000_000, 1_000_000]
    wall_s[0] += 86_400.0
    assert dated() == [87_400_000, 87_400_000]
