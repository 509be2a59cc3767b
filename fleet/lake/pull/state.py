"""Progress of pulls, one small file per host, replaced only after the data has landed.

If the state is lost or outdated, the same data is taken again, which is harmless: readers recognise
repeated lines and groups.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from fleet.lake.pull.landing_files import staged
from fleet.lake.schema.folder import Lake
from fleet.ssh.errors import HostError

S = TypeVar("S", bound=msgspec.Struct)


def state_path(lake: Lake, iad: str, host: str) -> Path:
    """The path of a host's state; `host` is a node's name, or ``master``."""
    return lake.state / iad / f"{host}.json"


def load(path: Path, kind: type[S]) -> S:
    """The state; with default values if there is none. HostError if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except msgspec.MsgspecError as error:
        raise HostError(
            "failed", f"{path} cannot be read ({error}); without it all is taken again: delete it"
        ) from None


def save(lake: Lake, path: Path, state: msgspec.Struct) -> None:
    """Replace the state atomically and durably. OSError."""
    with staged(lake, path) as part:
        part.write_bytes(msgspec.json.encode(state))
