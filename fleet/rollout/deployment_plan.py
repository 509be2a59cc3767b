"""Plans a deployment: each host's facts against the inventory, the keys and a release."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fleet.inspect.facts import Facts
from fleet.inventory.effective import release_of
from fleet.inventory.files import CONFIGURATION, files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.store import KeyStoreError, Store
from fleet.on_host import bundles
from fleet.release.bundle import Bundle, ReleaseError, Target, build, find
from fleet.rollout.changes import AnyChange, RemoveRelease, StoreRelease, WriteFile
from fleet.rollout.deployment import changes, disturbs
from fleet.rollout.desired import SHARE, Desired, desired_files, shared_files
from fleet.rollout.events import Planned
from fleet.rollout.journal import is_own
from fleet.rollout.prerequisites import held, obstacles, room
from fleet.ssh.errors import HostError
from fleet.terminal.output import once

# A unit, a rule or a script, in bytes.
MAX_SHARED: Final = 1 << 20
AGAIN: Final = "remove it, then `fleet release build` makes it again"


class HostPlan(NamedTuple):
    """The plan from a host's actual state to its desired state."""

    host: HostOf
    facts: Facts
    desired: Desired
    bundle: Bundle
    changes: list[AnyChange]
    contents: dict[str, bytes]  # content of files by absolute path; some are secret

    @property
    def planned(self) -> Planned:
        """The plan as an event for the rollout."""
        serving = self._active
        origin = self.bundle.origin
        configured = any(
            isinstance(change, WriteFile) and change.path.startswith(f"{CONFIGURATION}/")
            for change in self.changes
        )
        return Planned(
            self.host.name,
            changes=bool(self.changes),
            stores=self.uploads or bool(self.gone),
            disturbs=disturbs(self.changes),
            serving=serving,
            early=self.host.node is None and bool(self.changes) and (configured or not serving),
            release=self.bundle.release,
            commit=origin.commit if origin else "",
            dirty=bool(origin and origin.changed),
        )

    @property
    def uploads(self) -> bool:
        """Whether the release must be uploaded."""
        return any(isinstance(change, StoreRelease) for change in self.changes)

    @property
    def gone(self) -> list[str]:
        """The releases to remove."""
        return [change.release for change in self.changes if isinstance(change, RemoveRelease)]

    @property
    def only_removes(self) -> bool:
        """Whether removals are the only changes."""
        return all(isinstance(change, RemoveRelease) for change in self.changes)

    @property
    def _active(self) -> bool:
        unit = self.facts.units.get(self.desired.unit)
        return unit is not None and unit.active == "active"


class Planner:
    """Makes plans in any number of threads; each bundle is built or read once."""

    def __init__(
        self,
        folder: Folder,
        fleet: Inventory,
        store: Store,
        *,
        release: str = "",
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._fleet = fleet
        self._store = store
        self._release = release
        self._say = once(say)
        self._lock = threading.Lock()
        self._bundles: dict[tuple[str, Target], Bundle | ReleaseError] = {}
        self._shared: dict[Path, dict[str, bytes]] = {}

    def plan(self, host: HostOf, facts: Facts) -> HostPlan:
        """The plan for `host`. HostError if it lacks a prerequisite, or there is no release for
        it."""
        for obstacle in (*obstacles(facts), *held(facts, partial(is_own, self._folder))):
            raise HostError(obstacle.kind, obstacle.text)
        bundle = self._bundle(host, Target(facts.machine, facts.python))
        unit = host.unit
        shared = self._files_shared(bundle, unit)
        try:
            own = files_of(self._fleet, host, self._store)
        except KeyStoreError as error:
            raise HostError("failed", str(error)) from None
        desired = Desired(
            release=bundle.release,
            bundle_bytes=bundle.bytes,
            unit=unit,
            files=desired_files(own, shared),
            keep=self._fleet.releases.keep,
        )
        found = changes(facts, desired)
        for obstacle in room(facts, found):
            raise HostError(obstacle.kind, obstacle.text)
        contents = shared | {f"{CONFIGURATION}/{file.path}": file.content for file in own}
        return HostPlan(host, facts, desired, bundle, found, contents)

    def _bundle(self, host: HostOf, target: Target) -> Bundle:
        release = self._release or release_of(self._fleet, host)
        with self._lock:
            key = (release, target)
            if key not in self._bundles:
                try:
                    self._bundles[key] = (
                        find(self._folder, release, target)
                        if release
                        else build(self._folder, target, say=self._say)
                    )
                except ReleaseError as error:
                    self._bundles[key] = error
            found = self._bundles[key]
        if isinstance(found, ReleaseError):
            raise HostError("failed", str(found))
        return found

    def _files_shared(self, bundle: Bundle, unit: str) -> dict[str, bytes]:
        with self._lock:
            if bundle.path not in self._shared:
                self._shared[bundle.path] = read_shared(bundle.path)
            shared = self._shared[bundle.path]
        try:
            return shared_files(unit, shared)
        except KeyError as error:
            raise HostError("failed", f"release {bundle.release} has no {error.args[0]}") from None


def read_shared(bundle: Path) -> dict[str, bytes]:
    """The files of a bundle's share/sanderling, by name; HostError if it is no bundle of a release.
    All of it is decompressed."""
    found = {}
    try:
        with bundle.open("rb") as opened, bundles.opened(opened) as archive:
            for member in bundles.members(archive):
                folder, _, name = member.name.removeprefix("./").rpartition("/")
                if folder == SHARE and member.isreg() and member.size <= MAX_SHARED:
                    file = archive.extractfile(member)
                    assert file is not None
                    found[name] = file.read()
    except OSError as error:
        raise HostError("failed", f"{bundle}: {error.strerror}") from None
    except bundles.Unusable as error:
        raise HostError("failed", f"{bundle} is no release: {error}; {AGAIN}") from None
    except bundles.DAMAGE as error:
        line = " ".join(str(error).split())
        raise HostError("failed", f"{bundle} is no bundle: {line}; {AGAIN}") from None
    return found
