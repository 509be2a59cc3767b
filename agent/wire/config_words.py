"""Error messages for configuration files; imported only on an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from agent.wire.areas import AREA_PATTERN
from agent.wire.base import KEY_PATTERN
from agent.wire.listing import alike

KINDS: Final = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text, in quotes",
    "bool": "true or false",
    "array": "a list, in brackets",
    "object": "a table",
}
BOUNDS: Final = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
# Keys that identify one of several tables of a kind in messages.
LABELS: Final = ("name", "iad", "driver")
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
STEP: Final = re.compile(r"\[(\d+|\.\.\.)\]|([^.\[\]]+)")

# A description of each pattern in configurations; tests/wire/test_config.py finds missing ones.
PATTERNS: Final = {
    r"^[A-Za-z0-9_.-]{1,64}$(?!\n)": "a name of 1–64 letters, digits, _ . -",
    r"^[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}$(?!\n)": "a device: IAD/NODE, such as iad4/n3",
    r"^[a-z][a-z0-9_]{0,31}$(?!\n)": (
        "a channel: a lower-case letter, then at most 31 more, digits or _"
    ),
    AREA_PATTERN: "an area: a path of at most 16 names, such as b1/f4/r413",
    r"^([a-z][a-z0-9_]{0,31})?$(?!\n)": (
        "a channel: a lower-case letter, then at most 31 more, digits or _; or empty"
    ),
    r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)": "a name of 1–64 letters, digits, _ . -, or empty",
    r"^[^\x00]*$": "a path without NUL characters",
    r"^/[^\x00:]*$": "an absolute path without colons",
    r"^([^:/\s]+:[0-9]{1,5})?$": "host:port, or empty",
    r"^(?! )[^\x00-\x1f\x7f-\x9f]{1,32}(?<! )$(?!\n)": (
        "1–32 printable characters, no blank at either end"
    ),
    r"^(?! )[^\x00-\x1f\x7f-\x9f]{1,64}(?<! )$(?!\n)": (
        "1–64 printable characters, no blank at either end"
    ),
    KEY_PATTERN: "a public key of 40 characters",
    r"^[1-9][0-9]{0,8}(m|k|M|G|Ki|Mi|Gi)?$(?!\n)": "a quantity such as 250m or 64Mi",
    r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?$(?!\n)": "a host name or address",
    r"^[a-z_][a-z0-9_-]{0,31}$(?!\n)": "a user name of 1–32 lower-case letters, digits, _ -",
    r"^([A-Za-z0-9][A-Za-z0-9_.+-]{0,63})?$(?!\n)": (
        "a release such as 0.1.0-3f9c2a1b, as `fleet releases` lists them, or empty"
    ),
}


def explain(text: str, kind: Any, path: str, data: Any) -> str:
    """A readable message for a ValidationError: `text` at `path` ("pool[0].iad") of `data`, which
    is not a valid `kind`."""
    steps: list[str | int] = []
    annotation = kind
    for index, key in STEP.findall(path):
        here = at(data, steps)
        if index == "...":  # msgspec's placeholder for a name chosen by the user
            annotation = _inside(annotation)
            steps.append(next(name for name, row in here.items() if not _valid(row, annotation)))
        elif index:
            annotation = _inside(annotation)
            steps.append(int(index))
        else:
            fields = msgspec.structs.fields(section_of(annotation) or annotation)
            annotation = next(field.type for field in fields if field.encode_name == key)
            steps.append(key)
    if text.startswith("Object missing required field "):
        key = text.split("`")[1]
        fields = msgspec.structs.fields(section_of(annotation) or annotation)
        missing = next(field.type for field in fields if field.encode_name == key)
        if section_of(missing) and not steps:
            return f"{_header(key, missing)} is missing"
        return f"{place(data, [*steps, key])} is missing"
    where = place(data, steps)
    table = ".".join([step for step in steps if isinstance(step, str)])
    if (rule := _rule(text, annotation, table)) is not None:
        return f"{where} {rule}"
    return f"{where}: {text}" if where else text


def refuse_unknown(data: Any, kind: Any) -> str | None:
    """A message about the first key of `data` that `kind` does not have, if any."""
    return next(_unknown(data, data, kind, []), None)


def place(data: Any, steps: list[str | int]) -> str:
    """The place that `steps` lead to, in the file's terms: ``node.name``, ``sensor b (second
    [[sensor]]): channels.temperature.offset``."""
    said, keys, header = "", "", ""
    for i, step in enumerate(steps):
        if isinstance(step, str):
            keys += f".{step}" if keys else step
            header += f".{step}" if header else step
        elif isinstance(row := at(data, steps[: i + 1]), dict):
            found = row_place(keys, row, step, header)
            said += f": {found}" if said else found
            keys = ""
        else:
            keys += f", {_ordinal(step)} entry"
    return ": ".join([part for part in (said, keys) if part])


def row_place(table: str, row: dict[str, Any], index: int, header: str = "") -> str:
    """``sensor b (second [[sensor]])``: the table number `index` of those named `table`, under
    `header` in the file."""
    which = f"{_ordinal(index)} [[{header or table}]]"
    for label in (row.get(key) for key in LABELS):
        if isinstance(label, str) and 0 < len(label) <= 64 and label.isprintable():
            return f"{table} {label} ({which})"
    return f"the {which}"


def at(data: Any, steps: list[str | int]) -> Any:
    """The value that `steps` lead to."""
    for step in steps:
        data = data[step]
    return data


def misplaced(text: str, error: ValueError) -> str:
    """A TOML error, with a hint if ``[sensor.options]`` precedes its ``[[sensor]]``, if the text
    begins with a mark, or has another encoding than UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in error.object:
            return "it is UTF-16, or no text; save it as UTF-8"
        at = error.object.count(b"\n", 0, error.start) + 1
        return f"line {at} is no UTF-8; save it as UTF-8"
    if "\0" in text:
        return "it is UTF-16, or no text; save it as UTF-8"
    if text.startswith("\ufeff"):
        return "it begins with a byte-order mark; save it as UTF-8 without one"
    if found := re.search(r"Cannot overwrite a value \(at line (\d+)", str(error)):
        lines = text.splitlines()[: int(found[1])]
        table = lines[-1].strip().removeprefix("[[").partition("]]")[0].strip()
        for number, line in enumerate(lines, 1):
            if table and line.replace(" ", "").startswith(f"[{table}."):
                return (
                    f"line {number}: {line.strip()} stands above the first [[{table}]]: put it "
                    f"below the [[{table}]] that it belongs to"
                )
    return f"not valid TOML: {error}"


def _unknown(data: Any, here: Any, kind: Any, steps: list[str | int]) -> Iterator[str]:
    known = {f.encode_name: f.type for f in msgspec.structs.fields(kind)}
    for key, value in here.items() if isinstance(here, dict) else ():
        if key not in known:
            yield _unknown_key(key, place(data, steps), known)
            continue
        section = section_of(known[key])
        if section is None:
            continue
        if not is_table_of_sections(known[key]) and not isinstance(value, list):
            yield from _unknown(data, value, section, [*steps, key])
        elif isinstance(value, dict | list):
            rows = value.items() if isinstance(value, dict) else enumerate(value)
            for name, row in rows:
                yield from _unknown(data, row, section, [*steps, key, name])


def _unknown_key(key: str, where: str, known: dict[str, Any]) -> str:
    # In a table of its own, `where` is its keys; in one of several, words for it.
    inline = where and ":" not in where and " " not in where
    prefix = f"{where}." if inline else ""
    said = f"unknown key {prefix}{key}" if inline or not where else f"{where}: unknown key {key}"
    if near := alike(key, known, 0.5):
        return f"{said}; did you mean {prefix}{near}?"
    said += f"; known: {', '.join(known)}"
    if "driver" in known:
        said += "; a driver's own options go into [sensor.options]"
    return said


def _header(table: str, annotation: Any) -> str:
    return f"[{table}]" if annotation is section_of(annotation) else f"[[{table}]]"


def _rule(text: str, annotation: Any, table: str) -> str | None:
    """The rule for the value; `table` is its place without indices, as in a TOML header."""
    if text.startswith("Invalid enum value "):
        *others, last = map(str, _choices(annotation))
        choices = f"{', '.join(others)} or {last}" if others else last
        return f"must be {choices}, not {text.removeprefix('Invalid enum value ')}"
    if (found := re.fullmatch(r"Expected `(.+?)`(?:, got `(\w+)`| (.+))", text)) is None:
        return None
    wanted, got, bound = found.groups()
    kind = wanted.split(" | ")[0]
    if bound is not None:
        return _bounded(kind, bound)
    if kind == "array" and section_of(annotation):
        return f"must be a list of tables: write [[{table}]] in place of [{table}]"
    if kind == "object" and got == "array":
        return f"must be one table: write [{table}] in place of [[{table}]]"
    if kind not in KINDS:
        return None
    plain = kind in ("float", "int", "bool") and got == "str"
    return f"must be {KINDS[kind]}" + (", without quotes" if plain else "")


def _bounded(kind: str, bound: str) -> str | None:
    for pattern, words in PATTERNS.items():
        if bound == f"matching regex {pattern!r}":
            return f"must be {words}"
    if (found := re.fullmatch(r"(of length )?(>=|>|<=|<) (\S+)", bound)) is None:
        return None
    length, sign, number = found.groups()
    number = number.removesuffix(".0")
    if not length:
        return f"must be {BOUNDS[sign]} {number}"
    if sign == ">=" and number == "1":
        return "must not be empty"
    if kind == "str":
        return f"must be {BOUNDS[sign]} {number} characters long"
    return f"must have {BOUNDS[sign]} {number} entries"


def _valid(value: Any, annotation: Any) -> bool:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def _inside(annotation: Any) -> Any:
    """The annotation of the elements of a list, or of a table with names chosen by the user."""
    while (inner := get_args(annotation)) and get_origin(annotation) not in (tuple, list, dict):
        annotation = next((a for a in inner if get_args(a)), inner[0])
    return inner[-1] if get_origin(annotation) is dict else inner[0]


def _ordinal(index: int) -> str:
    return ORDINALS[index] if index < len(ORDINALS) else f"{index + 1}th"


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of the Literal inside an annotation, and the text for a number beside it."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if annotation is int:
        return (KINDS["int"],)
    return tuple([found for a in get_args(annotation) for found in _choices(a)])


def section_of(annotation: Any) -> type[Struct] | None:
    """The section inside an annotation such as ``tuple[PoolMember, ...]``, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next((found for a in get_args(annotation) if (found := section_of(a))), None)


def is_table_of_sections(annotation: Any) -> bool:
    """Whether an annotation is a table whose names the user chooses: ``dict[str, PoolMember]``."""
    if get_origin(annotation) is dict:
        return True
    return get_origin(annotation) is Annotated and is_table_of_sections(get_args(annotation)[0])
