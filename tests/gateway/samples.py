"""Answers and notifications, as short as tests want them."""

from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    TaskReport,
)
from agent.wire.overlay import Notification, Origin


def channel(mean, *, count=5, bad=0, suspect=0):
    if mean is None:
        return ChannelAggregate(0, bad=bad or 1)
    return ChannelAggregate(count, mean, mean, mean, bad, suspect)


def result(area, at_ms=1_000, **means):
    channels = {
        name: mean if isinstance(mean, ChannelAggregate) else channel(mean)
        for name, mean in means.items()
    }
    return AreaResult(area, aggregate=Aggregate(at_ms, at_ms, channels))


def answer(*results, missing=(), elapsed_ms=5.0, slo_met=True):
    gaps = tuple(Missing(area, reason) for area, reason in missing)
    covered = Coverage(len(results), len(results) + len(gaps))
    return Answer(
        "q1", "partial" if gaps else "complete", elapsed_ms, slo_met, covered, tuple(results), gaps,
        (TaskReport("iad1", 99.0, 100.0, covered, elapsed_ms),),
    )  # fmt: skip


def notification(number=1, *, kind="raised", trigger="hot", area="b1/r1", history="h1", at_ms=7):
    told = {"iad": "iad1", "kind": kind, "trigger": trigger, "metric": "temperature"}
    return Notification(
        Origin("iad1", history, number), at_ms, {**told, "value": 31.5, "area": area}
    )


QUERY = {
    "areas": ["b1"],
    "window": {"last_s": 60},
    "slo": {"percentile": 99, "latency_ms": 500},
    "form": "aggregate",
}
