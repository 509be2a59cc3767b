"""Publications of a client to topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from agent.wire.topics import Publish

ATTRIBUTE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class PublishError(Exception):
    """The master does not take the message; one line says why."""


def publication(
    topic: str,
    attributes: Mapping[str, bool | float | str],
    id_: str,
    sequence: int,
    *,
    oldest: int,
) -> Publish:
    """The message; ValueError says what is wrong with it."""
    for name in attributes:
        if not ATTRIBUTE.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of an attribute; take lower-case letters, digits and _, a "
                "letter first, 32 at most"
            )
    try:
        return msgspec.convert(
            {
                "type": "publish",
                "id": id_,
                "topic": topic,
                "attributes": dict(attributes),
                "sequence": sequence,
                "oldest": oldest,
            },
            Publish,
        )
    except msgspec.ValidationError as error:
        raise ValueError(f"no message for a topic: {error}") from None
