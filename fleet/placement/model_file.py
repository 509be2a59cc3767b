"""Latency models in files that an operator names."""

from __future__ import annotations

from pathlib import Path

from _core.colocation.model import Colocation
from _core.colocation.model_file import MAX_BYTES, ModelError, ModelFile, decode
from fleet.common import files
from fleet.common.exits import CommandError


def read_model(path: Path) -> tuple[ModelFile, Colocation]:
    """The latency model in a file, as `decode` returns it; CommandError in one line."""
    try:
        return decode(files.read(path, MAX_BYTES))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except ModelError as error:
        raise CommandError(f"{path}: {error}") from None
