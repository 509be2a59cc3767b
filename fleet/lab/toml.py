"""Configuration structs as TOML text; the standard library only reads it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from agent.wire.config import Section


def dump(config: Section) -> str:
    """The text that `agent.wire.config.load` reads back as an equal struct."""
    return "\n".join(_table(msgspec.to_builtins(config), "")) + "\n"


def _table(table: dict[str, Any], name: str) -> list[str]:
    lines, below = [], []
    for key, value in table.items():
        if value is None:  # TOML has no word for it; leaving the key out says the same
            continue
        path = f"{name}.{key}" if name else key
        if isinstance(value, dict):
            below += ["", f"[{path}]", *_table(value, path)]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            for row in value:
                below += ["", f"[[{path}]]", *_table(row, path)]
        else:
            lines.append(f"{key} = {_value(value)}")
    return lines + below


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    # A JSON string, number or boolean is a TOML one, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
