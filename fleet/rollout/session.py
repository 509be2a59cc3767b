"""Session with one host during a deployment: its connection, kept open from the facts to the
verdict, and the programs that run over it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from fabric import Connection

from fleet.inspect.facts import Facts, gather
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import UNITS, HostOf
from fleet.release.bundle import Bundle
from fleet.rollout.changes import (
    AnyChange,
    EnableUnit,
    LoadRules,
    LoadUnits,
    MakeUser,
    RemoveFile,
    RestartUnit,
    StartUnit,
    WriteFile,
)
from fleet.rollout.desired import Desired
from fleet.ssh.connect import Login, connect, error_of, login_of
from fleet.ssh.errors import HostError
from fleet.ssh.remote import run_program

# What fits one packet of SSH: sendall would copy the rest of a longer piece for each packet.
PIECE: Final = 32_000
# Connections that a bundle may take.
ATTEMPTS: Final = 3
# What a host's own undoing waits for beside the start and the gate.
MARGIN_S: Final = 60.0

# By unit: the agent that checks its configuration before anything stops.
CHECKED: Final = {
    UNITS["node"]: {"program": "sanderling-edge", "config": "edge.toml"},
    UNITS["master"]: {"program": "sanderling-master", "config": "master.toml"},
}

T = TypeVar("T")
Request = dict[str, Any]


class Session:
    """A host and its connection, which opens on demand and reopens after a failure."""

    def __init__(self, folder: Folder, fleet: Inventory, host: HostOf) -> None:
        self.host = host
        self._login: Login = login_of(folder, fleet, host)
        self._known_hosts = folder.known_hosts
        self._connection: Connection | None = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        self.let_go()()

    def let_go(self) -> Callable[[], None]:
        """Give up the connection; returns what closes it, which may take a moment."""
        connection, self._connection = self._connection, None

        def close() -> None:
            if connection is not None:
                with suppress(
                    Exception
                ):  # it may be broken already, which makes no difference here
                    connection.close()

        return close

    def facts(self) -> Facts:
        """What the host is and has. HostError."""
        return self._over(gather)

    def stage(
        self, bundle: Bundle, offset: int, gone: list[str], progress: Callable[[int], None]
    ) -> None:
        """Remove the releases `gone`, upload a bundle, of which the host has `offset` bytes, and
        have it unpacked; over a new connection what has arrived is not sent again. HostError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._stage(bundle, offset, gone, progress)
                return
            except HostError as error:
                if error.kind != "lost" or attempt == ATTEMPTS:
                    raise
                self.close()
                broken = error
            try:
                offset = arrived(self.facts(), bundle)
            except HostError as error:
                raise HostError("lost", f"{broken}; then {error}") from None

    def switch(
        self,
        run: str,
        desired: Desired,
        changes: list[AnyChange],
        contents: Mapping[str, bytes],
        *,
        start_s: float,
        gate_s: float,
    ) -> None:
        """Make the changes but uploads and removals; the host undoes them by itself unless they
        are confirmed. HostError, with `rolled_back` among its details if they are undone."""
        request = switch_request(run, desired, changes, contents)
        window_s = start_s + gate_s + MARGIN_S
        self._do({**request, "start_s": start_s, "window_s": window_s})

    def confirm(self, desired: Desired, *, check: bool) -> None:
        """It is good, and stays; with `check` only if its unit is active. HostError, with
        `rolled_back` among its details if it was undone."""
        what = {"do": "confirm", "unit": desired.unit, "release": desired.release}
        self._do({**what, "check": check})

    def remove(self, gone: list[str]) -> None:
        """Remove releases. HostError."""
        self._do({"do": "remove", "remove": gone})

    def undo(self, which: str, reason: str) -> Request:
        """Put back what was before the `pending` switch, or before the last one that was `kept`;
        the release and, as `word`, what the agent wrote last. HostError."""
        unit = self.host.unit
        return self._do({"do": "undo", "which": which, "reason": reason, "unit": unit})

    def _stage(
        self, bundle: Bundle, offset: int, gone: list[str], progress: Callable[[int], None]
    ) -> None:
        self._do(
            {
                "do": "stage",
                "release": bundle.release,
                "name": upload_name(bundle),
                "sha256": bundle.sha256,
                "bytes": bundle.bytes,
                "offset": offset,
                "remove": gone,
            },
            lambda: pieces(bundle.path, offset, progress),
        )

    def _do(
        self, request: Request, data: Callable[[], Iterator[bytes]] = lambda: iter(())
    ) -> Request:
        return self._over(lambda connection: run_program(connection, request, data=data()))

    def _over(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives over the connection; HostError, also for what breaks on the way."""
        if self._connection is None or not self._connection.is_connected:
            self.close()
            self._connection = connect(self._login, self._known_hosts)
        try:
            return work(self._connection)
        except HostError as error:
            if error.kind == "lost":
                self.close()
            raise
        except Exception as error:
            self.close()
            raise error_of(error, self._login, connected=True) from error


def switch_request(
    run: str, desired: Desired, changes: list[AnyChange], contents: Mapping[str, bytes]
) -> Request:
    """What the host's program is told to change; `contents` of files by path."""
    files = [
        {
            "path": change.path,
            "mode": change.mode,
            "owner": change.owner,
            "content": base64.b64encode(contents[change.path]).decode(),
        }
        for change in changes
        if isinstance(change, WriteFile)
    ]
    kinds = {type(change) for change in changes}
    restart = StartUnit in kinds or RestartUnit in kinds
    return {
        "do": "switch",
        "run": run,
        "release": desired.release,
        "unit": desired.unit,
        "files": files,
        "gone": [change.path for change in changes if isinstance(change, RemoveFile)],
        "users": MakeUser in kinds,
        "rules": LoadRules in kinds,
        "units": LoadUnits in kinds,
        "enable": EnableUnit in kinds,
        "restart": restart,
        "check": CHECKED[desired.unit] if restart else None,
    }


def upload_name(bundle: Bundle) -> str:
    """The file that a bundle is uploaded to: another one for other bytes."""
    return f"{bundle.sha256[:32]}.upload"


def arrived(facts: Facts, bundle: Bundle) -> int:
    """How many bytes of a bundle a host has."""
    there = facts.uploaded
    if there is None or there.name != upload_name(bundle) or there.bytes > bundle.bytes:
        return 0
    return there.bytes


def pieces(path: Path, offset: int, progress: Callable[[int], None]) -> Iterator[bytes]:
    """A file from `offset` on, in packets; `progress` is told how far it is."""
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(PIECE):
            yield piece
            offset += len(piece)
            progress(offset)
