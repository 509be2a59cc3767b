"""Home Assistant's discovery documents: one device an area, never a node; no command topics.

A device's document is retained. It names one sensor a channel and one binary sensor a trigger. A
component that is no longer there is named once more with its platform only, which removes its
entity; a device is removed by an empty document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from agent.gateway.outputs.retained import Components
from agent.gateway.outputs.topics import Topics

BIRTH: Final = b"online"
MAX_SLUG: Final = 40
# Device classes that take the unit, by the channel's name without what numbers it.
CLASSES: Final = {
    ("temperature", "°C"): "temperature",
    ("humidity", "%"): "humidity",
    ("pressure", "hPa"): "atmospheric_pressure",
    ("co2", "ppm"): "carbon_dioxide",
    ("light", "lx"): "illuminance",
}
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]+")


def device_id(gateway: str, area: str) -> str:
    """Letters, digits, ``_`` and ``-`` only, readable, and different for different areas."""
    slug = _NOT_IN_AN_ID.sub("_", area)[:MAX_SLUG]
    digest = sha256(f"{gateway}\n{area}".encode()).hexdigest()[:10]
    return f"sanderling_{slug}_{digest}"


class Discovery:
    """The documents of one gateway, for a broker on which Home Assistant discovers at `prefix`."""

    def __init__(self, topics: Topics, gateway: str, prefix: str, version: str) -> None:
        self.status = f"{prefix}/status"
        self._topics = topics
        self._gateway = gateway
        self._prefix = prefix
        self._origin = {"name": "Sanderling", "sw": version}

    def topic(self, area: str) -> str:
        """Topic at which the document of an area is retained."""
        return f"{self._prefix}/device/{device_id(self._gateway, area)}/config"

    def components(self, channels: Mapping[str, str], triggers: Iterable[str]) -> Components:
        """The components of an area with these channels (with their units) and triggers."""
        return dict.fromkeys(channels, "sensor") | {
            _trigger_id(trigger): "binary_sensor" for trigger in triggers
        }

    def document(
        self,
        area: str,
        name: str,
        channels: Mapping[str, str],
        triggers: Iterable[str],
        gone: Components,
    ) -> bytes:
        """The document of an area. `gone`: components that Home Assistant may have and that are no
        longer there."""
        own = device_id(self._gateway, area)
        parts: dict[str, dict[str, Any]] = {
            channel: _sensor(own, channel, unit) for channel, unit in channels.items()
        }
        for trigger in triggers:
            parts[_trigger_id(trigger)] = {
                "p": "binary_sensor",
                "uniq_id": f"{own}_{_trigger_id(trigger)}",
                "name": trigger,
                "dev_cla": "problem",
                "stat_t": self._topics.raised(trigger, area),
                # A trigger stays raised while nobody measures.
                "avty": [{"t": self._topics.status}],
            }
        for component, platform in gone.items():
            parts.setdefault(component, {"p": platform})
        return msgspec.json.encode(
            {
                "dev": {"ids": [own], "name": name or area, "mf": "Sanderling", "mdl": area},
                "o": self._origin,
                "cmps": parts,
                "stat_t": self._topics.state(area),
                "avty": [{"t": self._topics.status}, {"t": self._topics.availability(area)}],
                "avty_mode": "all",
                "qos": 1,
            }
        )


def _sensor(own: str, channel: str, unit: str) -> dict[str, Any]:
    part = {
        "p": "sensor",
        "uniq_id": f"{own}_{channel}",
        "stat_cla": "measurement",
        # Behind a point, `values` and `items` would be methods of the object.
        "val_tpl": f"{{{{ value_json.channels['{channel}'] }}}}",
    }
    if unit:
        part["unit_of_meas"] = unit
    kind = channel if (channel, unit) in CLASSES else re.sub(r"_?[0-9]+$", "", channel)
    if found := CLASSES.get((kind, unit)):
        part["dev_cla"] = found
    # Home Assistant names it after its class, and prefixes that with the device's name.
    if not found or channel != kind:
        part["name"] = channel.replace("_", " ").capitalize()
    return part


def _trigger_id(trigger: str) -> str:
    # With a hyphen, which no channel's name has.
    return f"trigger-{_NOT_IN_AN_ID.sub('_', trigger)}-{sha256(trigger.encode()).hexdigest()[:6]}"


def is_birth(payload: bytes) -> bool:
    """Whether this is what Home Assistant says when it has started. Whatever else comes is no
    error."""
    return payload == BIRTH
