"""Every key of an inventory: what is wrong with one is told like that of an agent's file."""

from __future__ import annotations

import math
import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from agent.wire.config import ConfigError, parse
from agent.wire.config_words import PATTERNS
from fleet.inventory.model import MODELS, Inventory, Model
from fleet.inventory.problems import problems
from tests.fleet.inventory.inventories import PLAIN, read
from tests.wire.test_config import numbers, with_value

DOCS = Path(__file__).parents[3] / "docs"
NODE = '[[iad.node]]\nname = "n1"\naddress = "10.1.1.1"\n'
N1 = "iad iad1 (first [[iad]]): node n1 (first [[iad.node]]): "


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[person]]", "[[persn]]", "unknown key persn; did you mean person?"),
        ("[[iad]]", "[relases]\n[[iad]]", "unknown key relases; did you mean releases?"),
        ("[[iad]]", "[ssh]\nprt = 1\n[[iad]]", "unknown key ssh.prt; did you mean ssh.port?"),
        (NODE, f"{NODE}adress = 1\n", f"{N1}unknown key adress; did you mean address?"),
        (
            NODE,
            f'{NODE}sensor = [{{ drver = "dht" }}]\n',
            f"{N1}the first [[iad.node.sensor]]: unknown key drver; did you mean driver?",
        ),
        (
            NODE,
            f'{NODE}sensor = [{{ driver = "dht", channels.t.offst = 1 }}]\n',
            "sensor dht (first [[iad.node.sensor]]): channels.t: unknown key offst; did you mean",
        ),
        (NODE, f"{NODE}history.retention = 1\n", f"{N1}history: unknown key retention; did you"),
        (NODE, f'{NODE}model = "pi5"\n', f"{N1}model must be pi3, pi4, zero2w or host, not 'pi5'"),
        (NODE, NODE.replace("10.1.1.1", "a b"), f"{N1}address must be a host name or address"),
        (NODE, f'{NODE}user = "A"\n', f"{N1}user must be a user name of 1–32 lower-case letters"),
        (NODE, f'{NODE}release = "-"\n', f"{N1}release must be a release such as 0.1.0-3f9c2a1b"),
        (
            "[iad.master]",
            "[iad.master.records]\ndirctory = ''\n[iad.master]",
            "iad iad1 (first [[iad]]): master.records: unknown key dirctory; did you mean dir",
        ),
        ('["client"]', '["boss"]', "roles, first entry must be client or operator, not 'boss'"),
        ('["client"]', '["client"]\nrate_per_s = 0', "rate_per_s must be above 0"),
        ("[iad.master]\naddress", "[iad.master]\nlisten", "master.address is missing"),
    ],
)
def test_one_line_says_which_key_is_wrong(old: str, new: str, says: str):
    assert old in PLAIN
    with pytest.raises(ConfigError) as refused:
        read(PLAIN.replace(old, new, 1))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_pattern_has_words():
    schema = msgspec.json.schema(Inventory)
    used = set(_patterns(schema))
    assert len(used) > 5
    assert used <= PATTERNS.keys()


def _patterns(schema: object):
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        for value in schema.values():
            yield from _patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _patterns(value)


def test_every_number_is_bounded():
    whole = tomllib.loads(PLAIN)
    # Of a table that may be left out there are not several.
    single = {"history", "pods", "homes", "clone", "slo", "metrics", "overlay"}
    found = [
        (tuple([s for i, s in enumerate(place) if s != 0 or place[i - 1] not in single]), kind)
        for place, kind in numbers(Inventory)
    ]
    assert len(found) > 40
    for place, kind in found:
        assert kind.le is not None, place
        assert kind.ge is not None or kind.gt is not None, place
        beyond = max(kind.le + 1, math.nextafter(kind.le, math.inf))
        for value, good in ((kind.le, True), (beyond, False)):
            complete = _complete(with_value(whole, place, value))
            with nullcontext() if good else pytest.raises(ConfigError, match=" must be "):
                parse(complete, Inventory, "fleet.toml")


def _complete(table: dict) -> dict:
    """With what a table that was made for a place must have."""
    for jump in table.get("jump", ()):
        jump.update(name="gate", address="10.9.0.1")
    for iad in table["iad"]:
        if "overlay" in iad:
            iad["overlay"].setdefault("vertex", "a")
        for webhook in iad["master"].get("webhook", ()):
            webhook.update(name="pager", url="http://h/", filter="*")
    for row in [*table["group"], *(node for iad in table["iad"] for node in iad["node"])]:
        for sensor in row.get("sensor", ()):
            sensor.setdefault("driver", "synthetic")
        if "homes" in row:
            row["homes"].setdefault("other", ["iad2"])
        if "clone" in row:
            row["clone"].setdefault("processor", "comfort_index")
            if "slo" in row["clone"]:
                row["clone"]["slo"] = {"percentile": 90, "latency_ms": 1, **row["clone"]["slo"]}
        for trigger in row.get("trigger", ()):
            trigger.update(name="hot", condition="temperature > 30")
    return table


def test_the_models_are_told_once():
    assert set(MODELS) == set(Model.__args__)


def test_the_example_of_the_inventory_page_is_sound():
    text, *_ = re.findall(r"```toml\n(.*?)```", (DOCS / "run/inventory.md").read_text(), re.DOTALL)
    assert problems(read(text)) == []
