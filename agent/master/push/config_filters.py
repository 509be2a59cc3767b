"""Parser of the filters in a master's configuration."""

from __future__ import annotations

import msgspec

from agent.wire.config import ConfigError
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import MAX_FILTER_BYTES, Filter, FilterError


def configured_filter(text: str, where: str) -> Filter:
    """The filter in `text`; ConfigError in one line, which begins with `where`."""
    try:
        read = read_filter(text)
    except FilterError as error:
        raise ConfigError(f"{where}: {error}") from None
    if (size := len(msgspec.msgpack.encode(read))) > MAX_FILTER_BYTES:
        raise ConfigError(
            f"{where}: {size} bytes are over the limit of {MAX_FILTER_BYTES}; make two of it"
        )
    return read
