"""TOML writer for configuration structs; the standard library only reads TOML."""

from __future__ import annotations

import json
import re
from datetime import date, time
from typing import Any, Final

import msgspec

from agent.wire.config import Section

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def dump(config: Section) -> str:
    """Text that `agent.wire.config.load` reads back as an equal struct. Default values are left
    out, so that a later version's defaults apply."""
    return "\n".join(_table(_chosen(config), "")).lstrip("\n") + "\n"


def _chosen(section: Section) -> dict[str, Any]:
    """The fields that differ from their default."""
    found: dict[str, Any] = {}
    for each in msgspec.structs.fields(section):
        value = getattr(section, each.name)
        default = each.default
        if each.default_factory is not msgspec.NODEFAULT:
            default = each.default_factory()
        if value != default:
            found[each.encode_name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return _chosen(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _table(table: dict[str, Any], name: str) -> list[str]:
    lines, below = [], []
    for key, value in table.items():
        if value is None:  # TOML has no null; a missing key means the same
            continue
        path = f"{name}.{_key(key)}" if name else _key(key)
        if isinstance(value, dict):
            below += ["", f"[{path}]", *_table(value, path)]
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            for row in value:
                below += ["", f"[[{path}]]", *_table(row, path)]
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return lines + below


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        rows = [f"{_key(key)} = {_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(rows)} }}" if rows else "{}"
    if isinstance(value, float):
        return repr(value)  # inf and nan too
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    # JSON strings, integers and booleans are valid TOML, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
