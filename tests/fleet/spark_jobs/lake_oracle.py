"""What should be in the tables after files of a landing were ingested: plain loops, no rules of
Spark, no order of files."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from fleet.lake.schema.tables import base
from tests.fleet.spark_jobs.lake_tables import plain

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = {
    "query": base.QUERIES, "task": base.TASKS, "subtask": base.SUBTASKS, "node_event": base.EVENTS,
    "processing": base.PROCESSING, "move": base.MOVES, "placement": base.PLACEMENT,
}  # fmt: skip


def time(ms):
    return EPOCH + timedelta(milliseconds=ms)


def expected(files, without=("exported",)):
    """`files`: (kind, name, content) of each, content being what it was written from. A line of
    records is (text, reason); None for one that is to be taken."""
    tables = {table.name: {} for table in base.TABLES}
    revisions = {}
    for kind, name, content in files:
        for one in content:
            if kind == "records":
                _line(tables, name, *one)
            elif kind == "groups":
                key = (one["iad"], one["node"], one["history"], one["sequence"])
                revisions[key] = max(
                    revisions.get(key, one), one, key=lambda r: (r["exported_ms"], r["shift_ms"])
                )
            elif kind == "nodes":
                row = one | {"time": time(one["time_ms"])} | _date(one["time_ms"])
                key = (row["iad"], row["date"], row["node"])
                if key not in tables["nodes"] or tables["nodes"][key]["time"] < row["time"]:
                    tables["nodes"][key] = row
            elif kind == "pulls":
                row = one | {"time": time(one["time_ms"])} | _date(one["time_ms"])
                tables["pulls"][row["iad"], row["host"], row["time"]] = row
    for key, group in revisions.items():
        _group(tables, key, group)
    return {
        table.name: sorted(
            (
                plain(row[c] for c in table.names if c not in without and _told(table, c))
                for row in tables[table.name].values()
            ),
            key=repr,
        )
        for table in base.TABLES
    }


def _told(table, column):
    return table is not base.QUARANTINE or column != "date"


def _date(ms):
    return {"date": time(ms).date()}


def _line(tables, name, text, reason):
    iad = name.split("/")[0].removeprefix("iad=")
    if reason is None and json.loads(text)["iad"] != iad:
        reason = "iad is not the one of this master"
    if reason is not None:
        known = sha256(f"{iad}\0{text}".encode()).hexdigest()
        row = {"iad": iad, "id": known, "source": "", "reason": reason, "text": text[:1000]}
        tables["quarantine"].setdefault(known, row)
        return
    record = json.loads(text)
    table = TABLES[record["record"]]
    row = record | {"time": time(record["wall_ms"])} | _date(record["wall_ms"])
    if table is base.EVENTS:
        row |= {"received": row["time"], "time": time(record["time_ms"])}
        row |= _date(record["time_ms"])
    tables[table.name][tuple(row[c] for c in table.key)] = row


def _group(tables, key, group):
    times = group["time_ms"]
    tables["groups"][key] = group | _date(times[0]) | {
        "first": time(times[0]),
        "last": time(times[-1]),
        "channels": [channel["name"] for channel in group["channels"]],
        "exported": time(group["exported_ms"]),
    }  # fmt: skip
    for channel in group["channels"]:
        for n, ms in enumerate(times):
            sequence = group["sequence"] + n
            value = channel["value"][n]
            tables["readings"][*key[:3], sequence, channel["name"]] = {
                "iad": group["iad"], "node": group["node"], "sensor": group["sensor"],
                "channel": channel["name"], "time": time(ms), "date": time(ms).date(),
                "value": float("nan") if value is None else value,
                "quality": channel["quality"][n] if channel["quality"] else 0,
                "raw": channel["raw"][n] if channel["raw"] else None,
                "age_ms": group["age_ms"][n] if group["age_ms"] else 0,
                "source_time": time(group["source_time_ms"][n])
                if group["source_time_ms"] else None,
                "synchronised": group["synchronised"], "history": group["history"],
                "sequence": sequence, "group": group["sequence"],
            }  # fmt: skip
