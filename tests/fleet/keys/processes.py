"""IADs of real processes, started from the files that the inventory and the key store make."""

import subprocess
import threading
from contextlib import suppress

import msgspec

from agent.client import Client, NoReplyError, Operator
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import hosts
from fleet.keys.store import Store
from fleet.rollout.keys.push import pusher, write_local
from fleet.testbed.ports import free_address
from testkit.agent_process import installed
from testkit.waiting import PATIENCE_S, wait_until

# A connection that is made anew at that moment may lose a request: it is sent again.
STATUS_MS = 30_000

AREAS = {"n1": "b1/f4/r413", "n2": "b1/f4/r409"}


def loopback(names=("iad4",)):
    """An inventory of IADs with two nodes each, all on this machine."""

    def iad(name):
        public, nodes, operator = (int(free_address().rpartition(":")[2]) for _ in range(3))
        return {
            "name": name,
            "master": {
                "address": "127.0.0.1",
                "listen": "127.0.0.1",
                "local": True,
                "public_port": public,
                "nodes_port": nodes,
                "operator_port": operator,
                "metrics": {"address": free_address().removeprefix("tcp://")},
            },
            "node": [
                {
                    "name": node,
                    "address": f"{name}-{node}.invalid",
                    "areas": [f"{name}/{area}"],
                    "history": {"path": "readings.sqlite"},
                    "sensor": [{"driver": "synthetic"}],
                    "metrics": {"address": free_address().removeprefix("tcp://")},
                }
                for node, area in AREAS.items()
            ],
        }

    text = {"name": "desk", "iad": [iad(name) for name in names]}
    text["person"] = [{"name": "ada", "roles": ["client"]}]
    return msgspec.convert(text, Inventory)


def up(status):
    live = [node.state == "live" for node in status.nodes]
    return len(live) == len(AREAS) and all(live) and not status.unreachable_iads


class Running:
    """The processes of a fleet; `dead` are hosts that take no files."""

    def __init__(self, root, fleet):
        self.folder = Folder(root)
        self.fleet = fleet
        self.store = Store(self.folder)
        self.store.ensure(fleet)
        self.processes = {}
        self.pushes = []
        for host in hosts(fleet):
            write_local(self.home(host), files_of(fleet, host, self.store))

    def begin(self):
        for host in hosts(self.fleet):
            self.start(host)
        for iad in self.fleet.iad:
            self.wait_until(iad.name, up)

    def home(self, host):
        if host.node is None:
            return self.folder.master(host.iad.name)
        return self.folder.root / "hosts" / host.name

    def start(self, host):
        kind = "edge" if host.node else "master"
        with (self.home(host) / "errors").open("a") as errors:
            self.processes[host.name] = subprocess.Popen(
                [
                    installed(f"sanderling-{kind}"),
                    "--config",
                    self.home(host) / f"{kind}.toml",
                    "--exit-on-stdin-eof",
                ],
                stdin=subprocess.PIPE,
                stderr=errors,
            )

    def push(self, host, files):
        """As the fleet does; what goes over SSH there is written to a folder here."""
        self.pushes.append(host.name)
        if host.node is None:
            pusher(self.folder, self.fleet)(host, files)
        else:
            write_local(self.home(host), files)

    def said(self, name):
        """What the agent of a host wrote on standard error."""
        (host,) = (each for each in hosts(self.fleet) if each.name == name)
        return (self.home(host) / "errors").read_text()

    def address(self, iad, socket):
        (found,) = (each for each in self.fleet.iad if each.name == iad)
        return f"tcp://127.0.0.1:{getattr(found.master, f'{socket}_port')}"

    def client(self, iad, keys=None):
        keys = keys or self.store.key_files("client", iad)
        return Client(self.address(iad, "public"), keys)

    def status(self, iad):
        keys = self.store.key_files("operator", iad)
        with Operator(self.address(iad, "operator"), keys) as operator:
            return operator.status(STATUS_MS)

    def wait_for(self, iad, look, holds):
        """As long as its master lives."""
        (found,) = (h for h in hosts(self.fleet) if h.node is None and h.iad.name == iad)
        try:
            return wait_until(look, holds, processes=[self.processes[found.name]])
        except AssertionError as error:
            raise AssertionError({name: self.said(name) for name in self.processes}) from error

    def wait_until(self, iad, condition):
        def look():
            with suppress(NoReplyError):  # on a busy machine it starts for longer
                return self.status(iad)

        return self.wait_for(iad, look, lambda status: status is not None and condition(status))

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(PATIENCE_S)
            process.stdin.close()


class Load:
    """Queries without end, from a thread: over one connection, or a new one for each."""

    def __init__(self, running, iad, *, anew):
        self.running = running
        self.iad = iad
        self.iads = [each.name for each in running.fleet.iad]
        self.anew = anew
        self.came = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client = None
        while not self.ended.is_set():
            client = client or self.running.client(self.iad)
            try:
                answer = client.query(self.iads, last_s=60, latency_ms=10_000, form="aggregate")
                self.came.append((answer.status, *[gap.reason for gap in answer.missing]))
            except NoReplyError as error:
                self.came.append((str(error),))
            if self.anew:
                client.close()
                client = None
        if client:
            client.close()

    def stop(self):
        self.ended.set()
        self.thread.join()
