"""Topics, and what is published to them."""

from agent.wire import topics as t
from agent.wire.base import Message
from agent.wire.messages import Slo
from agent.wire.operator import IadStatus

COMFORT = t.Topic(
    "comfort",
    areas=("b1/f4",),
    channels=("temperature", "humidity"),
    every_s=5.0,
    processor="comfort_index",
    parameters={"warm_above": 26.5, "named": "office"},
    slo=Slo(90.0, 1_000.0),
)
SAMPLES: dict[str, Message] = {
    "create_topic": t.CreateTopic("c", COMFORT),
    "create_topic_list": t.CreateTopic(
        "c",
        t.Topic("floors", processor="aggregate", parameters={"channels": ("co2", "humidity")}),
    ),
    "create_topic_bare": t.CreateTopic("c", t.Topic("notes")),
    "remove_topic": t.RemoveTopic("r", "comfort"),
    "enable_topic": t.EnableTopic("e", "comfort"),
    "list_topics": t.ListTopics("l"),
    "topic_report": t.TopicReport(
        "l",
        ok=True,
        topics=(
            t.TopicStatus(
                COMFORT,
                "ready",
                received=3,
                put_out=120,
                rounds=117,
                rounds_failed=1,
                processed=120,
                late=2,
                latency_ms=41.5,
                cpu_ms=0.75,
            ),
            t.TopicStatus(t.Topic("notes"), "none"),
        ),
    ),
    "topic_report_moved": t.TopicReport("l", ok=True, moved={"comfort": "iad2"}),
    "topic_report_refused": t.TopicReport("c", ok=False, message="topic comfort exists"),
    "publish": t.Publish(
        "4f1d2a", "comfort", {"area": "b1/f4/r413", "vote": 3.0}, sequence=17, oldest=17
    ),
    "published": t.Published("4f1d2a", "accepted", 17),
    "published_refused": t.Published("4f1d2a", "refused", message="this disk takes nothing now"),
    "iad_status_topics": IadStatus(
        iad="iad3",
        policy="edfq",
        nodes=(),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
        topics=(t.TopicStatus(COMFORT, "backing_off", failed=4, trouble="it raised"),),
    ),
}
