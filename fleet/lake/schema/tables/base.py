"""Schemas of the base tables: what masters and nodes wrote, each row once.

Columns of records have the names of docs/understand/records.md, with `time` in place of `wall_ms`.
"""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.model import DATE, IAD, NODE, Column, Table

BY_DAY: Final = ("iad", "date")
TIME: Final = Column("time", "timestamp", "UTC", "when it was received, by the master's wall clock")
START: Final = Column("start_s", "double", "s", "the same, by the master's monotonic clock")
LABEL: Final = Column("label", "string", "", "the client's own name for its class; may be empty")
POLICY: Final = Column("policy", "string", "", "fifo, spr, tedfq, edfq or sanderling")
SERVICE: Final = Column("service", "string", "", "service asked")
REASON: Final = Column("reason", "string", "", "why it was refused", nullable=True)

QUERIES: Final = Table(
    "queries",
    "One query, as the query scheduler that received it saw it.",
    ("iad", "query", "start_s"),
    (
        IAD,
        DATE,
        TIME,
        START,
        Column("query", "string", "", "id"),
        SERVICE,
        LABEL,
        Column("areas", "array<string>", "", "areas asked; none where a client asks very many"),
        Column("percentile", "double", "%", "percentile of the SLO"),
        Column("slo_ms", "double", "ms", "latency of the SLO"),
        Column("status", "string", "", "complete, partial or refused"),
        REASON,
        Column("slo_met", "boolean", "", "complete, and within the SLO"),
        Column("answered", "int", "areas", "areas answered"),
        Column("asked", "int", "areas", "areas asked, resolved to those that nodes declare"),
        Column("tasks", "array<string>", "", "ids of its tasks"),
        Column("task_percentile", "double", "%", "percentile of each task's budget"),
        Column("evaluated_ms", "double", "ms", "from `time` until its tasks were sent", True),
        Column("aggregated_ms", "double", "ms", "from `time` until the answer: the response time"),
        Column("client", "string", "", "name of the client's key; empty without one"),
    ),
    BY_DAY,
)
TASKS: Final = Table(
    "tasks",
    "One task, as the IAD that served it saw it.",
    ("iad", "task"),
    (
        IAD,
        DATE,
        TIME,
        START,
        Column("task", "string", "", "id"),
        SERVICE,
        LABEL,
        POLICY,
        Column("percentile", "double", "%", "percentile of its budget"),
        Column("budget_ms", "double", "ms", "x_t, what it may take"),
        Column("fanout", "int", "nodes", "k_t, its subtasks"),
        Column("unloaded_ms", "double", "ms", "x_u, what idle nodes need for it", True),
        Column("queueing_budget_ms", "double", "ms", "t_Q = x_t − x_u", True),
        Column("status", "string", "", "complete, partial, refused or cancelled"),
        REASON,
        Column("answered", "int", "areas", "areas answered"),
        Column("asked", "int", "areas", "areas asked"),
        Column("evaluated_ms", "double", "ms", "from `time` until its subtasks were queued"),
        Column("aggregated_ms", "double", "ms", "from `time` until its result"),
        Column("origin", "string", "", "the IAD that sent it"),
    ),
    BY_DAY,
)
SUBTASKS: Final = Table(
    "subtasks",
    "One subtask; its times count from its task's reception.",
    ("iad", "task", "node"),
    (
        IAD,
        DATE,
        TIME,
        START,
        Column("task", "string", "", "id of its task"),
        LABEL,
        POLICY,
        Column("window_s", "double", "s", "length of the window asked: the size of the request"),
        Column("enqueued_ms", "double", "ms", "when it was queued"),
        Column("deadline_ms", "double", "ms", "t_D, the queueing deadline"),
        NODE,
        Column("dispatched_ms", "double", "ms", "when it was sent to the node", True),
        Column("result_ms", "double", "ms", "when its result came", True),
        Column("node_wait_ms", "double", "ms", "at the node, before a pod took it", True),
        Column("execution_ms", "double", "ms", "in the pod", True),
        Column("missed_deadline", "boolean", "", "dispatched after t_D, or never"),
        Column("dispatches", "int", "", "how often it was sent"),
        Column("outcome", "string", "", "ok, cancelled, or why there is no result"),
        Column("demoted", "boolean", "", "put behind all others"),
    ),
    BY_DAY,
)
EVENTS: Final = Table(
    "events",
    "Something that happened at an edge node, such as a sensor's fault that began.",
    ("iad", "node", "history", "sequence"),
    (
        IAD,
        DATE,
        Column("time", "timestamp", "UTC", "when it happened, by the node's wall clock"),
        Column("received", "timestamp", "UTC", "when the master received it"),
        START,
        NODE,
        Column("history", "string", "", "id of the node's history"),
        Column("sequence", "bigint", "", "its number there"),
        Column("kind", "string", "", "such as fault_began"),
        Column("synchronised", "boolean", "", "whether the node's clock was"),
        Column("sensor", "string", "", "sensor, or empty"),
        Column("channel", "string", "", "channel, or empty"),
        Column("text", "string", "", "in words"),
        # Rows ingested by versions without triggers lack these.
        Column("trigger", "string", "", "trigger that was raised or cleared", nullable=True),
        Column("value", "double", "", "the channel's, which did that", nullable=True),
        Column("areas", "array<string>", "", "what that is about", nullable=True),
    ),
    BY_DAY,
)
TOPIC: Final = Column("topic", "string", "", "name of the topic")
PROCESSOR: Final = Column("processor", "string", "", "its program")
PROCESSING: Final = Table(
    "processing",
    "What one topic's processor did at a master from `time` on, for `seconds`: about a minute.",
    ("iad", "topic", "start_s"),
    (
        IAD,
        DATE,
        Column("time", "timestamp", "UTC", "when that began, by the master's wall clock"),
        START,
        TOPIC,
        PROCESSOR,
        Column("seconds", "double", "s", "how long; less than a minute where a processor came"),
        Column("state", "string", "", "its state at the end"),
        Column("percentile", "double", "%", "percentile of the objective", nullable=True),
        Column("slo_ms", "double", "ms", "latency of the objective", nullable=True),
        Column("arrived", "bigint", "", "messages that arrived"),
        Column("processed", "bigint", "", "messages processed for the first time"),
        Column("late", "bigint", "", "of these later than the objective"),
        Column("failed", "bigint", "", "times that the processor failed"),
        Column("skipped", "bigint", "", "messages given up"),
        Column("outputs", "bigint", "", "what it put out"),
        Column("waiting", "bigint", "", "messages that waited at the end"),
        Column("state_bytes", "bigint", "bytes", "its state as it was kept last"),
        Column("cpu_s", "double", "s", "CPU time, by the worker; repetitions count"),
        Column("cpu_ms", "double", "ms", "mean CPU time of a message", nullable=True),
        Column("cpu_p50_ms", "double", "ms", "its median", nullable=True),
        Column("cpu_p90_ms", "double", "ms", "its 90th percentile", nullable=True),
        Column("waiting_ms", "double", "ms", "mean from arrival to start", nullable=True),
        Column("waiting_p90_ms", "double", "ms", "its 90th percentile", nullable=True),
        Column("latency_ms", "double", "ms", "mean from arrival to outputs", nullable=True),
        Column("latency_p50_ms", "double", "ms", "its median", nullable=True),
        Column("latency_p90_ms", "double", "ms", "its 90th percentile", nullable=True),
        Column("latency_p99_ms", "double", "ms", "its 99th percentile", nullable=True),
        Column("achieved_ms", "double", "ms", "its percentile of the objective", nullable=True),
        Column("together", "array<string>", "", "the other topics with processors there"),
        Column("cores", "int", "", "cores of the master"),
        Column("workers", "int", "", "messages that are processed at a time, at most"),
        # Where it is given, `together` does not list all, and the set may have changed meanwhile.
        Column("others", "int", "", "all others, if `together` lists only some", nullable=True),
    ),
    BY_DAY,
)
MOVES: Final = Table(
    "moves",
    "One move of a unit to another master, as the master that it left saw it.",
    ("iad", "kind", "unit", "start_s"),
    (
        IAD,
        DATE,
        Column("time", "timestamp", "UTC", "when it began, by the master's wall clock"),
        START,
        Column("kind", "string", "", "home, processor or clone"),
        Column("unit", "string", "", "name of the client, topic or device"),
        Column("source", "string", "", "the IAD whose master it left"),
        Column("target", "string", "", "the IAD whose master took it"),
        Column("state", "string", "", "state reached: settled, or where the move ended"),
        Column("reason", "string", "", "pin, drain, arrival, delegate, plan or drift"),
        Column("pause_ms", "double", "ms", "for how long nobody served it", nullable=True),
        Column("moved_ms", "double", "ms", "from `time` until the move was over"),
    ),
    BY_DAY,
)
PLACEMENT: Final = Table(
    "placement",
    "What one master measured for placement, once a minute: rates are of the minute before.",
    ("iad", "start_s"),
    (
        IAD,
        DATE,
        Column("time", "timestamp", "UTC", "when it was written, by the master's wall clock"),
        START,
        Column("mode", "string", "", "open, frozen or draining"),
        Column("cores", "int", "", "cores of the master"),
        Column("compute", "double", "cores", "what it gives to units; null: no limit", True),
        Column("storage_bytes", "double", "bytes", "the same of its disk", nullable=True),
        Column("most_processors", "bigint", "", "topics that may live there", nullable=True),
        Column("opening_cost", "double", "s/s", "price of having any unit at all"),
        Column("topics", "array<string>", "", "topics that live there"),
        Column(
            "delays",
            "array<struct<iad:string,p50_ms:double,p90_ms:double>>",
            "ms",
            "one way to other masters",
        ),
        Column(
            "arrivals",
            "array<struct<topic:string,source:string,peer:string,per_s:double>>",
            "1/s",
            "messages of its topics, by the IAD, and the clone, that they come from",
        ),
        Column(
            "listeners",
            "array<struct<topic:string,count:bigint>>",
            "",
            "subscriptions there that name a topic",
        ),
        Column(
            "pins",
            "array<struct<kind:string,unit:string,iad:string>>",
            "",
            "units that an operator has pinned",
        ),
    ),
    BY_DAY,
)
HISTORY: Final = Column("history", "string", "", "id of the history file, random")
GROUP: Final = Column("group", "bigint", "", "sequence of the first reading of its row group")
READINGS: Final = Table(
    "readings",
    "One value of one channel. A reading is (node, history, sequence); it has a row a channel.",
    ("iad", "node", "history", "sequence", "channel"),
    (
        IAD,
        DATE,
        NODE,
        Column("sensor", "string", "", "sensor"),
        Column("channel", "string", "", "such as temperature"),
        Column("time", "timestamp", "UTC", "when it was taken, by the node's wall clock"),
        Column("value", "float", "the channel's (°C, % RH, …)", "NaN where there is none"),
        Column("quality", "smallint", "", "flags of docs/understand/quality.md; 0 is good"),
        Column("raw", "float", "the channel's", "before calibration, where that differs", True),
        Column("age_ms", "bigint", "ms", "how long before `time` it was measured"),
        Column("source_time", "timestamp", "UTC", "of a replay: when it was recorded", True),
        Column("synchronised", "boolean", "", "whether the wall clock was"),
        HISTORY,
        Column("sequence", "bigint", "", "number of the reading in its history"),
        GROUP,
    ),
    BY_DAY,
)
GROUPS: Final = Table(
    "groups",
    "One row group: readings that one sensor took one after another in one boot.",
    ("iad", "node", "history", "sequence"),
    (
        IAD,
        Column("date", "date", "", "the day of `first`, UTC"),
        NODE,
        Column("sensor", "string", "", "sensor"),
        HISTORY,
        Column("sequence", "bigint", "", "sequence of its first reading"),
        Column("count", "int", "readings", "how many"),
        Column("first", "timestamp", "UTC", "time of the first reading"),
        Column("last", "timestamp", "UTC", "time of the last reading"),
        Column("boot", "string", "", "boot id of the node"),
        Column("synchronised", "boolean", "", "whether the wall clock was"),
        Column("shift_ms", "bigint", "ms", "by how much its times were put right afterwards"),
        Column("channels", "array<string>", "", "channels"),
        Column("exported", "timestamp", "UTC", "when it was pulled, by the operator's clock"),
    ),
    BY_DAY,
)
NODES: Final = Table(
    "nodes",
    "Which edge nodes there were and what they cover, as the inventory said on that day.",
    ("iad", "date", "node"),
    (
        IAD,
        Column("date", "date", "", "the day of `time`, UTC"),
        Column("time", "timestamp", "UTC", "of the day's last pull, by the operator's clock"),
        NODE,
        Column("areas", "array<string>", "", "areas that it covers"),
        Column("model", "string", "", "hardware, or empty"),
    ),
    BY_DAY,
)
PULLS: Final = Table(
    "pulls",
    "What came of one host in one pull.",
    ("iad", "host", "time"),
    (
        IAD,
        Column("date", "date", "", "the day of `time`, UTC"),
        Column("time", "timestamp", "UTC", "when the pull began, by the operator's clock"),
        Column("host", "string", "", "such as iad4/n3 or iad4/master"),
        Column("outcome", "string", "", "done, bounded (there was more), or the error's kind"),
        Column("error", "string", "", "one line, or empty"),
        Column("bytes", "bigint", "bytes", "fetched"),
        Column("records", "bigint", "lines", "records fetched"),
        Column("groups", "bigint", "", "row groups fetched"),
        Column("readings", "bigint", "readings", "readings in them"),
        Column("expired_files", "bigint", "", "record files that went before they were fetched"),
        Column("expired_groups", "bigint", "", "row groups that went before they were fetched"),
        Column("expired_readings", "bigint", "readings", "readings in those, at most"),
    ),
    BY_DAY,
)
QUARANTINE: Final = Table(
    "quarantine",
    "A line or row group that could not be used, and why.",
    ("id",),
    (
        IAD,
        Column("date", "date", "", "the day on which it was ingested, UTC"),
        Column("id", "string", "", "SHA-256 of where it is from and what it is"),
        Column("source", "string", "", "file of the landing"),
        Column("reason", "string", "", "one line"),
        Column("text", "string", "", "its first 1,000 characters"),
    ),
    BY_DAY,
)
TABLES: Final = (
    QUERIES, TASKS, SUBTASKS, EVENTS, PROCESSING, MOVES, PLACEMENT, READINGS, GROUPS, NODES, PULLS,
    QUARANTINE,
)  # fmt: skip
