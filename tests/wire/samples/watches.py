"""Standing queries."""

from agent.wire import watches as s
from agent.wire.base import Message
from agent.wire.messages import Slo
from agent.wire.overlay import Notification, Origin
from tests.wire.samples.data_plane import SAMPLES as DATA_PLANE

SAMPLES: dict[str, Message] = {
    "watch": s.Watch("w1", ("b1/f4",), Slo(99.0, 500.0), "periodic", 5.0),
    "watch_event": s.Watch(
        "w2",
        ("b1",),
        Slo(99.0, 500.0),
        "event",
        5.0,
        window_s=60.0,
        lasting_s=432_000.0,
        trigger="temperature > 30 or rate(humidity) > 2/min",
        service="climate",
        after=17,
    ),
    "watch_on": s.Watch(
        "w3",
        ("b1/f4",),
        Slo(99.0, 500.0),
        "event",
        5.0,
        window_s=60.0,
        on='metric = "co2" and value > 1000',
    ),
    "acknowledge": s.Acknowledge("w1", 3),
    "cancel": s.Cancel("w1"),
    "watching": s.Watching("w1", "open", 4),
    "round": s.Round(
        "w1",
        3,
        2,
        1_377_298_800_000,
        1_377_298_805_000,
        DATA_PLANE["answer_aggregate"],
        ("b1/f4/r413",),
    ),
    "round_on": s.Round(
        "w3",
        1,
        0,
        1_377_298_740_008,
        1_377_298_800_008,
        DATA_PLANE["answer_aggregate"],
        alerts=(
            Notification(
                Origin("iad2", "9f86d081884c7d65", 48),
                1_377_298_800_007,
                {"iad": "iad2", "kind": "raised", "metric": "co2", "value": 1012.5},
            ),
        ),
        alert_count=17,
    ),
}
