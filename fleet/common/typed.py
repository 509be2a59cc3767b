"""Thread-safe msgspec decoding: prepares decoders in the thread that imports them."""

from __future__ import annotations

from typing import Any

import msgspec


def made_ready(*kinds: Any) -> None:
    """Make msgspec analyse these types in the importing thread.

    msgspec does so on first use otherwise, and two threads that do it at once crash the process.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)
