"""Standing queries."""

from agent.wire import standing as s
from agent.wire.base import Message
from agent.wire.messages import Slo
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
}
