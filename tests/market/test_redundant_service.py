"""A redundant service with real processes: one of two IADs that cover a room stands still."""

import signal

from agent.client import Client, Operator
from agent.wire.messages import Query, Slo, Window
from agent.wire.operator import CreateService
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout
from fleet.testbed.testbed import Testbed
from testkit.waiting import PATIENCE_MS

ROOM = "b1/f4/r413"
TIMEOUT_MS = 600_000.0


def test_the_first_answer_is_enough(tmp_path):
    plan = FleetLayout(
        tuple(IadLayout(iad, (NodeLayout(f"{iad}-n1", ROOM, "413"),)) for iad in ("iad1", "iad2"))
    )
    with Testbed(plan, tmp_path, market=True) as bed:
        for _ in bed.start():
            pass
        with Operator(bed.operator("iad1")) as operator:
            report = operator.ask_service(
                CreateService(
                    "c",
                    "climate",
                    "temperature",
                    ("b1",),
                    Slo(99.0, TIMEOUT_MS),
                    rate_per_s=5.0,
                    redundant=True,
                )
            )
        assert report.ok
        assert len(report.services[0].members) == 2
        bed.child("iad2-n1").signal(signal.SIGSTOP)
        try:
            with Client(bed.public("iad1")) as client:
                # Both orders of the pair: nobody waits for the one that stands still.
                for number in range(4):
                    query = Query(
                        f"q{number}",
                        (ROOM,),
                        Window(last_s=600.0),
                        Slo(99.0, TIMEOUT_MS),
                        timeout_ms=TIMEOUT_MS,
                        service="climate",
                    )
                    client.send(query)
                    answer = client.receive(PATIENCE_MS)
                    assert (answer.status, answer.coverage.asked) == ("complete", 1)
                    assert [task.iad for task in answer.tasks] == ["iad1"]
            with Operator(bed.operator("iad1")) as operator:
                assert operator.status(PATIENCE_MS).counters["tasks_cancelled"] == 4
        finally:
            bed.child("iad2-n1").signal(signal.SIGCONT)
