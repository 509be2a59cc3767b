"""Session with one host during a deployment: its connection, kept open from the facts to the
verdict, and the programs that run over it."""

from __future__ import annotations

import base64
import getpass
import os
import platform
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
from fleet.ssh.remote import MAX_ERROR, run_program

# One SSH packet: of a longer piece, sendall would copy the remainder for each packet.
PIECE: Final = 32_000
# Connections that a bundle may take.
ATTEMPTS: Final = 3
# Time that a host allows before it undoes a switch by itself, in addition to start and health
# check.
MARGIN_S: Final = 60.0

# For each unit, the agent that validates its configuration before anything is stopped.
CHECKED: Final = {
    UNITS["node"]: {"program": "sanderling-edge", "config": "edge.toml"},
    UNITS["master"]: {"program": "sanderling-master", "config": "master.toml"},
}

T = TypeVar("T")
Request = dict[str, Any]


class Session:
    """A host and its connection, which is opened on demand and reopened after a failure."""

    def __init__(self, folder: Folder, fleet: Inventory, host: HostOf) -> None:
        self.host = host
        self._login: Login = login_of(folder, fleet, host)
        self._known_hosts = folder.known_hosts
        self._connection: Connection | None = None
        self._by = f"{_user()}@{platform.node()}"

    def close(self) -> None:
        """Close the connection, if there is one."""
        self.let_go()()

    def let_go(self) -> Callable[[], None]:
        """Give up the connection; returns a function that closes it, which may take a moment."""
        connection, self._connection = self._connection, None

        def close() -> None:
            if connection is not None:
                with suppress(Exception):  # closing a connection that may be broken already
                    connection.close()

        return close

    def facts(self) -> Facts:
        """The host's facts. HostError."""
        return self._over(gather)

    def stage(
        self, bundle: Bundle, offset: int, gone: list[str], progress: Callable[[int], None]
    ) -> None:
        """Remove the releases `gone`, upload a bundle of which the host has `offset` bytes, and
        unpack it there; after a reconnection, received bytes are not sent again. HostError."""
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
        facts: Facts,
        desired: Desired,
        changes: list[AnyChange],
        contents: Mapping[str, bytes],
        *,
        start_s: float,
        gate_s: float,
    ) -> None:
        """Make the changes other than uploads and removals; the host undoes them by itself unless
        they are confirmed. HostError, with `rolled_back` among its details if they are undone, and
        `changed` if nothing was done, as the host is not as in `facts` any more."""
        request = switch_request(run, desired, changes, contents)
        request["seen"] = seen(facts, desired)
        window_s = start_s + gate_s + MARGIN_S
        self._do({**request, "start_s": start_s, "window_s": window_s})

    def confirm(self, run: str, desired: Desired, *, check: bool) -> None:
        """Confirm the switch of a run, which may be repeated; with `check` only if its unit is
        active. HostError, with `rolled_back` among its details if it was undone."""
        what = {"do": "confirm", "run": run, "unit": desired.unit}
        self._do({**what, "check": check})

    def remove(self, gone: list[str]) -> None:
        """Remove releases. HostError."""
        self._do({"do": "remove", "remove": gone})

    def undo(self, which: str, run: str, reason: str) -> str:
        """Restore the state before the `pending` switch, or before the last confirmed one (`kept`),
        which is that of `run`; may be repeated. Returns the last line that the agent wrote.
        HostError, also if another run came after it."""
        what = {"do": "undo", "which": which, "run": run, "unit": self.host.unit}
        return str(self._do({**what, "reason": reason}).get("word") or "")[:MAX_ERROR]

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
        request = {**request, "by": self._by}
        return self._over(lambda connection: run_program(connection, request, data=data()))

    def _over(self, work: Callable[[Connection], T]) -> T:
        """The result of `work` over the connection; HostError, also if the connection breaks."""
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
    """The request for a switch to the program on the host; `contents` are files by path."""
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


def seen(facts: Facts, desired: Desired) -> Request:
    """What a plan is based on: the host makes its changes only if it is still so."""
    files = facts.files
    return {
        "run": facts.pending.run if facts.pending else "",
        "current": facts.releases.current,
        "files": {f.path: files[f.path].sha256 if f.path in files else None for f in desired.files},
    }


def upload_name(bundle: Bundle) -> str:
    """The name of the file that a bundle is uploaded to; it depends on the bundle's content."""
    return f"{bundle.sha256[:32]}.upload"


def arrived(facts: Facts, bundle: Bundle) -> int:
    """The number of bytes of a bundle that a host has."""
    there = facts.uploaded
    if there is None or there.name != upload_name(bundle) or there.bytes > bundle.bytes:
        return 0
    return there.bytes


def pieces(path: Path, offset: int, progress: Callable[[int], None]) -> Iterator[bytes]:
    """A file from `offset` on, in packets; `progress` is called with the position."""
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(PIECE):
            yield piece
            offset += len(piece)
            progress(offset)


def _user() -> str:
    """The name of the user who runs this; a number where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
