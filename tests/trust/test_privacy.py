"""What crosses an IAD's border, in the bytes on the wire: design's "Never" list does not."""

import re

import msgspec
import pytest

from agent.wire import messages as m
from agent.wire.operator import NodeStatus
from agent.wire.records import SubtaskRecord, TaskRecord
from tests.trust.rig import IADS, NODES, ROOMS, ask
from tests.trust.tap import Tap

# Every name of a field that may stand in what masters send each other; whoever adds one asks
# first whether it tells about nodes.
ALLOWED = {
    "task": {
        "type", "id", "areas", "window", "percentile", "budget_ms", "timeout_ms", "channels",
        "form", "service", "label", "emulation_seed", "origin", "last_s", "ago_s", "start_ms",
        "end_ms",
    },
    "task_result": {
        "type", "id", "status", "total_ms", "results", "missing", "reason", "message", "area",
        "series", "aggregate", "time_ms", "source_time_ms", "values", "first_ms", "last_ms",
        "channels", "count", "min", "mean", "max", "temperature", "humidity",
    },
    "cancel_task": {"type", "id"},
    "propose": {
        "type", "id", "service", "capability", "areas", "terms", "rate_per_s", "percentile",
        "budget_ms",
    },
    "offer": {
        "type", "id", "verdict", "hold_s", "counter", "message", "rate_per_s", "percentile",
        "budget_ms",
    },
    "join": {
        "type", "id", "service", "owner", "version", "members", "iad", "address", "areas", "keys",
        "rate_per_s", "capability", "terms", "percentile", "budget_ms", "redundant",
    },
    "leave": {"type", "id", "service", "version"},
    "joined": {"type", "id", "ok", "message"},
    "release": {"type", "id", "service"},
}  # fmt: skip
# Of what an IAD's own operator sees: nodes, queues, pods, and where the time went.
FORBIDDEN = (
    {f.name for kind in (SubtaskRecord, NodeStatus) for f in msgspec.structs.fields(kind)}
    | {f.name for f in msgspec.structs.fields(TaskRecord) if f.name.endswith("_ms")}
    | {"node", "nodes", "pods", "queue", "queued", "fanout", "wait_ms", "execution_ms"}
) - {"areas", "service", "label", "form", "total_ms", "budget_ms", "task", "iad", "timeout_ms"}


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


@pytest.fixture
def tapped(fleet):
    """Starts a fleet whose masters reach each other through taps."""
    taps = []

    def tapped(*, keyed):
        made = fleet(keyed=keyed)
        for iad in IADS:
            taps.append(Tap(made.sockets[iad]["public"]))
            made.via[iad] = taps[-1].address
        made.start()
        return made, taps

    yield tapped
    for tap in taps:
        tap.close()


def traffic(fleet):
    """Queries of every kind that make masters talk: answered, aggregated, refused, given up."""
    for iad in IADS:
        with fleet.client(iad) as client:
            assert ask(client).coverage == m.Coverage(2, 2)
            client.query(["b1"], last_s=60, form="aggregate", latency_ms=5_000)
            client.query(["b1"], last_s=60, latency_ms=1_000, channels=["pressure"])
            client.query(["b1/f4/r1", "b1/f5/r1"], last_s=60, latency_ms=1_000)
            client.query(["b1"], last_s=1, latency_ms=0.01, timeout_ms=0.01)
            client.query(["b1"], last_s=60, latency_ms=1_000, service="none")
    fleet.wait_until("iad1", lambda s: not s.open_tasks)


def test_nothing_about_nodes_is_in_the_bytes_between_masters(tapped):
    fleet, taps = tapped(keyed=False)
    traffic(fleet)
    # The queries with nodes gone: the partial results of an IAD in trouble.
    for name in NODES.values():
        fleet.processes[name].kill()
    for iad in IADS:
        fleet.wait_until(iad, lambda s: s.nodes[0].state == "lost")
    for iad in IADS:
        with fleet.client(iad) as client:
            assert ask(client).missing
    seen = b"".join(tap.bytes for tap in taps)
    assert all(room.encode() in seen for room in ROOMS.values())  # it can be read

    for iad in IADS:
        assert NODES[iad].encode() not in seen
        for kind in ("nodes", "operator"):
            assert fleet.sockets[iad][kind].removeprefix("tcp://").encode() not in seen
            assert fleet.sockets[iad][kind].rpartition(":")[2].encode() not in seen
    assert not re.findall(rb"\d+\.\d+\.\d+\.\d+:\d+", seen)

    kinds = {}
    for frame in (frame for tap in taps for frame in tap.frames()):
        message = msgspec.msgpack.decode(frame[3:], ext_hook=lambda _code, data: bytes(data))
        kinds.setdefault(message["type"], []).append(message)
    assert {"task", "task_result"} <= set(kinds)
    assert len(kinds["task_result"]) >= 8
    for kind, found in kinds.items():
        for message in found:
            assert keys_of(message) <= ALLOWED[kind], kind
            assert not keys_of(message) & (FORBIDDEN - ALLOWED[kind])
            for text in texts_of(message):
                assert not any(name in text for name in NODES.values())
    # One time for the whole task, and no more numbers than the schema has.
    for result in kinds["task_result"]:
        assert set(result) <= {f.name for f in msgspec.structs.fields(m.TaskResult)} | {"type"}


def test_the_schemas_between_masters_have_no_room_for_nodes():
    """The allow-list of names above is the whole of the messages, and none is the operator's."""
    from agent.wire import market

    kinds = (m.Task, m.TaskResult, m.CancelTask, *market.MarketRequest.__args__,
             *market.MarketReply.__args__)  # fmt: skip
    open_keys = {"temperature", "humidity"}
    for kind in kinds:
        tag = kind.__struct_config__.tag
        assert _names(kind) | {"type"} == ALLOWED[tag] - open_keys, tag
        assert not ALLOWED[tag] & (FORBIDDEN - {"id", "status", "message", "missing"}), tag


def _names(annotation, seen=None):
    """The field names of a struct and of those inside it."""
    seen = set() if seen is None else seen
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        if annotation in seen:
            return set()
        seen.add(annotation)
        fields = msgspec.structs.fields(annotation)
        return {f.encode_name for f in fields}.union(*(_names(f.type, seen) for f in fields))
    return set().union(*(_names(a, seen) for a in getattr(annotation, "__args__", ())))


def test_with_keys_not_even_areas_can_be_read(tapped):
    fleet, taps = tapped(keyed=True)
    traffic(fleet)
    seen = b"".join(tap.bytes for tap in taps)
    assert len(seen) > 20_000
    assert b"CURVE" in seen
    words = [*ROOMS.values(), *IADS.values(), *NODES.values(), "task_result", "temperature"]
    assert [word for word in words if word.encode() in seen] == []
