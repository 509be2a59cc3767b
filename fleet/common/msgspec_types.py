"""Thread-safe msgspec decoding: prepares decoders in the thread that imports them."""

from __future__ import annotations

from typing import Any

import msgspec


def made_ready(*kinds: Any) -> None:
    """Let msgspec analyse these types in the importing thread.

    Otherwise msgspec does so on first use, and crashes the process if two threads do it at once.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)
