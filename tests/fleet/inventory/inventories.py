"""Inventories for tests: a plain one, and any that the keys admit."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import strategies as st

from agent.wire import config
from fleet.inventory.model import Inventory

PLAIN = """
name = "campus"
[[group]]
name = "sensing"
[[group.sensor]]
driver = "synthetic"
[[group]]
name = "canary"
canary = true
[[person]]
name = "app"
roles = ["client"]
[[iad]]
name = "iad1"
[iad.master]
address = "10.1.0.10"
[[iad.node]]
name = "n1"
address = "10.1.1.1"
areas = ["b1/f1/r1"]
groups = ["sensing", "canary"]
[[iad.node]]
name = "n2"
address = "10.1.1.2"
areas = ["b1/f1/r2"]
groups = ["sensing"]
[[iad]]
name = "iad2"
[iad.master]
address = "10.2.0.10"
[[iad.node]]
name = "n1"
address = "10.2.1.1"
areas = ["b2/f1/r1"]
groups = ["sensing"]
"""


def read(text: str) -> Inventory:
    """An inventory, contradictions or not."""
    return config.parse(tomllib.loads(text), Inventory, "fleet.toml")


PORT_KINDS = ("public", "nodes", "operator")
# Few of each, so that what should differ is often the same.
NAMES = st.sampled_from(["a", "b", "n1", "n2", "master", "fleet", "..", "x" * 64])
AREAS = st.lists(
    st.sampled_from(["b1", "b1/f1", "b1/f1/r1", "b2", "b2/f1"]), min_size=1, max_size=3
)
ADDRESSES = st.sampled_from(
    [
        "10.0.0.1",
        "10.0.0.2",
        "n1.lan",
        "N1.lan",
        "127.0.0.1",
        "localhost",
        "fe80::1",
        "h:22",
        "a:b:c",
    ]
)
PORTS = st.sampled_from([22, 5700, 5701, 5702, 9701])
RELEASES = st.sampled_from(["", "0.1.0-3f9c2a1b", "0.2.0-00000000"])
METRICS = st.sampled_from([{}, {"address": "127.0.0.1:9701"}, {"address": "127.0.0.1:5700"}])
SENSORS = st.lists(
    st.fixed_dictionaries(
        {"driver": st.sampled_from(["synthetic", "dht", "dth"])},
        optional={
            "name": st.sampled_from(["a", "b"]),
            "interval_s": st.floats(0.01, 100.0),
            "options": st.dictionaries(st.sampled_from(["seed", 'q"', "ü"]), st.integers(0, 9)),
            "channels": st.fixed_dictionaries(
                {}, optional={"temperature": st.just({"offset": -0.5, "name": "t"})}
            ),
        },
    ),
    max_size=2,
)
SOUND_TRIGGERS = st.sampled_from([[], [{"name": "hot", "condition": "humidity > 30"}]])
TRIGGERS = SOUND_TRIGGERS | st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b"]), "condition": st.sampled_from(["co2 > 9", "max(x)"])},
        optional={"clear": st.sampled_from(["", "co2"]), "areas": AREAS},
    ),
    max_size=2,
)
HISTORIES = st.fixed_dictionaries({}, optional={"retention_s": st.floats(1.0, 1e5)})
PODS = st.fixed_dictionaries({}, optional={"count": st.integers(1, 4)})
HOMES = st.fixed_dictionaries(
    {"other": st.lists(NAMES | st.sampled_from(["iad1", "iad2"]), min_size=1, max_size=3)},
    optional={"follow_s": st.floats(0.0, 1e5)},
)
SSH_KEYS = st.lists(
    st.sampled_from(["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa ü", "-----BEGIN PRIVATE KEY"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    max_size=2,
)


def _table(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


NODES = _table(
    {"name": NAMES, "address": ADDRESSES, "areas": AREAS},
    groups=st.lists(NAMES, max_size=3),
    model=st.sampled_from(["pi3", "pi4", "zero2w", "host"]),
    release=RELEASES,
    port=PORTS,
    sensor=SENSORS,
    trigger=TRIGGERS,
    history=HISTORIES,
    pods=PODS,
    homes=HOMES,
    metrics=METRICS,
)
MASTERS = _table(
    {"address": ADDRESSES},
    local=st.booleans(),
    listen=ADDRESSES,
    nodes_address=ADDRESSES,
    public_port=PORTS,
    nodes_port=PORTS,
    operator_port=PORTS,
    port=PORTS,
    release=RELEASES,
    metrics=METRICS,
    records=_table({}, directory=st.sampled_from(["", "r", "/var/lib/sanderling/r"])),
    notifications=_table({}, remembered=st.sampled_from([1_000, 65_536])),
)
OFFERS = st.lists(_table({"capability": st.just("temperature"), "areas": AREAS}), max_size=1)
ADVERTISED = st.lists(
    _table({"filter": st.sampled_from(['metric = "co2"', "*", "value >"])}), max_size=2
)
PLACES = _table({"vertex": st.sampled_from("ab")}, cluster=st.integers(0, 2), advertise=ADVERTISED)
OVERLAYS = _table(
    {},
    links=st.lists(st.sampled_from([["a", "b"], ["b", "a"], ["b", "c"], ["a", "a"]]), max_size=2),
    clusters=st.integers(1, 3),
    routing=st.sampled_from(["idr", "snr"]),
)
IADS = _table(
    {"name": NAMES, "master": MASTERS},
    overlay=PLACES,
    areas=AREAS,
    offers=OFFERS,
    node=st.lists(NODES, max_size=3),
)
GROUPS = _table(
    {"name": NAMES},
    release=RELEASES,
    canary=st.booleans(),
    sensor=SENSORS,
    trigger=TRIGGERS,
    history=HISTORIES,
    pods=PODS,
    homes=HOMES,
)
PERSONS = _table(
    {"name": NAMES, "roles": st.sampled_from([["client"], ["operator"], ["client", "operator"]])},
    ssh_keys=SSH_KEYS,
    services=st.lists(NAMES, max_size=2),
    rate_per_s=st.floats(0.1, 100.0),
)


def _inventory(table: dict[str, Any]) -> Inventory:
    return config.parse(table, Inventory, "fleet.toml")


# What the keys admit, mostly full of contradictions.
ANY = _table(
    {"name": NAMES, "iad": st.lists(IADS, min_size=1, max_size=3)},
    group=st.lists(GROUPS, max_size=3),
    person=st.lists(PERSONS, max_size=3),
    overlay=OVERLAYS,
    releases=_table({}, pin=RELEASES),
    ssh=_table({}, port=PORTS, user=st.sampled_from(["root", "fleet"])),
).map(_inventory)


@st.composite
def sound(draw: st.DrawFn) -> Inventory:
    """Without contradictions."""
    groups = [draw(GROUPS) | {"name": f"g{i}"} for i in range(draw(st.integers(0, 2)))]
    for group in groups:
        group["sensor"] = _sound_sensors(draw)
        group["trigger"] = draw(SOUND_TRIGGERS)
        group.pop("homes", None)
    iads = []
    count = draw(st.integers(1, 3))
    for i in range(1, count + 1):
        nodes = []
        for k in range(1, draw(st.integers(1, 3)) + 1):
            node = draw(NODES) | {"name": f"n{k}", "address": f"10.{i}.1.{k}", "metrics": {}}
            node["groups"] = [draw(st.sampled_from(groups))["name"]] if groups else []
            node["sensor"] = _sound_sensors(draw)
            node["trigger"] = draw(SOUND_TRIGGERS)
            node.pop("homes", None)
            others = [f"iad{other}" for other in range(1, count + 1) if other != i]
            if others and draw(st.booleans()):
                # Nodes of different IADs that meet at a master have different names.
                node["name"] = f"n{i}-{k}"
                node["homes"] = {"other": others, "follow_s": draw(st.sampled_from([0.0, 60.0]))}
            nodes.append(node)
        master = draw(MASTERS) | {"address": f"10.{i}.0.1", "metrics": {}, "listen": "0.0.0.0"}
        master |= {f"{kind}_port": 5700 + 10 * i + n for n, kind in enumerate(PORT_KINDS)}
        master["nodes_address"] = draw(st.sampled_from([f"10.{i}.0.2", f"10.{i}.0.1"]))
        iad = {"name": f"iad{i}", "master": master, "node": nodes}
        iads.append(iad)
    for iad in iads:
        if draw(st.booleans()):
            at_home = [
                node
                for each in iads
                for node in each["node"]
                if each is iad or iad["name"] in node.get("homes", {}).get("other", ())
            ]
            covered = {area.partition("/")[0] for node in at_home for area in node["areas"]}
            iad["areas"] = sorted(covered)
    overlay = _sound_overlay(draw, iads)
    people = [draw(PERSONS) | {"name": f"p{i}", "ssh_keys": []} for i in range(2)]
    made = {"name": "f", "iad": iads, "group": groups, "person": people}
    return _inventory(made | ({"overlay": overlay} if overlay is not None else {}))


def _sound_overlay(draw: st.DrawFn, iads: list[dict[str, Any]]) -> dict[str, Any] | None:
    """None, or one of one or two vertices; IADs that are left have no place."""
    shapes = [None, ["a"]] + ([["a", "b"]] if len(iads) > 1 else [])
    vertices = draw(st.sampled_from(shapes))
    if vertices is None:
        return None
    clusters = draw(st.integers(1, len(iads) // len(vertices)))
    places = [(vertex, cluster) for vertex in vertices for cluster in range(clusters)]
    for iad, (vertex, cluster) in zip(iads, places, strict=False):
        iad["overlay"] = {"vertex": vertex, "cluster": cluster}
        iad["overlay"]["advertise"] = [{"filter": "*"}] * draw(st.integers(0, 1))
    routing = draw(st.sampled_from(["idr", "snr"]))
    return {"links": [vertices] if vertices[1:] else [], "clusters": clusters, "routing": routing}


def _sound_sensors(draw: st.DrawFn) -> list[dict[str, Any]]:
    sensors = draw(SENSORS) or [{}]
    return [
        s
        | {"driver": "synthetic", "name": f"s{i}"}
        | {"options": {key: n for key, n in s.get("options", {}).items() if key == "seed"}}
        for i, s in enumerate(sensors)
    ]
