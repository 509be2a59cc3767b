"""How many connections a rollout has open, with a real SSH server in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node, Ssh
from fleet.inventory.parties import hosts
from fleet.rollout import session as sessions
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Failed,
    Healthy,
    Planned,
    RolledBack,
    Staged,
    Switched,
)
from fleet.rollout.journal import opened
from fleet.rollout.rollout import Member, Rollout, Share
from fleet.rollout.runner import MAX_IDLE, Runner
from fleet.rollout.session import Session
from fleet.rollout.view import Lines
from fleet.ssh.errors import HostError
from tests.fleet.ssh.test_connect import Server

PARALLEL = 3


class Connections:
    """All that were ever opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[Any] = []
        self.most = 0
        connect = sessions.connect

        def counted(*args: Any) -> Any:
            self.all.append(connect(*args))
            self.most = max(self.most, self.open)
            return self.all[-1]

        monkeypatch.setattr(sessions, "connect", counted)

    @property
    def open(self) -> int:
        return sum(each.is_connected for each in self.all)


class Acts:
    """Every step takes a connection; some hosts fail."""

    def __init__(self, sick: set[str]) -> None:
        self.sick = sick

    def _over(self, session: Session) -> str:
        session._over(lambda connection: connection.transport.open_session())
        return session.host.name

    def gather(self, session: Session) -> AnyEvent:
        name = self._over(session)
        return Planned(name, changes=True, stores=True, disturbs=True, serving=True)

    def stage(self, session: Session, uploaded: Callable[[float], None]) -> AnyEvent:
        return Staged(self._over(session))

    def switch(self, session: Session, run: str) -> AnyEvent:
        return Switched(self._over(session))

    def check(self, session: Session) -> AnyEvent:
        name = self._over(session)
        return Failed(name, "failed", "sick") if name in self.sick else Healthy(name)

    def confirm(self, session: Session, run: str) -> AnyEvent:
        name = self._over(session)
        if name == "i/n3":
            raise HostError("lost", "gone")
        return Confirmed(name)

    def roll_back(self, session: Session, run: str, reason: str) -> AnyEvent:
        return RolledBack(self._over(session))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.close()


def roll_out(server: Server, folder: Folder, nodes: int, sick: set[str]) -> dict[str, str]:
    """Outcomes by host; all of them are at the server."""
    fleet = Inventory(
        name="test",
        ssh=Ssh(key="operator", port=server.port, connect_s=20.0),
        iad=(
            Iad(
                name="i",
                master=Master(address="127.0.0.1", local=True),
                node=tuple(Node(f"n{n}", "127.0.0.1", (f"a/{n}",)) for n in range(nodes)),
            ),
        ),
    )
    chosen = {h.name: Session(folder, fleet, h) for h in hosts(fleet) if h.node}
    members = [Member(name, "i", "node") for name in chosen]
    rollout = Rollout(members, Share(2, percent=False), Share(100, percent=True))
    with opened(folder) as journal:
        Runner(rollout, chosen, Acts(sick), journal, Lines(lambda line: None)).run(PARALLEL)
    return {name: result.outcome for name, result in rollout.results.items()}


def test_a_rollout_has_a_few_more_open_than_hosts_are_worked_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(monkeypatch)
    ends = roll_out(server, Folder(tmp_path), 24, {"i/n5", "i/n6"})
    assert len(ends) == 24
    assert list(ends.values()).count("changed") == 21
    assert connections.most <= PARALLEL + MAX_IDLE
    assert connections.open == 0


def test_a_host_that_is_not_kept_waiting_keeps_its_connection(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(monkeypatch)
    roll_out(server, Folder(tmp_path), 3, set())
    assert len(connections.all) == 3
    assert connections.open == 0
