"""Lifecycles: the states that items go through, as tables keyed (from, to)."""

from __future__ import annotations

from typing import Final

NODE_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "live"): "hello",
    ("live", "live"): "hello on a new link",
    ("live", "lost"): "heartbeats missed",
    ("lost", "live"): "hello or heartbeat",
    ("live", "left"): "goodbye, or key revoked",
    ("lost", "left"): "goodbye, or key revoked",
    ("left", "live"): "hello",
}
SUBTASK_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "queued"): "task accepted",
    ("queued", "dispatched"): "a pod is idle and this is the most urgent",
    ("dispatched", "returned"): "result received",
    ("dispatched", "queued"): "the node says that no pod runs it",
    (
        "queued",
        "expired",
    ): "answer timeout, the node left or is lost, or the task was cancelled or refused",
    ("dispatched", "abandoned"): "the same; the pod may still be busy",
    ("abandoned", "returned"): "late result: it frees the pod and is discarded",
    ("abandoned", "forgotten"): "the node says that no pod runs it, or left",
}
TASK_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "refused"): "not authorised, over the rate, overloaded, or infeasible even unloaded",
    ("new", "open"): "subtasks enqueued",
    ("new", "partial"): "no node to ask",
    ("new", "waiting"): "the master has just started: nodes are still joining",
    ("waiting", "waiting"): "a node joined, and another is missing",
    ("waiting", "open"): "all joined, or it has waited long enough: subtasks enqueued",
    ("waiting", "partial"): "it has waited long enough, and there is no node to ask",
    ("waiting", "refused"): "all joined: over the rate, or infeasible even unloaded",
    ("waiting", "cancelled"): "cancelled by its sender",
    ("open", "complete"): "last subtask returned, nothing missing",
    ("open", "partial"): "last subtask returned, or answer timeout",
    ("open", "cancelled"): "its sender wants no result any more",
    ("open", "refused"): "overloaded: there is no room for what came of it",
}
QUERY_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "refused"): "not authorised, over the rate, unknown service, malformed, or overloaded",
    ("new", "open"): "tasks sent",
    ("new", "partial"): "no IAD covers the areas",
    ("open", "complete"): "last task result, nothing missing",
    ("open", "partial"): "last task result, or answer timeout",
    ("open", "refused"): "an IAD refused its task, or there is no room for what came of it",
}
WATCH_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "attached"): "watch",
    ("new", "detached"): "found on disk",
    ("detached", "attached"): "watch again",
    ("attached", "attached"): "watch again",
    ("attached", "finished"): "its last round was acknowledged, or did not fire",
    ("finished", "attached"): "watch again",
    ("finished", "finished"): "its client does not know it yet",
    ("attached", "refused"): "a round was refused for good, and those before it were sent; "
    "or alerts cannot be subscribed to, or the disk did not take it",
    ("attached", "cancelled"): "cancel",
    ("detached", "cancelled"): "cancel",
    ("finished", "cancelled"): "cancel",
    ("attached", "expired"): "no message from its client for too long",
    ("detached", "expired"): "no message from its client for too long",
    ("finished", "expired"): "no message from its client for too long",
}
ALERTS_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "subscribing"): "watch, or found on disk",
    ("subscribing", "open"): "subscribed",
    ("subscribing", "waiting"): "refused, or the disk accepts no writes now",
    ("open", "waiting"): "the disk takes no acknowledgement now",
    ("waiting", "subscribing"): "ten seconds later",
    ("subscribing", "subscribing"): "the stored subscription is lost: start over",
    ("open", "subscribing"): "the inbox no longer knows it, or a position is missing",
    ("subscribing", "ended"): "its time is over, or its watch is",
    ("open", "ended"): "its time is over, or its watch is",
    ("waiting", "ended"): "its time is over, or its watch is",
    ("new", "ended"): "found on disk in this state",
}
ROUND_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "asked"): "its window has ended, or its alerts came, and few rounds before it are open",
    ("asked", "waiting"): "refused for now: over the rate, or overloaded",
    ("waiting", "asked"): "no pause, or it is over",
    ("asked", "answered"): "the answer is there",
    ("answered", "passed"): "its trigger does not hold",
    ("answered", "sent"): "all rounds before it were sent",
    ("sent", "waiting"): "the client came back without it",
}
