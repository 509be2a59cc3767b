"""What msgspec says is wrong with a config value, in words; imported only when something is."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from agent.wire.areas import AREA_PATTERN
from agent.wire.config import is_table_of_sections, section_of

# What each pattern of a config file admits; tests/wire/test_config.py knows of any without words.
PATTERNS: Final = {
    r"^[A-Za-z0-9_.-]{1,64}$(?!\n)": "a name of 1–64 letters, digits, _ . -",
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
    r"^[1-9][0-9]{0,8}(m|k|M|G|Ki|Mi|Gi)?$(?!\n)": "a quantity such as 250m or 64Mi",
}


def explain(text: str, kind: Any, where: str) -> str:
    """`text` of a ValidationError at `where` ("pool[0].iad") in `kind`, for people to read."""
    for pattern, words in PATTERNS.items():
        if text == f"Expected `str` matching regex {pattern!r}":
            return f"Expected {words}"
    if text == "Expected `array`, got `object`":
        return f"Expected a list of tables: write [[{where}]] in place of [{where}]"
    if text.startswith("Invalid enum value ") and (choices := _choices(_type_at(kind, where))):
        return f"{text}; choose one of {', '.join(map(str, choices))}"
    return text


def _type_at(kind: Any, where: str) -> Any:
    """The annotation of the key `where`."""
    keys = iter(where.split("."))
    for key in keys:
        fields = msgspec.structs.fields(section_of(kind) or kind)
        kind = next(field.type for field in fields if field.encode_name == key.partition("[")[0])
        if is_table_of_sections(kind):
            next(keys, None)  # a name that the user chose; msgspec says "[...]" for it
    return kind


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of the Literal inside an annotation, if there is one."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((found for a in get_args(annotation) if (found := _choices(a))), ())
