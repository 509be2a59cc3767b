"""Write the documents that the code itself knows: configuration, states, records, JSON Schema.

Run ``make docs`` after changing a config key, a transition table, a record or a message; a test
compares.
"""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from agent.alerts import lifecycle as alerts_lifecycle
from agent.clones import lifecycle as clones_lifecycle
from agent.gateway import config as gateway_config
from agent.metrics import (
    directory_families,
    edge_families,
    families,
    gateway_families,
    master_families,
)
from agent.overlay import lifecycle as overlay_lifecycle
from agent.placement import lifecycle as placement_lifecycle
from agent.processing import lifecycle as processing_lifecycle
from agent.scheduling import lifecycle
from agent.topics import lifecycle as topics_lifecycle
from agent.wire import (
    config,
    config_words,
    directory,
    drs_config,
    edge_config,
    master_config,
    node_messages,
    records,
    unions,
)
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from fleet.inventory.model import Inventory
from fleet.lake.schema import tables as lake_tables
from fleet.lake.schema.tables import base, models, placing, report, requests, sensing
from fleet.lake.schema.tables.model import Table
from fleet.rollout import rollout

Told = dict[type[config.Section] | None, str]  # where a section's keys are told
DOCS = Path(__file__).parent.parent / "docs"


def configuration() -> str:
    """docs/run/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "Look up a key of the agents' TOML files, or of a fleet's [inventory](inventory.md).",
        "Made by `make docs` from `agent/wire/*_config.py`, `agent/gateway/config.py` and",
        "`fleet/inventory/model.py`.",
        "An agent's `--check` validates its file, `fleet inventory check` the inventory;",
        "an unknown key is an error that names the nearest known one.",
    ]
    told: Told = {}
    for command, kind in (
        ("sanderling-edge", edge_config.EdgeConfig),
        ("sanderling-master", master_config.MasterConfig),
        ("sanderling-drs", drs_config.DrsConfig),
        ("sanderling-gateway", gateway_config.GatewayConfig),
    ):
        lines += ["", f"## {command}"]
        # Those that it shares with another file come last.
        own = sorted(msgspec.structs.fields(kind), key=lambda f: f.name not in kind.__annotations__)
        for section in own:
            inner = config_words.section_of(section.type)
            assert inner is not None
            told.setdefault(inner, f"`{_title(section.name, section.type)}` of {command}")
            lines += _section(section.name, section.type, {})
    lines += ["", "## fleet.toml", "", _prose(Inventory.__doc__)]
    lines += _keys("", Inventory, told)
    return "\n".join(lines) + "\n"


def _section(name: str, annotation: Any, told: Told) -> list[str]:
    """A section's table of keys, and those of the sections inside it."""
    inner = config_words.section_of(annotation)
    assert inner is not None
    summary = _prose(inner.__doc__).split("\n\n")[0]
    lines = ["", f"### {_title(name, annotation)}", "", summary]
    return lines + _keys(f"{name}.", inner, told)


def _title(name: str, annotation: Any) -> str:
    """How the table stands in the file."""
    if config_words.is_table_of_sections(annotation):
        return f"[{name}.NAME]"
    return f"[[{name}]]" if typing.get_origin(_bare(annotation)) is tuple else f"[{name}]"


def _keys(prefix: str, kind: type[config.Section], told: Told) -> list[str]:
    """The table of a section's keys, then the sections inside it that are not told elsewhere."""
    lines = ["", "| key | type | default | meaning |", "|---|---|---|---|"]
    below = []
    for field in msgspec.structs.fields(kind):
        inner = config_words.section_of(field.type)
        if inner in told:
            several = "tables" if _title("", field.type).startswith("[[") else "table"
            lines.append(f"| `{field.name}` | {several} | | the keys of {told[inner]} |")
            continue
        if inner is None or _unwrap(field.type)[1]:
            lines.append(_row(field))
        if inner is not None:
            below += _section(f"{prefix}{field.name}", field.type, told)
    return lines + below


def _bare(annotation: Any) -> Any:
    """The type of an annotation, without what stands beside it."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def _row(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        default = f"`{json.dumps(field.default)}`"
    elif field.default_factory is not msgspec.NODEFAULT:
        default = f"`{json.dumps(field.default_factory())}`"
    else:
        default = "required"
    kind, meaning = _unwrap(field.type)
    return f"| `{field.name}` | {kind} | {default} | {meaning} |"


def _unwrap(annotation: Any) -> tuple[str, str]:
    """The plain type and the innermost description of an annotation."""
    meaning = ""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *extras = typing.get_args(annotation)
        for extra in extras:
            meaning = getattr(extra, "description", None) or meaning
    return _type_name(annotation), meaning


def states() -> str:
    """docs/understand/states.md."""
    lines = [
        "# States",
        "",
        "What items go through, made by `make docs` from the tables in `lifecycle.py` of",
        "`agent/scheduling`, `agent/alerts`, `agent/topics`, `agent/clones`, `agent/overlay`,",
        "`agent/placement` and `agent/processing`, and `fleet/rollout/rollout.py`.",
        "An arrow that is not here raises an error that tells the item, its table and its last",
        "states. The link of an edge node to its master is in [edge.md](edge.md).",
    ]
    for title, table in (
        ("Query, at the query scheduler", lifecycle.QUERY_TRANSITIONS),
        ("Task, at the task scheduler", lifecycle.TASK_TRANSITIONS),
        ("Subtask, at the task scheduler", lifecycle.SUBTASK_TRANSITIONS),
        ("Edge node, as its master sees it", lifecycle.NODE_TRANSITIONS),
        ("Watch, at the master that took it in", lifecycle.WATCH_TRANSITIONS),
        ("Subscription of a watch on alerts", lifecycle.ALERTS_TRANSITIONS),
        ("Round of a watch", lifecycle.ROUND_TRANSITIONS),
        ("Notification, in the spool of its publisher", alerts_lifecycle.SPOOLED_TRANSITIONS),
        ("Subscription, at its client's master", alerts_lifecycle.SUBSCRIPTION_TRANSITIONS),
        ("Topic, at its master", topics_lifecycle.TOPIC_TRANSITIONS),
        ("Anchor of a clone, at its home", clones_lifecycle.ANCHOR_TRANSITIONS),
        ("Link of two masters, at one end", overlay_lifecycle.LINK_TRANSITIONS),
        ("Handover of a unit, at its source", placement_lifecycle.SOURCE_TRANSITIONS),
        ("Handover of a unit, at its target", placement_lifecycle.TARGET_TRANSITIONS),
        ("Unit with a standby, at its owner", placement_lifecycle.PRIMARY_TRANSITIONS),
        ("Standby of a unit, at another master", placement_lifecycle.STANDBY_TRANSITIONS),
        ("Message processor, at its master", processing_lifecycle.PROCESSOR_TRANSITIONS),
        ("Worker process, as its master sees it", processing_lifecycle.WORKER_TRANSITIONS),
        ("Host of a deployment", rollout.TRANSITIONS),
    ):
        lines += ["", f"## {title}", "", "```mermaid", "stateDiagram-v2"]
        for (before, after), why in table.items():
            start = "[*]" if before == "new" else before
            lines.append(f"    {start} --> {after}: {why}")
        lines.append("```")
    return "\n".join(lines) + "\n"


def record_lines() -> str:
    """docs/understand/records.md."""
    lines = [
        "# Records",
        "",
        "Fields of a master's log records, to analyse latencies and events. Each master appends a",
        "JSON line per received query, served task and subtask, and event of its edge nodes to",
        "`current.jsonl` in its records folder; a full file becomes `records-<n>.jsonl`.",
        "`make docs` generates this page from `agent/wire/records.py`.",
        "",
        _prose(records.__doc__),
        "",
        (_prose(records.Record.__doc__)).removeprefix("Base. "),
    ]
    for kind in typing.get_args(records.AnyRecord):
        lines += ["", f"## {kind.__struct_config__.tag}", "", _prose(kind.__doc__), ""]
        lines += ["| field | type |", "|---|---|", f"| `record` | `{kind.__struct_config__.tag}` |"]
        lines += [
            f"| `{field.name}` | {_type_name(field.type)} |"
            for field in msgspec.structs.fields(kind)
        ]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """docs/run/metrics.md: its own text, and the tables of all metrics after that."""
    tables = (
        ("Metrics of every agent", families.COMMON),
        ("Metrics of a master", [f for f in master_families.MASTER if f not in families.COMMON]),
        (
            "Metrics of a registration service",
            [f for f in directory_families.DRS if f not in families.COMMON],
        ),
        (
            "Metrics of an edge node",
            [f for f in edge_families.EDGE if f not in families.COMMON],
        ),
        ("Metrics of a gateway", gateway_families.GATEWAY),
        ("Metrics of rooms, by a gateway", gateway_families.READINGS),
    )
    text = (DOCS / "run/metrics.md").read_text().partition(f"## {tables[0][0]}")[0]
    lines = []
    for title, rows in tables:
        lines += [
            f"## {title}",
            "",
            "| name | type | labels | unit | meaning |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            labels = ", ".join(f"`{label}`" for label in row.labels)
            lines.append(f"| `{row.name}` | {row.kind} | {labels} | {row.unit} | {row.meaning} |")
        lines.append("")
    lines += [
        "Every page but a gateway's has `process_*` (CPU, memory, open files) and `python_info` of",
        "the Prometheus client as well. A gateway has its own at `/metrics` and those of rooms at",
        "`/metrics/readings`, both [for tokens](../use/outputs.md#prometheus). These tables come",
        "from `families.py` and `*_families.py` of `agent/metrics` by `make docs`.",
    ]
    return text + "\n".join(lines) + "\n"


def lake() -> str:
    """docs/run/lake.md: its own text, and the tables after that."""
    parts = (
        ("Tables of the lake", base.TABLES),
        ("Tables of a report, from records", requests.TABLES),
        ("Tables of a report, about topics and masters", placing.TABLES),
        ("Tables of a report, from readings", sensing.TABLES),
        ("Tables of a report, about itself", report.TABLES),
        ("Models", models.TABLES),
    )
    assert sum(len(tables) for _, tables in parts) == len(lake_tables.ALL)
    text = (DOCS / "run/lake.md").read_text().partition(f"## {parts[0][0]}")[0]
    lines = []
    for title, tables in parts:
        lines += [f"## {title}", ""]
        for table in tables:
            lines += _lake_table(table)
    lines += ["These tables are made from `fleet/lake/schema/tables/` by `make docs`."]
    return text + "\n".join(lines) + "\n"


def _lake_table(table: Table) -> list[str]:
    key = ", ".join(f"`{name}`" for name in table.key)
    lines = [f"### {table.name}", "", f"{table.meaning} Key: {key}.", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in table.columns:
        kind = f"{column.type}, may be null" if column.nullable else column.type
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.meaning} |")
    return [*lines, ""]


def _prose(text: str | None) -> str:
    paragraphs = [" ".join(p.split()) for p in (text or "").split("\n\n")]
    return "\n\n".join(p.replace("`*_ms`", "`…_ms`") for p in paragraphs)


def _type_name(annotation: Any) -> str:
    """The plain type of an annotation, in words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_name(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type_name(a) for a in arguments))
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        return "table"
    names = {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}
    return names.get(annotation.__name__, "null")


def schema() -> str:
    """docs/understand/wire.schema.json: JSON Schema of every message, by its name."""

    def packed(kind: type) -> dict[str, Any]:
        if kind in (Int64Column, UInt8Column, UInt32Column):
            return {"type": "array", "items": {"type": "integer"}}
        if kind is Float32Column:
            return {"type": "array", "items": {"type": ["number", "null"]}}
        raise NotImplementedError(kind)

    all_unions = (
        unions.PublicRequest,
        unions.PublicReply,
        node_messages.NodeMessage,
        node_messages.MasterMessage,
        unions.OperatorRequest,
        unions.OperatorReply,
        directory.DirectoryRequest,
        directory.DirectoryReply,
    )
    kinds = list(dict.fromkeys(kind for union in all_unions for kind in typing.get_args(union)))
    _, components = msgspec.json.schema_components(
        kinds, schema_hook=packed, ref_template="#/$defs/{name}"
    )
    for component in components.values():
        # Python 3.13 strips the indentation of docstrings, the ones before keep it.
        component["description"] = _prose(component["description"])
    return (
        json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Sanderling messages, version 1.0",
                "anyOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
                "$defs": components,
            },
            indent=1,
        )
        + "\n"
    )


DOCUMENTS = {
    "run/configuration.md": configuration,
    "understand/states.md": states,
    "understand/records.md": record_lines,
    "run/metrics.md": metrics,
    "run/lake.md": lake,
    "understand/wire.schema.json": schema,
}


def main() -> None:
    """Write them all."""
    for name, make in DOCUMENTS.items():
        (DOCS / name).write_text(make())
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
