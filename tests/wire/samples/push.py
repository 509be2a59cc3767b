"""Subscriptions and notifications."""

from agent.wire import push as p
from agent.wire.base import Message
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Predicate

SAMPLES: dict[str, Message] = {
    "subscribe": p.Subscribe("s1", 'metric = "temperature" and value > 30'),
    "subscribe_durable": p.Subscribe(
        "s2",
        (
            (Predicate("area", "under", ("b1/f4",)), Predicate("value", ">", (30.0,))),
            (Predicate("kind", "in", ("raised", "cleared")), Predicate("trigger", "present")),
        ),
        durable=True,
        after=17,
    ),
    "subscribe_short": p.Subscribe("s3", "value > 30", short=p.ShortForm(2, ("metric", "area"))),
    "subscribe_masters": p.Subscribe(
        "s4",
        "value > 30",
        durable=True,
        masters=(
            p.GivenMaster("tcp://10.1.20.1:5700", 0.5),
            p.GivenMaster("tcp://10.2.0.10:5700"),
        ),
    ),
    "acknowledge_notifications": p.AcknowledgeNotifications("s1", 3),
    "acknowledge_notifications_also": p.AcknowledgeNotifications("s1", 3, (("s2", 0), ("s3", 17))),
    "unsubscribe": p.Unsubscribe("s1"),
    "subscribed": p.Subscribed("s1", "open", 17, 60_000.0),
    "subscribed_moved": p.Subscribed(
        "s1", "unknown", message="it lives at iad2 now", master="tcp://10.2.0.10:5700"
    ),
    "subscribed_refused": p.Subscribed("s1", "refused", message="100 subscriptions are yours"),
    "notified": p.Notified(
        "s1",
        18,
        Notification(
            Origin("iad1", "4f1d2a", 7_340_033),
            1_377_298_800_000,
            {"metric": "temperature", "value": 31.5, "area": "b1/f4/r413", "cleared": False},
        ),
    ),
    "notified_also": p.Notified(
        "s1",
        18,
        Notification(Origin("iad1", "4f1d2a", 7_340_033), 1_377_298_800_000, {"value": 31.5}),
        (("s2", 1), ("s3", 2_000)),
    ),
    "short": p.ShortNotified(
        ((2, 18), (7, 2_000)),
        p.ShortContent(
            "iad1",
            bytes.fromhex("4f1d2a0000c0ffee"),
            7_340_033,
            1_377_298_800_000,
            (0, "value", 1, "cleared"),
            ("temperature", 31.5, "b1/f4/r413", False),
        ),
    ),
    "gap": p.Gap("s1", 5, 9),
    "gap_lost": p.Gap("s1", 19, 19, p.Lost("iad2", "9c0b77", 12, 480, 321)),
}
