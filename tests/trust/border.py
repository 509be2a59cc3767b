"""What may stand in messages that leave an IAD, and finding out what does."""

import msgspec

from agent.wire.operator import NodeStatus
from agent.wire.records import SubtaskRecord, TaskRecord

# Every name of a field that may stand in what masters send each other; whoever adds one asks
# first whether it tells about nodes. A task's advance is learnt by its sender from how late its own
# queries were, as a whole: nothing in it is about one IAD's nodes. Quality and age say how far an
# area's readings are to be believed, whichever sensor took them. `longest_s` says how long a window
# of an area would fit into a message; `nearest` is an area that was announced; `retry_s` that an
# IAD has just started. `held_from_ms` says since when an area has readings, as its series does;
# `stale_ms` how old an area's last known values are, as their times do. `heard_ms_ago` and
# `down` say as much of an area as whether it answers, `raised` what its alerts do; `name` is a
# room's. `unknown` says that no area
# is announced under that name; `would_keep` has what a counter-offer of the market would, of all
# nodes that were asked together.
ALLOWED = {
    "task": {
        "type", "id", "areas", "window", "percentile", "budget_ms", "timeout_ms", "channels",
        "form", "service", "label", "emulation_seed", "origin", "last_s", "ago_s", "start_ms",
        "end_ms", "advance_ms", "takes_too_large", "stale_ok", "bucket_ms",
    },
    "task_result": {
        "type", "id", "status", "total_ms", "results", "missing", "reason", "message", "area",
        "series", "aggregate", "time_ms", "source_time_ms", "values", "first_ms", "last_ms",
        "channels", "count", "min", "mean", "max", "quality", "age_ms", "bad", "suspect",
        "temperature", "humidity", "longest_s", "nearest", "held_from_ms", "stale_ms", "last",
        "buckets", "length_ms", "about", "name", "unit", "raised", "trigger", "since_ms", "text",
        "heard_ms_ago", "down", "start_ms",
        "unknown", "would_keep", "percentile", "budget_ms",
    },
    "cancel_task": {"type", "id"},
    "propose": {
        "type", "id", "service", "capability", "areas", "terms", "rate_per_s", "percentile",
        "budget_ms",
    },
    "offer": {
        "type", "id", "verdict", "hold_s", "counter", "message", "rate_per_s", "percentile",
        "budget_ms", "retry_s",
    },
    "join": {
        "type", "id", "service", "owner", "version", "members", "iad", "address", "areas", "keys",
        "rate_per_s", "capability", "terms", "percentile", "budget_ms", "redundant",
    },
    "leave": {"type", "id", "service", "owner", "version"},
    "joined": {"type", "id", "ok", "message"},
    "release": {"type", "id", "service"},
}  # fmt: skip
# Filters are arrays of texts and values, and an origin an array too: (IAD, a random history, a
# number). A notification's attributes are in ATTRIBUTES.
NOTIFICATION = {"notification", "origin", "time_ms", "attributes"}
CARRIED = {
    "subscription_change": {"home", "epoch", "version", "key", "filter"},
    "subscription_part": {"home", "epoch", "version", "start", "total", "entries"},
    "subscription_versions": {"homes", "all_homes"},
    "advertisement_change": {"epoch", "version", "key", "filter"},
    "advertisement_part": {"epoch", "version", "start", "total", "entries"},
    "advertisement_version": {"epoch", "version"},
    "cib_set": {"epoch", "key", "stamp"},
    "cib_clear": {"epoch", "key", "stamp"},
    "cib_state": {"epoch", "wanted", "unwanted", "stamp"},
    "notify": {"clusters", *NOTIFICATION},
    "have": {"parts"},
    "relay": {"source", "path", "step", "message"},
    "no_way": {"source", "path", "broken", "step", "message"},
}
# What brokers of the overlay tell each other. `vertex`, `home` and the like are of masters.
TO_NEIGHBOUR = {
    "overlay_hello": {"type", "iad", "vertex", "cluster", "overlay", "session", "heard", "open"},
    "overlay_frame": {"type", "session", "sequence", "message"},
    "overlay_beat": {"type", "session", "sent", "received"},
    "overlay_refused": {"type", "message"},
}
# What masters of one pool or partners tell each other, whom an operator named: topics, by their
# names; clients that move with their home, by theirs; of clones only pseudonyms, and of devices
# only digests. What moves with a unit is in `body`.
UNIT = {"kind", "name"}
FACTS = {
    "iad", "epoch", "number", "next_s", "cores", "mode", "compute", "storage_bytes",
    "most_processors", "opening_cost", "topics", "listeners", "homes", "delays", "pins", "wants",
    "name", "sources", "processor", "cpu_ms", "latency_ms", "state_bytes", "slo", "percentile",
    "per_s", "peers", "topic", "count", "p50_ms", "p90_ms", "age_s", "delays_ms", "publishes",
    "hears", "exchanges", "unit", "kind", "standby", "taken_from", "taken_ms", "delegate",
}  # fmt: skip
TO_PARTNER = {
    "placement_facts": {"type", *FACTS},
    "same_facts": {"type", "iad", "epoch", "number", "next_s", "same_as"},
    "placement_echo": {"type", "epoch", "number", "short"},
    "ask_grant": {
        "type", "iad", "epoch", "number", "unit", *UNIT, "target", "step", "held", "token",
    },
    "grant_told": {
        "type", "iad", "epoch", "number", "step", "granted", "token", "message", "facts", *FACTS,
    },
    "members": {"type", "iad", "address", "view", "needs", "known", "age_ms"},
    "handover": {
        "type", "id", "iad", *UNIT, "message", "attempt", "lease_s", "reason", "body", "epoch",
        "part", "parts", "number", "new", "term", "seed", "at",
        "incarnation",
        "proof",  # that the sender knows the incarnation, which it does not tell
    },
    "lease_told": {"type", "iad", "what", "term", "life", "asked_s", "master"},
    "resolve_clones": {"type", "id", "iad", "devices"},
    "clones_resolved": {"type", "id", "topics"},
    "end_clone": {"type", "id", "iad", "topic"},
    "clone_ended": {"type", "id", "topic", "ok", "moved", "message"},
}  # fmt: skip
ATTRIBUTES = {"iad", "kind", "trigger", "metric", "value", "area"}
# The same for what a master or a mirror tells the registration service.
TO_DIRECTORY = {
    "register": {
        "type", "id", "iad", "address", "offerings", "capability", "areas", "lease_s", "keys",
    },
    "renew": {"type", "id", "iad"},
    "withdraw": {"type", "id", "iad"},
    "open_account": {"type", "id", "name", "keys"},
    "close_account": {"type", "id", "name"},
    "discover": {"type", "id", "capability", "areas"},
    "look_up": {"type", "id", "iads"},
    "list_accounts": {"type", "id"},
    "follow": {"type", "id", "epoch", "version"},
}  # fmt: skip
# Of what an IAD's own operator sees: nodes, queues, pods, and where the time went.
FORBIDDEN = (
    {f.name for kind in (SubtaskRecord, NodeStatus) for f in msgspec.structs.fields(kind)}
    | {f.name for f in msgspec.structs.fields(TaskRecord) if f.name.endswith("_ms")}
    | {"node", "nodes", "pods", "queue", "queued", "fanout", "wait_ms", "execution_ms"}
) - {"areas", "service", "label", "form", "total_ms", "budget_ms", "task", "iad", "timeout_ms"}
# Here `version` counts the changes of a pool, or of the directory; a node's is its agent's release.
COUNTS_VERSIONS = {"join", "leave", "follow"}


def decoded(taps):
    """The messages that passed the taps, by their tags."""
    kinds = {}
    for frame in (frame for tap in taps for frame in tap.frames()):
        message = msgspec.msgpack.decode(frame[3:], ext_hook=lambda _code, data: bytes(data))
        kinds.setdefault(message["type"], []).append(message)
    return kinds


def keys_of(value):
    """All keys of a decoded message, at any depth."""
    if isinstance(value, dict):
        return set(value) | {k for inner in value.values() for k in keys_of(inner)}
    if isinstance(value, list):
        return {k for inner in value for k in keys_of(inner)}
    return set()


def texts_of(value):
    """All texts of a decoded message but its keys."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts_of(each)]


def names_in(annotation, seen=None):
    """The field names of a struct and of those inside it."""
    seen = set() if seen is None else seen
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        if annotation in seen:
            return set()
        seen.add(annotation)
        fields = msgspec.structs.fields(annotation)
        return {f.encode_name for f in fields}.union(*(names_in(f.type, seen) for f in fields))
    return set().union(*(names_in(a, seen) for a in getattr(annotation, "__args__", ())))
