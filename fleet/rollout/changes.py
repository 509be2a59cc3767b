"""The changes that a deployment makes to a host: one struct each, in order of execution."""

from __future__ import annotations

import msgspec


class Change(msgspec.Struct, frozen=True, tag_field="change"):
    """One change to a host; `str` describes it in one line. It contains no secrets."""


class StoreRelease(Change, frozen=True, tag="store_release"):
    """Upload a release and unpack it beside those in use."""

    release: str
    bytes: int

    def __str__(self) -> str:
        return f"upload release {self.release} ({self.bytes / 1e6:.1f} MB)"


class WriteFile(Change, frozen=True, tag="write_file"):
    """Replace a file, its mode and its owner."""

    path: str
    sha256: str
    mode: int
    owner: str
    new: bool
    restart: bool

    def __str__(self) -> str:
        return f"{'write' if self.new else 'replace'} {self.path}"


class MakeUser(Change, frozen=True, tag="make_user"):
    """Make the user that the agents run as."""

    def __str__(self) -> str:
        return "make the user sanderling"


class LoadRules(Change, frozen=True, tag="load_rules"):
    """Have udev read its rules."""

    def __str__(self) -> str:
        return "load the udev rules"


class LoadUnits(Change, frozen=True, tag="load_units"):
    """Have systemd read its units."""

    def __str__(self) -> str:
        return "load the units"


class SwitchRelease(Change, frozen=True, tag="switch_release"):
    """Set the link `current` to another release."""

    before: str
    release: str

    def __str__(self) -> str:
        return f"switch {self.before or 'nothing'} -> {self.release}"


class EnableUnit(Change, frozen=True, tag="enable_unit"):
    """Have a unit started at boot."""

    unit: str

    def __str__(self) -> str:
        return f"enable {self.unit}"


class StartUnit(Change, frozen=True, tag="start_unit"):
    """Start a unit that is not running."""

    unit: str

    def __str__(self) -> str:
        return f"start {self.unit}"


class RestartUnit(Change, frozen=True, tag="restart_unit"):
    """Restart a unit, because of `reason`."""

    unit: str
    reason: str

    def __str__(self) -> str:
        return f"restart {self.unit}: {self.reason}"


class RemoveFile(Change, frozen=True, tag="remove_file"):
    """Remove a file that an earlier deployment wrote and the inventory no longer has."""

    path: str

    def __str__(self) -> str:
        return f"remove {self.path}"


class VerifyRelease(Change, frozen=True, tag="verify_release"):
    """Check the release that an earlier run switched to without learning the outcome."""

    release: str

    def __str__(self) -> str:
        return f"check {self.release}, which an earlier run switched to"


class RemoveRelease(Change, frozen=True, tag="remove_release"):
    """Remove a release that need not be kept."""

    release: str

    def __str__(self) -> str:
        return f"remove release {self.release}"


AnyChange = (
    StoreRelease
    | WriteFile
    | MakeUser
    | LoadRules
    | LoadUnits
    | SwitchRelease
    | EnableUnit
    | StartUnit
    | RestartUnit
    | RemoveFile
    | VerifyRelease
    | RemoveRelease
)
# After these changes a host must prove that it still serves.
DISTURBING = (SwitchRelease, StartUnit, RestartUnit, VerifyRelease)
