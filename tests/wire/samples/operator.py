"""What operators send and get."""

from agent.wire import operator as o
from agent.wire.base import Message
from agent.wire.market import Terms
from agent.wire.messages import Slo
from tests.wire.samples.market import SERVICE

SAMPLES: dict[str, Message] = {
    "status_request": o.StatusRequest(),
    "set_policy": o.SetPolicy("fifo"),
    "iad_status": o.IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(o.NodeStatus("n1", "live", ("b1/f4/r413",), 1, 1, 0, 250, "pi4"),),
        unreachable_iads=("iad2",),
        open_queries=1,
        open_tasks=0,
        counters={"queries": 3},
    ),
    "iad_status_faults": o.IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(
            o.NodeStatus(
                "n1",
                "live",
                ("b1/f4/r413",),
                1,
                1,
                0,
                250,
                "",
                events_waiting=4,
                events_dropped=2,
                faults=(
                    o.NodeFault(
                        "desk", "temperature", 1_760_000_000_000, False, "no_response: no port"
                    ),
                ),
            ),
        ),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
    ),
    "iad_status_releases": o.IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(
            o.NodeStatus("n1", "live", ("b1/f4/r413",), 1, 1, 0, 250, "", version="0.1.0-3f9c2a1b"),
        ),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
        version="0.1.0-3f9c2a1b",
    ),
    "iad_status_rooms": o.IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(o.NodeStatus("n1", "live", ("b1/f4/r413",), 1, 1, 0, 250, ""),),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
        rooms={"b1/f4/r413": "Meeting 4.13"},
    ),
    "iad_status_alerts": o.IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(
            o.NodeStatus(
                "n1",
                "live",
                ("b1/f4/r413",),
                1,
                1,
                0,
                250,
                "",
                alerts=(
                    o.NodeAlert(
                        "hot", ("b1/f4/r413",), 1_760_000_001_000, True, "temperature > 30: 31.25"
                    ),
                ),
            ),
        ),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
    ),
    "operator_error": o.OperatorError("expected an object"),
    "create_service": o.CreateService(
        id="c1",
        service="climate",
        capability="temperature",
        areas=("b1",),
        slo=Slo(99.0, 800.0),
        rate_per_s=20.0,
        schedulers=("portal",),
        redundant=True,
    ),
    "add_iad": o.AddIad("c2", "climate", "iad5"),
    "remove_iad": o.RemoveIad("c3", "climate", "iad5"),
    "drop_service": o.DropService("c4", "climate"),
    "list_services": o.ListServices("c5"),
    "service_report": o.ServiceReport(
        id="c1",
        ok=True,
        services=(SERVICE,),
        steps=(
            o.Step("discover", "", "2 IADs cover 16 of 17 areas"),
            o.Step("negotiate", "iad1", "accepted", Terms(20.0, 99.498743710662, 800.0)),
        ),
        uncovered=("b1/f9",),
        elapsed_ms=12.5,
    ),
}
