"""A landing made by hand: records, row groups, nodes, pulls."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CHANNEL = pa.struct(
    [
        ("name", pa.string()),
        ("value", pa.list_(pa.float32())),
        ("raw", pa.list_(pa.float32())),
        ("quality", pa.list_(pa.int16())),
    ]
)
LONGS = pa.list_(pa.int64())
GROUPS = pa.schema(
    [
        *((name, pa.string()) for name in ("iad", "node", "history")),
        ("sequence", pa.int64()),
        *((name, pa.string()) for name in ("sensor", "boot")),
        ("synchronised", pa.bool_()),
        *((name, pa.int64()) for name in ("shift_ms", "exported_ms")),
        ("count", pa.int32()),
        *((name, pa.int64()) for name in ("first_ms", "last_ms")),
        *((name, LONGS) for name in ("time_ms", "source_time_ms", "age_ms")),
        ("channels", pa.list_(CHANNEL)),
    ]
)
NODES = pa.schema(
    [
        ("iad", pa.string()),
        ("node", pa.string()),
        ("time_ms", pa.int64()),
        ("areas", pa.list_(pa.string())),
        ("model", pa.string()),
    ]
)
COUNTED = (
    "bytes", "records", "groups", "readings", "expired_files", "expired_groups", "expired_readings",
)  # fmt: skip
PULLS = pa.schema(
    [
        ("iad", pa.string()),
        ("host", pa.string()),
        ("time_ms", pa.int64()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        *((name, pa.int64()) for name in COUNTED),
    ]
)
REFUSED = pa.schema(
    [
        ("iad", pa.string()),
        ("time_ms", pa.int64()),
        *((name, pa.string()) for name in ("source", "reason", "text")),
    ]
)
SCHEMAS = {"groups": GROUPS, "nodes": NODES, "pulls": PULLS, "refused": REFUSED}


def query(iad="a1", query="q1", wall_ms=1_795_000_000_000, **more):
    return {
        "record": "query", "iad": iad, "wall_ms": wall_ms, "start_s": 12.5, "query": query,
        "service": "climate", "label": "gold", "areas": ["b1/f1"], "percentile": 99.0,
        "slo_ms": 500.0, "status": "complete", "reason": None, "slo_met": True, "answered": 3,
        "asked": 3, "tasks": [f"{query}/1"], "task_percentile": 99.5, "evaluated_ms": 0.5,
        "aggregated_ms": 40.25, "client": "me",
    } | more  # fmt: skip


def task(iad="a1", task="q1/1", wall_ms=1_795_000_000_001, **more):
    return {
        "record": "task", "iad": iad, "wall_ms": wall_ms, "start_s": 12.6, "task": task,
        "service": "climate", "label": "gold", "policy": "sanderling", "percentile": 99.5,
        "budget_ms": 450.0, "fanout": 2, "unloaded_ms": 20.0, "queueing_budget_ms": 430.0,
        "status": "complete", "reason": None, "answered": 3, "asked": 3, "evaluated_ms": 0.25,
        "aggregated_ms": 38.0, "origin": "a2",
    } | more  # fmt: skip


def subtask(iad="a1", task="q1/1", node="n1", wall_ms=1_795_000_000_001, **more):
    return {
        "record": "subtask", "iad": iad, "wall_ms": wall_ms, "start_s": 12.6, "task": task,
        "label": "gold", "policy": "sanderling", "window_s": 60.0, "enqueued_ms": 0.25,
        "deadline_ms": 430.0, "node": node, "dispatched_ms": 1.0, "result_ms": 30.0,
        "node_wait_ms": 0.5, "execution_ms": 20.0, "missed_deadline": False, "dispatches": 1,
        "outcome": "ok", "demoted": False,
    } | more  # fmt: skip


def event(iad="a1", node="n1", sequence=1, wall_ms=1_795_000_000_000, **more):
    return {
        "record": "node_event", "iad": iad, "wall_ms": wall_ms, "start_s": 3.0, "node": node,
        "history": "h1", "sequence": sequence, "kind": "fault_began", "time_ms": wall_ms - 500,
        "synchronised": True, "sensor": "desk", "channel": "temperature", "text": "no_response",
        "trigger": "", "value": None, "areas": [],
    } | more  # fmt: skip


def processing(iad="a1", topic="comfort", wall_ms=1_795_000_000_000, **more):
    return {
        "record": "processing", "iad": iad, "wall_ms": wall_ms, "start_s": 60.0, "topic": topic,
        "processor": "comfort_index", "seconds": 60.0, "state": "ready", "percentile": 90.0,
        "slo_ms": 1000.0, "arrived": 120, "processed": 118, "late": 3, "failed": 0, "skipped": 0,
        "outputs": 118, "waiting": 2, "state_bytes": 512, "cpu_s": 1.5, "cpu_ms": 12.5,
        "cpu_p50_ms": 12.0, "cpu_p90_ms": 14.0, "waiting_ms": 3.0, "waiting_p90_ms": 9.0,
        "latency_ms": 16.0, "latency_p50_ms": 14.0, "latency_p90_ms": 24.0,
        "latency_p99_ms": 80.0, "achieved_ms": 24.0, "together": ["other"], "cores": 4,
        "workers": 4, "others": None,
    } | more  # fmt: skip


def move(iad="a1", unit="comfort", wall_ms=1_795_000_000_000, **more):
    return {
        "record": "move", "iad": iad, "wall_ms": wall_ms, "start_s": 70.0, "kind": "processor",
        "unit": unit, "source": iad, "target": "a2", "state": "settled", "reason": "plan",
        "pause_ms": 12.5, "moved_ms": 800.0,
    } | more  # fmt: skip


def placement(iad="a1", wall_ms=1_795_000_000_000, **more):
    return {
        "record": "placement", "iad": iad, "wall_ms": wall_ms, "start_s": 60.0, "mode": "open",
        "cores": 4, "compute": 4.0, "storage_bytes": None, "most_processors": 32,
        "opening_cost": 0.0, "topics": ["comfort"],
        "delays": [{"iad": "a2", "p50_ms": 2.0, "p90_ms": 5.0}],
        "arrivals": [{"topic": "comfort", "source": iad, "peer": "", "per_s": 2.0}],
        "listeners": [{"topic": "comfort", "count": 1}], "pins": [],
    } | more  # fmt: skip


def group(iad="a1", node="n1", sequence=0, first_ms=1_795_000_000_000, count=3, **more):
    """A row group; without its own numbers its values are those of its sequences."""
    times = more.pop("time_ms", [first_ms + 1000 * n for n in range(count)])
    values = [float(sequence + n) for n in range(count)]
    return {
        "iad": iad, "node": node, "history": "h1", "sequence": sequence, "sensor": "desk",
        "boot": "b1", "synchronised": True, "shift_ms": 0, "exported_ms": 1_795_100_000_000,
        "count": count, "first_ms": times[0], "last_ms": times[-1], "time_ms": times,
        "source_time_ms": None, "age_ms": None,
        "channels": [
            {"name": name, "value": values, "raw": None, "quality": None}
            for name in ("humidity", "temperature")
        ],
    } | more  # fmt: skip


def node(iad="a1", node="n1", time_ms=1_795_000_000_000, areas=("b1/f1/r1",), model="Pi 4"):
    return {"iad": iad, "node": node, "time_ms": time_ms, "areas": list(areas), "model": model}


def pull(iad="a1", host="a1/n1", time_ms=1_795_000_000_000, **more):
    counts = dict.fromkeys(COUNTED, 7)
    return {
        "iad": iad, "host": host, "time_ms": time_ms, "outcome": "done", "error": "",
        **counts,
    } | more  # fmt: skip


def refused(iad="a1", time_ms=1_795_000_000_000, text="group 7"):
    return {
        "iad": iad, "time_ms": time_ms, "source": "a1/n1", "reason": "it is torn", "text": text,
    }  # fmt: skip


def write_lines(lake, name, lines, iad="a1"):
    """A file of records; `lines` are records, or text or bytes as they are to be."""
    whole = [
        line if isinstance(line, bytes)
        else line.encode() if isinstance(line, str)
        else json.dumps(line, separators=(",", ":")).encode()
        for line in lines
    ]  # fmt: skip
    path = lake.records / f"iad={iad}" / name
    _place(path, lambda part: part.write_bytes(b"".join(line + b"\n" for line in whole)))
    return path


def write_rows(lake, kind, name, rows):
    """A file of groups, nodes, pulls or refused."""
    folder = getattr(lake, kind)
    if kind == "groups":
        folder = folder / f"iad={rows[0]['iad']}" / f"node={rows[0]['node']}"
    table = pa.Table.from_pylist(rows, schema=SCHEMAS[kind])
    path = folder / name
    _place(path, lambda part: pq.write_table(table, part))
    return path


def _place(path: Path, write):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    write(part)
    part.rename(path)
