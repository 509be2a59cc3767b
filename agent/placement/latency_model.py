"""A trained latency model as masters take it: the file's bytes in, what a `View` judges by out."""

from __future__ import annotations

from typing import Final

from _core.colocation.model import Colocation as LatencyModel
from _core.colocation.model_file import MAX_BYTES, ModelError, decode

__all__ = ["LatencyModel", "ModelError", "trained"]

# One more is too many, and is refused.
MAX_READ_BYTES: Final = MAX_BYTES + 1


def trained(data: bytes) -> LatencyModel:
    """The model in a file that `fleet placement train` has written; ModelError in one line."""
    return decode(data)[1]
