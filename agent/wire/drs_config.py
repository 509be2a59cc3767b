"""Configuration of a registration service (DRS): every key of its file, with unit and default."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.wire.config import (
    File,
    Metrics,
    Positive,
    Section,
    Trust,
    require_guarded,
    require_keys,
    require_usable,
)


class DrsSockets(Section, frozen=True):
    """Address at which the DRS listens: tcp://host:port or ipc://path."""

    public: Annotated[str, Meta(description="For masters and mirrors.")]


class DrsDirectory(Section, frozen=True):
    """The registrations."""

    path: Annotated[
        File,
        Meta(min_length=1, description="SQLite file (relative: to the config file)."),
    ] = "directory.sqlite"
    longest_lease_s: Annotated[
        float, Meta(ge=1.0, le=86_400.0, description="Longest lease granted, in seconds.")
    ] = 3_600.0


class DrsMirror(Section, frozen=True):
    """Set for a read mirror: which primary it follows."""

    primary: Annotated[str, Meta(description="The primary's public socket; empty: none.")] = ""
    primary_keys: Annotated[
        File, Meta(description="File with the primary's public keys, one a line.")
    ] = ""
    every_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds between two polls of the primary.")
    ] = 1.0


class DrsConfig(Section, frozen=True):
    """A DRS's file (`sanderling-drs --config`)."""

    sockets: DrsSockets
    directory: DrsDirectory = DrsDirectory()
    mirror: DrsMirror = DrsMirror()
    trust: Trust = Trust()
    metrics: Metrics = Metrics()

    def __post_init__(self) -> None:
        keyed = bool(self.trust.key)
        require_guarded(self.sockets.public, "sockets.public", self.trust)
        if self.mirror.primary:
            require_usable(self.mirror.primary, "mirror.primary", keyed=keyed)
            require_keys(
                self.mirror.primary, "mirror.primary_keys", self.mirror.primary_keys, self.trust
            )
