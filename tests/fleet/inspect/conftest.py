"""A fleet of hosts in this process, which `fleet` logs in to over loopback."""

import pytest

from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.selection import select
from fleet.keys.store import Store
from testkit.ssh_server import Host

NODES = ("n1", "n2", "n3")


class Site:
    """A fleet's folder and its hosts by name."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.ports = dict.fromkeys(NODES, 1)
        self._write()
        store = Store(folder)
        store.ensure(load(folder))
        self.hosts = {
            name: Host(
                f"127.0.0.{number}",
                store.host_key(f"iad4/{name}").private,
                store.operator_public,
                folder.root / "hosts" / name,
            )
            for number, name in enumerate(NODES, 11)
        }
        self.ports = {name: host.port for name, host in self.hosts.items()}
        self._write()
        store.write_known_hosts(load(folder))

    def _write(self) -> None:
        nodes = "".join(
            f'[[iad.node]]\nname = "{name}"\naddress = "127.0.0.{number}"\n'
            f"port = {self.ports[name]}\n"
            f'areas = ["b1/{name}"]\nmodel = "host"\n'
            '[[iad.node.sensor]]\ndriver = "synthetic"\n'
            for number, name in enumerate(NODES, 11)
        )
        self.folder.inventory.write_text(
            'name = "site"\n[ssh]\nconnect_s = 20.0\n[[iad]]\nname = "iad4"\n'
            f'[iad.master]\naddress = "127.0.0.1"\nlocal = true\n{nodes}'
        )

    @property
    def fleet(self):
        return load(self.folder)

    @property
    def chosen(self):
        return select(self.fleet)

    def everywhere(self, name: str, text: str) -> None:
        for host in self.hosts.values():
            host.program(name, text)

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()


@pytest.fixture
def site(tmp_path):
    made = Site(Folder(tmp_path))
    yield made
    made.close()
