"""Hosts as seen, from data files: how each differs from `healthy.json`, and what is found."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from agent.wire.operator import IadStatus, NodeStatus
from fleet.inspect.facts.diagnosis import Diagnosis
from fleet.inspect.facts.facts import parse
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inventory.model import Iad, Master, Node
from fleet.inventory.parties import HostOf
from fleet.ssh.errors import HostError

DATA = Path(__file__).parent / "data" / "hosts"
CASES = sorted(path.stem for path in DATA.glob("*.json"))
NODE = Node(name="n3", address="10.0.4.13", areas=("b1/f4/r413",), model="pi4")
IAD = Iad(name="iad4", master=Master(address="10.0.4.1"), node=(NODE,))


def merged(base, change):
    """`base` with what `change` has instead, table by table."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}
    return change


def case(name: str) -> tuple[HostSeen, list[list[str]]]:
    """What was seen, and what shall be found: severity, check, and a part of the text."""
    change = json.loads((DATA / f"{name}.json").read_text())
    table = merged(json.loads((DATA / "healthy.json").read_text()), change)
    nodes = (msgspec.convert(table["node"], NodeStatus),) if table["node"] else ()
    status = IadStatus("iad4", "edfq", nodes, (), 0, 0, {})
    error = table.get("error")
    seen = HostSeen(
        host=HostOf(IAD, NODE),
        iad=IadSeen("iad4", "tcp://10.0.4.1:5702", status),
        facts=parse(table["facts"]) if table["facts"] else None,
        error=HostError(error["kind"], error["text"]) if error else None,
        wanted=table["wanted"],
        diagnosis=msgspec.convert(table["diagnosis"], Diagnosis) if "diagnosis" in table else None,
        skew_s=table["skew_s"] if table["facts"] else None,
        files=table["files"],
    )
    return seen, table["expected"]
