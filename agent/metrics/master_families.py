"""Metric families of a master; `families` has the conventions."""

from __future__ import annotations

from typing import Final

from agent.metrics.families import COMMON, Family

# Upper bounds in seconds. They include the SLOs of the papers' workloads, so that the share of
# answers within an SLO is exact.
RESPONSE_S: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.2, 1.5, 1.8, 2.4,
    3.0, 4.0, 5.0, 7.5, 10.0, 30.0,
)  # fmt: skip
STAGE_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
    0.75, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip

# --- as query scheduler ------------------------------------------------------------------

QUERIES = Family(
    "sanderling_queries_total",
    "counter",
    ("service", "label", "status"),
    "queries",
    "Queries that were answered (complete or partial) or refused.",
)
QUERY_DURATION = Family(
    "sanderling_query_duration_seconds",
    "histogram",
    ("service", "label", "status"),
    "seconds",
    "From a query's reception to its answer; refused queries have none.",
    RESPONSE_S,
)
SLO_MISSES = Family(
    "sanderling_slo_misses_total",
    "counter",
    ("service", "label", "status"),
    "queries",
    "Answers that did not meet their SLO: complete ones after its latency, and all partial ones.",
)
OPEN_QUERIES = Family(
    "sanderling_open_queries", "gauge", (), "queries", "Queries that wait for task results."
)
TASKS_CANCELLED = Family(
    "sanderling_tasks_cancelled_total",
    "counter",
    (),
    "tasks",
    "Tasks that the query scheduler gave up: the answer went out without them.",
)
TASK_RESULTS_IGNORED = Family(
    "sanderling_task_results_ignored_total",
    "counter",
    (),
    "results",
    "Task results that came after their query's answer, or that nobody had asked for.",
)

# --- as task scheduler -------------------------------------------------------------------

TASKS = Family(
    "sanderling_tasks_total",
    "counter",
    ("label", "status"),
    "tasks",
    "Tasks that were answered, refused or cancelled.",
)
TASK_DURATION = Family(
    "sanderling_task_duration_seconds",
    "histogram",
    ("label", "status"),
    "seconds",
    "From a task's reception to its result; refused tasks have none.",
    RESPONSE_S,
)
STAGE_DURATION = Family(
    "sanderling_stage_duration_seconds",
    "histogram",
    ("label", "stage"),
    "seconds",
    "Where time goes. Stages do not overlap: query_evaluation, task_evaluation, queueing (of a "
    "subtask), communication, node_wait, execution (which make up its response), aggregation (of "
    "a task, after its last result).",
    STAGE_S,
)
UNLOADED_RESPONSE = Family(
    "sanderling_unloaded_response_seconds",
    "histogram",
    ("label",),
    "seconds",
    "From a subtask's dispatch to an idle pod to its result: communication, node_wait and "
    "execution together.",
    STAGE_S,
)
SUBTASKS = Family(
    "sanderling_subtasks_total",
    "counter",
    ("label", "outcome"),
    "subtasks",
    "Subtasks that returned (ok, no_data, no_channel, node_error, too_large) or not, and why.",
)
DEADLINE_MISSES = Family(
    "sanderling_subtask_deadline_misses_total",
    "counter",
    ("label",),
    "subtasks",
    "Subtasks dispatched after their queueing deadline t_D; a percent or two is normal.",
)
REDISPATCHED = Family(
    "sanderling_subtasks_redispatched_total",
    "counter",
    (),
    "subtasks",
    "Subtasks that were lost on the way to their node and queued again.",
)
SUBTASKS_DEMOTED = Family(
    "sanderling_subtasks_demoted_total",
    "counter",
    (),
    "subtasks",
    "Subtasks put behind all others, because their task could hardly be in time any more.",
)
SUBTASK_RESULTS_IGNORED = Family(
    "sanderling_subtask_results_ignored_total",
    "counter",
    ("reason",),
    "results",
    "Subtask results that came late (the task was over), were unknown (a repeat, or a result for a "
    "master that is gone), or implausible (a time or a mean that cannot be).",
)
OPEN_TASKS = Family("sanderling_open_tasks", "gauge", (), "tasks", "Tasks that wait for subtasks.")
QUEUE_LENGTH = Family(
    "sanderling_queue_length",
    "gauge",
    ("node",),
    "subtasks",
    "Subtasks that wait for a pod of the node.",
)
NODE_PODS = Family("sanderling_node_pods", "gauge", ("node",), "pods", "Pods that the node has.")
NODE_PODS_IDLE = Family(
    "sanderling_node_pods_idle",
    "gauge",
    ("node",),
    "pods",
    "Pods of the node that serve nothing; 0 while it is not live.",
)

# --- both --------------------------------------------------------------------------------

REFUSALS = Family(
    "sanderling_refusals_total",
    "counter",
    ("plane", "reason"),
    "requests",
    "Queries and tasks (plane) that were refused, by reason. A query that another IAD's refusal "
    "refuses counts here as a query.",
)
NODE_UP = Family(
    "sanderling_node_up",
    "gauge",
    ("node",),
    "",
    "1 if the node is live, 0 if its heartbeats stopped or it said goodbye.",
)
NODES = Family(
    "sanderling_nodes",
    "gauge",
    ("state",),
    "nodes",
    "Edge nodes that ever said hello: live, lost (silent) or left (said goodbye).",
)
PEER_UP = Family(
    "sanderling_peer_up",
    "gauge",
    ("iad",),
    "",
    "1 if the other IAD's master is at the end of its link.",
)
RECORDS_LOST = Family(
    "sanderling_records_lost_total", "counter", (), "records", "Records that the disk refused."
)
IAD_INFO = Family(
    "sanderling_iad_info", "gauge", ("iad", "policy"), "", "Always 1: whose master, what policy."
)
WATCHES_OPEN = Family(
    "sanderling_open_watches", "gauge", (), "watches", "Standing queries that are open."
)
WATCH_ROUNDS = Family(
    "sanderling_watch_rounds_total",
    "counter",
    (),
    "queries",
    "Rounds of standing queries that became queries.",
)
WATCH_ROUNDS_PUT_OFF = Family(
    "sanderling_watch_rounds_put_off_total",
    "counter",
    (),
    "queries",
    "Such queries that were refused for now and asked again later.",
)
POD_REQUESTS_FAILED = Family(
    "sanderling_pod_requests_failed_total",
    "counter",
    ("reason",),
    "requests",
    "Requests for pods that the Kubernetes cluster refused, or that failed on the way.",
)
NODE_EVENTS = Family(
    "sanderling_node_events_total",
    "counter",
    ("kind",),
    "events",
    "Events of edge nodes that were taken over, each once.",
)
NODE_EVENTS_REPEATED = Family(
    "sanderling_node_events_repeated_total",
    "counter",
    (),
    "events",
    "Events that their nodes sent again though they had been taken over.",
)
NODE_EVENTS_REFUSED = Family(
    "sanderling_node_events_refused_total",
    "counter",
    (),
    "events",
    "Events that the disk refused; their nodes keep them and send them again.",
)
NODE_EVENTS_IMPLAUSIBLE = Family(
    "sanderling_node_events_implausible_total",
    "counter",
    (),
    "events",
    "Events that were acknowledged and dropped: of an area for which the node may not speak, or of "
    "a time that cannot be.",
)
NODE_EVENTS_WAITING = Family(
    "sanderling_node_events_waiting",
    "gauge",
    ("node",),
    "events",
    "Events that waited at the node when it last sent some, beside those.",
)
NODE_EVENTS_DROPPED = Family(
    "sanderling_node_events_dropped_total",
    "counter",
    ("node",),
    "events",
    "Events that the node gave up for want of room since its history began, as it last said.",
)
REGISTERED = Family(
    "sanderling_registered",
    "gauge",
    (),
    "",
    "1 if the registration service has confirmed this IAD's registration, or this CSP's account; "
    "absent without a market.",
)
ALERTS = Family(
    "sanderling_alerts_total",
    "counter",
    (),
    "notifications",
    "Notifications that this IAD's triggers made, one for each area of an event.",
)
NOTIFICATIONS_SPOOLED = Family(
    "sanderling_notifications_spooled",
    "gauge",
    (),
    "notifications",
    "Those that some subscriber's master may not have yet, and notifications of topics here.",
)
NOTIFICATIONS_SENT = Family(
    "sanderling_notifications_sent_total",
    "counter",
    (),
    "notifications",
    "Notifications sent to clients of this master, those sent again included.",
)
NOTIFICATIONS_GIVEN_UP = Family(
    "sanderling_notifications_given_up_total",
    "counter",
    ("where",),
    "notifications",
    "Notifications given up for want of room: in the spool, in a subscription's inbox, or on their "
    "way to others, who then get them again from the publisher's spool.",
)
SUBSCRIPTIONS_OPEN = Family(
    "sanderling_subscriptions_open",
    "gauge",
    (),
    "subscriptions",
    "Subscriptions of clients of this master.",
)
OVERLAY_LINK_UP = Family(
    "sanderling_overlay_link_up",
    "gauge",
    ("iad",),
    "",
    "1 if the link to that neighbour in the overlay is up.",
)
OVERLAY_DETOURS = Family(
    "sanderling_overlay_detours_total",
    "counter",
    (),
    "messages",
    "Messages that this master sent, or handed on, round a link that is down.",
)
WEBHOOK_POSTS = Family(
    "sanderling_webhook_posts_total",
    "counter",
    ("outcome",),
    "posts",
    "Posts to webhooks that were delivered or failed; given_up: what was refused for too long.",
)
MOVES = Family(
    "sanderling_unit_moves_total",
    "counter",
    ("outcome",),
    "units",
    "Units that this master handed to another (settled), could not hand over (aborted), or took.",
)
WEBHOOK_UP = Family(
    "sanderling_webhook_up",
    "gauge",
    ("webhook",),
    "",
    "1 if the last post to that webhook was delivered, or there was none yet.",
)
TOPIC_IN = Family(
    "sanderling_topic_in_total",
    "counter",
    ("topic",),
    "messages",
    "Messages that a topic took in since this master has it: at its processor, if it has one.",
)
TOPIC_OUT = Family(
    "sanderling_topic_out_total",
    "counter",
    ("topic",),
    "notifications",
    "Notifications that the topic put out.",
)
TOPIC_WAITING = Family(
    "sanderling_topic_waiting",
    "gauge",
    ("topic",),
    "messages",
    "Messages that wait for the topic's processor.",
)
TOPIC_LATE = Family(
    "sanderling_topic_late_total",
    "counter",
    ("topic",),
    "messages",
    "Messages that were processed later than the topic's objective says.",
)
TOPIC_FAILED = Family(
    "sanderling_topic_failures_total",
    "counter",
    ("topic",),
    "failures",
    "Times that the topic's processor failed: it raised, hung, died, or took too much.",
)
TOPIC_CPU = Family(
    "sanderling_topic_cpu_seconds_total",
    "counter",
    ("topic",),
    "seconds",
    "CPU time of the topic's processor; repetitions after a failure count.",
)
TOPIC_LATENCY = Family(
    "sanderling_topic_latency_seconds",
    "gauge",
    ("topic",),
    "seconds",
    "Of the last ten minutes, the percentile of the topic's objective (without one, the 90th) of "
    "the time from a message's arrival to its outputs.",
)

MASTER: Final = (
    QUERIES, QUERY_DURATION, SLO_MISSES, OPEN_QUERIES, TASKS_CANCELLED, TASK_RESULTS_IGNORED,
    TASKS, TASK_DURATION, STAGE_DURATION, UNLOADED_RESPONSE, SUBTASKS, DEADLINE_MISSES,
    REDISPATCHED, SUBTASKS_DEMOTED, SUBTASK_RESULTS_IGNORED, OPEN_TASKS, QUEUE_LENGTH, NODE_PODS,
    NODE_PODS_IDLE, REFUSALS, NODE_UP, NODES, PEER_UP, RECORDS_LOST, IAD_INFO, WATCHES_OPEN,
    WATCH_ROUNDS, WATCH_ROUNDS_PUT_OFF, POD_REQUESTS_FAILED, NODE_EVENTS, NODE_EVENTS_REPEATED,
    NODE_EVENTS_REFUSED, NODE_EVENTS_IMPLAUSIBLE, NODE_EVENTS_WAITING, NODE_EVENTS_DROPPED,
    REGISTERED, ALERTS, NOTIFICATIONS_SPOOLED, NOTIFICATIONS_SENT, NOTIFICATIONS_GIVEN_UP,
    SUBSCRIPTIONS_OPEN, OVERLAY_LINK_UP, OVERLAY_DETOURS, WEBHOOK_POSTS, WEBHOOK_UP, TOPIC_IN,
    TOPIC_OUT, TOPIC_WAITING, TOPIC_LATE, TOPIC_FAILED, TOPIC_CPU, TOPIC_LATENCY, MOVES, *COMMON,
)  # fmt: skip
