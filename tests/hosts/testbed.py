"""Debian hosts that boot, on a bridge of this machine, and the fleet that they are.

The first host is the master of `iad4`, the others are its nodes n1, n2 …. The master of `iad1` is
to run on this machine, so that there is a way to ask while that of `iad4` is away; at the address
of its only node is nobody.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from agent.wire.edge_config import EdgeSensor
from fleet.common import toml
from fleet.inventory.folder import Folder
from fleet.inventory.model import Group, Iad, Inventory, Master, Node, Ssh
from testkit import hosts, root_file_system
from tests.hosts.network import Network

if TYPE_CHECKING:
    from fleet.keys.store import Store

IAD: Final = "iad4"
SCHEDULER: Final = "iad1"
MASTER: Final = "master"
BRIDGE: Final = "sanderling"
NETWORK: Final = "10.77.1.0/24"
COUNT: Final = 9
GONE: Final = 90  # number of an address where nobody is


class Host(hosts.Host):
    """A host in a network namespace of its own, and what may happen to one."""

    def __init__(self, name: str, number: int, folder: Path, network: Network) -> None:
        super().__init__(
            f"{IAD}/{name}",
            folder,
            network.address(number),
            f"--network-namespace-path={network.path(name)}",
            machine=f"{network.bridge}-{name}",
        )
        self.number = number
        self.network = network

    def start(self) -> None:
        """Switch it on."""
        self.network.plug(self.number, "up")
        super().start()

    def kill(self) -> None:
        """Cut its power: its address refuses nothing, it is silent."""
        self.network.plug(self.number, "down")
        super().kill()

    @contextmanager
    def without_network(self) -> Iterator[None]:
        """Meanwhile nothing reaches it and nothing leaves it."""
        self.network.cut(self.short)
        try:
            yield
        finally:
            self.network.mend(self.short)

    @contextmanager
    def slow_network(self, rate: str) -> Iterator[None]:
        """Meanwhile no more than `rate` reaches it."""
        self.network.slow(self.number, rate)
        try:
            yield
        finally:
            self.network.slow(self.number, "")

    @property
    def uploading(self) -> int:
        """Bytes of a release that have arrived while it is uploaded."""
        found = 0
        for path in (self.root / "opt/sanderling/releases").glob("*.upload"):
            with contextlib.suppress(FileNotFoundError):  # it is complete by now
                found = max(found, path.stat().st_size)
        return found

    @contextmanager
    def full_disk(self, *, left: int) -> Iterator[None]:
        """Meanwhile /opt is a disk with what was in it and room for `left` bytes more."""
        kept = sum(int(line) for line in self.run("du", "-s", "-B1", "/opt").split()[:1])
        size = kept + left
        self.run(
            "sh", "-ec",
            "mkdir /run/opt && mount --bind --make-private /opt /run/opt"
            f" && mount -t tmpfs -o mode=755,size={size} opt /opt && cp -a /run/opt/. /opt"
            " && umount /run/opt && rmdir /run/opt",
        )  # fmt: skip
        try:
            yield
        finally:
            self.run("umount", "--lazy", "/opt")


class Testbed:
    """The hosts of a fleet whose folder is `folder`; they outlive this object and this process."""

    __test__ = False  # not a test case, whatever its name begins with

    def __init__(
        self, folder: Path, count: int = COUNT, bridge: str = BRIDGE, network: str = NETWORK
    ) -> None:
        self.folder = Folder(folder.resolve())
        self.network = Network(bridge, network)
        names = [MASTER, *(f"n{number}" for number in range(1, count))]
        self.hosts = {
            name: Host(name, number, self.folder.root / "hosts" / name, self.network)
            for number, name in enumerate(names)
        }

    @classmethod
    def found(cls, folder: Path) -> Self:
        """The one that was made with this folder; FileNotFoundError if none was."""
        return cls(folder, **json.loads((folder / "hosts/testbed.json").read_text()))

    def inventory(self) -> Inventory:
        """The fleet of these hosts. The last two nodes have an area in common."""
        network = self.network
        nodes = [host for host in self.hosts.values() if host.short != MASTER]
        shared = f"b4/f{(len(nodes) + 1) // 2}/hall"
        found = [
            Node(
                name=host.short,
                address=host.address,
                areas=(f"b4/f{(number + 1) // 2}/r{number}", *[shared] * (host in nodes[-2:])),
                model="host",
                groups=("canary",) if number == 1 else (),
                sensor=(EdgeSensor(driver="synthetic", options={"seed": number}),),
            )
            for number, host in enumerate(nodes, 1)
        ]
        return Inventory(
            name="testbed",
            ssh=Ssh(connect_s=5.0),
            group=(Group(name="canary", canary=True),),
            iad=(
                Iad(
                    name=SCHEDULER,
                    master=Master(
                        address=network.own_address, listen=network.own_address, local=True
                    ),
                    node=(
                        Node(
                            name="gone",
                            address=network.address(GONE),
                            areas=("b1/f1/r1",),
                            model="host",
                            sensor=(EdgeSensor(driver="synthetic"),),
                        ),
                    ),
                ),
                Iad(name=IAD, master=Master(address=network.address(0)), node=tuple(found)),
            ),
        )

    def write_folder(self) -> None:
        """Write the inventory, unless there is one."""
        (self.folder.root / "hosts").mkdir(parents=True, exist_ok=True)
        made = {
            "count": len(self.hosts),
            "bridge": self.network.bridge,
            "network": str(self.network.network),
        }
        (self.folder.root / "hosts/testbed.json").write_text(json.dumps(made))
        if not self.folder.inventory.exists():
            self.folder.inventory.write_text(toml.dump(self.inventory()))

    def up(self, store: Store) -> None:
        """Flash and boot all hosts, with the keys of `store`; those that there were are ended."""
        self.down()
        root_file_system.ensure()
        self.network.up()
        for host in self.hosts.values():
            self.network.add(host.short, host.number)
            host.flash(store)
        hosts.boot(self.hosts.values())

    def down(self) -> None:
        """End all hosts and take away what they were on; the fleet's folder stays."""
        with ExitStack() as ends:  # each of them, whatever becomes of the others
            ends.callback(self.network.down)
            for host in self.hosts.values():
                ends.callback(host.remove)
