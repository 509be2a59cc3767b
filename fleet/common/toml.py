"""TOML writer for configuration structs; the standard library only reads TOML."""

from __future__ import annotations

from typing import Any

import msgspec
import tomli_w

from agent.wire.config import Section


def dump(config: Section) -> str:
    """The text that `agent.wire.config.load` reads back as an equal struct. What is as by default
    is left out, so that a later version's defaults hold."""
    return tomli_w.dumps(_chosen(config))


def _chosen(section: Section) -> dict[str, Any]:
    """The fields that differ from their default."""
    found: dict[str, Any] = {}
    for each in msgspec.structs.fields(section):
        value = getattr(section, each.name)
        default = each.default
        if each.default_factory is not msgspec.NODEFAULT:
            default = each.default_factory()
        if value is not None and value != default:
            found[each.encode_name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return _chosen(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        # TOML has no word for None; leaving the key out says the same.
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return value
