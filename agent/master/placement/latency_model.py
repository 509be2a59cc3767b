"""The trained latency model of a master, from the file that its configuration names."""

from __future__ import annotations

from pathlib import Path

from agent.placement.latency_model import MAX_READ_BYTES, LatencyModel, ModelError, trained
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterConfig


def model_of(config: MasterConfig, folder: Path) -> LatencyModel | None:
    """The model in `placement.model`, a path from `folder`; None if none is named. ConfigError in
    one line."""
    if not config.placement.model:
        return None
    path = folder / config.placement.model
    try:
        with path.open("rb") as file:
            return trained(file.read(MAX_READ_BYTES))
    except OSError as error:
        raise ConfigError(f"placement.model: {path}: {error.strerror}") from None
    except ModelError as error:
        raise ConfigError(f"placement.model: {path}: {error}") from None
