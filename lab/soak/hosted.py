"""One more IAD of a fleet: its master and nodes are Debian hosts that boot here, and get everything
by `fleet deploy`. Root only.

They share this machine's network, each with a loopback address of its own, so that the processes of
a testbed and they reach each other.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, Self

import psutil
from msgspec import Struct
from msgspec.structs import replace

from agent.wire.edge_config import EdgeHistory, EdgeSensor
from agent.wire.master_config import MasterNotifications, MasterRecords, PoolMember
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node, Overlay, Person, Place, Ssh, Units
from fleet.inventory.parties import MASTER, Party
from fleet.keys.curve import CurveKey
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout
from fleet.testbed.testbed import Testbed, TestbedError
from lab.chaos.clients import PERSONS
from lab.chaos.fault_plan import Fault
from lab.chaos.fleet import HOT, VERTEX
from testkit import hosts, releases
from testkit.desk import Desk, Ended

IAD: Final = "hosted"
# Not that of a sshd of this machine, which may listen at all addresses.
SSH_PORT: Final = 2222
PUBLIC_PORT: Final = 5700
AGENTS: Final = {"master": "sanderling-master", "node": "sanderling-edge"}
STATE: Final = "var/lib/sanderling"
# The version of the other release; all else of it is the same.
OTHER_VERSION: Final = "0.99.0"
CONNECT_S: Final = 10.0
# Addresses for documentation only.
NOWHERE: Final = IPv4Network("192.0.2.0/24")


def obstacle() -> str:
    """Why there can be no hosts here; empty if there can."""
    return "needs root" if os.geteuid() else hosts.obstacle()


class Step(Struct, frozen=True):
    """What a journal of a deployment says of a host, at a Unix time; `disturbs` of one that is
    planned: whether it is restarted."""

    at_s: float
    event: str
    host: str
    disturbs: bool = False


class Hosted:
    """The IAD, with so many nodes, beside those of `others`. Its nodes have `of_nodes` and keep
    readings as in `history`, its master keeps `records` and `notifications`. A context manager;
    `start` makes them."""

    def __init__(
        self,
        folder: Path,
        others: FleetLayout,
        nodes: int,
        of_nodes: EdgeSensor,
        history: EdgeHistory,
        records: MasterRecords,
        notifications: MasterNotifications,
    ) -> None:
        self._others = others
        self._of_nodes = of_nodes
        self._history = history
        self._records = records
        self._notifications = notifications
        self._folder = Folder(folder.resolve() / "fleet")
        self.desk = Desk(self._folder)
        # Whoever deploys, or changes keys, does it alone.
        self.turn = threading.RLock()
        self.layout = IadLayout(
            IAD,
            tuple(
                [
                    NodeLayout(f"{IAD}-n{number}", f"b1/{IAD}/r{number}", "")
                    for number in range(1, nodes + 1)
                ]
            ),
        )
        names = [MASTER, *(node.name for node in self.layout.nodes)]
        # Two runs at a time do not get in each other's way.
        subnet = f"127.{64 + os.getpid() // 256 % 64}.{os.getpid() % 256}"
        self._hosts = {
            name: hosts.Host(
                f"{IAD}/{name}",
                folder.resolve() / name,
                address := f"{subnet}.{number}",
                machine=f"soak-{os.getpid()}-{number}",
                ssh_port=SSH_PORT,
                settings={
                    "etc/ssh/sshd_config.d/soak.conf": f"ListenAddress {address}\nPort {SSH_PORT}\n"
                },
            )
            for number, name in enumerate(names, 1)
        }

    def __enter__(self) -> Self:
        self._folder.root.mkdir(parents=True)
        # Keys do not depend on ports, which the testbed will know.
        self._stored([(3 * n + 1, 3 * n + 2, 3 * n + 3) for n in range(len(self._others.iads))])
        self.desk.store.ensure(self.desk.inventory)
        self.member = PoolMember(
            iad=IAD,
            address=f"tcp://{self._hosts[MASTER].address}:{PUBLIC_PORT}",
            areas=self.layout.areas,
            keys=self.desk.store.key_files("operator", IAD).server_keys,
        )
        releases.bring(self._folder)
        with ExitStack() as stack:
            for host in self._hosts.values():
                stack.callback(host.remove)
                host.flash(self.desk.store)
            hosts.boot(self._hosts.values())
            stack.callback(self.desk.kill_commands)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, bed: Testbed) -> None:
        """Deploy to bare Debian. TestbedError."""
        assert bed.keyring is not None
        self._bed = bed
        names = [iad.name for iad in self._others.iads]
        self._stored(
            [(_port(bed.public(e)), _port(bed.nodes(e)), _port(bed.operator(e))) for e in names]
        )
        self.know()
        _require_good(self.desk.fleet(*self._deploy()))
        releases.keep(self._folder)
        self.release = releases.latest(self._folder).release

    def folder(self, name: str) -> Path:
        """The folder of its master's, or of a node's, state and records."""
        return self._hosts[MASTER if name == IAD else name].root / STATE

    def pid(self, name: str) -> int:
        """The id of its master's process, or of a node's; RuntimeError if it is away."""
        agent = AGENTS["master" if name == IAD else "node"]
        init = psutil.Process(self._hosts[MASTER if name == IAD else name].leader)
        for each in init.children():
            with suppress(psutil.Error):
                if any(agent in word for word in each.cmdline()):
                    return each.pid
        raise RuntimeError(f"{name} does not run")

    def other_release(self) -> str:
        """Make another release; its id."""
        return releases.another(self._folder, {}, marker=OTHER_VERSION)

    def know(self) -> None:
        """Take over the keys of everybody else that the testbed has now."""
        keyring = self._bed.keyring
        assert keyring is not None
        parties = {name: Party("master", name) for name in keyring.masters}
        parties |= {name: Party("client", name) for name in PERSONS}
        for name, party in parties.items():
            known = tuple([CurveKey(pair, None, None) for pair in keyring.pairs[name]])
            self.desk.store.replace_keys(party, partial(_instead, known))

    def push_keys(self) -> None:
        """Have its master know these keys. TestbedError."""
        with self.turn:
            self.know()
            _require_good(
                self.desk.fleet(*self._deploy("--limit", f"{IAD}/{MASTER}", release=self.release))
            )

    def switch(self, release: str) -> None:
        """Deploy a release to all hosts. TestbedError."""
        with self.turn:
            _require_good(self.desk.fleet(*self._deploy(release=release)))
            self.release = release

    def restarts(self, began_s: float) -> list[Fault]:
        """When each of its processes was restarted since that Unix time, by the deployments'
        journals."""
        found: list[Fault] = []
        for path in sorted(self._folder.runs.glob("*.jsonl")):
            steps = [*_steps(path)]
            for name, from_s, until_s in away(steps):
                process = IAD if name == MASTER else name
                times = round(from_s - began_s, 2), round(until_s - began_s, 2)
                found.append(Fault("restart", (process,), *times))
        return [each for each in found if each.until_s > 0.0]

    def _deploy(self, *more: str, release: str = "") -> list[str]:
        chosen = ["--release", release] if release else []
        limit = more or ("--iad", IAD)
        return ["deploy", *limit, *chosen, "--yes", "--allow-dirty"]

    def _stored(self, ports: list[tuple[int, int, int]]) -> None:
        """Write the inventory. Masters of the testbed are there as others of the pool, with these
        ports for clients, nodes and operators; nothing is deployed to them, nor to their nodes,
        which are nowhere."""
        names = [*(iad.name for iad in self._others.iads), IAD]
        places = {name: Place(VERTEX, number) for number, name in enumerate(names)}
        nowhere = map(str, NOWHERE.hosts())
        others = [
            Iad(
                iad.name,
                Master(
                    "127.0.0.1",
                    local=True,
                    nodes_address=str(NOWHERE[-2]),
                    public_port=public,
                    nodes_port=for_nodes,
                    operator_port=for_operators,
                ),
                overlay=places[iad.name],
                node=tuple([self._node(node, next(nowhere)) for node in iad.nodes]),
            )
            for iad, (public, for_nodes, for_operators) in zip(
                self._others.iads, ports, strict=True
            )
        ]
        address = self._hosts[MASTER].address
        own = Iad(
            IAD,
            Master(
                address,
                listen=address,
                public_port=PUBLIC_PORT,
                records=replace(self._records, directory=MasterRecords().directory),
                notifications=self._notifications,
                placement=Units(alone=True),
            ),
            overlay=places[IAD],
            node=tuple(
                [self._node(node, self._hosts[node.name].address) for node in self.layout.nodes]
            ),
        )
        self.desk.inventory = Inventory(
            "soak",
            (*others, own),
            Ssh(port=SSH_PORT, connect_s=CONNECT_S),
            overlay=Overlay(clusters=len(names)),
            person=tuple([Person(name, ("client",)) for name in PERSONS]),
        )

    def _node(self, node: NodeLayout, address: str) -> Node:
        return Node(
            node.name,
            address,
            (node.area,),
            "host",
            sensor=(self._of_nodes,),
            trigger=(HOT,),
            history=self._history,
        )


def away(steps: list[Step]) -> Iterator[tuple[str, float, float]]:
    """Name of each host that was restarted, from when on it may have been away, and since when it
    has been well. A switch begins once its release is there and the hosts before it are well."""
    disturbed = {each.host for each in steps if each.disturbs}
    for switched in steps:
        if switched.event != "switched" or switched.host not in disturbed:
            continue
        before = [
            each.at_s
            for each in steps
            if each.at_s <= switched.at_s
            and each.event
            in (("planned", "staged") if each.host == switched.host else ("healthy", "begun"))
        ]
        after = [
            each.at_s
            for each in steps
            if each.host == switched.host and each.event in ("healthy", "failed", "rolled_back")
        ]
        name = switched.host.rpartition("/")[2]
        yield name, max(before), max([switched.at_s, *after])


def _instead(known: tuple[CurveKey, ...], _before: object) -> tuple[CurveKey, ...]:
    return known


def _steps(journal: Path) -> Iterator[Step]:
    for line in journal.read_bytes().splitlines():
        entry = json.loads(line)
        said = entry["line"]
        yield Step(
            entry["at"], said["event"], said.get("host", ""), disturbs=said.get("disturbs", False)
        )


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _require_good(ended: Ended) -> None:
    if ended.status:
        raise TestbedError(f"{ended.command}: status {ended.status}\n{ended.out}{ended.err}")
