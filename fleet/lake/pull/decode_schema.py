"""Arrow schema of the landing columns, derived from their Spark types."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pyarrow as pa

PLAIN: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}


@cache
def schema_of(ddl: str) -> Any:
    """The `pyarrow.Schema` of a landing file; KeyError for a type that no such file has."""
    return pa.schema([(name, _type(kind)) for name, kind in _fields(ddl, " ")])


def _type(kind: str) -> Any:
    word, _, inner = kind.partition("<")
    if word == "array":
        return pa.list_(_type(inner[:-1]))
    if word == "struct":
        return pa.struct([(name, _type(each)) for name, each in _fields(inner[:-1], ": ")])
    return PLAIN[kind]


def _fields(text: str, between: str) -> list[tuple[str, str]]:
    """Names and types; commas within angle brackets are the types' own."""
    found = []
    depth = begin = 0
    for at, sign in enumerate(f"{text}, "):
        depth += (sign == "<") - (sign == ">")
        if sign == "," and not depth:
            name, _, kind = text[begin:at].strip().partition(between)
            found.append((name, kind))
            begin = at + 1
    return found
