"""A reader of Home Assistant's MQTT discovery: entities, as its documents describe them.

Written against https://www.home-assistant.io/integrations/mqtt/ and not against the gateway: it
knows topics and templates only from the documents.
"""

import json
import re
from typing import NamedTuple

TEMPLATE = re.compile(r"\{\{ value_json\.(\w+)\['(\w+)'\] \}\}")
MANDATORY = {"p", "uniq_id"}


class Entity(NamedTuple):
    device: str
    platform: str
    device_class: str
    unit: str
    # None: unknown; so it is before the first message.
    state: object
    available: bool


def entities(newest):
    """Unique id → entity, of the newest payload of each topic."""
    found = {}
    for topic, payload in newest.items():
        if re.fullmatch(r"homeassistant/device/[A-Za-z0-9_-]+/config", topic) and payload:
            found |= _of_document(json.loads(payload), newest)
    return found


def _of_document(document, newest):
    device, origin = document["dev"], document["o"]
    assert device["ids"], "a device is known by its ids"
    assert origin["name"], "who tells is mandatory"
    found = {}
    for part in document["cmps"].values():
        if part.keys() == {"p"}:  # an entity that is to be removed
            continue
        assert part.keys() >= MANDATORY, part
        told = newest.get(part.get("stat_t") or document["stat_t"])
        topics = [each["t"] for each in part.get("avty") or document["avty"]]
        found[part["uniq_id"]] = Entity(
            device["name"],
            part["p"],
            part.get("dev_cla", ""),
            part.get("unit_of_meas", ""),
            _state(part, told),
            all(newest.get(topic) == b"online" for topic in topics),
        )
    return found


def _state(part, told):
    if told is None:
        return None
    if part["p"] == "binary_sensor":
        return {b"ON": True, b"OFF": False}[told]
    value = json.loads(told)
    for name in TEMPLATE.fullmatch(part["val_tpl"]).groups():
        value = value[name]
    return value
